"""What a report says about each metric: its name, unit, direction, and how to read its figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How one metric is told.

    title: heading. axis: label of the y axis. unit: of a table's cells. percent: cells in percent.
    decimals: in tables. lower_is_better. figure: drawn, or in a table only. reading: what the
    figure shows and how it misleads; {last} is the number of last tokens, {longest} the longest
    window.
    """

    title: str
    axis: str
    unit: str
    reading: str
    decimals: int = 3
    percent: bool = False
    lower_is_better: bool = True
    figure: bool = True

    def cell(self, value: float) -> str:
        """A number as tables show it."""
        return f"{100 * value if self.percent else value:.{self.decimals}f}"

    def signed(self, value: float) -> str:
        """A difference as tables show it."""
        return f"{100 * value if self.percent else value:+.{self.decimals}f}"


METRICS = {
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
    "loss": Metric(
        title="Mean loss over positions",
        axis="loss (nats per token)",
        unit="nats per token",
        reading="Read with care: the mean over all positions of a window falls with length even "
        "for a model that ignores long context, because the first positions, which have little to "
        "go by, weigh less in a longer window. Loss by position, and the loss of the same last "
        "tokens, do not have this flaw.",
    ),
    "loss_by_position": Metric(
        title="Loss by position",
        axis="loss (nats per token)",
        unit="nats per token",
        reading="Loss at each position of windows of {longest} tokens, averaged over ranges of "
        "positions; a point stands at the middle of its range. A scheme that reaches keeps "
        "falling, or stays level, to the right of the trained length.",
    ),
    "last_loss": Metric(
        title="Loss of the same last tokens",
        axis="loss (nats per token)",
        unit="nats per token",
        reading="Every point scores the same last {last} tokens of the same documents; only the "
        "context before them grows. A falling line uses the longer context, a level one does "
        "without it, a rising one is harmed by it.",
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
