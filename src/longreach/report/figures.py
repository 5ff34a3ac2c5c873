"""Which figures a report has, what each says, and their files: one definition, three forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from longreach.results import FINE_TUNE

from . import depths, endings, ranking, ranking_charts
from .aggregate import Aggregate
from .charts import chart
from .lengths import chosen
from .metrics import Metric, metric_of
from .picture import Picture, line, place
from .sheet import as_csv
from .summarise import REACH_NATS, Summary, Task
from .theme import THEMES
from .training_loss import training_loss

CSV_COLUMNS = (
    "scheme", "repair", "evaluation_length", "first_position", "last_position", "mean", "sd",
    "low", "high", "least", "most", "seeds", "count", "status",
)  # fmt: skip

ACROSS = "across tasks"
"""What stands in place of a task where a figure is about them all."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure.

    name: of its files, and its anchor in the page. caption: how to read it. description: what it
    shows, in words, for who cannot see it. spec: Vega-Lite. data: the numbers behind it, as CSV.
    """

    name: str
    task: str
    metric: str
    title: str
    caption: str
    description: str
    spec: dict[str, Any]
    data: str
    svg: str = field(default="", repr=False)
    png: bytes = field(default=b"", repr=False)

    @property
    def described(self) -> dict[str, Any]:
        """The spec with the description, which becomes the label of the drawing."""
        return self.spec | {"description": self.description}


def figures(summary: Summary) -> list[Figure]:
    """All figures: those across tasks, then task by task; the training losses last."""
    found = ranking_figures(summary)
    found += [
        figure_of(summary, task, metric)
        for task in summary.tasks
        for metric in task.metrics
        if metric_of(metric).figure
        and (metric == endings.NAME or any(row.mean is not None for row in task.of(metric)))
    ]
    found += [
        training_figure(summary, task, points)
        for task in summary.tasks
        if (points := training_loss(task))
    ]
    names = [figure.name for figure in found]
    return [  # labels that differ in their brackets alone could give the same file name
        replace(figure, name=f"{figure.name}-{index}") if names.count(figure.name) > 1 else figure
        for index, figure in enumerate(found)
    ]


def draw(figure: Figure) -> Figure:
    """The figure with its SVG and PNG."""
    import vl_convert

    svg = svg_of(figure)
    return replace(figure, svg=svg, png=vl_convert.svg_to_png(svg, scale=2))


def svg_of(figure: Figure, look: str = "light") -> str:
    """The drawing on one of the papers of THEMES."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    svg = vl_convert.vegalite_to_svg(figure.spec, vl_version=version, config=THEMES[look])
    return labelled(fewer_digits(svg), figure.name, figure.description)


def fewer_digits(svg: str) -> str:
    """The drawing with places to a hundredth of a pixel: a third of it would be digits else.

    >>> fewer_digits('<path d="M0.123456,7.5L8e-15,3.999"/><text>0.0001</text>')
    '<path d="M0.12,7.5L8e-15,3.99"/><text>0.0001</text>'
    """
    return re.sub(
        r'(?<= d=")[^"]*|(?<= transform=")[^"]*',
        lambda found: re.sub(r"(\.\d\d)\d+(?!\d*e)", r"\1", found[0]),
        svg,
    )


def labelled(svg: str, name: str, description: str) -> str:
    """The drawing with its description, and with ids of its own.

    The renderer numbers its ids on from drawing to drawing: two reports of the same rows would
    differ, and drawings of different reports could not stand in one page.
    """
    found = dict.fromkeys(re.findall(r'\bid="([^"]+)"', svg))
    for number, old in enumerate(found):
        new = f"{name}-{number}"
        svg = svg.replace(f'id="{old}"', f'id="{new}"').replace(f"url(#{old})", f"url(#{new})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def ranking_figures(summary: Summary) -> list[Figure]:
    """How schemes rank across tasks, and the scores behind it; none if the tasks are too few."""
    tasks = ranking.ranked_tasks(summary)
    if not tasks:
        return []
    ranked = ranking.ranking(tasks, summary.curves)
    past = ranking.past_trained(tasks)
    found = []
    if ranked:
        told = "; ".join(f"{r.curve} {r.mean:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in ranked)
        columns = ("curve", "mean", "low", "high", "slighted", "favoured", "queries")
        found.append(
            Figure(
                name=slug(f"across-tasks-{ranking.RANKS}"),
                task=ACROSS,
                metric=ranking.RANKS,
                title="Mean reciprocal rank past the trained length",
                caption=ranking.RANKS_READING,
                description=f"Dots with intervals, mean reciprocal rank over tasks: {told}.",
                spec=ranking_charts.ranks_chart(ranked, summary.curves),
                data=as_csv(columns, ([getattr(r, key) for key in columns] for r in ranked)),
            )
        )
    said = []
    for task in tasks:
        mine = [f"{p.curve} {p.mean:.1%}" for p in past if p.task == task.label]
        said.append(f"{task.label}: {', '.join(mine)}")
    columns = ("task", "curve", "mean", "least", "most", "seeds", "chance")
    found.append(
        Figure(
            name=slug(f"across-tasks-{ranking.SCORES}"),
            task=ACROSS,
            metric=ranking.SCORES,
            title="Exact match past the trained length",
            caption=ranking.SCORES_READING,
            description="Table in shades of exact match past the trained length. "
            + "; ".join(said),
            spec=ranking_charts.scores_chart(past, summary.curves),
            data=as_csv(columns, ([getattr(p, key) for key in columns] for p in past)),
        )
    )
    return found


def figure_of(summary: Summary, task: Task, metric: str) -> Figure:
    """That of one metric of a task."""
    if metric == endings.NAME:
        return endings_figure(task)
    if metric.endswith(depths.SUFFIX):
        return depth_figure(task, metric)
    return score_figure(summary, task, metric)


def score_figure(summary: Summary, task: Task, name: str) -> Figure:
    """One metric against length, or against position in the longest window."""
    metric = metric_of(name)
    rows = task.of(name)
    by_position = name == "loss_by_position"
    longest = max(row.evaluation_length for row in rows)
    known = {
        "last": rows[0].last_position - rows[0].first_position + 1,
        "longest": longest,
        "trained": task.trained_length,
        "tolerance": REACH_NATS,
    }
    lines = [line(row, by_position=by_position) for row in rows if row.mean is not None]
    picture = Picture(
        curves=slots(summary.curves, {str(point["curve"]) for point in lines}),
        lines=lines,
        ends=ends(rows, by_position=by_position),
        references=references(task, name),
        rules={"no change": 0.0, "tolerance": REACH_NATS} if metric.paired else {},
        x=f"position in the window ({task.unit} before it)"
        if by_position
        else f"evaluation length ({task.unit})",
        y=metric.axis.format(**known),
        ticks=powers_of_two(longest) if by_position else task.ticks,
        linear=task.dense and not by_position,
        trained_length=task.trained_length,
        bounds=(0.0, 1.0) if metric.percent else None,
    )
    return Figure(
        name=slug(f"{task.label}-{name}"),
        task=task.label,
        metric=name,
        title=f"{metric.title}: {task.label}",
        caption=caption(metric.reading.format(**known), picture),
        description=describe(task, metric, rows),
        spec=chart(picture),
        data=as_csv(CSV_COLUMNS, ([getattr(row, key) for key in CSV_COLUMNS] for row in rows)),
    )


def slots(curves: list[str], shown: set[str]) -> list[str]:
    """The curves in the order that gives each its look, the same from figure to figure.

    A model that was trained under a repair looks like the one that wears it, where only one of the
    two is shown.

    >>> slots(["rope", "rope + yarn", "rope + yarn + fine-tune", "alibi"], {"rope", "alibi"})
    ['rope', 'rope + yarn', 'alibi']
    >>> slots(["rope", "rope + yarn", "rope + yarn + fine-tune"], {"rope + yarn + fine-tune"})
    ['rope', 'rope + yarn + fine-tune']
    """
    twins = {}
    for curve in curves:
        worn = curve.removesuffix(f" + {FINE_TUNE}")
        if worn != curve and " + " in worn and worn in curves:
            twins[curve] = worn
    found = [curve for curve in curves if curve not in twins]
    for curve, worn in twins.items():
        if curve in shown and worn in shown:
            found.append(curve)
        elif curve in shown:
            found[found.index(worn)] = curve
    return found


def depth_figure(task: Task, name: str) -> Figure:
    """One metric by depth and length, a panel for each scheme and repair."""
    metric = metric_of(name)
    rows = depths.rows_of(task, name)
    columns = ("depth", *CSV_COLUMNS)
    return Figure(
        name=slug(f"{task.label}-{name}"),
        task=task.label,
        metric=name,
        title=f"{metric.title}: {task.label}",
        caption=f"{depths.reading(task, name)} Intervals are in the table.",
        description=depths.describe(task, name),
        spec=depths.chart(task, name),
        data=as_csv(
            columns,
            ([task.depth(row), *(getattr(row, key) for key in CSV_COLUMNS)] for row in rows),
        ),
    )


def endings_figure(task: Task) -> Figure:
    """What became of the answers, scheme by scheme."""
    metric = metric_of(endings.NAME)
    rows = endings.rows_of(task)
    columns = ("metric", *CSV_COLUMNS)
    return Figure(
        name=slug(f"{task.label}-{endings.NAME}"),
        task=task.label,
        metric=endings.NAME,
        title=f"{metric.title}: {task.label}",
        caption=metric.reading,
        description=endings.describe(task, few(task.lengths("exact_match"), task.trained_length)),
        spec=endings.chart(task),
        data=as_csv(columns, ([getattr(row, key) for key in columns] for row in rows)),
    )


def few(lengths: list[int], trained_length: int) -> list[int]:
    """The lengths that a description in words names: the trained one and some past it."""
    return [n for n in chosen(lengths, trained_length, most=5) if n >= trained_length]


def ends(rows: Iterable[Aggregate], *, by_position: bool) -> dict[str, float | None]:
    """Where the line of a curve ends for want of positions; None if nothing was measured."""
    found: dict[str, float | None] = {}
    rows = list(rows)
    for curve in dict.fromkeys(row.curve for row in rows if row.mean is None):
        drawn = [r for r in rows if r.curve == curve and r.mean is not None]
        found[curve] = max((place(r, by_position=by_position) for r in drawn), default=None)
    return found


def references(task: Task, name: str) -> dict[str, dict[float, float]]:
    """Named grey lines. Nothing is below a loss of 0, which is not worth a line."""
    metric = metric_of(name)
    if metric.percent:
        return {which: as_places(values) for which, values in task.bounds(name).items()}
    if name == "loss_by_position" and (control := task.of("control_by_position")):
        # Where the two part; up to the trained length they are one.
        beyond = [row for row in control if row.last_position >= task.trained_length]
        points = {place(row, by_position=True): row.mean for row in beyond}
        return {"control": {x: mean for x, mean in points.items() if mean is not None}}
    return {"chance": as_places(task.chance)} if metric.axis.startswith("loss") else {}


def as_places(values: Mapping[int, float]) -> dict[float, float]:
    """Values by length, as values by place on the axis."""
    return {float(length): value for length, value in values.items()}


def powers_of_two(longest: int) -> list[int]:
    """Every other one, so that there is room for them on a phone, up to the highest.

    >>> powers_of_two(512)
    [2, 8, 32, 128, 512]
    """
    highest = longest.bit_length() - 1
    return [2**power for power in range(highest % 2, highest + 1, 2)]


def caption(reading: str, picture: Picture) -> str:
    """How to read the figure, and all that it does not show."""
    rule = "" if picture.rule_at is None else "; dashed rule: trained length"
    said = [
        reading,
        f"Lines: means over seeds; bands: 95% intervals{rule}"
        + ("." if picture.linear else "; the horizontal axis is in powers of two."),
    ]
    for curve, end in picture.ends.items():
        if end is None:
            said.append(f"{curve} has no line: none of these positions is within its limit.")
        else:
            said.append(f"{curve} ends at the cross: it has no positions further on.")
    for curve, most in picture.cut.items():
        said.append(
            f"The axis stops at {picture.domain[1]:.2f} so that the other lines stay readable; "
            f"{curve} rises past it, to {most:.2f}."
        )
    return " ".join(said)


def describe(task: Task, metric: Metric, rows: list[Aggregate]) -> str:
    """Each curve's first and last number."""
    said = []
    for curve in task.curves:
        mine = sorted(
            (row for row in rows if row.curve == curve),
            key=lambda row: (row.evaluation_length, row.last_position),
        )
        drawn = [row for row in mine if row.mean is not None]
        if not drawn:
            said.append(f"{curve}: nothing within its limit")
            continue
        ended = ", where it ends" if len(drawn) < len(mine) else ""
        said.append(f"{curve}: {told(metric, drawn[0])} to {told(metric, drawn[-1])}{ended}")
    return f"Line chart of {metric.title.lower()} ({metric.unit}), {task.label}. " + "; ".join(said)


def told(metric: Metric, row: Aggregate) -> str:
    """A number and where it was measured."""
    by_position = row.metric == "loss_by_position"
    where = row.last_position if by_position else row.evaluation_length
    shown = metric.signed if metric.paired else metric.cell
    return f"{shown(row.mean or 0.0)} at {where}"


def training_figure(summary: Summary, task: Task, points: list[dict[str, Any]]) -> Figure:
    """Training loss against step."""
    last = {str(point["curve"]): float(point["mean"]) for point in points}
    return Figure(
        name=slug(f"{task.label}-training-loss"),
        task=task.label,
        metric="training_loss",
        title=f"Training loss: {task.label}",
        caption="Loss on the training batches, averaged over stretches of steps; lines are means "
        "over seeds, bands reach from the lowest to the highest seed. A scheme that has not "
        "learned its task here says nothing about reach.",
        description=f"Line chart of the training loss, {task.label}. At the end: "
        + "; ".join(f"{curve} {loss:.3f}" for curve, loss in last.items()),
        spec=chart(
            Picture(
                curves=slots(summary.curves, {str(point["curve"]) for point in points}),
                lines=points,
                x="training step",
                y="training loss (nats per token)",
                linear=True,
            )
        ),
        data=as_csv(
            ("scheme", "step", "mean", "lowest", "highest", "seeds"),
            ([p[key] for key in ("curve", "x", "mean", "low", "high", "seeds")] for p in points),
        ),
    )


def slug(label: str) -> str:
    """A label as part of a file name.

    >>> slug("recall(keys=unique)-exact_match")
    'recall-keys-unique-exact-match'
    """
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
