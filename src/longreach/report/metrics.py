"""What a report says about each metric: its name, unit, direction, and how to read its figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How one metric is told.

    title: heading. axis: label of the y axis. unit: of a table's cells. percent: cells in percent.
    decimals: in tables. lower_is_better. paired: a difference, told with its sign and interval.
    figure, table: whether there is one. reading: what the figure shows and how it misleads; in it
    and in axis, {last} is the number of last tokens, {longest} the longest window, {trained} the
    trained length and {tolerance} that of reach.
    """

    title: str
    axis: str
    unit: str
    reading: str
    decimals: int = 3
    percent: bool = False
    lower_is_better: bool = True
    paired: bool = False
    figure: bool = True
    table: bool = True

    def cell(self, value: float) -> str:
        """A number as tables show it."""
        return f"{100 * value if self.percent else value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference as tables show it."""
        return f"{100 * value if self.percent else value:+.{self.decimals}f}"

    def with_interval(self, mean: float, low: float, high: float) -> str:
        """A difference and its interval.

        >>> METRICS["change"].with_interval(0.015, -0.003, 0.028)
        '+0.015 [-0.003, 0.028]'
        """
        return f"{self.signed(mean)} [{self.cell(low)}, {self.cell(high)}]"


METRICS = {  # in the order of a report
    "exact_match": Metric(
        title="Exact match",
        axis="exact match (fraction)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="The fraction of sequences answered wholly right. The grey lines are the best that "
        "any model can score at that length (ceiling) and what guessing scores (chance).",
    ),
    "change": Metric(
        title="Change against the trained length",
        axis="change of loss of the same last {last} tokens\n(nats per token)",
        unit="nats per token",
        paired=True,
        reading="The loss of the same last {last} tokens at each evaluation length, minus that at "
        "the trained length of {trained}. Above the solid line a scheme does worse than at the "
        "trained length, below it better. Paired by seed and by document, so that how much "
        "documents differ does not widen the bands. Reach ends where a run passes the dotted "
        "tolerance of +{tolerance} nats. Which scheme has the lowest loss is another question: see "
        "the next figure.",
    ),
    "last_loss": Metric(
        title="Loss of the same last tokens",
        axis="loss (nats per token)",
        unit="nats per token",
        reading="Every point scores the same last {last} tokens of the same documents; only the "
        "context before them grows. A falling line uses the longer context, a level one does "
        "without it, a rising one is harmed by it. The bands are wide because documents differ; "
        "all schemes and lengths share these documents, so bands that overlap do not mean that "
        "nothing differs.",
    ),
    "loss_by_position": Metric(
        title="Loss by position",
        axis="loss (nats per token)",
        unit="nats per token",
        table=False,
        reading="Loss at each position of windows of {longest} tokens, averaged over ranges of "
        "positions; a point stands at the middle of its range. A scheme that reaches keeps "
        "falling, or stays level, to the right of the trained length.",
    ),
    "loss": Metric(
        title="Mean loss over positions",
        axis="loss (nats per token)",
        unit="nats per token",
        reading="Read with care: the mean over all positions of a window falls with length even "
        "for a model that ignores long context, because the first positions, which have little to "
        "go by, weigh less in a longer window. Loss by position, and the loss of the same last "
        "tokens, do not have this flaw.",
    ),
    "bits_per_byte": Metric(
        title="Bits per byte",
        axis="bits per byte",
        unit="bits",
        figure=False,
        reading="The mean loss over positions in bits per byte of text, which can be compared "
        "between tokenizers. It falls with length for the same reason as the mean loss does.",
    ),
}


def metric_of(name: str) -> Metric:
    """A metric by its name in rows; one that is not listed is shown under that name."""
    plain = name.replace("_", " ")
    return METRICS.get(name) or Metric(title=plain.capitalize(), axis=plain, unit=plain, reading="")
