"""What a user may name as a model, and that each wrong name is one message that says what to do."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from longreach.checkpoint import read, sources
from longreach.checkpoint.sources import LARGEST, Config, Gguf, load
from longreach.errors import InputError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
}


def put(path: Path, content: object = LLAMA) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def message(model: str) -> str:
    with pytest.raises(InputError) as caught:
        load(model)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """The hub answers to nobody, and remembers nothing."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


# Files


@pytest.mark.parametrize("name", ["config.json", "anything", "b.json.txt", "with space@1.json"])
def test_a_json_file_of_any_name(tmp_path, name):
    path = put(tmp_path / name)
    assert load(str(path)) == Config(str(path), LLAMA)
    assert read(str(path)).groups[0].trained_length == 2048


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path / "a.json")
    assert load("~/a.json") == Config(str(tmp_path / "a.json"), LLAMA)


def test_a_gguf_file_by_its_end_its_prefix_or_its_first_bytes(tmp_path):
    path = put(tmp_path / "a.gguf", b"GGUF....")
    blob = put(tmp_path / "sha256-0123", b"GGUF....")
    assert load(str(path)) == load(f"gguf:{path}") == Gguf(path)
    assert load(str(blob)) == load(f"gguf:{blob}") == Gguf(blob)
    assert load(str(put(tmp_path / "B.GGUF", b"anything"))) == Gguf(tmp_path / "B.GGUF")


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: put(path))
    writer.start()
    assert load(str(path)) == Config(str(path), LLAMA)
    writer.join()


def given_on_standard_input(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def test_standard_input(monkeypatch):
    given_on_standard_input(monkeypatch, json.dumps(LLAMA).encode())
    assert load("-") == Config("standard input", LLAMA)
    given_on_standard_input(monkeypatch, b"")
    assert message("-").startswith("standard input is empty; give a config.json")


def test_what_is_here_goes_before_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "org" / "name" / "config.json")
    assert load("org/name") == Config("org/name/config.json", LLAMA)


# Folders


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["config.json", "a.gguf", "b.gguf"], "config.json"),
        (["a.gguf", "README.md"], "a.gguf"),
        (["a.gguf", "mmproj-a.gguf"], "a.gguf"),
        (["a-00002-of-00003.gguf", "a-00001-of-00003.gguf", "a-00003-of-00003.gguf"],) * 2,
    ],
)
def test_a_folder(tmp_path, names, taken):
    for name in names:
        put(tmp_path / name)
    found = load(str(tmp_path))
    if isinstance(found, Gguf):
        assert found.path.name in (taken, "a-00001-of-00003.gguf")
    else:
        assert found.source == str(tmp_path / taken)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "no config.json and no .gguf file, and these were looked for; it has nothing"),
        (["b.txt", "a.txt"], "it has a.txt, b.txt"),
        ([f"{i:02}" for i in range(20)], "06, 07 and 12 more"),
        (["b.gguf", "a.gguf"], "2 .gguf files; name one: a.gguf, b.gguf"),
        (["adapter_config.json", "adapter_model.safetensors"], "holds an adapter: name the model"),
        (["snapshots/abc/config.json", "refs/main"], "name the folder inside snapshots/"),
        (["config.json/x"], "config.json is a folder"),
    ],
)
def test_a_folder_that_says_nothing(tmp_path, names, said):
    for name in names:
        put(tmp_path / name)
    assert said in message(str(tmp_path))
    assert str(tmp_path) in message(str(tmp_path))


# Content


WRONG = {
    "empty": (b"", "is empty; give a config.json"),
    "blank": (b" \n" * 100, "is empty"),
    "latin 1": (b'{"a": "\xe9"}', "is not UTF-8: byte 7 is 0xe9"),
    "utf-8 mark": (b"\xef\xbb\xbf{}", "byte-order mark"),
    "utf-16": ('{"a": 1}'.encode("utf-16"), "byte-order mark"),
    "no json": (b"model_type: llama", "is not JSON: Expecting value at line 1, column 1"),
    "cut off": (b'{\n"a": 1,', "is not JSON: .* at line 2, column"),
    "two": (b"{} {}", "is not JSON: Extra data at line 1, column 4"),
    "a list": (b"[1, 2]", r"should hold one JSON object, got \[1, 2\]"),
    "a number": (b"7", "should hold one JSON object, got 7"),
    "null": (b"null", "should hold one JSON object, got None"),
    "deep": (b'{"a":' * 100_000, "nested too deeply"),
    "deep list": (b"[" * 1_000_000, "nested too deeply"),
    "a long number": (b'{"a": ' + b"9" * 5000 + b"}", "whole number of 5,000 digits"),
    "a key twice": (b'{"a": {"b": 1, "c": 2, "b": 3}}', "has the key 'b' twice"),
    "large": (b" " * (LARGEST + 1), "more than 3,000,000 bytes"),
    "a web page": (b"\n<!doctype html><html>", "is a web page or XML.*raw"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "pointer of Git LFS"),
    "zeros": (b"\0" * 20, "is not JSON"),
}


@pytest.mark.parametrize("name", WRONG)
def test_content_that_is_no_config(tmp_path, monkeypatch, name):
    data, said = WRONG[name]
    path = put(tmp_path / "config.json", data)
    assert re.search(said, message(str(path)))
    assert message(str(path)).startswith(f"{path} ")
    given_on_standard_input(monkeypatch, data)
    assert re.search(said, message("-"))


def test_infinity_passes(tmp_path):
    """As in the configs of Mamba 2; keys that are read are checked one by one."""
    path = put(tmp_path / "config.json", b'{"a": [0.0, Infinity], "b": 1e999, "c": -Infinity}')
    infinity = float("inf")
    assert load(str(path)).config == {"a": [0.0, infinity], "b": infinity, "c": -infinity}


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_do_worse_than_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "bytes"
    path = put(folder / "config.json", data)
    try:
        found = load(str(path))
    except InputError:
        return
    assert isinstance(found, Gguf) or found.config == json.loads(data)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="says how much memory was used")
def test_the_worst_of_the_largest_configs_stays_below_the_limit():
    code = (
        "import re, pathlib\n"
        "from longreach.checkpoint.sources import LARGEST, parsed\n"
        "for piece in (b'{}', b'[]', b'{\"a\":1}', b'1.5', b'\"\\xf0\\x9f\\x98\\x80\"'):\n"
        "    body = b','.join([piece] * ((LARGEST - 9) // (len(piece) + 1)))\n"
        "    parsed(b'{\"a\":[' + body + b']}', 'x')\n"
        # Not getrusage: its peak begins with that of the process it was forked from.
        "print(re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000


# Names


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("", "the model is empty; give a config.json (or -"),
        ("gguf:", "the model is empty"),
        ("no such", "there is no file or folder 'no such'; give a config.json"),
        ("./confg.json", "did you mean config.json? Else give"),
        ("confg.json", "did you mean config.json? Else give"),
        ("models/confg.json", "did you mean models/config.json? Else give"),
        ("models/lama.gguf", "did you mean models/llama.gguf? Else give"),
        ("gguf:models/llama.guf", "did you mean models/llama.gguf? Else give"),
        ("models/x.safetensors", "there is no file or folder 'models/x.safetensors'"),
        ("gpt2", "an id of the hub has its organisation before a slash"),
        ("a/b/c", "there is no file or folder 'a/b/c'"),
        ("a b/c", "there is no file or folder 'a b/c'"),
        ("-org/name", "there is no file or folder '-org/name'"),
        ("~nobody-here/a", "there is no file or folder '~nobody-here/a'"),
        ("x" * 5000, "there is no file or folder 'xxx"),
        ("a\0b", "there is no file or folder 'a\\x00b'"),
        ("\udcff", "there is no file or folder '\\udcff'"),
        ("config.json/x.json", "there is no file or folder 'config.json/x.json'"),
    ],
)
def test_names_of_nothing(tmp_path, monkeypatch, model, said):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "config.json")
    put(tmp_path / "models" / "config.json")
    put(tmp_path / "models" / "llama.gguf")
    assert said in message(model)


@pytest.mark.parametrize("suffix", sources.WEIGHTS)
def test_weights(tmp_path, suffix):
    path = put(tmp_path / f"model{suffix}", b"\x80")
    assert message(str(path)) == (
        f"{path} holds weights, which are not read here; give the model's config.json"
    )
    put(tmp_path / "config.json")
    assert message(str(path)).endswith(f"give {tmp_path / 'config.json'}")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    path = put(tmp_path / "config.json")
    path.chmod(0)
    assert message(str(path)) == f"cannot read {path}: Permission denied"


def test_a_device(tmp_path):
    assert "more than 3,000,000 bytes" in message("/dev/zero")


@given(st.text(max_size=40))
def test_no_name_does_worse_than_a_message(model):
    if model != "-":
        with suppress(InputError):
            load(model)


# The hub


class Hub(BaseHTTPRequestHandler):
    """As much of the Hugging Face hub as a config needs; errors by the organisation's name."""

    asked: list[str] = []
    errors = {
        "gated": (403, "GatedRepo"),
        "nobody": (401, "RepoNotFound"),
        "bare": (404, "EntryNotFound"),
        "broken": (500, ""),
    }

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        match = re.fullmatch(r"/([\w.-]+)/[\w.-]+/resolve/([^/]+)/config\.json", self.path)
        organisation, revision = match.groups() if match else ("nobody", "main")
        status, code = self.errors.get(organisation, (200, ""))
        if status == 200 and revision not in ("main", "v1"):
            status, code = 404, "RevisionNotFound"
        body = json.dumps({**LLAMA, "from": revision}).encode()
        self.send_response(status)
        self.send_header("X-Repo-Commit", ("1" if revision == "v1" else "a") * 40)
        self.send_header("ETag", f'"{revision}"')
        if code:
            self.send_header("X-Error-Code", code)
        size = 10**9 if organisation == "huge" else len(body)
        self.send_header("Content-Length", str(size if status == 200 else 0))
        self.end_headers()
        if self.command == "GET" and status == 200:
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch):
    """The hub, on this machine, and switched on."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        address + "/{repo_id}/resolve/{revision}/{filename}",
    )
    Hub.asked.clear()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_only_the_config_is_fetched(hub):
    assert load("org/name") == Config("org/name", {**LLAMA, "from": "main"})
    assert load("org/name@v1") == Config("org/name@v1", {**LLAMA, "from": "v1"})
    assert read("org/name").source == "org/name"
    models = [each for each in Hub.asked if "/api/" not in each]
    assert models
    assert all(each.endswith("/config.json") for each in models)


def test_a_copy_serves_offline(hub, monkeypatch):
    fetched = load("org/name")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load("org/name") == fetched
    assert "HF_HUB_OFFLINE is set, and there is no copy of config.json of 'org/other'" in message(
        "org/other"
    )


def test_a_copy_serves_without_a_network(hub):
    fetched = load("org/name")
    hub.shutdown()
    hub.server_close()
    assert load("org/name") == fetched
    assert re.match(r"cannot fetch config.json of 'org/new' .*\(.*refused", message("org/new"))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nobody/nothing", "there is no model 'nobody/nothing' on the Hugging Face hub, or it is"),
        ("gated/model", "'gated/model' is gated: accept its terms"),
        ("bare/model-GGUF", "'bare/model-GGUF' has no config.json; where it has .gguf files"),
        ("org/name@v2", "'org/name' has no revision 'v2'"),
        ("broken/model", "cannot fetch config.json of 'broken/model' from the Hugging Face hub"),
        ("huge/model", "config.json of huge/model has 1,000,000,000 bytes"),
        ("org/a--b", "'org/a--b' cannot be the id of a model"),
    ],
)
def test_what_the_hub_refuses(hub, model, said):
    found = message(model)
    assert said in found
    assert found.endswith(("A local config.json serves as well", "no config is that large"))


def test_a_mistyped_path_that_looks_like_an_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "models" / "llama-3-8b" / "config.json")
    assert "nor is there such a path here, the nearest is models/llama-3-8b" in message(
        "models/llama-3-8"
    )


def test_the_hub_is_not_imported_for_files(tmp_path):
    path = put(tmp_path / "config.json")
    code = (
        "import sys; from longreach.checkpoint import read; read(sys.argv[1]);"
        "print(*(set(sys.modules) & {'torch', 'huggingface_hub', 'tokenizers', 'gguf'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
