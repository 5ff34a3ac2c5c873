"""Writes the tables of docs/results.md from the recorded results, so that no number there is typed.

Run from the repository's root: python results/tables.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from longreach.evaluate import sample
from longreach.repairs import Repair, effect
from longreach.results import Results
from longreach.site.published import PUBLISHED_LOSS
from longreach.spectrum import Extension, Spectrum
from longreach.study import Study
from longreach.tasks.parity import Parity

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"

PUBLISHED_STRINGS = {
    "copy": {
        "nope": ((99.8, 0.2), (99.0, 1.2), (97.0, 2.6), (81.1, 4.7), (7.6, 4.6), (0.0, 0.0), 17.0),
        "sinusoidal": (
            (99.5, 0.2), (97.0, 0.4), (93.1, 2.6), (58.6, 9.3), (3.5, 1.7), (0.0, 0.0), 16.7,
        ),
        "rope": (
            (100.0, 0.0), (100.0, 0.0), (25.0, 23.0), (0.1, 0.2), (0.0, 0.0), (0.0, 0.0), 16.0,
        ),
        "alibi": (
            (100.0, 0.0), (100.0, 0.0), (98.6, 1.0), (53.4, 12.9), (0.4, 0.3), (0.0, 0.0), 17.0,
        ),
    },
    "reverse": {
        "nope": (
            (97.3, 2.7), (92.1, 6.7), (91.3, 6.2), (87.4, 5.5), (36.8, 7.3), (0.0, 0.0), 15.3,
        ),
        "sinusoidal": (
            (99.3, 0.9), (97.8, 2.9), (95.2, 6.5), (83.2, 16.8), (7.7, 7.3), (0.0, 0.0), 17.3,
        ),
        "rope": (
            (100.0, 0.0), (100.0, 0.0), (51.0, 40.7), (11.2, 15.8), (0.0, 0.0), (0.0, 0.0), 16.3,
        ),
        "alibi": (
            (100.0, 0.0), (100.0, 0.0), (56.8, 28.7), (0.3, 0.2), (0.0, 0.0), (0.0, 0.0), 16.3,
        ),
    },
}  # fmt: skip
"""Exact match in percent of the replication that `copy-reverse` answers: mean and population
deviation over 3 seeds at n = 1 to 16 and at each of PUBLISHED_LENGTHS, and the mean of its longest
n >= 90 %."""
PUBLISHED_LENGTHS = (16, 17, 18, 20, 24)
PUBLISHED_SEEDS = 3
ROUNDING = 0.05
"""Of a published percentage with one decimal."""
PUBLISHED_RANKS = {
    "nope": 0.69, "t5_bias": 0.55, "alibi": 0.50, "rope": 0.33, "sinusoidal": 0.22,
}  # fmt: skip
"""Mean reciprocal rank over ten tasks as Kazemnejad et al. 2023 (arXiv:2305.19466) give it."""
KINDS_OF_TEXT = {"facts (stdlib)": "code", "facts (text:sotu)": "speeches"}
TRAINED = {
    "smollm2-untrained": {None: "as it is", "yarn": "YaRN worn"},
    "smollm2-trained-none": {None: "trained without a repair"},
    "smollm2-trained-yarn": {None: "trained with YaRN"},
}
"""What was measured of a real model before and after a brief training, by repair worn."""
NOT_RECORDED = "Not recorded yet."


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [header, [":---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def recorded(study: str) -> dict[str, Any]:
    """study.json of a recorded study."""
    found: dict[str, Any] = json.loads((ROOT / "results" / study / "study.json").read_text())
    return found


def pick(study: dict[str, Any], part: str = "aggregates", **wanted: Any) -> list[dict[str, Any]]:
    """The entries with the wanted values, in their order."""
    return [
        entry for entry in study[part] if all(entry[key] == value for key, value in wanted.items())
    ]


def schemes(study: dict[str, Any]) -> list[str]:
    """In the study's order."""
    return list(dict.fromkeys(run["scheme"] for run in study["runs"]))


def plus_minus(entry: dict[str, Any], scale: float, digits: int) -> str:
    """Mean and sample deviation over seeds, or that there is none."""
    if entry["mean"] is None:
        return "past limit"
    return f"{scale * entry['mean']:.{digits}f} ± {scale * entry['sd']:.{digits}f}"


def interval(entry: dict[str, Any]) -> str:
    """Mean and 95 % interval, signed."""
    if entry["mean"] is None:
        return "past limit"
    return f"{entry['mean']:+.3f} [{entry['low']:+.3f}, {entry['high']:+.3f}]"


def per_length(
    study: dict[str, Any], part: str, metric: str, cell: Callable[[dict[str, Any]], str]
) -> str:
    """Schemes down, evaluation lengths across."""
    lengths = study["study"]["evaluation_lengths"]
    rows = []
    for scheme in schemes(study):
        entries = pick(study, part, scheme=scheme, metric=metric)
        by_length = {entry["evaluation_length"]: cell(entry) for entry in entries}
        rows.append([scheme, *[by_length[length] for length in lengths]])
    return markdown(["scheme", *map(str, lengths)], rows)


def mean_loss() -> str:
    """Our mean loss over positions, per length."""
    return per_length(
        recorded("length-curve"), "aggregates", "loss", lambda entry: plus_minus(entry, 1, 3)
    )


def change() -> str:
    """Change of the loss of the same last tokens against the trained length."""
    return per_length(recorded("length-curve"), "changes", "change", interval)


def against_published() -> str:
    """How far the mean loss moves from its value at the trained length: theirs and ours."""
    study = recorded("length-curve")
    rows = []
    for scheme, published in PUBLISHED_LOSS.items():
        ours = {
            entry["evaluation_length"]: entry["mean"]
            for entry in pick(study, scheme=scheme, metric="loss")
        }
        for length in (256, 512):
            if scheme == "learned":
                theirs = "no row"
            elif length in published:
                theirs = f"{published[length] - published[64]:+.3f}"
            else:
                theirs = "not given"
            moved = "past limit" if ours[length] is None else f"{ours[length] - ours[64]:+.3f}"
            agree = {True: "yes", False: "**no**"}
            same = (
                agree[theirs[0] == moved[0]]
                if theirs[0] in "+-"
                else ("yes" if theirs == "no row" and moved == "past limit" else "")
            )
            rows.append([scheme, str(length), theirs, moved, same])
    return markdown(["scheme", "length", "theirs", "ours", "same direction"], rows)


def by_position() -> str:
    """Loss over the positions just before the trained length and each doubling of it."""
    study = recorded("length-curve")
    ends = (64, 128, 256, 512)
    rows, header = [], ["scheme"]
    for scheme in schemes(study):
        entries = {
            entry["last_position"]: entry
            for entry in pick(study, scheme=scheme, metric="loss_by_position")
        }
        header = ["scheme", *[f"{entries[end]['first_position']} to {end}" for end in ends]]
        rows.append([scheme, *[plus_minus(entries[end], 1, 3) for end in ends]])
    return markdown(header, rows)


def recall(task: str) -> str:
    """Exact match per length in percent."""
    study = recorded("recall")
    lengths = study["study"]["evaluation_lengths"]
    rows = []
    for scheme in schemes(study):
        entries = {
            entry["evaluation_length"]: plus_minus(entry, 100, 1)
            for entry in pick(study, task=task, scheme=scheme, metric="exact_match")
        }
        rows.append([scheme, *[entries[length] for length in lengths]])
    return markdown(["scheme", *map(str, lengths)], rows)


def straightforward() -> str:
    """What the straightforward program printed, in percent."""
    found = json.loads((ROOT / "results" / "straightforward.json").read_text())["accuracies"]
    lengths = ("24", "32", "48")
    rows = [
        [scheme, *["past limit" if value is None else f"{100 * value:.1f}" for value in values]]
        for scheme, values in found.items()
    ]
    return markdown(["scheme", *lengths], rows)


def strings(task: str) -> str:
    """Exact match beside the published one, scheme by scheme, ours marked where they disagree."""
    if not (ROOT / "results" / "copy-reverse" / "study.json").is_file():
        return NOT_RECORDED
    study = recorded("copy-reverse")
    rows = []
    for scheme in schemes(study):
        published = PUBLISHED_STRINGS[task].get(scheme)
        reached = [run["reach"] for run in pick(study, "runs", task=task, scheme=scheme)]
        if not reached:
            continue
        ours = [
            *pick(study, "over_trained", task=task, scheme=scheme, metric="exact_match"),
            *(
                entry
                for length in PUBLISHED_LENGTHS
                for entry in pick(
                    study,
                    task=task,
                    scheme=scheme,
                    metric="exact_match",
                    evaluation_length=length,
                )
            ),
        ]
        if published is not None:
            *cells, longest = published
            theirs = [f"{mean:.1f} ± {sample_sd(sd):.1f}" for mean, sd in cells]
            rows.append([scheme, f"theirs, {PUBLISHED_SEEDS}", *theirs, f"{longest:.1f}"])
            rows.append(
                [
                    "",
                    f"ours, {len(reached)}",
                    *(own(entry, cell) for entry, cell in zip(ours, cells, strict=True)),
                    own_reach(reached, longest),
                ]
            )
        else:
            cells = [own(entry, None) for entry in ours]
            rows.append([scheme, f"ours, {len(reached)}", *cells, own_reach(reached, None)])
    header = ["scheme", "seeds", "n = 1 to 16", *(f"n = {n}" for n in PUBLISHED_LENGTHS)]
    return markdown([*header, "longest n ≥ 90 %"], rows)


def sample_sd(population: float, count: int = PUBLISHED_SEEDS) -> float:
    """The sample deviation (ddof 1) of so many values, from their population deviation (ddof 0)."""
    return population * (count / (count - 1)) ** 0.5


def own(entry: dict[str, Any], published: tuple[float, float] | None) -> str:
    """Our mean, deviation and interval in percent, marked where the published mean disagrees."""
    if entry["mean"] is None:
        return "past limit"
    mean, low, high = (100 * entry[key] for key in ("mean", "low", "high"))
    if entry["sd"] is None:  # one seed: nothing to compare with
        return f"{mean:.1f} [{low:.1f}, {high:.1f}]"
    sd = 100 * entry["sd"]
    text = f"{mean:.1f} ± {sd:.1f} [{low:.1f}, {high:.1f}]"
    if published is None or agree(mean, sd, entry["seeds"], *published):
        return text
    return f"**{text}** ≠"


def agree(mean: float, sd: float, seeds: int, theirs: float, population: float) -> bool:
    """Whether Welch's 95 % interval of the difference of two means, rounding allowed for, has 0."""
    mine, yours = sd**2 / seeds, sample_sd(population) ** 2 / PUBLISHED_SEEDS
    half = ROUNDING
    if mine + yours > 0:
        freedom = (mine + yours) ** 2 / (mine**2 / (seeds - 1) + yours**2 / (PUBLISHED_SEEDS - 1))
        half += float(stats.t.ppf(0.975, freedom)) * (mine + yours) ** 0.5
    return abs(mean - theirs) <= half


def own_reach(reached: Sequence[int], published: float | None) -> str:
    """Our reach: mean, deviation, and t interval; marked where the published mean lies outside.

    No deviation is published for it, so nothing can be said of how uncertain theirs is.
    """
    mean = sum(reached) / len(reached)
    if len(reached) < 2:
        return f"{mean:.1f}"
    sd = (sum((length - mean) ** 2 for length in reached) / (len(reached) - 1)) ** 0.5
    half = float(stats.t.ppf(0.975, len(reached) - 1)) * sd / len(reached) ** 0.5
    text = f"{mean:.1f} ± {sd:.1f} [{mean - half:.1f}, {mean + half:.1f}]"
    if published is None or abs(mean - published) <= half + ROUNDING:
        return text
    return f"**{text}** ≠"


def there(study: str) -> bool:
    """Whether a study is recorded."""
    return (ROOT / "results" / study / "study.json").is_file()


def curve_of(entry: dict[str, Any]) -> str:
    """The name of its line in a report."""
    repair = entry["repair"]
    return str(entry["scheme"] if repair is None else f"{entry['scheme']} + {repair}")


def extended(*metrics: str) -> str:
    """What each remedy comes to at every length past the trained one, in nats per token."""
    if not there("extension"):
        return NOT_RECORDED
    study = recorded("extension")
    trained = study["study"]["trained_length"]
    lengths = [n for n in study["study"]["evaluation_lengths"] if n > trained]
    rows: dict[str, dict[int, str]] = {}
    for metric in metrics:
        for entry in pick(study, "changes", metric=metric):
            if entry["evaluation_length"] > trained:
                cells = rows.setdefault(curve_of(entry), {})
                cells[entry["evaluation_length"]] = interval(entry)
    body = [[curve, *[cells[n] for n in lengths]] for curve, cells in rows.items()]
    return markdown(["model", *map(str, lengths)], body)


def ramps() -> str:
    """What each repair of `extension` makes of the pairs, for every length."""
    study = Study.load("extension")
    assert study.extension is not None
    plain = Spectrum.rope(study.model.width // study.model.heads)
    rows = []
    for name in (*study.extension.worn, "yarn:ramp=turns"):
        for length in study.past:
            found = effect(Repair.parse(name), plain, Extension(study.trained_length, length))
            counts = (found.untouched, found.ramped, found.interpolated)
            rows.append([name, str(length), *map(str, counts), f"{found.spectrum.amplitude:.3f}"])
    return markdown(["repair", "for", "kept", "between", "slowed whole", "amplitude"], rows)


def ranks() -> str:
    """Mean reciprocal rank: published, ours, and ours over the schemes that are published."""
    if not there("ten-tasks"):
        return NOT_RECORDED
    study = recorded("ten-tasks")
    rows = []
    for found in study["ranking"]:
        curve = found["curve"]
        theirs = f"{PUBLISHED_RANKS[curve]:.2f}" if curve in PUBLISHED_RANKS else "not there"
        ours = f"{found['mean']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"
        tied = f"{found['slighted']:.2f} to {found['favoured']:.2f}"
        rows.append([curve, theirs, ours, tied])
    return markdown(["scheme", "theirs", "ours", "as ties fall"], rows)


def past_trained() -> str:
    """Exact match in percent, mean over lengths past the trained one and over seeds."""
    if not there("ten-tasks"):
        return NOT_RECORDED
    study = recorded("ten-tasks")
    found: dict[str, dict[str, str]] = {}
    for entry in study["past_trained_length"]:
        cells = found.setdefault(entry["task"], {"chance": f"{100 * entry['chance']:.1f}"})
        least, most = 100 * entry["least"], 100 * entry["most"]
        cells[entry["curve"]] = f"{100 * entry['mean']:.1f} [{least:.1f}..{most:.1f}]"
    names = [*schemes(study), "chance"]
    return markdown(["task", *names], [[t, *[c[n] for n in names]] for t, c in found.items()])


RANKED_LENGTHS = (8, 9, 10, 12, 14, 16)
RECORDED_TASKS = ("copy", "reverse", "addition", "sort", "parity", "summation")


def task_by_length(task: str) -> str:
    """Exact match of one of the ten tasks in percent, with its interval."""
    if not there("ten-tasks"):
        return NOT_RECORDED
    study = recorded("ten-tasks")
    rows = []
    for scheme in schemes(study):
        entries = {
            entry["evaluation_length"]: entry
            for entry in pick(study, task=task, scheme=scheme, metric="exact_match")
        }
        rows.append([scheme, *[own(entries[n], None) for n in RANKED_LENGTHS]])
    return markdown(["scheme", *(f"n = {n}" for n in RANKED_LENGTHS)], rows)


def parity_by_ones(length: int = 10, least: int = 5) -> str:
    """Right answers on parity at one length in percent, by how many of its bits are ones.

    Numbers of ones that fewer than `least` of the evaluated strings have are left out.
    """
    if not there("ten-tasks"):
        return NOT_RECORDED
    results = Results.read(ROOT / "results" / "ten-tasks")
    study = Study.model_validate(results.plan["study"])
    bits = sample(Parity(), "parity", length, study.evaluation.sequences).tokens[:, 1 : length + 1]
    ones = (bits == bits.max()).sum(1).numpy()
    counted = [n for n in range(length + 1) if (ones == n).sum() >= least]
    right: dict[str, list[NDArray[np.float64]]] = {}
    for run in results.runs:
        for row in run.rows:
            measured = row.metric == "exact_match" and row.status == "measured"
            if row.task == "parity" and measured and row.evaluation_length == length:
                right.setdefault(row.scheme, []).append(run.items[row.item_key])
    rows = [
        [
            scheme,
            *(f"{100 * np.mean([seed[ones == n] for seed in right[scheme]]):.1f}" for n in counted),
        ]
        for scheme in schemes(recorded("ten-tasks"))
        if scheme in right
    ]
    strings = [str((ones == n).sum()) for n in counted]
    return markdown(["ones", *map(str, counted)], [["strings", *strings], *rows])


def worn(entry: dict[str, Any]) -> str:
    """What a real model wore."""
    repair = str(entry["repair"] or "as it is")
    return "searched" if repair.startswith("longrope:") else repair


def searched() -> str:
    """What each evaluation of the search came to, in nats per token."""
    path = ROOT / "results" / "smollm2-search" / "search.json"
    if not path.is_file():
        return NOT_RECORDED
    found = json.loads(path.read_text(encoding="utf-8"))["climbs"]
    count = max(map(len, found.values()))
    body = [[name, *(f"{each['loss']:.4f}" for each in tried)] for name, tried in found.items()]
    return markdown(["evaluation", *map(str, range(1, count + 1))], body)


def past_window(study: str) -> str:
    """Loss of the last tokens up to each length over that of the control, nats per token."""
    if not there(study):
        return NOT_RECORDED
    rows: dict[str, dict[int, str]] = {}
    for entry in pick(recorded(study), metric="excess"):
        rows.setdefault(worn(entry), {})[entry["evaluation_length"]] = interval(entry)
    lengths = sorted({n for cells in rows.values() for n in cells})
    body = [[name, *[cells[n] for n in lengths]] for name, cells in rows.items()]
    return markdown(["repair", *(f"{n:,}" for n in lengths)], body)


def needles(metric: str) -> str:
    """Needles found in percent, over all depths, with a 95 % interval: lengths of each text."""
    if not there("smollm2-needles"):
        return NOT_RECORDED
    rows: dict[str, dict[tuple[str, int], str]] = {}
    for entry in pick(recorded("smollm2-needles"), metric=metric):
        mean, low, high = (100 * entry[key] for key in ("mean", "low", "high"))
        cells = rows.setdefault(worn(entry), {})
        place = KINDS_OF_TEXT[entry["task"]], entry["evaluation_length"]
        cells[place] = f"{mean:.0f} [{low:.0f}, {high:.0f}]"
    columns = sorted({place for cells in rows.values() for place in cells})
    body = [[name, *[cells[place] for place in columns]] for name, cells in rows.items()]
    return markdown(["repair", *(f"{text}, {n:,}" for text, n in columns)], body)


def trained_at_length(text: str) -> str:
    """Loss of a text's last tokens up to each length, nats per token, and over the control."""
    rows = {}
    for study, names in TRAINED.items():
        if not there(study):
            return NOT_RECORDED
        for repair, name in names.items():
            for metric, cell in (("end_loss", plain), ("excess", interval)):
                entries = pick(recorded(study), task=text, metric=metric, repair=repair)
                rows[name, metric] = {entry["evaluation_length"]: cell(entry) for entry in entries}
    lengths = sorted({n for cells in rows.values() for n in cells})
    body = [
        [name, {"end_loss": "loss", "excess": "over the control"}[metric], *map(cells.get, lengths)]
        for (name, metric), cells in rows.items()
    ]
    return markdown(["model", "", *(f"{n:,}" for n in lengths)], body)


def training_losses() -> str:
    """What each brief training of a real model met: mean loss of ten steps, nats per token."""
    folder = ROOT / "results" / "smollm2-adapt"
    if not folder.is_dir():
        return NOT_RECORDED
    body = []
    for repair in ("none", "yarn"):
        found = json.loads((folder / f"{repair}.json").read_text(encoding="utf-8"))
        losses = found["losses"]
        ends = (np.mean(losses[:10]), np.mean(losses[-10:]))
        body.append([repair, f"{found['tokens']:,}", *(f"{mean:.3f}" for mean in ends)])
    return markdown(["repair", "tokens", "first ten steps", "last ten"], body)


def plain(entry: dict[str, Any]) -> str:
    """Mean alone."""
    return f"{entry['mean']:.3f}"


TABLES: dict[str, Callable[[], str]] = {
    "mean-loss": mean_loss,
    "against-published": against_published,
    "by-position": by_position,
    "change": change,
    "recall": lambda: recall("recall"),
    "recall-ambiguous": lambda: recall("recall (ambiguous)"),
    "straightforward": straightforward,
    "copy-reverse-copy": lambda: strings("copy"),
    "copy-reverse-reverse": lambda: strings("reverse"),
    "ten-tasks-ranks": ranks,
    "ten-tasks-parity-by-ones": parity_by_ones,
    "ten-tasks-past-trained": past_trained,
    **{f"ten-tasks-{task}": partial(task_by_length, task) for task in RECORDED_TASKS},
    "smollm2-stdlib": lambda: past_window("smollm2-stdlib"),
    "smollm2-sotu": lambda: past_window("smollm2-sotu"),
    "smollm2-search": searched,
    "smollm2-needles": lambda: needles("exact_match"),
    "smollm2-choice": lambda: needles("choice"),
    "smollm2-adapt": training_losses,
    "smollm2-trained-code": lambda: trained_at_length("text (held-out:stdlib)"),
    "smollm2-trained-speeches": lambda: trained_at_length("text (text:sotu)"),
    "extension-ramps": ramps,
    "extension-worn": lambda: extended("change"),
    "extension-trained": lambda: extended("change_after_training"),
    "extension-cost": lambda: extended("cost", "cost_after_training"),
}


def filled(page: str) -> str:
    """The page with every table between its markers made anew."""

    def table(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- ([a-z0-9-]+) -->\n.*?<!-- end -->", table, page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
