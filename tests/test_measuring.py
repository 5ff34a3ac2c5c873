"""Measuring a trained model: rows against plain arithmetic, controls, resuming, what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from longreach import files, report
from longreach.cli.app import app
from longreach.cli.models import tokens as token_count
from longreach.errors import InputError
from longreach.pretrained import load
from longreach.pretrained.measure import measure
from longreach.pretrained.memory import check, needed
from longreach.pretrained.passes import Ledger, Pass, within
from longreach.pretrained.windows import cut, passages
from longreach.pretrained.work import Request
from longreach.repairs import Repair
from longreach.results import Results

from . import tiny_models
from .tiny_models import TRAINED

WORDS = "the quick brown fox jumps over the lazy dog and "
LAST = 16
LENGTHS = (32, 100, 160)
REPAIRS = (Repair("linear", {"factor": 2.5}), Repair("dynamic"), Repair("yarn"))


class Silent:
    """A display that remembers what it was told."""

    def __init__(self) -> None:
        self.read, self.steps, self.finished = 0, 0, []

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        self.steps = steps

    def advance(self, steps: int) -> None:
        self.read += steps

    def finish(self, label: str) -> None:
        self.finished.append(label)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """Four documents, three of them long enough."""
    folder = tmp_path_factory.mktemp("text")
    draw = np.random.default_rng(0)
    for number, words in enumerate((200, 260, 300, 5)):
        chosen = draw.choice(WORDS.split(), words)
        (folder / f"{number}.txt").write_text(" ".join(chosen))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_models.write(
        tmp_path_factory.mktemp("model") / "llama", tiny_models.configs()["llama"]
    )


@pytest.fixture(scope="module")
def model(folder):
    return load(str(folder))


@pytest.fixture
def request_(text) -> Request:
    return Request(
        lengths=LENGTHS, repairs=REPAIRS, texts=(f"text:{text}",), windows=3, last_tokens=LAST
    )


def done(model, asked, out, **more):
    return measure(model, asked, out, display=Silent(), command="longreach measure", **more)


@pytest.fixture(scope="module")
def found(model, text, tmp_path_factory):
    asked = Request(
        lengths=LENGTHS, repairs=REPAIRS, texts=(f"text:{text}",), windows=3, last_tokens=LAST
    )
    return done(model, asked, tmp_path_factory.mktemp("out") / "runs")


def plain_losses(model, tokens, repair=None, target=0):
    """Losses by the plainest means."""
    with model.wearing(repair, target), torch.inference_mode():
        logits = model.model(input_ids=tokens[None, :-1], use_cache=False).logits[0].float()
    return F.cross_entropy(logits, tokens[1:], reduction="none").double().numpy()


def row(found, metric, length, repair=None):
    (only,) = (
        r
        for r in found.results.rows
        if (r.metric, r.evaluation_length, r.repair) == (metric, length, repair)
        and metric not in ("loss_by_position", "control_by_position")
    )
    return only


def test_rows_are_plain_arithmetic_on_plain_losses(model, text, found):
    chosen = passages(model, f"text:{text}", max(LENGTHS), 3).windows.tokens
    assert chosen.shape == (3, 161)
    for repair in (None, *REPAIRS):
        label = None if repair is None else str(repair)
        for n in (32, TRAINED, 100, 160):
            # Dynamic repairs are set for what is read; others for the longest length.
            target = n if repair is not None and repair.name == "dynamic" else 160
            full = [plain_losses(model, w[: n + 1], repair, target) for w in chosen]
            start = max(0, n - TRAINED)
            control = [plain_losses(model, w[start : n + 1])[-LAST:] for w in chosen]
            late = [each[-LAST:] for each in full]
            wanted = {
                "loss": np.mean(full),
                "end_loss": np.mean(late),
                "excess": np.mean(late) - np.mean(control),
            }
            for metric, value in wanted.items():
                assert row(found, metric, n, label).value == pytest.approx(value, abs=2e-6)
            if repair is None:
                value = row(found, "control_loss", n).value
                assert value == pytest.approx(np.mean(control), abs=2e-6)


def test_a_dynamic_model_is_measured_at_each_length_as_it_reads_text_of_that_length(text, tmp_path):
    block = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    config = tiny_models.configs()["llama"]
    changed = type(config).from_dict({**config.to_dict(), "rope_parameters": block})
    folder = tiny_models.write(tmp_path / "model", changed)
    asked = Request(lengths=LENGTHS, texts=(f"text:{text}",), windows=1, last_tokens=LAST)
    measured = done(load(str(folder)), asked, tmp_path / "runs")
    windows = passages(load(str(folder)), f"text:{text}", max(LENGTHS), 1).windows
    for length in LENGTHS:
        losses = [
            plain_losses(load(str(folder)), tokens[: length + 1]).mean()
            for tokens in windows.tokens
        ]
        assert row(measured, "loss", length).value == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_model_as_it_is_exceeds_its_control_by_nothing_up_to_the_trained_length(found):
    for length in (32, TRAINED):
        assert row(found, "excess", length).value == 0
        assert row(found, "excess", length, str(REPAIRS[0])).value != 0


def test_the_control_by_position_is_the_same_text_in_shorter_windows(model, text, found):
    chosen = passages(model, f"text:{text}", max(LENGTHS), 3).windows.tokens
    ends = [96, 100, 128, 160]  # Half a trained length apart at most, and every length.
    merged = []
    for window in chosen:
        losses = plain_losses(model, window[: TRAINED + 1]).tolist()
        for end in ends:
            part = plain_losses(model, window[end - TRAINED : end + 1])
            losses += part[len(losses) - end :].tolist()
        merged.append(losses)
    merged = np.array(merged)
    rows = [r for r in found.results.rows if r.metric == "control_by_position"]
    assert rows[-1].last_position == 160
    assert any(r.last_position == TRAINED for r in rows)
    for r in rows:
        value = merged[:, r.first_position - 1 : r.last_position].mean()
        assert r.value == pytest.approx(value, abs=2e-6)


def test_bits_per_byte_are_bits_over_the_bytes_of_the_text(model, text, found):
    chosen = passages(model, f"text:{text}", max(LENGTHS), 3).windows.tokens
    bits = sum(plain_losses(model, w).sum() for w in chosen) / np.log(2)
    size = sum(len(model.decode(w[1:].tolist()).encode()) for w in chosen)
    assert row(found, "bits_per_byte", 160).value == pytest.approx(bits / size, rel=1e-5)


def test_proofs_say_what_is_applied(found):
    assert set(found.proofs) == {str(repair) for repair in REPAIRS}
    assert all(proof.layers == 4 and proof.target_length == 160 for proof in found.proofs.values())


def test_a_report_is_made_of_it_with_the_control_in_words_and_lines(found):
    folder = found.results.folder
    written = report.write(folder)
    page = (folder / report.PAGE).read_text(encoding="utf-8")
    summary = (folder / report.SUMMARY).read_text(encoding="utf-8")
    said = " ".join(written.brief.split())
    assert "Keeping the loss of the last 16 tokens within 0.05 nats" in said
    for part in (page, summary):
        assert "The control is the model as it is" in part
        assert "Every scheme was trained" not in part
        assert "in 4 layers" in part
    specs = page[page.index("const specs") :]
    assert "control" in specs
    numbers = json.loads((folder / report.NUMBERS).read_text())
    reaches = numbers["runs"][0]["repaired_reach"]
    assert set(reaches) == {str(repair) for repair in REPAIRS}


def test_a_run_that_was_killed_goes_on_to_the_same_rows(model, request_, found, tmp_path):
    class Killed(Exception):
        pass

    out = tmp_path / "runs"
    passes = count()
    losses = model.losses

    def dies(*given, **named):
        if next(passes) == 7:
            raise Killed
        return losses(*given, **named)

    model.losses = dies
    try:
        with pytest.raises(Killed):
            done(model, request_, out)
    finally:
        del model.losses
    kept = set((out / ".work").rglob("*.npy"))
    assert len(kept) == 7
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    again = done(model, request_, out)
    assert {path: path.stat().st_mtime_ns for path in kept} == stamps
    assert again.results.rows == found.results.rows


def test_a_narrower_or_wider_request_reads_only_what_is_new(model, request_, tmp_path, text):
    out = tmp_path / "runs"
    done(model, request_, out)
    shown = Silent()
    more = Request(**{**vars(request_), "repairs": (*REPAIRS, Repair("ntk"))})
    measure(model, more, out, display=shown, command="")
    assert shown.steps == shown.read == 3 * 160  # ntk on three windows, and nothing else


def test_a_damaged_pass_is_read_again(model, request_, tmp_path, found):
    out = tmp_path / "runs"
    done(model, request_, out)
    path = sorted((out / ".work").rglob("*.npy"))[0]
    path.write_bytes(path.read_bytes()[:-9])
    assert done(model, request_, out).results.rows == found.results.rows


def test_when_time_is_short_whole_windows_are_left_out_and_it_says_so(
    model, request_, tmp_path, found
):
    out = tmp_path / "runs"
    short = done(model, request_, out, max_seconds=1e-9)
    assert short.left_out == (
        f"1 of 3 windows of {request_.texts[0]} were measured: the time did not allow more. "
        "The same command continues",
    )
    assert {r.count for r in short.results.rows} == {1}
    whole = done(model, request_, out)
    assert whole.left_out == ()
    assert whole.results.rows == found.results.rows


def test_within_begins_no_batch_that_would_end_too_late(model, tmp_path):
    ledger = Ledger(tmp_path, model, seconds=[(100, 2.0)])
    tokens = torch.arange(101) % 200 + 3
    batches = [[Pass(tokens + number, 5)] for number in range(4)]
    begun = iter(within(ledger, batches, seconds=1.0))
    assert next(begun) is batches[0]  # The first always.
    with pytest.raises(StopIteration):  # The second would take 2 s.
        next(begun)
    ledger.losses(batches[1][0])
    assert [*within(ledger, batches[:2], seconds=0.5)] == batches[:2]  # There already.
    assert len([*within(ledger, batches, seconds=0.5, always=3)]) == 3
    assert len([*within(ledger, batches, seconds=None)]) == 4


def test_when_time_is_short_every_text_has_its_first_window(model, text, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(WORDS * 60)
    texts = (f"text:{text}", str(other))
    asked = Request(lengths=(100,), texts=texts, windows=2, last_tokens=LAST)
    found = done(model, asked, tmp_path / "runs", max_seconds=1e-9)
    assert [run.evaluation["evaluation"]["windows"] for run in found.results.runs] == [1, 1]
    assert len(found.left_out) == 2


def test_a_kill_while_rows_are_written_leaves_the_old_ones_whole(
    model, request_, found, tmp_path, monkeypatch
):
    out = tmp_path / "runs"
    done(model, Request(**{**vars(request_), "windows": 2}), out)
    before = Results.read(out).rows
    write, names = files.write, []

    def dies(path, content):
        names.append(path.name)
        if path.name == "evaluation.json":
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr("longreach.pretrained.folder.files.write", dies)
    with pytest.raises(KeyboardInterrupt):
        done(model, request_, out)
    assert any(name.startswith("rows-") for name in names)
    monkeypatch.undo()
    assert Results.read(out).rows == before  # Nothing is damaged, nothing half new.
    assert done(model, request_, out).results.rows == found.results.rows
    (folder,) = [path for path in out.iterdir() if path.name == found.results.runs[0].digest]
    assert len([*folder.glob("rows-*"), *folder.glob("items-*")]) == 2


def test_what_was_kept_under_another_dtype_or_window_is_not_taken(folder, request_, tmp_path):
    out = tmp_path / "runs"
    done(load(str(folder)), request_, out)
    for other in ({"dtype": "bfloat16"}, {"trained_length": 80}):
        with pytest.raises(InputError, match="holds another model"):
            done(load(str(folder), **other), request_, out)


def test_one_document_gives_intervals_over_its_windows(model, text, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(WORDS * 60)
    asked = Request(lengths=(100,), texts=(str(path),), windows=3, last_tokens=LAST)
    found = done(model, asked, tmp_path / "runs")
    rows = [r for r in found.results.rows if r.metric == "loss"]
    assert all(r.count == 3 and r.low < r.value < r.high for r in rows)
    note = found.results.runs[0].evaluation["task"]["note"]
    assert "3 windows of 100 tokens from 1 document of one.txt" in note
    assert "over the windows of one document" in note


def test_windows_of_a_document_do_not_overlap():
    rows = [list(range(1000, 1000 + size)) for size in (35, 12, 100)]
    chosen, owners = cut(rows, 10, 8)
    assert owners == [0, 0, 0, 1, 2, 2, 2]
    for owner in range(3):
        mine = [set(w) for w, o in zip(chosen, owners, strict=True) if o == owner]
        assert len(set.union(*mine)) == 10 * len(mine)
        assert set.union(*mine) <= set(rows[owner])
    assert cut(rows, 10, 8) == (chosen, owners)
    assert len(cut(rows, 10, 2)[0]) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lengths": ()}, "--lengths must be"),
        ({"lengths": (1, 100)}, "--lengths must be"),
        ({"last_tokens": 40}, "more than the shortest length, 32"),
        ({"last_tokens": 0}, "at least 1"),
        ({"windows": 0}, "at least 1"),
        ({"target_length": 100}, "less than the longest length, 160"),
        ({"lengths": (5000,)}, "no document of text:.* has 5,001 tokens"),
        ({"texts": ("nowhere.txt",)}, "nowhere"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(model, request_, tmp_path, given, said):
    with pytest.raises(InputError, match=said):
        done(model, Request(**{**vars(request_), **given}), tmp_path / "runs")


def test_a_folder_of_something_else_is_left_alone(model, request_, tmp_path, folder):
    out = tmp_path / "runs"
    done(model, request_, out)
    other = tiny_models.configs()["llama"]
    other.num_hidden_layers = 3
    stranger = load(str(tiny_models.write(tmp_path / "other", other)))
    with pytest.raises(InputError, match="holds another model"):
        done(stranger, request_, out)
    plan = json.loads((out / "plan.json").read_text())
    plan["study"]["name"] = "recall"
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="holds the study 'recall'"):
        done(model, request_, out)


def test_a_length_past_a_table_of_positions_is_refused(tmp_path, request_):
    model = load(str(tiny_models.write(tmp_path / "gpt2", tiny_models.configs()["gpt2"])))
    with pytest.raises(InputError, match="has a table of 64 positions"):
        done(model, Request(**{**vars(request_), "repairs": ()}), tmp_path / "runs")
    small = Request(**{**vars(request_), "repairs": (), "lengths": (32, 64)})
    assert done(model, small, tmp_path / "runs").results.rows


def test_alibi_is_measured_as_it_is(tmp_path, request_):
    model = load(str(tiny_models.write(tmp_path / "bloom", tiny_models.configs()["bloom"])))
    found = done(model, Request(**{**vars(request_), "repairs": ()}), tmp_path / "runs")
    assert {r.scheme for r in found.results.rows} == {"alibi"}


def test_of_t5_the_decoder_is_measured_and_the_report_says_what_its_encoder_has(
    tmp_path, text, request_
):
    model = load(str(tiny_models.write(tmp_path / "t5", tiny_models.configs()["t5"])))
    out = tmp_path / "runs"
    found = done(model, Request(**{**vars(request_), "repairs": ()}), out)
    assert {r.scheme for r in found.results.rows} == {"t5"}

    def late(window):
        """Of the last tokens, as `transformers` makes them of an empty source."""
        ends, labels = torch.tensor([[2]]), window[None, 1:]
        with torch.inference_mode():
            logits = model.model(input_ids=ends, labels=labels).logits[0].float()
        return F.cross_entropy(logits, labels[0], reduction="none")[-LAST:].mean().item()

    chosen = passages(model, f"text:{text}", max(LENGTHS), 3).windows.tokens
    control = np.mean([late(window[160 - TRAINED : 161]) for window in chosen])
    whole = np.mean([late(window[:161]) for window in chosen])
    assert row(found, "control_loss", 160).value == pytest.approx(control, abs=1e-5)
    assert row(found, "excess", 160).value == pytest.approx(whole - control, abs=1e-5)
    assert abs(whole - control) > 1e-3
    held = json.loads((out / "plan.json").read_text())["study"]["model"]
    assert (held["start"], held["source"]) == ("<pad>", "</s>")
    page = report.write(out).page.read_text(encoding="utf-8")
    assert "begins with &lt;pad&gt;, which it starts from" in page
    assert "its encoder has &lt;/s&gt; alone" in page
    with pytest.raises(InputError, match="turns none"):
        done(model, request_, tmp_path / "other")


def test_a_t5_of_no_stated_length_is_asked_for_it(tmp_path, request_):
    config = tiny_models.configs()["t5"]
    del config.n_positions
    folder = tiny_models.write(tmp_path / "t5", config)
    with pytest.raises(InputError, match=r"does not say how many tokens .* --trained-length"):
        load(str(folder)).trained_length  # noqa: B018
    assert load(str(folder), trained_length=48).trained_length == 48


def test_memory_is_estimated_before_anything_is_read(model, tmp_path, monkeypatch):
    monkeypatch.setattr("longreach.pretrained.memory.available", lambda device: 1_000_000)
    with pytest.raises(InputError, match=r"100,000 tokens would take about .* GB"):
        check(model, 100_000, force=False)
    check(model, 100_000, force=True)
    longer, shorter = needed(model, 2_000), needed(model, 1_000)
    assert longer > shorter
    alibi = load(str(tiny_models.write(tmp_path / "bloom", tiny_models.configs()["bloom"])))
    # Attention that is materialised grows with the square.
    assert needed(alibi, 100_000) > 50 * needed(alibi, 10_000)
    biased = load(str(tiny_models.write(tmp_path / "t5", tiny_models.configs()["t5"])))
    assert needed(biased, 100_000) > 50 * needed(biased, 10_000)
    before = needed(biased, 1_000)
    biased.model.config.d_ff *= 2  # As the family calls the width of its feed-forward layers.
    assert needed(biased, 1_000) == before + 6 * 1_000 * 48 * 4


def test_one_of_our_own_runs_is_measured_in_the_same_way(tmp_path, text, monkeypatch):
    study = tmp_path / "own.toml"
    study.write_text(
        f"""
name = "own"
question = "?"
schemes = ["rope", "alibi"]
tasks = [{{ name = "text", corpus = "text:{text}", vocabulary = 257 }}]
seeds = [0]
trained_length = 64
evaluation_lengths = [64]
model = {{ width = 32, heads = 2, layers = 2, feed_forward = 64 }}
training = {{ steps = 3, batch = 4, learning_rate = 1e-3 }}
evaluation = {{ documents = 2, last_tokens = 16 }}
"""
    )
    monkeypatch.chdir(tmp_path)
    run = [sys.executable, "-m", "longreach", "run", str(study), "--workers", "1"]
    subprocess.run(run, check=True, capture_output=True)
    by_scheme = {r.rows[0].scheme: r for r in Results.read(tmp_path / "runs" / "own").runs}
    model = load(f"run:{by_scheme['rope'].digest[:8]}")
    assert model.trained_length == 64
    asked = Request(lengths=(160,), repairs=(Repair("yarn"),), texts=(f"text:{text}",))
    found = done(model, Request(**{**vars(asked), "last_tokens": LAST}), tmp_path / "m")
    assert found.proofs["yarn"].layers == 2
    assert row(found, "excess", 160, "yarn").value != row(found, "excess", 160).value
    alibi = load(str(by_scheme["alibi"].folder))
    with pytest.raises(InputError, match="turns none"):
        done(alibi, Request(**{**vars(asked), "last_tokens": LAST}), tmp_path / "n")
    with pytest.raises(InputError, match="there is no run"):
        load("run:ffffffffffff")
    shutil.copytree(tmp_path / "runs" / "own", tmp_path / "runs" / "copy")
    with pytest.raises(InputError, match="fits 2 runs"):
        load(f"run:{by_scheme['rope'].digest}")


def test_the_command_prints_rows_with_controls(folder, text, tmp_path):
    asked = ["measure", str(folder), "--lengths", "32,160", "--repair", "none", "--repair"]
    asked += ["yarn:factor=2.5", "--text", f"text:{text}", "--windows", "2", "--last-tokens", "16"]
    asked += ["--max-minutes", "3", "--out", str(tmp_path / "runs"), "--json"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    metrics = {r["metric"] for r in found["rows"]}
    assert {"loss", "excess", "control_loss", "control_by_position", "bits_per_byte"} <= metrics
    assert {r["repair"] for r in found["rows"]} == {None, "yarn:factor=2.5"}
    assert found["proofs"][0]["layers_touched"] == 4
    assert Path(found["report"]).is_file()


def test_lengths_are_written_with_k():
    assert token_count("8k", "--lengths") == 8192
    for wrong in ("", "0", "k", "1.5k", "-3", "3m"):
        with pytest.raises(InputError, match="takes numbers of tokens"):
            token_count(wrong, "--lengths")
