"""Corpora: what is read, how it is split and tokenised, and that no bad input passes in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from longreach.corpora import CORPORA, documents, huggingface, prepare as module, stdlib
from longreach.corpora.base import Document
from longreach.corpora.prepare import BYTES, SEPARATOR, Corpus, opened, pieces, prepare, trained
from longreach.errors import InputError, RunError
from longreach.home import home

SMALL = 300


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("LONGREACH_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "text", {f"{i:02}.txt": body(i) for i in range(60)})


def body(i: int) -> str:
    return f"document {i} says {i * i}, naïvely:\r\n\tthe quick brown fox\n\n" * (1 + i % 5)


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def texts_of_train(corpus: Corpus) -> list[str]:
    train = np.asarray(corpus.train)
    ends = np.flatnonzero(train == 0)
    assert ends[-1] == len(train) - 1
    return [corpus.tokenizer.decode(row[row > 0]) for row in np.split(train, ends + 1)[:-1]]


def texts_of_held_out(corpus: Corpus) -> list[str]:
    return [corpus.tokenizer.decode(row) for row in corpus.held_out]


# The split


def test_every_document_is_whole_and_on_one_side(folder):
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    train, held_out = texts_of_train(corpus), texts_of_held_out(corpus)
    assert sorted(train + held_out) == sorted(body(i) for i in range(60))
    assert not set(train) & set(held_out)
    assert 1 <= len(held_out) <= 20
    names = {document.text: document.name for document in documents(f"text:{folder}")}
    assert [names[text] for text in held_out] == corpus.manifest["held_out"]


def test_held_out_text_is_nowhere_in_the_train_bytes(folder):
    corpus = prepare(f"text:{folder}", vocabulary="bytes")
    train = np.asarray(corpus.train).tobytes()
    for row in corpus.held_out:
        assert row.tobytes() not in train


def test_tokeniser_never_sees_the_held_out_side(folder, monkeypatch):
    seen = []
    monkeypatch.setattr(
        module, "trained", lambda texts, size: trained(seen.extend(texts) or seen, size)
    )
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    assert "".join(seen) == "".join(texts_of_train(corpus))


def test_the_side_of_a_text_depends_on_that_text_alone():
    many = [Document(str(i), body(i)) for i in range(60)]
    train, held_out = module.split(many)
    fewer = [Document(f"other {document.name}", document.text) for document in reversed(many[:40])]
    train_of_fewer, held_out_of_fewer = module.split(fewer)
    assert {d.text for d in train_of_fewer} <= {d.text for d in train}
    assert {d.text for d in held_out_of_fewer} <= {d.text for d in held_out}
    assert held_out == sorted(held_out, key=lambda document: document.fingerprint)


@given(st.lists(st.text(min_size=1), min_size=2, max_size=6, unique=True))
def test_neither_side_is_ever_empty(texts):
    given_ = [Document(str(i), text) for i, text in enumerate(texts)]
    train, held_out = module.split(given_)
    assert train
    assert held_out
    assert sorted(d.name for d in train + held_out) == sorted(d.name for d in given_)


def test_one_sided_corpora_give_up_the_outermost_fingerprint():
    ranked = sorted((Document(str(i), body(i)) for i in range(60)), key=lambda d: d.fingerprint)
    _, held_out = module.split(ranked)
    others = [document for document in ranked if document not in held_out]
    assert module.split(others)[1] == others[:1]
    assert module.split(held_out) == (held_out[-1:], held_out[:-1])


def test_copies_and_blanks_are_dropped_and_counted(tmp_path):
    files = {"a.txt": "one", "b.txt": "one", "c.txt": " \n", "d.txt": "two", "e.txt": "three"}
    corpus = prepare(f"text:{write(tmp_path / 'text', files)}", vocabulary="bytes")
    assert corpus.manifest["dropped"] == {"blank": 1, "duplicates": 1}
    assert sorted(texts_of_train(corpus) + texts_of_held_out(corpus)) == ["one", "three", "two"]


# The digest


def test_content_decides_the_digest_not_the_place(folder, tmp_path):
    first = prepare(f"text:{folder}", vocabulary=SMALL)
    moved = folder.rename(tmp_path / "elsewhere")
    assert prepare(f"text:{moved}", vocabulary=SMALL).folder == first.folder
    assert prepare(f"text:{moved}", vocabulary=SMALL + 1).digest != first.digest
    (moved / "00.txt").write_text("changed")
    assert prepare(f"text:{moved}", vocabulary=SMALL).digest != first.digest


def test_a_name_is_part_of_the_digest(folder):
    first = prepare(f"text:{folder}", vocabulary=SMALL).digest
    (folder / "00.txt").rename(folder / "000.txt")  # still the first
    assert prepare(f"text:{folder}", vocabulary=SMALL).digest != first


def test_bytes_is_the_smallest_vocabulary(folder):
    assert (
        prepare(f"text:{folder}", vocabulary="bytes").digest
        == prepare(f"text:{folder}", vocabulary=BYTES).digest
    )


def test_a_digest_opens_without_the_source(folder, tmp_path):
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    folder.rename(tmp_path / "gone")
    again = prepare(f"text:{folder}", vocabulary=SMALL, digest=corpus.digest)
    assert np.array_equal(again.train, corpus.train)


def test_a_digest_that_the_text_no_longer_has(folder):
    with pytest.raises(InputError, match=r"not what it was.*expected 0123456789abcdef"):
        prepare(f"text:{folder}", vocabulary=SMALL, digest="0123456789abcdef")


def test_work_is_announced_once(folder):
    said: list[str] = []
    for _ in range(2):
        prepare(f"text:{folder}", vocabulary=SMALL, say=said.append)
    size = sum(len(body(i).encode()) for i in range(60)) / 1e6
    assert said == [f"preparing corpus text:{folder}: 60 documents, {size:.1f} MB"]


def test_every_process_and_thread_count_makes_the_same_files(folder, tmp_path):
    code = (
        "import sys; from longreach.corpora.prepare import prepare;"
        f"print(prepare(sys.argv[1], vocabulary={SMALL}).folder)"
    )

    def made(threads: str) -> dict[str, bytes]:
        environment = os.environ | {
            "LONGREACH_HOME": str(tmp_path / f"home{threads}"),
            "RAYON_NUM_THREADS": threads,
            "PYTHONHASHSEED": threads,
        }
        done = subprocess.run(
            [sys.executable, "-c", code, f"text:{folder}"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stderr == ""
        return {path.name: path.read_bytes() for path in Path(done.stdout.strip()).iterdir()}

    assert made("1") == made("4")


# Tokens


@pytest.fixture(scope="module")
def tokenizer():
    return opened(trained([body(i) for i in range(60)] + ["a <|document|> b"] * 50, SMALL))


def test_the_separator_is_token_0(tokenizer):
    assert tokenizer.token_to_id(SEPARATOR) == 0


# Chosen to hurt: what one regular expression engine calls white space and another does not, half of
# an "é" or an emoji, the separator, contractions.
AWKWARD = st.lists(
    st.sampled_from(
        [
            *" \n\r\t\v\f\0\x1c\x85\xa0\u180e\u200b\u2028\u3000\ufeff",
            *("e\u0301", "\U0001f469\u200d", "a", "don't", "9", "_", "!", "中", SEPARATOR, "Ġ"),
        ]
    )
).map("".join)


@given(st.text() | AWKWARD)
def test_any_text_survives(tokenizer, text):
    row = tokenizer.encode(text).ids
    assert tokenizer.decode(row) == text
    assert 0 not in row


@settings(max_examples=300)
@given(AWKWARD, st.integers(1, 5))
def test_pieces_encode_as_the_whole(tokenizer, text, size):
    parts = list(pieces(text, size))
    assert "".join(parts) == text
    assert [t for part in parts for t in tokenizer.encode(part).ids] == tokenizer.encode(text).ids


def test_pieces_are_small():
    assert max(map(len, pieces("word " * 1000, 100))) < 110


@pytest.mark.parametrize("vocabulary", ["bytes", SMALL])
def test_token_bytes_add_up_to_the_text(folder, vocabulary):
    corpus = prepare(f"text:{folder}", vocabulary=vocabulary)
    assert corpus.token_bytes[0] == 0
    assert corpus.token_bytes[1:].min() == 1
    assert corpus.token_bytes[corpus.train].sum() == corpus.manifest["bytes"]["train"]
    for row, text in zip(corpus.held_out, texts_of_held_out(corpus), strict=True):
        assert corpus.token_bytes[row].sum() == len(text.encode())
    assert len(corpus.train) == corpus.manifest["tokens"]["train"]
    assert sum(map(len, corpus.held_out)) == corpus.manifest["tokens"]["held_out"]


def test_vocabulary_is_what_there_is(folder, tmp_path):
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    assert corpus.vocabulary == SMALL == len(corpus.token_bytes)
    assert corpus.train.dtype == np.uint16
    assert int(corpus.train.max()) < SMALL
    tiny = write(tmp_path / "tiny", {"a.txt": "ab", "b.txt": "cd"})
    corpus = prepare(f"text:{tiny}", vocabulary=70_000)
    assert corpus.vocabulary == corpus.tokenizer.get_vocab_size() == BYTES + 1


def test_many_tokens_need_wide_integers(tokenizer):
    class Large:
        encode_batch_fast = tokenizer.encode_batch_fast

        def get_vocab_size(self):
            return 65_536

    (row,) = module.encode(Large(), [Document("a", "abc")])
    assert row.dtype == np.uint32


@pytest.mark.parametrize("vocabulary", [256, 0, -1])
def test_a_vocabulary_without_room_for_bytes(folder, vocabulary):
    with pytest.raises(InputError, match=f"at least 257 .*got {vocabulary}"):
        prepare(f"text:{folder}", vocabulary=vocabulary)


# The prepared folder


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_stopped_half_way_nothing_is_left(folder, monkeypatch, stop):
    def stopping(path, data, real=module.write):
        if path.name == module.TOKENIZER:
            raise stop
        real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write", stopping)
        with pytest.raises(
            (KeyboardInterrupt, RunError), match=r"^$|No space left.*LONGREACH_HOME"
        ):
            prepare(f"text:{folder}", vocabulary=SMALL)
    assert list((home() / "corpora").iterdir()) == []
    assert prepare(f"text:{folder}", vocabulary=SMALL).manifest["documents"]["train"] > 0


def test_the_faster_of_two_processes_wins(folder, monkeypatch):
    def overtaken(texts, size):
        monkeypatch.setattr(module, "trained", trained)
        inode.append(prepare(f"text:{folder}", vocabulary=SMALL).folder.stat().st_ino)
        return trained(texts, size)

    inode: list[int] = []
    monkeypatch.setattr(module, "trained", overtaken)
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    assert [corpus.folder.stat().st_ino] == inode
    assert [path.name for path in corpus.folder.parent.iterdir()] == [corpus.digest]


@pytest.mark.parametrize(
    "name", [module.TRAIN, module.HELD_OUT, module.OFFSETS, module.TOKENIZER, module.MANIFEST]
)
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 20)])
def test_a_damaged_folder_is_named(folder, name, harm):
    corpus = prepare(f"text:{folder}", vocabulary=SMALL)
    harm(corpus.folder / name)
    for digest in (None, corpus.digest):
        with pytest.raises(InputError, match=f"{corpus.digest} is damaged .*delete that folder"):
            prepare(f"text:{folder}", vocabulary=SMALL, digest=digest)


# Sources


def test_only_what_is_asked_for_is_imported():
    code = "import sys, longreach.corpora; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "tokenizers", "datasets"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("stdlb", "unknown corpus 'stdlb'; did you mean 'stdlib'?"),
        ("", "unknown corpus ''; known: stdlib, text, hf"),
        ("stdlib:3.11", "takes no argument, got 'stdlib:3.11'"),
        ("text", "write text:FOLDER"),
        ("text:", "write text:FOLDER"),
        ("text:/no/such", "no folder or file '/no/such'"),
        ("hf", "write hf:NAME[:config][@revision]"),
        ("hf:@main", "write hf:NAME[:config][@revision]"),
    ],
)
def test_a_wrong_spec(spec, message):
    with pytest.raises(InputError) as caught:
        documents(spec)
    assert message in str(caught.value)


def test_every_source_is_there():
    assert all(callable(CORPORA[name]) for name in CORPORA)


def test_standard_library():
    found = documents("stdlib")
    names = [document.name for document in found]
    assert names == sorted(names)
    assert {"argparse.py", "json/decoder.py"} <= set(names)
    assert len(names) > 400
    parts = {part for name in names for part in name.split("/")}
    assert not parts & {"test", "tests", "idle_test", "site-packages"}
    assert (
        next(d.text for d in found if d.name == "json/__init__.py")
        == Path(json.__file__).read_bytes().decode()
    )


def test_standard_library_passes_over_what_is_not_utf_8(tmp_path):
    files = {
        "b/a.py": "y",
        "a.py": "x",
        "odd.py": b"# coding: latin-1 \xe9",
        "test/a.py": "z",
        "_sysconfigdata__linux.py": "/home/me",
        "a.txt": "no source",
    }
    found = stdlib.read(write(tmp_path / "lib", files))
    assert found == [Document("a.py", "x"), Document("b/a.py", "y")]


def test_standard_library_in_a_zip(tmp_path, monkeypatch):
    monkeypatch.setattr(stdlib.sysconfig, "get_path", lambda name: str(tmp_path / "python311.zip"))
    with pytest.raises(InputError, match=r"python311\.zip.*zipped"):
        documents("stdlib")


def test_folder_reads_text_in_a_fixed_order(tmp_path):
    lines = '{"text": "one\\u2028\u2028", "n": 1}\n\n{"text": "two"}\r\n'
    files = {
        "b.md": "# b\r\n",
        "a/z.RST": "z",
        "c.jsonl": lines,
        "picture.png": b"\xff",
        ".hidden.txt": "h",
        ".git/a.txt": "h",
    }
    expected = [
        Document("a/z.RST", "z"),
        Document("b.md", "# b\r\n"),
        Document("c.jsonl:1", "one\u2028\u2028"),
        Document("c.jsonl:3", "two"),
    ]
    folder = write(tmp_path / ".cache" / "text", files)
    assert documents(f"text:{folder}") == expected
    assert documents(f"text:{folder / 'c.jsonl'}") == expected[2:]
    assert documents(f"text:{folder / 'b.md'}") == [Document("b.md", "# b\r\n")]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.png": "x", ".a.txt": "x"}, r"no text in the folder .*\.txt, \.md"),
        ({"a.txt": b"ab\xffcd"}, r"a\.txt is not UTF-8: byte 2 is 0xff"),
        (
            {"a.jsonl": '{"text": "x"}\n{"body": "y"}\n'},
            r"a\.jsonl, line 2 .*'\{\"body\": \"y\"\}'",
        ),
        ({"a.jsonl": "no json"}, r"a\.jsonl, line 1 .*'no json'"),
        ({"a.jsonl": '["text"]'}, r"a\.jsonl, line 1 "),
        ({"a.jsonl": '{"text": 5}'}, r"a\.jsonl, line 1 "),
        ({"a.jsonl": '{"text": "\\ud800"}'}, r"a\.jsonl, line 1 "),
        ({"a.txt": "", "b.txt": " \n"}, r"2 documents, 0 of them .*at least 2"),
        ({"a.txt": "same", "b.txt": "same"}, r"2 documents, 1 of them .*at least 2"),
        ({"a.txt": "alone"}, r"1 documents, 1 of them .*at least 2"),
    ],
)
def test_a_folder_that_cannot_be_used(tmp_path, files, message):
    folder = write(tmp_path / "text", files)
    with pytest.raises(InputError, match=message) as caught:
        prepare(f"text:{folder}")
    assert str(folder) in str(caught.value)
    assert not home().exists()


# Hugging Face


@pytest.fixture
def offline(monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def rows(folder: Path, *rows: dict[str, object]) -> str:
    write(folder, {"train.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})
    return f"hf:{folder}"


@pytest.mark.usefixtures("offline")
def test_dataset_rows_are_documents(tmp_path):
    spec = rows(tmp_path / "a", {"n": 1, "text": "one", "title": "t"}, {"n": 2, "text": "two"})
    assert documents(spec) == [Document("row 0", "one"), Document("row 1", "two")]
    assert prepare(spec, vocabulary="bytes").manifest["spec"] == spec
    spec = rows(tmp_path / "b", {"n": 1, "content": "one"}, {"n": 2, "content": None})
    assert documents(spec) == [Document("row 0", "one")]


@pytest.mark.usefixtures("offline")
def test_a_dataset_without_a_text_column(tmp_path):
    spec = rows(tmp_path / "a", {"title": "one", "body": "two"})
    with pytest.raises(InputError, match=f"^the dataset {spec} has no column 'text'.*title, body"):
        documents(spec)


@pytest.mark.usefixtures("offline")
def test_a_dataset_is_read_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "LIMIT_BYTES", 25)
    spec = rows(tmp_path / "a", *({"text": f"ten bytes{i}"} for i in range(9)))
    assert [document.name for document in documents(spec)] == ["row 0", "row 1", "row 2"]


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("spec", ["hf:nobody/nothing", "hf:nobody/nothing:en@abc"])
def test_a_dataset_that_cannot_be_had(spec):
    with pytest.raises(InputError, match=f"cannot read the dataset {spec} .*HF_HUB_OFFLINE"):
        documents(spec)


def test_config_and_revision_are_passed_on(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(*arguments, **options):
        asked.append((arguments, options))
        return [{"text": "one"}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for spec in ("hf:a/b", "hf:a/b:en", "hf:a/b@v1", "hf:a/b:en@v1"):
        assert documents(spec) == [Document("row 0", "one")]
    assert [arguments for arguments, _ in asked] == [
        ("a/b", None),
        ("a/b", "en"),
        ("a/b", None),
        ("a/b", "en"),
    ]
    assert [options["revision"] for _, options in asked] == [None, None, "v1", "v1"]
    assert all(options["streaming"] and options["split"] == "train" for _, options in asked)


def test_datasets_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"hf:a/b needs .*pip install 'longreach\[huggingface\]'"):
        documents("hf:a/b")
