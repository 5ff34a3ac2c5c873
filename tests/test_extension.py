"""Studies that extend their models: repairs worn, fine-tunes, long trainings; and their report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from longreach.cell import stored_model, stored_training
from longreach.errors import InputError, RunError
from longreach.evaluate import sample
from longreach.measure.exact_match import right
from longreach.measure.text_loss import token_losses
from longreach.pretrained.own import load_run
from longreach.repairs import Repair
from longreach.report.figures import figures
from longreach.report.summarise import summarise
from longreach.report.tables import plain, run_table, score_table
from longreach.report.wording import methods
from longreach.results import LONG_TRAINING, Results, Row, trained_for
from longreach.run import cells_of, trainings
from longreach.spectrum import Extension
from longreach.study import Extended, Study
from longreach.train import build_task, draw, generator_for

from .conftest import TINY
from .test_run import Quiet, content, go

EXTENDED = (
    TINY.replace('["alibi", "learned"]', '["rope", "alibi"]')
    .replace("[8, 12]", "[8, 16, 32]")
    .replace("steps = 40", "steps = 20")
    + """
[extension]
schemes = ["rope"]
repairs = ["none", "linear", "yarn:beta_fast=1,beta_slow=0.5"]
from_scratch = true

[extension.training]
steps = 6
batch = 8
learning_rate = 1e-2
"""
)
ONE_SEED = EXTENDED.replace("seeds = [0, 1]", "seeds = [0]")
YARN = "yarn:beta_fast=1,beta_slow=0.5"
TUNED = ("fine-tune", "linear + fine-tune", f"{YARN} + fine-tune")


def on_text(folder: Path, study: str = ONE_SEED) -> str:
    """The study on a folder's text."""
    task = f'[{{ name = "text", corpus = "text:{folder}", vocabulary = 300 }}]'
    return study.replace('["recall"]', task)


@pytest.fixture(scope="module")
def prose(tmp_path_factory) -> Path:
    """Documents long enough for the longest window."""
    folder = tmp_path_factory.mktemp("prose")
    for number in range(20):
        words = " ".join(f"word{(number * 7 + k * k) % 31}" for k in range(120))
        (folder / f"{number:02}.txt").write_text(f"Document {number}. {words}\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(prose, tmp_path_factory) -> Path:
    """The study on text, with two seeds."""
    out = tmp_path_factory.mktemp("extended") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGREACH_HOME", str(out.parent / "home"))
        go(Study.parse(on_text(prose, EXTENDED), "tiny"), out, workers=2)
    return out


@pytest.fixture(autouse=True)
def same_home(whole, own_home, monkeypatch) -> None:
    """Where the module's study has its text prepared."""
    monkeypatch.setenv("LONGREACH_HOME", str(whole.parent / "home"))


def planned(out: Path) -> Study:
    """The study of a runs folder."""
    return Study.model_validate_json(
        json.dumps(json.loads((out / "plan.json").read_text())["study"])
    )


def found(rows, **wanted) -> list[Row]:
    """The rows with these fields."""
    return [row for row in rows if all(getattr(row, k) == v for k, v in wanted.items())]


def test_the_plan_names_every_model_and_what_it_is_for(tmp_path):
    study = Study.parse(ONE_SEED, "tiny")
    cells = [cell for cell, _ in cells_of(study, trainings(study, print), tmp_path, "test")]
    aims = [(c.training.scheme.name, c.aim and (c.aim.done, c.aim.length)) for c in cells]
    assert aims == [
        ("rope", None),
        *(("rope", (done, n)) for n in (16, 32) for done in (*TUNED, LONG_TRAINING)),
        ("alibi", None),
    ]
    assert len({cell.training.digest for cell in cells}) == len(cells) == study.runs
    rope, alibi = cells[0], cells[-1]
    assert rope.repairs == ("linear", YARN)
    assert alibi.repairs == ()
    for cell in cells[1:-1]:
        recipe = cell.training.recipe
        assert recipe.batch * cell.training.length == 8 * 8  # As many tokens in each step.
        assert recipe.steps == (20 if cell.aim.done == LONG_TRAINING else 6)
        assert (cell.base is None) == (cell.aim.done == LONG_TRAINING)
        if cell.base is not None:
            assert cell.base == rope.folder


def test_a_long_training_is_the_training_that_a_study_of_that_length_would_have(tmp_path):
    study = Study.parse(ONE_SEED, "tiny")
    cells = [cell for cell, _ in cells_of(study, trainings(study, print), tmp_path, "test")]
    (long,) = [c for c in cells if c.aim and (c.aim.done, c.aim.length) == (LONG_TRAINING, 16)]
    alone = TINY.replace('["alibi", "learned"]', '["rope"]').replace("batch = 8", "batch = 4")
    alone = alone.replace("trained_length = 8", "trained_length = 16").replace("[8, 12]", "[8, 16]")
    alone = alone.replace("steps = 40", "steps = 20")
    assert long.training == trainings(Study.parse(alone, "alone"), print)[0][0]


def test_a_training_that_is_not_extended_keeps_its_digest():
    study = Study.parse(TINY, "tiny")
    # As it was before trainings could be extended: recorded results are found by it.
    assert trainings(study, print)[0][0].digest == "402884bd255c0d69"


def test_every_model_has_rows_at_its_length_and_at_the_trained_one(whole):
    results = Results.read(whole)
    assert results.missing == results.strangers == ()
    text = results.rows[0].task
    for seed in (0, 1):
        for done in ("linear", YARN, *TUNED, LONG_TRAINING):
            for metric in ("last_loss", "short_loss"):
                mine = found(results.rows, scheme="rope", seed=seed, repair=done, metric=metric)
                assert [row.evaluation_length for row in mine] == [16, 32]
                assert {row.trained_length for row in mine} == {8}
                ends = [16, 32] if metric == "last_loss" else [8, 8]
                assert [row.last_position for row in mine] == ends
    assert not found(results.rows, scheme="alibi", repair="linear")
    plain = found(results.rows, scheme="rope", seed=0, repair=None, metric="last_loss", task=text)
    assert [row.evaluation_length for row in plain] == [8, 16, 32]


def test_a_worn_repair_is_set_for_each_length_in_turn(whole):
    results = Results.read(whole)
    run = next(r for r in results.runs if r.aim is None and r.rows[0].scheme == "rope")
    training = stored_training(run.folder)
    task = build_task(training)
    model = stored_model(run.folder, training, task)
    windows = task.windows(33, 12, 4)
    for length in (16, 32):
        slow = Repair("linear").apply(model.spectrum, Extension(8, length))
        np.testing.assert_allclose(
            slow.inverse_frequencies * length / 8, model.spectrum.inverse_frequencies
        )
        for metric, context in (("last_loss", length), ("short_loss", 8)):
            with model.using(slow):
                losses = token_losses(model, windows.tokens[:, -context - 1 :], 4)
            (row,) = found(run.rows, repair="linear", metric=metric, evaluation_length=length)
            expected = windows.per_document(losses.double().mean(1).numpy())
            np.testing.assert_allclose(run.items[row.item_key], expected, rtol=1e-6)
            assert row.value == pytest.approx(expected.mean())
        (plain,) = found(run.rows, repair=None, metric="last_loss", evaluation_length=length)
        (worn,) = found(run.rows, repair="linear", metric="last_loss", evaluation_length=length)
        assert plain.value != worn.value


def test_a_fine_tune_goes_on_from_the_weights_of_its_base_under_its_repair(whole):
    results = Results.read(whole)
    tuned = [run for run in results.runs if run.aim and "fine-tune" in run.aim["done"]]
    assert len(tuned) == 12
    for run in tuned:
        training = stored_training(run.folder)
        task = build_task(training)
        base = stored_model(whole / training.base.digest, training.base, task)
        model = stored_model(run.folder, training, task)
        scratch = [r for r in results.runs if r.aim and r.aim["done"] == LONG_TRAINING]
        other = stored_model(scratch[0].folder, stored_training(scratch[0].folder), task)

        def distance(one, two) -> float:
            pairs = zip(one.parameters(), two.parameters(), strict=True)
            return sum((a - b).square().sum().item() for a, b in pairs) ** 0.5

        assert 0 < distance(model, base) < distance(model, other)
        repair = training.extended.repair
        if repair is None:
            expected = base.spectrum
        else:
            length = run.aim["length"]
            expected = Repair.parse(repair).apply(base.spectrum, Extension(8, length))
        assert np.array_equal(model.spectrum.inverse_frequencies, expected.inverse_frequencies)
        assert model.spectrum.amplitude == expected.amplitude


def test_fine_tunes_of_one_length_read_the_same_new_text(whole):
    base = next(r for r in Results.read(whole).runs if r.aim is None)
    training = stored_training(base.folder)
    task = build_task(training)

    def first(changed) -> torch.Tensor:
        after = () if changed.extended is None else ("extended", changed.length)
        data = generator_for("train", changed.task.label, changed.seed, *after)
        return draw(task, changed, data).tokens

    recipe = training.training
    twins = [
        first(
            training.model_copy(update={"extended": Extended(repair=r, length=16, training=recipe)})
        )
        for r in (None, "linear")
    ]
    assert torch.equal(*twins)
    assert twins[0].shape == (8, 17)
    assert not torch.equal(twins[0][:, :9], first(training))


def test_what_is_missing_is_made_again_to_the_same_rows_and_weights(whole, tmp_path, monkeypatch):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    before = content(out)
    study = planned(out)
    gone = [run.folder for run in Results.read(out).runs if run.rows[0].scheme == "rope"]
    some = [next(f for f in gone if stored_training(f).extended), gone[0]]
    for folder in some:
        shutil.rmtree(folder)
    _, shown = go(study, out)
    assert content(out) == before
    assert shown.steps == 26
    assert len(shown.finished) == 2
    assert "at 16 on text" in shown.finished[1]


def test_without_its_bases_weights_a_fine_tune_says_what_is_missing(whole, tmp_path):
    out = tmp_path / "runs"
    shutil.copytree(whole, out)
    study = planned(out)
    run = next(r for r in Results.read(out).runs if r.aim and "fine-tune" in r.aim["done"])
    shutil.rmtree(run.folder)
    base = out / stored_training(whole / run.folder.name).base.digest
    (base / "weights.safetensors").unlink()
    with pytest.raises(InputError, match="is not there: results are recorded without weights"):
        go(study, out)


def test_a_base_that_fails_takes_its_fine_tunes_along_and_nothing_else(tmp_path):
    wild = ONE_SEED.replace("learning_rate = 1e-2\nwarmup", "learning_rate = 1e30\nwarmup")
    wild = wild.replace("clip = 1.0", "clip = 0.0")
    shown = Quiet()
    with pytest.raises(RunError, match="the loss is"):
        go(Study.parse(wild, "tiny"), tmp_path / "runs", display=shown)
    assert not any("fine-tune" in label for label in shown.finished)


def test_fractions_are_measured_at_both_lengths_too(tmp_path):
    results, _ = go(Study.parse(ONE_SEED, "tiny"), tmp_path / "runs")
    rows = found(results.rows, repair="linear + fine-tune", evaluation_length=32)
    assert {row.metric for row in rows} == {"exact_match", "short_exact_match"}
    run = next(r for r in results.runs if r.aim == {"done": "linear + fine-tune", "length": 32})
    training = stored_training(run.folder)
    task = build_task(training)
    model = stored_model(run.folder, training, task)
    for row in rows:
        length = 32 if row.metric == "exact_match" else 8
        judged = right(model, sample(task, training.task.label, length, 40))
        assert row.value == pytest.approx(judged.double().mean().item())
        assert np.array_equal(run.items[row.item_key], judged.numpy())


def test_the_report_tells_worn_from_trained_and_both_against_the_same_start(whole):
    summary = summarise(Results.read(whole))
    (task,) = summary.tasks
    assert {row.curve for row in task.of("change")} == {
        "rope", "rope + linear", f"rope + {YARN}", "alibi",
    }  # fmt: skip
    assert {row.curve for row in task.of("change_after_training")} == {
        "rope", "alibi", *(f"rope + {done}" for done in (*TUNED, LONG_TRAINING)),
    }  # fmt: skip
    rows = summary.results.rows
    for name, metric in (("change", "last_loss"), ("cost", "short_loss")):
        for done in ("linear", "linear + fine-tune", LONG_TRAINING):
            after = "_after_training" if trained_for(done) else ""
            for length in (16, 32):
                (told,) = [
                    row
                    for row in task.of(f"{name}{after}")
                    if (row.repair, row.evaluation_length) == (done, length)
                ]
                mine = found(rows, repair=done, metric=metric, evaluation_length=length)
                start = found(
                    rows, scheme="rope", repair=None, metric="last_loss", evaluation_length=8
                )
                expected = np.mean([m.value - s.value for m, s in zip(mine, start, strict=True)])
                assert told.mean == pytest.approx(expected, abs=1e-6)
                assert told.seeds == 2
                assert told.low <= told.mean <= told.high
    for curve in task.curves:
        assert len(task.reaches(curve)) == 2
        assert min(task.reaches(curve)) >= 8  # What it is extended from reaches that.


def test_tables_leave_out_whom_they_are_not_about(whole):
    summary = summarise(Results.read(whole))
    (task,) = summary.tasks
    names = [row[0].text for row in score_table(task, "change").rows]
    assert names == ["rope", "rope + linear", f"rope + {YARN}", "alibi"]
    runs = plain(run_table(summary))
    assert f"rope + {LONG_TRAINING} at 32" in runs
    assert len(summary.finished) == 20
    assert len(task.finished) == 4


def test_a_curve_looks_the_same_in_every_figure(whole):
    looks = {}
    for figure in figures(summarise(Results.read(whole))):
        for layer in figure.spec["layer"]:
            domain = layer.get("encoding", {}).get("color", {}).get("scale", {}).get("domain", [])
            for place, curve in enumerate(domain):
                looks.setdefault(curve, set()).add(place)
    assert {"rope", "alibi", f"rope + {LONG_TRAINING}"} <= looks.keys()
    assert all(len(looks[curve]) == 1 for curve in ("rope", "alibi", f"rope + {LONG_TRAINING}"))


def test_the_report_says_how_models_were_extended(whole):
    said = " ".join(methods(summarise(Results.read(whole))))
    assert "Past the trained length, rope was also measured under repairs" in said
    assert "a fine-tune of 6 steps at that length" in said
    assert "30% of the steps" in said
    assert "trained at that length from the start" in said


def test_a_run_that_was_trained_under_a_repair_wears_no_other(whole):
    runs = Results.read(whole).runs
    tuned = next(r for r in runs if r.aim == {"done": "linear + fine-tune", "length": 16})
    loaded = load_run(str(tuned.folder))
    with loaded.wearing(None, 16):
        pass
    with (
        pytest.raises(InputError, match="was trained under linear"),
        loaded.wearing(Repair("ntk"), 16),
    ):
        pass
    scratch = next(r for r in runs if r.aim and r.aim["done"] == LONG_TRAINING)
    with load_run(str(scratch.folder)).wearing(Repair("ntk"), 64):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('["none", "linear"', '["none", "liner"'), "unknown repair 'liner'; did you mean"),
        (('["none", "linear"', '["none", "yarn:@o.json"'), "takes its options from a file"),
        (('["none", "linear"', '["linear", "linear"'), "repairs names the same one twice"),
        (('schemes = ["rope"]\nrepairs', 'schemes = ["rop"]\nrepairs'), "the study has no 'rop'"),
        (('schemes = ["rope"]\nrepairs', 'schemes = ["alibi"]\nrepairs'), "Alibi turns none"),
        (("[8, 16, 32]", "[4, 8]"), "no length to extend to"),
        (("from_scratch", "from_scrach"), "unknown key 'extension.from_scrach'; did you mean"),
        (("steps = 6", "steps = 6\nshortest = 2"), "training.shortest cannot be given"),
        (("steps = 6", "setps = 6"), "unknown key 'extension.training.setps'; did you mean"),
        (("width = 16", 'architecture = "encoder-decoder"\nwidth = 16'), "is for decoders"),
    ],
)
def test_a_mistake_in_an_extension_is_named(tmp_path, change, message):
    assert change[0] in ONE_SEED
    with pytest.raises(InputError, match=message):
        go(Study.parse(ONE_SEED.replace(*change), "tiny"), tmp_path / "runs")
    assert not list((tmp_path / "runs").glob("*/training.json"))


def test_limited_steps_are_those_of_the_fine_tune_too():
    limited = Study.parse(EXTENDED, "tiny").limited(3)
    assert (limited.training.steps, limited.extension.training.steps) == (3, 3)
    assert limited.extension.training.warmup == 0
