"""The four questions that others' pages have put, each answered from numbers worked out here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from longreach.repairs import Repair, effect
from longreach.report.aggregate import Aggregate
from longreach.report.figures import Figure
from longreach.report.metrics import metric_of
from longreach.report.summarise import REACH_NATS, Summary, Task
from longreach.report.tables import Table, score_table
from longreach.spectrum import Extension, Spectrum, decay

from .published import PUBLISHED_LOSS


@dataclass(frozen=True)
class Claim:
    """A sentence of theirs and what is found here.

    quote: as they put it. measured: here. holds: None if it is not judged. settled: whether rows
    can tell; False where intervals overlap.
    """

    quote: str
    measured: str
    holds: bool | None
    settled: bool = True

    @property
    def mark(self) -> str:
        """For people."""
        if not self.settled:
            return "not settled here"
        return {True: "holds here", False: "does not hold here", None: "told, not judged"}[
            self.holds
        ]


@dataclass(frozen=True)
class Answer:
    """One question: who asked, what they claim, and what the rows of a study say to each claim.

    study: the name of the recorded study behind it. figure: its figure that answers. tables: of it.
    """

    slug: str
    title: str
    source: str
    claims: tuple[Claim, ...]
    study: str
    figure: Figure | None
    tables: tuple[Table, ...]

    @property
    def verdict(self) -> str:
        """The claims, counted.

        >>> yes, no = Claim("a", "b", True), Claim("c", "d", False)
        >>> Answer("", "", "", (yes, no, yes), "", None, ()).verdict
        'Of 3 claims, 2 hold here, 1 does not.'
        """
        judged = [claim.holds for claim in self.claims if claim.holds is not None]
        kept, failed = judged.count(True), judged.count(False)
        count = sum(not claim.settled for claim in self.claims) + len(judged)
        said = f"Of {count} claims, {kept} {'holds' if kept == 1 else 'hold'} here"
        said += f", {failed} {'does' if failed == 1 else 'do'} not" if failed else ""
        open_ = sum(not claim.settled for claim in self.claims)
        said += f", {open_} {'is' if open_ == 1 else 'are'} not settled" if open_ else ""
        return f"{said}."


def answers(summaries: Mapping[str, tuple[Summary, list[Figure]]]) -> list[Answer]:
    """Those whose study is among the summaries (by name) and measured what they ask, in order."""
    return [
        make(*summaries[study])
        for study, (metric, make) in QUESTIONS.items()
        if study in summaries and fitting(summaries[study][0], metric)
    ]


class Rows:
    """The aggregates of a task, looked up by curve, metric and length."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._found = {
            (row.curve, row.metric, row.evaluation_length): row
            for row in (*task.aggregates, *task.changes)
        }

    def at(self, curve: str, metric: str, length: int) -> Aggregate | None:
        """The row, if it was measured and not past a limit."""
        row = self._found.get((curve, metric, length))
        return None if row is None or row.mean is None else row

    def mean(self, curve: str, metric: str, length: int) -> float:
        """Of a row that is there; NaN, which no comparison holds for, if it is not."""
        row = self.at(curve, metric, length)
        return float("nan") if row is None or row.mean is None else row.mean

    def told(self, curve: str, metric: str, length: int) -> str:
        """The number with its interval, as reports print it."""
        row = self.at(curve, metric, length)
        if row is None or row.mean is None or row.low is None or row.high is None:
            return "not measured"
        shown = metric_of(metric)
        sign = "%" if shown.percent else ""
        first = shown.signed(row.mean) if shown.paired else shown.cell(row.mean)
        return f"{first}{sign} [{shown.cell(row.low)}, {shown.cell(row.high)}]"

    def past_limit(self, curve: str) -> bool:
        """Whether the curve has no number at any length past the trained one, and says why."""
        past = [
            row
            for row in self.task.of(self.task.reach_metric)
            if row.curve == curve and row.evaluation_length > self.task.trained_length
        ]
        return bool(past) and all(row.status == "past_limit" for row in past)


def figure_in(figures: Iterable[Figure], task: Task, metric: str) -> Figure | None:
    """The study's figure of a metric."""
    return next((f for f in figures if (f.task, f.metric) == (task.label, metric)), None)


def fitting(summary: Summary, metric: str) -> list[Task]:
    """The tasks with a number of this metric past the trained length."""
    return [
        task
        for task in summary.tasks
        if any(
            row.mean is not None and row.evaluation_length > task.trained_length
            for row in task.of(metric)
        )
    ]


def task_like(summary: Summary, metric: str, word: str) -> Task:
    """Of the tasks that fit, the first whose label has the word; else the first."""
    found = fitting(summary, metric)
    return next((task for task in found if word in task.label), found[0])


def judged(holds: bool, *rows: Aggregate | None) -> bool | None:
    """Whether a claim holds; None if a row that it needs was not measured."""
    return holds if all(row is not None for row in rows) else None


def overlap(one: Aggregate | None, other: Aggregate | None) -> bool:
    """Whether two intervals have a number in common; not if one is not there."""
    if one is None or other is None:
        return False
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return False
    return one.low <= other.high and other.low <= one.high


def tables_of(task: Task, *metrics: str) -> tuple[Table, ...]:
    """Those that there are, each under the name of its task."""
    found = [score_table(task, metric) for metric in metrics if task.of(metric)]
    return tuple(replace(table, title=f"{task.label}: {table.title}") for table in found)


# What breaks past the trained length: recall


def recall(summary: Summary, figures: list[Figure]) -> Answer:
    """A short program that trains five position methods at 24 tokens and prints three columns."""
    task = task_like(summary, "exact_match", "ambiguous")
    rows, trained = Rows(task), task.trained_length
    longest = task.lengths("exact_match")[-1]
    chance = task.chance.get(trained, 0.0)
    best = [task.ceiling.get(length, 1.0) for length in (trained, longest)]
    shares = {
        curve: rows.mean(curve, "exact_match", longest) / best[1]
        for curve in task.curves
        if rows.at(curve, "exact_match", longest)
    }
    claims = (
        Claim(
            "learned positions: “crash” at 32 and 48",
            f"A learned table has no row past {trained}: at every longer length it is recorded as "
            "past its limit, and not as a score of 0."
            if rows.past_limit("learned")
            else "learned was measured past its trained length, or not at all.",
            judged(rows.past_limit("learned"), rows.at("learned", task.reach_metric, trained)),
        ),
        Claim(
            "random guessing scores 0.045",
            f"Guessing scores {chance:.3f}, as the task itself states it.",
            f"{chance:.3f}" == "0.045",
        ),
        Claim(
            "The accuracies are printed as they are, with no ceiling beside them.",
            f"In this form of the task a perfect model scores {best[0]:.3f} at {trained} and "
            f"{best[1]:.3f} at {longest}: a part of the fall is the "
            f"task's. As a share of the ceiling at {longest}: "
            + ", ".join(f"{curve} {share:.0%}" for curve, share in shares.items())
            + ". The form without ambiguity, whose ceiling is 1, is in the study's report.",
            None,
        ),
    )
    return Answer(
        slug="recall",
        title="What breaks when you exceed the trained length?",
        source="a program of some hundred lines of that name: recall at 24 tokens, one seed",
        claims=claims,
        study="recall",
        figure=figure_in(figures, task, "exact_match"),
        tables=tables_of(task, "exact_match"),
    )


# Copy and reverse

REPLICATED = ("nope", "sinusoidal", "rope", "alibi")
"""The encodings of the replication; T5's bias and a learned table are ours besides."""


def copy_reverse(summary: Summary, figures: list[Figure]) -> Answer:
    """A replication of Kazemnejad et al. at small scale, and its five findings."""
    tasks = [task_like(summary, "exact_match", word) for word in ("copy", "reverse")]
    rows = [Rows(task) for task in tasks]
    copy, reverse = rows
    metric = "exact_match"

    def ranked(each: Rows, length: int) -> list[str]:
        there = [curve for curve in REPLICATED if each.at(curve, metric, length)]
        return sorted(there, key=lambda curve: -each.mean(curve, metric, length))

    def best(each: Rows, length: int) -> str:
        return next(iter(ranked(each, length)), "none")

    last = [(each, best(each, 24)) for each in rows]
    lowest = [next(reversed(ranked(each, 17)), "none") for each in rows]
    wins = [(each, n, best(each, n)) for each in rows for n in (18, 20)]
    needed = [each.at(curve, metric, n) for each, n, _ in wins for curve in REPLICATED]
    first = all(curve == "nope" for _, _, curve in wins)
    # Not first by its mean, and yet nowhere below the first by more than the intervals allow.
    unsettled = not first and all(
        overlap(e.at("nope", metric, n), e.at(c, metric, n)) for e, n, c in wins
    )
    alibi = [each.at("alibi", metric, 17) for each in rows]
    apart = (
        alibi[0] is not None
        and alibi[1] is not None
        and (alibi[0].low or 0.0) > (alibi[1].high or 0.0)
    )
    claims = (
        Claim(
            "No encoding generalizes far. Across 3 seeds, every model is at 0% exact match by "
            "length 24",
            "The best of the four at 24: "
            + "; ".join(f"on {e.task.label} {c} {e.told(c, metric, 24)}" for e, c in last)
            + ".",
            judged(
                all(f"{100 * each.mean(curve, metric, 24):.0f}" == "0" for each, curve in last),
                *(each.at(curve, metric, 24) for each in rows for curve in REPLICATED),
            ),
        ),
        Claim(
            "It [NoPE] is the best encoding on both tasks at n = 18–20",  # noqa: RUF001 - a quote
            "Best of the four: "
            + "; ".join(f"{e.task.label} at {n}, {c} {e.told(c, metric, n)}" for e, n, c in wins)
            + ".",
            None if unsettled else judged(first, *needed),
            settled=not unsettled,
        ),
        Claim(
            "RoPE breaks first: 100% at n = 16, then 25% on copy one token later",
            f"On copy, rope {copy.told('rope', metric, 16)} at 16 and "
            f"{copy.told('rope', metric, 17)} at 17; the lowest of the four at 17 is {lowest[0]} "
            f"on copy and {lowest[1]} on reverse.",
            judged(lowest[0] == "rope", *(copy.at(curve, metric, 17) for curve in REPLICATED)),
        ),
        Claim(
            "ALiBi depends on the task: the best encoding on copy at n = 17 (99%) but at 57% on "
            "reverse",
            f"At 17, alibi {copy.told('alibi', metric, 17)} on copy, where {best(copy, 17)} is the "
            f"best of the four, and {reverse.told('alibi', metric, 17)} on reverse.",
            judged(
                best(copy, 17) == "alibi" and apart,
                *alibi,
                *(copy.at(curve, metric, 17) for curve in REPLICATED),
            ),
        ),
        Claim(
            "Not tested here: T5's relative bias, the strongest explicit encoding in the paper",
            "Tested here: "
            + "; ".join(
                f"on {e.task.label} t5_bias {e.told('t5_bias', metric, 18)} at 18, nope "
                f"{e.told('nope', metric, 18)}"
                for e in rows
            )
            + ".",
            None,
        ),
    )
    return Answer(
        slug="copy-reverse",
        title="Who copies and reverses more than 16 symbols?",
        source="a small replication of Kazemnejad et al. 2023 (arXiv:2305.19466), three seeds",
        claims=claims,
        study="copy-reverse",
        figure=figure_in(figures, tasks[1], metric),
        tables=tuple(table for task in tasks for table in tables_of(task, metric)),
    )


# Loss against length


def length_curve(summary: Summary, figures: list[Figure]) -> Answer:
    """A page of four recorded runs trained at 64 tokens, and what it reads from them."""
    task = task_like(summary, "change", "text")
    rows, trained = Rows(task), task.trained_length
    longest = task.lengths("last_loss")[-1]
    start = [rows.mean(curve, "loss", trained) for curve in PUBLISHED_LOSS]
    spread = max(start) - min(start)
    theirs = [values[64] for values in PUBLISHED_LOSS.values()]
    rise = rows.mean("rope", "loss", longest) - rows.mean("rope", "loss", trained)

    def moved(curve: str) -> str:
        if rows.at(curve, "loss", longest) is None:
            return f"{curve} was not measured at {longest}"
        return (
            f"The mean over positions goes from {rows.mean(curve, 'loss', trained):.3f} at "
            f"{trained} to {rows.mean(curve, 'loss', longest):.3f} at {longest}; the loss of the "
            f"same last tokens changes by {rows.told(curve, 'change', longest)}"
        )

    alibi, rope, nope = (rows.at(curve, "change", longest) for curve in ("alibi", "rope", "nope"))
    claims = (
        Claim(
            "At the training length the four are close: "
            + ", ".join(f"{curve} {values[64]:.3f}" for curve, values in PUBLISHED_LOSS.items())
            + " nats",
            f"{spread:.3f} nats lie between the lowest and the highest of them here "
            f"({max(theirs) - min(theirs):.3f} there), and RoPE rises by {rise:.3f} up to "
            f"{longest}. Other text and another tokenizer: the levels do not compare."
            if all(map(isfinite, (*start, rise)))
            else "Not all four were measured here.",
            judged(
                spread < rise,
                *(rows.at(curve, "loss", trained) for curve in PUBLISHED_LOSS),
                rows.at("rope", "loss", longest),
            ),
        ),
        Claim(
            "ALiBi keeps improving as sequences lengthen … the behaviour of a model that can use "
            "context it never saw in training",
            f"{moved('alibi')}: below 0 it would use the longer context, at 0 it does without. The "
            "mean falls by itself, since early positions weigh less in a longer window.",
            judged(alibi is not None and (alibi.high or 0.0) < 0, alibi),
        ),
        Claim(
            "RoPE gets worse: 4.702 at 256 and 5.141 at 512",
            f"{moved('rope')}.",
            judged(rope is not None and (rope.low or 0.0) > 0, rope),
        ),
        Claim(
            "NoPE degrades too (4.864 at 512), more gently",
            f"{moved('nope')}.",
            judged(
                nope is not None
                and rope is not None
                and (nope.low or 0.0) > 0
                and (nope.high or 0.0) < (rope.low or 0.0),
                nope,
                rope,
            ),
        ),
        Claim(
            "Learned positions simply stop: there is no row 65",
            f"Every length past {trained} is recorded as past the limit of the learned table."
            if rows.past_limit("learned")
            else "learned was measured past its trained length, or not at all.",
            judged(rows.past_limit("learned"), rows.at("learned", task.reach_metric, trained)),
        ),
    )
    return Answer(
        slug="length-curve",
        title="Does more context help, or confuse?",
        source='"Beyond the Training Length", a page with one recorded run of each scheme',
        claims=claims,
        study="length-curve",
        figure=figure_in(figures, task, "change"),
        tables=tables_of(task, "change", "loss"),
    )


# Extending RoPE


def extension(summary: Summary, figures: list[Figure]) -> Answer:
    """A page that works out RoPE's frequencies and three fixes; here, worked out and measured."""
    spectrum, asked = Spectrum.rope(64, 10_000.0), Extension(2048, 8192)
    linear, ntk, yarn, coded = (
        effect(Repair.parse(name), spectrum, asked)
        for name in ("linear", "ntk", "yarn:ramp=turns", "yarn")
    )
    slow = int((spectrum.wavelengths > asked.trained_length).sum())
    aligned = decay(spectrum, range(asked.trained_length + 1))
    task = task_like(summary, "change", "text")
    rows, trained = Rows(task), task.trained_length
    longest = task.lengths("last_loss")[-1]
    changes = [row for row in task.changes if row.evaluation_length == longest and row.high]
    used = [row.curve for row in changes if (row.high or 0.0) < 0]
    nearest = min(changes, key=lambda row: row.mean or 0.0)
    four = 4 * trained
    ntk_worn = rows.at("rope + ntk", "change", four)
    claims = (
        Claim(
            "At d=64 and base 10000, the slowest wavelength is 47,117 tokens",
            f"{spectrum.wavelengths[-1]:,.0f} tokens.",
            f"{spectrum.wavelengths[-1]:,.0f}" == "47,117",
        ),
        Claim(
            "11 of 32 dimension pairs have a wavelength longer than a 2048-token window",
            f"{slow} of {spectrum.pairs}; {int(spectrum.unseen(asked).sum())} of them meet angles "
            f"at {asked.target_length:,} tokens that training never had.",
            (slow, spectrum.pairs) == (11, 32),
        ),
        Claim(
            "Position Interpolation … Local resolution kept: 25%",
            f"linear keeps {linear.local_resolution:.0%}.",
            f"{linear.local_resolution:.0%}" == "25%",
        ),
        Claim(
            "NTK-aware … 10000 → 41,829 at 4× … Local resolution kept: 100%",  # noqa: RUF001
            f"ntk comes to a base of {ntk.base or 0.0:,.0f} and keeps {ntk.local_resolution:.0%}.",
            f"{ntk.base or 0.0:,.0f}" == "41,829" and f"{ntk.local_resolution:.0%}" == "100%",
        ),
        Claim(
            "YaRN … 9 untouched, 12 ramped, 11 fully interpolated",
            f"Blended over turns, as in the paper: {yarn.untouched}, {yarn.ramped} and "
            f"{yarn.interpolated}. As deployed, blended over the pair's index: {coded.untouched}, "
            f"{coded.ramped} and {coded.interpolated}.",
            (yarn.untouched, yarn.ramped, yarn.interpolated) == (9, 12, 11),
        ),
        Claim(
            "the curve peaks at distance 0 and falls away, as it should",
            f"It is 1 at 0 and lowest ({aligned.min():.3f}) at {int(aligned.argmin()):,}, and at "
            f"{asked.trained_length:,} it is {aligned[-1]:.3f}: it falls, and swings back.",
            bool(aligned.argmax() == 0),
        ),
        Claim(
            "NTK-aware … Often needs no finetuning",
            f"In our small models at 4 times the trained length ({four}), the loss of the same "
            f"last tokens changes by {rows.told('rope', 'change', four)} as they are, "
            f"{rows.told('rope + ntk', 'change', four)} under ntk, and "
            f"{rows.told('rope + ntk + fine-tune', 'change_after_training', four)} under ntk after "
            f"a brief fine-tune; {REACH_NATS} is what reach allows.",
            judged(ntk_worn is not None and (ntk_worn.mean or 0.0) <= REACH_NATS, ntk_worn),
        ),
        Claim(
            "Extending the context and using the context are different problems",
            f"At {longest} tokens "
            + (f"{', '.join(used)} gain from" if used else "no repair and no training gains from")
            + f" the longer context; the nearest is {nearest.curve}, "
            f"{rows.told(nearest.curve, nearest.metric, longest)} against {trained}.",
            not used,
        ),
    )
    return Answer(
        slug="extension",
        title="What does it take to go further?",
        source="a page on extending RoPE that works the numbers out in the browser",
        claims=claims,
        study="extension",
        figure=figure_in(figures, task, "change_after_training")
        or figure_in(figures, task, "change"),
        tables=tables_of(task, "change", "change_after_training"),
    )


QUESTIONS: dict[str, tuple[str, Callable[[Summary, list[Figure]], Answer]]] = {
    "recall": ("exact_match", recall),
    "copy-reverse": ("exact_match", copy_reverse),
    "length-curve": ("change", length_curve),
    "extension": ("change", extension),
}
"""By the study that answers it: the metric that it must have, and what makes the answer."""
