"""Attention: weights are those the model uses; heads that point are found, and shown."""

from __future__ import annotations

import json
import re
import shutil
import sys
from itertools import pairwise
from math import sqrt
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from longreach import cli
from longreach.errors import InputError
from longreach.measure import attention as module
from longreach.measure.attention import Head, distance_within, mean_distance, measure
from longreach.model.attention import Attention, Places
from longreach.model.decoder import Decoder, DecoderShape
from longreach.run import run as run_study
from longreach.schemes import SCHEMES
from longreach.schemes.base import Scheme, Shape
from longreach.study import Study
from longreach.tasks import TASKS
from longreach.tasks.base import Batch
from longreach.tasks.frame import SEP
from longreach.tasks.text import Text

WIDTH, HEADS, HEAD_DIM, TIME = 24, 3, 8, 10
LAW = pytest.mark.parametrize("name", SCHEMES)


def decoder(scheme, *, trained: int = 40, vocabulary: int = 24, layers: int = 2, **options):
    torch.manual_seed(0)
    shape = DecoderShape(
        vocabulary=vocabulary, width=WIDTH, heads=HEADS, layers=layers, feed_forward=16
    )
    model = Decoder(shape, scheme, trained, **options).eval()
    with torch.no_grad():
        for block in model.blocks:
            block.attention.project.weight *= 3  # Sharper attention: a wrong logit then shows.
    return model


def drawn(task, length: int, count: int = 8) -> Batch:
    return task.sample(length, count, torch.Generator().manual_seed(0))


# Weights out of the model


@LAW
def test_weights_times_values_are_what_the_layer_puts_out(name):
    torch.manual_seed(0)
    attention = Attention(WIDTH, HEADS)
    with torch.no_grad():
        attention.project.weight *= 3
    shape = Shape(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, trained_length=16)
    positions = torch.arange(TIME) * 2
    places = Places.of(SCHEMES[name](shape), positions, positions)
    x = torch.randn(2, TIME, WIDTH)
    with torch.no_grad():
        weights = attention.weights(x, places)
        values = (x @ attention.project.weight.chunk(3)[2].T).view(2, TIME, HEADS, HEAD_DIM)
        seen = torch.einsum("bhqk,bkhd->bqhd", weights, values).flatten(2)
        expected = attention(x, places)
    torch.testing.assert_close(attention.out(seen), expected, rtol=1e-5, atol=1e-5)


@LAW
def test_a_decoder_hands_out_weights_that_sum_to_one_and_look_at_nothing_to_come(name):
    model = decoder(SCHEMES[name])
    tokens = torch.randint(0, 24, (2, TIME), generator=torch.Generator().manual_seed(1))
    layers = model.attention(tokens)
    assert len(layers) == 2
    for weights in layers:
        assert weights.shape == (2, HEADS, TIME, TIME)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, TIME))
        assert (weights.triu(1) == 0).all()
        assert (weights.tril() > 0).any()
    # Prefixes look at what they looked at before.
    for whole, part in zip(layers, model.attention(tokens[:, :6]), strict=True):
        torch.testing.assert_close(whole[:, :, :6, :6], part, rtol=1e-5, atol=1e-6)


@LAW
def test_a_layers_weights_are_of_what_the_layers_before_it_made(name):
    """Oracle: each block run by hand; the attention of its first head spelt out."""
    model = decoder(SCHEMES[name])
    tokens = torch.randint(0, 24, (1, TIME), generator=torch.Generator().manual_seed(1))
    positions = torch.arange(TIME)
    places = Places.of(model.scheme, positions, positions)
    with torch.no_grad():
        x = model.scheme.embed(model.tokens(tokens), positions)
        for block, found in zip(model.blocks, model.attention(tokens), strict=True):
            q, k, _ = (
                (block.attention_norm(x) @ part.T).view(1, TIME, HEADS, HEAD_DIM).transpose(1, 2)
                for part in block.attention.project.weight.chunk(3)
            )
            q, k = model.scheme.rotate(q, positions), model.scheme.rotate(k, positions)
            bias = model.scheme.bias(positions, positions)
            for row in range(TIME):
                logits = k[0, 0, : row + 1] @ q[0, 0, row] / sqrt(HEAD_DIM)
                if bias is not None:
                    logits = logits + bias[0, row, : row + 1]
                expected = logits.exp() / logits.exp().sum()
                torch.testing.assert_close(found[0, 0, row, : row + 1], expected)
            x = block(x, places, last=None, cache=None)


@LAW
def test_handing_out_weights_leaves_the_forward_pass_bit_for_bit_as_it_is(name):
    """Oracle: the very call of `scaled_dot_product_attention`, written out."""
    torch.manual_seed(0)
    attention = Attention(WIDTH, HEADS)
    shape = Shape(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, trained_length=16)
    positions = torch.arange(TIME)
    scheme = SCHEMES[name](shape)
    places, x = Places.of(scheme, positions, positions), torch.randn(2, TIME, WIDTH)
    split = attention.project(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    q, k, v = split.unbind()
    mask, causal = places.mask(TIME, q.dtype)
    seen = F.scaled_dot_product_attention(
        scheme.rotate(q, positions),
        scheme.rotate(k, positions),
        v,
        attn_mask=mask,
        is_causal=causal,
    )
    assert torch.equal(attention(x, places), attention.out(seen.transpose(1, 2).flatten(-2)))


def test_weights_past_a_table_are_refused():
    with pytest.raises(InputError, match="rows 0 to 3"):
        decoder(SCHEMES["learned"], trained=4).attention(torch.zeros(1, 5, dtype=torch.long))


# Where answers are taken from


def spelt_sources(name: str, text: list[str]) -> dict[int, int]:
    """Place in the answer -> place in the prompt, by reading the printed form."""
    if name == "recall":
        return {len(text) - 1: text.index(text[-2]) + 1}
    end = text.index("<sep>")
    if name == "copy":
        return {end + i: i for i in range(1, end)}
    if name == "reverse":
        return {end + i: end - i for i in range(1, end)}
    if name == "needle":
        return {end + 1: text.index(text[end - 1]) + 1}
    assert name == "mqar"
    asked = [i for i in range(end + 1, len(text)) if text[i].startswith("k")]
    return {i + 1: text.index(text[i]) + 1 for i in asked}


POINTING = [
    ("copy", {}),
    ("copy", {"form": "doubled"}),
    ("reverse", {}),
    ("reverse", {"form": "then_forward"}),
    ("recall", {}),
    ("needle", {}),
    ("mqar", {"filler": 5}),
]


@pytest.mark.parametrize(("name", "options"), POINTING)
@pytest.mark.parametrize("length", [4, 9])
def test_sources_are_where_the_printed_prompt_has_the_answer(name, options, length):
    task = TASKS[name](**options)
    batch = drawn(task, length, 20)
    sources = task.sources(batch)
    assert ((sources < 0) | batch.scored).all()
    for row, found in zip(batch.tokens, sources, strict=True):
        text = task.render(row).split()
        told = {i: int(place) for i, place in enumerate(found) if place >= 0}
        assert told == spelt_sources(name, text)
        for place, source in told.items():
            assert source < place
            assert text[source] == text[place]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("recall", {"ambiguous": True}),
        ("copy", {"form": "repeated"}),
        ("copy", {"form": "replace"}),
        ("sort", {}),
        ("addition", {}),
    ],
)
def test_no_place_is_named_where_the_rule_leaves_a_choice_or_there_is_none(name, options):
    task = TASKS[name](**options)
    assert task.sources(drawn(task, 6)) is None


def test_sources_of_rows_of_unequal_length_are_those_of_each():
    task = TASKS["reverse"]()
    parts = [drawn(task, 3, 2), drawn(task, 5, 2)]
    joined = task.sources(Batch.join(parts))
    for row, part in zip((0, 2), parts, strict=True):
        own = task.sources(part)
        assert torch.equal(joined[row : row + 2, : own.shape[1]], own)
    assert (joined[:2, 9:] < 0).all()


# Measurements


class Hand:
    """A model whose attention is made by hand: one layer, a head per function of the tokens."""

    limit = None

    def __init__(self, *heads):
        self.heads = heads

    def attention(self, tokens):
        batch, time = tokens.shape
        weights = torch.zeros(batch, len(self.heads), time, time)
        for number, head in enumerate(self.heads):
            for row in range(batch):
                for query in range(time):
                    for key, share in head(tokens[row].tolist(), query).items():
                        weights[row, number, query, key] += share
        return [weights]


def even(tokens, query):
    return dict.fromkeys(range(query + 1), 1 / (query + 1))


def points(tokens, query):
    """Copies: from the separator on, exactly at the symbol to come next."""
    return {max(0, query - (tokens.index(SEP) - 1)): 1.0}


def half(tokens, query):
    """Half of it there, half on itself."""
    return {points(tokens, query).popitem()[0]: 0.5, query: 0.5} if query else {0: 1.0}


def behind(tokens, query):
    """One token too early."""
    return {max(0, points(tokens, query).popitem()[0] - 1): 1.0}


def test_a_head_that_points_exactly_has_score_one_and_its_distance():
    task, length = TASKS["copy"](), 6
    found = measure(Hand(even, points, half, behind), task, drawn(task, length))
    scores = [found.score(head) for head in found.heads]
    places = range(length + 1, 2 * length + 1)  # The separator and all symbols but the last.
    assert scores[1:] == [1.0, 0.5, 0.0]
    assert scores[0] == pytest.approx(np.mean([1 / (place + 1) for place in places]))
    assert scores[0] == pytest.approx(found.even_on_target)
    assert (found.best, found.read, found.sequences) == (Head(0, 1), 2 * length + 2, 8)
    # Up to its first token a query can look at none further back than itself.
    distances = [min(query, length) for query in range(found.read)]
    exact = found.shares[Head(0, 1)]
    assert mean_distance(exact) == pytest.approx(np.mean(distances))
    assert distance_within(exact, 0.9) == length
    assert mean_distance(found.shares[Head(0, 2)]) == pytest.approx(np.mean(distances) / 2)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_even_attention_has_the_distances_of_its_baseline(length):
    """Oracle: query i looks back i / 2 on average; the shares by writing all pairs down."""
    task = TASKS["reverse"]()
    found = measure(Hand(even), task, drawn(task, length))
    shares = found.shares[Head(0, 0)]
    np.testing.assert_allclose(shares, found.even_shares, atol=1e-7)
    assert mean_distance(shares) == pytest.approx((found.read - 1) / 4)
    expected = np.zeros(found.read)
    for query in range(found.read):
        expected[: query + 1] += 1 / (query + 1) / found.read
    np.testing.assert_allclose(shares, expected, atol=1e-7)
    assert shares.sum() == pytest.approx(1)
    for share in (0.5, 0.9):
        within = distance_within(shares, share)
        assert shares[: within + 1].sum() >= share - 1e-6
        assert within == 0 or shares[:within].sum() < share


class Back(Scheme):
    """Looks exactly so many tokens back, or at all alike where there are fewer."""

    def __init__(self, shape, *, back: int = 1):
        super().__init__(shape)
        self.back = back

    def bias(self, queries, keys):
        there = queries[:, None] - keys[None, :] == self.back
        return torch.where(there, 0.0, -1e9).expand(self.shape.heads, -1, -1).float()


def test_a_decoder_built_to_look_where_the_copy_comes_from_is_on_target():
    task, length = TASKS["copy"](), 7
    for back, score in ((length, 1.0), (length - 1, 0.0)):
        model = decoder(Back, back=back)
        found = measure(model, task, drawn(task, length))
        assert [found.score(head) for head in found.heads] == pytest.approx([score] * 6)
        assert found.example.weights.shape == (2, HEADS, 16, 16)
    # At any other length the same head misses: that is what "at the wrong offset" looks like.
    assert measure(decoder(Back, back=length), task, drawn(task, 12)).on_target.max() < 1e-6


def test_scores_are_averages_over_each_sequences_symbols_and_then_over_sequences(monkeypatch):
    model, task = decoder(SCHEMES["rope"]), TASKS["mqar"](keys=8)
    model = decoder(SCHEMES["rope"], vocabulary=task.vocabulary)
    batch = drawn(task, 5, 6)
    whole = measure(model, task, batch)
    monkeypatch.setattr(module, "CHUNK_WEIGHTS", 1)  # One sequence at a time.
    single = measure(model, task, batch)
    np.testing.assert_allclose(single.on_target, whole.on_target, rtol=1e-5)
    np.testing.assert_allclose(single.shares, whole.shares, atol=1e-7)
    sources = task.sources(batch)
    layers = model.attention(batch.tokens[:, : whole.read])
    for row in range(6):
        aims = [(t - 1, int(s)) for t, s in enumerate(sources[row]) if s >= 0]
        assert len(aims) == 5
        for head in whole.heads:
            expected = np.mean([float(layers[head.layer][row, head.head][aim]) for aim in aims])
            assert whole.on_target[head][row] == pytest.approx(expected, rel=1e-5)
            assert whole.score(head) == pytest.approx(whole.on_target[head].mean())


@LAW
def test_padding_behind_a_row_changes_nothing(name):
    """Rows of two lengths in one batch count as they do apart."""
    model, task = decoder(SCHEMES[name], trained=60), TASKS["copy"]()
    parts = [drawn(task, 4, 3), drawn(task, 9, 3)]
    together = measure(model, task, Batch.join(parts))
    apart = [measure(model, task, part) for part in parts]
    expected = np.concatenate([part.on_target for part in apart], axis=2)
    np.testing.assert_allclose(together.on_target, expected, rtol=1e-4, atol=1e-7)
    sums = sum(
        np.pad(part.shares, ((0, 0), (0, 0), (0, together.read - part.read))) * 3 * part.read
        for part in apart
    )
    total = 3 * sum(part.read for part in apart)
    np.testing.assert_allclose(together.shares, sums / total, atol=1e-6)
    filled = Batch(
        F.pad(parts[0].tokens, (0, 5), value=7), F.pad(parts[0].scored, (0, 5), value=False)
    )
    again = measure(model, task, filled)
    assert again.read == apart[0].read
    np.testing.assert_array_equal(again.shares, apart[0].shares)
    assert torch.equal(again.example.weights, apart[0].example.weights)


def test_a_task_that_names_no_place_has_distances_and_no_scores():
    task = TASKS["addition"]()
    found = measure(decoder(SCHEMES["nope"]), task, drawn(task, 5))
    assert (found.on_target, found.even_on_target, found.best) == (None, None, None)
    assert found.score(Head(0, 0)) is None
    np.testing.assert_allclose(found.shares.sum(2), 1, rtol=1e-5)


def test_past_the_limit_there_is_nothing_to_measure():
    task = TASKS["copy"]()
    model = decoder(SCHEMES["learned"], trained=task.total(8) - 1)
    assert measure(model, task, drawn(task, 8)) is not None
    assert measure(model, task, drawn(task, 9)) is None


# The command line, on a runs folder of eight runs

STUDY = """
name = "point"
question = "Where does it look?"
schemes = ["alibi", "learned"]
tasks = ["copy", "parity"]
seeds = [3, 4]
trained_length = 5
evaluation_lengths = [5]

[model]
width = 16
heads = 2
layers = 2
feed_forward = 16

[training]
steps = 2
batch = 4
learning_rate = 1e-3

[evaluation]
sequences = 4
"""


def quietly_run(study, folder):
    run_study(study, folder, display=MagicMock(), say=lambda line: None, command="", workers=1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention") / "runs"
    quietly_run(Study.parse(STUDY, "point.toml"), folder)
    return folder


@pytest.fixture
def call(capfd, monkeypatch):
    def longreach(*arguments):
        monkeypatch.setattr(sys, "argv", ["longreach", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return longreach


def refused(answer, *parts):
    code, out, err = answer
    assert (code, out) == (2, ""), err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    for part in parts:
        assert part in err


def only(call, *arguments):
    code, out, err = call("attention", *arguments, "--json")
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    return run


def test_numbers_of_a_run_are_those_of_its_model(call, runs):
    from longreach.cell import stored_model, stored_training
    from longreach.evaluate import sample

    run = only(call, runs, "--scheme", "alibi", "--task", "copy", "--length", 5, "--length", 7)
    assert (run["scheme"], run["task"], run["seed"], run["counts"]) == (
        "alibi", "copy", 3, "symbols",
    )  # fmt: skip
    task, folder = TASKS["copy"](), runs / run["training"]
    model = stored_model(folder, stored_training(folder), task)
    for part, length in zip(run["lengths"], (5, 7), strict=True):
        expected = measure(model, task, sample(task, "copy", length, 64))
        assert (part["length"], part["status"], part["sequences"]) == (length, "measured", 64)
        assert part["tokens_read"] == 2 * length + 2
        assert part["best"] == expected.best._asdict()
        for row, head in zip(part["heads"], expected.heads, strict=True):
            assert (row["layer"], row["head"]) == head
            assert row["on_target"] == pytest.approx(expected.score(head))
            assert row["low"] < row["on_target"] < row["high"]
            assert row["mean_distance"] == pytest.approx(mean_distance(expected.shares[head]))
        if length == 5:
            assert run["pointer"] == expected.best._asdict()
    assert only(call, folder, "--length", 5, "--length", 7) == run


def test_the_pointing_head_is_chosen_at_the_trained_length_whatever_was_asked(call, runs):
    both = only(call, runs, "--scheme", "alibi", "--task", "copy", "--seed", 4)
    assert [part["length"] for part in both["lengths"]] == [5, 10]
    assert both["pointer"] == both["lengths"][0]["best"]
    other = only(call, runs, "--scheme", "alibi", "--task", "copy", "--seed", 4, "--length", 12)
    assert [part["length"] for part in other["lengths"]] == [12]
    assert other["pointer"] == both["pointer"]


def test_a_table_has_a_row_for_each_head_and_says_which_one_points(call, runs):
    code, out, _ = call("attention", runs, "--scheme", "alibi", "--task", "copy")
    assert code == 0
    assert "alibi on copy, seed 3, trained at 5 symbols; 64 sequences per length." in out
    assert len(re.findall(r"^ +[01] +[01] +\d+\.\d% ", out, re.M)) == 8
    assert len(re.findall(r"^ even ", out, re.M)) == 2
    assert re.search(r"Bold: head [01] of layer [01], the one most on target at 5 symbols", out)
    assert re.search(r"At 10 it (still is, with|has) \d+\.\d%", out)


def test_schemes_stand_side_by_side_and_what_is_past_a_limit_says_so(call, runs):
    code, out, _ = call("attention", runs, "--task", "copy")
    assert code == 0
    assert re.search(r"^alibi +[01]\.[01] +\d", out, re.M)
    assert re.search(r"^learned .* past limit", out, re.M)
    code, out, _ = call("attention", runs, "--task", "copy", "--scheme", "learned")
    assert "past the limit: learned has 12 positions, and up to 22 tokens are read" in out
    past = only(call, runs, "--task", "copy", "--scheme", "learned")["lengths"][1]
    assert past == {"length": 10, "status": "past_limit"}


def test_a_task_without_places_is_shown_by_distance_alone(call, runs, tmp_path):
    code, out, _ = call("attention", runs, "--task", "parity", "--scheme", "alibi")
    assert code == 0
    assert "on target" not in out
    assert "parity names no place that its answer is taken from." in out
    path = tmp_path / "a.svg"
    refused(call("attention", runs, "--task", "parity", "--figure", path), "nothing to point at")
    code, _, err = call(
        "attention", runs, "--task", "parity", "--scheme", "alibi", "--plot", path, "--length", 5
    )
    assert (code, err) == (0, f"plot: {path}\n")
    assert path.read_text().count("layer 0, head") >= 2


def test_the_figure_has_a_panel_for_each_scheme_and_length(call, runs, tmp_path):
    path = tmp_path / "figure.svg"
    code, _, err = call("attention", runs, "--task", "copy", "--figure", path)
    assert (code, err) == (0, f"plot: {path}\n")
    svg = path.read_text()
    scores = [
        only(call, runs, "--task", "copy", "--scheme", scheme) for scheme in ("alibi", "learned")
    ]
    for run in scores:
        for part in run["lengths"]:
            title = f"{run['scheme']} at {part['length']}"
            if part["status"] == "measured":
                head = 2 * run["pointer"]["layer"] + run["pointer"]["head"]
                title += f": {part['heads'][head]['on_target']:.1%} on target"
            assert title in svg
    assert "past the limit: learned has 12 positions" in svg
    assert "query (token)" in svg
    assert "key (token)" in svg
    assert "&lt;sep&gt;" in svg
    assert svg.startswith("<svg role=") and 'aria-label="Heatmaps. ' in svg  # noqa: PT018


@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_the_figure_comes_in_every_form(call, runs, tmp_path, suffix):
    path = tmp_path / f"figure{suffix}"
    code, _, err = call(
        "attention", runs, "--task", "copy", "--scheme", "alibi", "--length", 5, "--figure", path
    )
    assert code == 0, err
    start = path.read_bytes()[:200]
    assert b"\x89PNG" in start if suffix == ".png" else b"<!DOCTYPE html>" in start


def test_cells_and_outlines_are_where_the_weights_and_sources_are(runs):
    from longreach.show.attention import chosen, gather
    from longreach.show.heatmaps import pointers
    from longreach.show.panels import chart

    (gaze,) = gather(chosen(runs, ["alibi"], "copy"), [9])
    (panel,) = pointers(gaze)
    example = gaze.found[9].example
    assert panel.first == 10  # The separator: the answer, nine symbols and the end, is not few.
    assert panel.weights.shape == (10, 20)
    np.testing.assert_array_equal(panel.weights, example.weights[gaze.pointer][10:])
    assert list(panel.targets) == [*range(1, 10), -1]
    spec = chart(panel).to_dict()
    shown, outlined = (spec["datasets"][layer["data"]["name"]] for layer in spec["layer"])
    told = {(cell["query"], cell["key"]): cell["attention"] for cell in shown}
    for (row, key), weight in np.ndenumerate(panel.weights):
        assert told.get((row + 10, key), 0) == pytest.approx(float(weight), abs=2e-3)
    assert [(cell["query"], cell["key"]) for cell in outlined] == [
        (10 + i, 1 + i) for i in range(9)
    ]
    colour = spec["layer"][0]["encoding"]["color"]
    assert colour["scale"]["domain"] == [0, 1]
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == list(range(10, 20))


def test_shades_keep_their_order_in_grey():
    from longreach.report.theme import THEMES

    def brightness(colour):
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for name, sign in (("light", -1), ("dark", 1)):
        shades = THEMES[name]["range"]["heatmap"]
        assert shades[0] == THEMES[name]["background"]
        for one, two in pairwise(map(brightness, shades)):
            assert sign * (two - one) > 20


@pytest.mark.parametrize("read", [97, 130, 300])
def test_long_sequences_are_shown_in_blocks_whose_rows_still_sum_to_one(read):
    from longreach.show.heatmaps import MOST, in_blocks

    weights = torch.rand(read, read).tril()
    weights = (weights / weights.sum(1, keepdim=True)).numpy()
    block = -(-read // MOST)
    found = in_blocks(weights, block)
    assert found.shape == (-(-read // block),) * 2
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    expected = weights[block : 2 * block, :block].sum() / block
    assert found[1, 0] == pytest.approx(expected, rel=1e-5)


def test_what_is_wrong_is_said_in_one_line(call, runs, tmp_path):
    refused(call("attention", tmp_path / "none"), "no folder")
    refused(call("attention", tmp_path), "neither training.json nor plan.json")
    refused(call("attention", runs), "copy and parity; name one with --task")
    alibi = ("attention", runs, "--task", "copy", "--scheme")
    refused(call(*alibi, "alibii"), "no run of 'alibii'; did you mean 'alibi'?")
    refused(call("attention", runs, "--task", "coppy"), "did you mean 'copy'?")
    refused(call(*alibi, "alibi", "--seed", 5), "no run of seed 5; it has [3, 4]")
    refused(call(*alibi, "alibi", "--length", 0), "at least 1 symbol, got length 0")
    refused(call(*alibi, "alibi", "--plot", "a.gif"), "must end in .svg, .png or .html")
    refused(call(*alibi, "alibi", "--figure", tmp_path / "no" / "a.svg"), "there is no folder")
    several = call("attention", runs, "--task", "copy", "--plot", tmp_path / "a.svg")
    refused(several, "--plot draws one run", "has 2; give --scheme")
    one = next(path.parent for path in runs.glob("*/training.json"))
    refused(call("attention", one, "--seed", 3), "is a single run")


def test_damaged_and_missing_files_of_a_run_are_refused(call, runs, tmp_path):
    found = only(call, runs, "--task", "copy", "--scheme", "alibi")["training"]
    for number, (name, text, told) in enumerate(
        [
            ("weights.safetensors", "no weights", "weights.safetensors is damaged"),
            ("weights.safetensors", None, "results are recorded without weights"),
            ("training.json", "{}", "another version"),
            ("training.json", '{"format": 1, "training": {"seed": 1}}', "is damaged"),
        ]
    ):
        copy = tmp_path / str(number)
        shutil.copytree(runs / found, copy)
        (copy / name).unlink()
        if text is not None:
            (copy / name).write_text(text)
        refused(call("attention", copy), told)


def test_text_is_looked_at_too(call, tmp_path, prose):
    study = STUDY.replace('["copy", "parity"]', f'[{{name="text", corpus="text:{prose}"}}]')
    study = study.replace("[3, 4]", "[3]").replace('["alibi", "learned"]', '["rope"]')
    study += "last_tokens = 4\ndocuments = 4\n"
    (tmp_path / "text.toml").write_text(study)
    asked = Study.load(str(tmp_path / "text.toml"))
    quietly_run(asked, tmp_path / "runs")
    run = only(call, tmp_path / "runs", "--length", 16)
    (part,) = run["lengths"]
    assert (run["pointer"], part["best"], part["tokens_read"]) == (None, None, 16)
    task = Text(corpus=f"text:{prose}")
    assert part["sequences"] == len(task.windows(17, 64).tokens)
    assert part["heads"][0]["on_target"] is None
    assert 0 < part["heads"][0]["mean_distance"] < 15
    plot = tmp_path / "a.svg"
    assert call("attention", tmp_path / "runs", "--length", 16, "--plot", plot)[0] == 0
    refused(call("attention", tmp_path / "runs", "--length", 0), "at least 1 token, got length 0")
    refused(call("attention", tmp_path / "runs", "--length", 9999), "no held-out document")


# `longreach tasks`


def test_tasks_are_listed_with_what_their_length_counts_and_their_source(call):
    code, out, _ = call("tasks", "list")
    assert code == 0
    lines = out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(TASKS)
    for line, kind in zip(lines, TASKS.values(), strict=True):
        assert kind.counts in line
        assert kind.source in line
    code, out, _ = call("tasks", "list", "--json")
    assert [each["task"] for each in json.loads(out)["tasks"]] == list(TASKS)


def test_an_example_is_printed_with_its_ceiling_and_chance(call):
    code, out, _ = call("tasks", "show", "addition", "--length", 8, "--seed", 0)
    assert code == 0
    task = TASKS["addition"]()
    batch = task.sample(8, 1, torch.Generator().manual_seed(0))
    assert task.render(batch.tokens[0]) in out.splitlines()
    assert f"ceiling 1, chance {task.chance(8):.4g} (exact match)" in out
    code, out, _ = call(
        "tasks", "show", "copy", "--length", 3, "--option", "symbols=5", "--option", "form=doubled",
        "--json",
    )  # fmt: skip
    found = json.loads(out)
    assert found["options"] == {"symbols": 5, "form": "doubled"}
    assert (found["seed"], found["total"], found["ceiling"]) == (0, 13, 1.0)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["adition", "--length", 8], ["unknown task 'adition'; did you mean 'addition'?"]),
        (["copy", "--length", 0], ["at least 1 symbol, got length 0"]),
        (["copy", "--length", 3, "--seed", -1], ["a seed must be at least 0, got -1"]),
        (["copy", "--length", 3, "--option", "symbol=5"], ["symbol", "did you mean 'symbols'?"]),
        (["copy", "--length", 3, "--option", "symbols=five"], ["symbols"]),
        (["copy", "--length", 3, "--option", "symbols"], ["key=value, got 'symbols'"]),
    ],
)
def test_wrong_questions_about_tasks_are_refused(call, arguments, parts):
    refused(call("tasks", "show", *arguments), *parts)


def test_the_pointing_head_is_that_of_the_trained_length_where_others_have_another():
    from types import SimpleNamespace

    from longreach.show.attention import Gaze

    best = {5: Head(0, 1), 9: Head(1, 0)}
    gaze = Gaze(
        digest="",
        training=SimpleNamespace(trained_length=5),
        task=TASKS["copy"](),
        limit=None,
        lengths=(9,),
        found={length: SimpleNamespace(best=head) for length, head in best.items()},
    )
    assert gaze.pointer == Head(0, 1)
