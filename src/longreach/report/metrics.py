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
    "exact_match_by_depth": Metric(
        title="Exact match by depth",
        axis="exact match (%)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="The fraction of needles found, by where they are hidden (down: 0% is before all "
        "text, 100% right before the question) and how long the whole prompt is (across). Found "
        "means that greedy decoding writes the answer.",
    ),
    "choice": Metric(
        title="Choice among answers",
        axis="right choices (fraction)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="The fraction of needles whose answer the model holds more likely than the other "
        "answers that it could have been. It asks less than exact match: a model that knows the "
        "answer and would rather write something else is right here and wrong there. The grey "
        "lines are the best that any model can score (ceiling) and what guessing scores (chance).",
    ),
    "choice_by_depth": Metric(
        title="Choice among answers by depth",
        axis="right choices (%)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="The fraction of needles whose answer the model holds more likely than the other "
        "answers, by where they are hidden (down: 0% is before all text, 100% right before the "
        "question) and how long the whole prompt is (across). Guessing scores {chance}%.",
    ),
    "endings": Metric(
        title="How answers end",
        axis="",
        unit="%",
        table=False,
        reading="What became of the answers at each length, over all seeds, each strip of full "
        "height standing for all of them. An answer that is not right is told by its first "
        "mistake, as greedy decoding makes it: a wrong symbol, an end before its time, or no end "
        "when it is due. A scheme that loses count of positions ends at the wrong place; one that "
        "loses the content writes wrong symbols.",
    ),
    "exact_match_without_end": Metric(
        title="Exact match without the end token",
        axis="exact match without the end token (fraction)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        figure=False,
        reading="The fraction of sequences whose every symbol is right under the true prefix, "
        "whatever the model writes where the end is due. Exact match is lower by the answers that "
        "do not end there.",
    ),
    "end_too_early": Metric(
        title="Ends too early",
        axis="answers that end too early (fraction)",
        unit="% of sequences",
        decimals=1,
        percent=True,
        figure=False,
        reading="The fraction of sequences whose first mistake is an end token before the answer "
        "is whole.",
    ),
    "end_too_late": Metric(
        title="Ends too late",
        axis="answers that end too late (fraction)",
        unit="% of sequences",
        decimals=1,
        percent=True,
        figure=False,
        reading="The fraction of sequences with every symbol right whose end token does not come "
        "when it is due.",
    ),
    "token_accuracy": Metric(
        title="Token accuracy",
        axis="token accuracy (fraction)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="The mean share of an answer's tokens, its end included, that are right under the "
        "true prefix. Read with care: the model is shown the right answer so far, which it would "
        "not have when writing on its own, and one token more or less right moves exact match by "
        "far more.",
    ),
    "excess": Metric(
        title="Loss over the control",
        axis="loss over the control, last {last} tokens\n(nats per token)",
        unit="nats per token",
        paired=True,
        reading="The loss of the last {last} tokens up to each evaluation length, minus that of "
        "the same tokens in the control: the model as it is, with no more than its trained length "
        "of {trained} before them. Past the trained length, what stands above the solid line is "
        "harm done by the length, whatever passage lies there; up to it, it is what a repair "
        "costs. Paired by document. Reach ends where a line passes the dotted tolerance of "
        "+{tolerance} nats.",
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
    "change_after_training": Metric(
        title="Change against the trained length, after training for each",
        axis="change of loss of the same last {last} tokens\n(nats per token)",
        unit="nats per token",
        paired=True,
        reading="The same, where every point is a model of its own: one that was trained on for "
        "the evaluation length, briefly and perhaps under a repair, or from the start. The solid "
        "line is the loss at the trained length of {trained} of the model that was not. Models as "
        "they were trained are drawn again, to compare with.",
    ),
    "cost": Metric(
        title="Cost at the trained length",
        axis="loss of the last {last} tokens at {trained}\n"
        "over the model as it is (nats per token)",
        unit="nats per token",
        paired=True,
        reading="What it costs on short text to be set for a longer one: the loss of the last "
        "{last} tokens at the trained length of {trained}, in a model that wears the repair as it "
        "is set for the evaluation length, minus that of the model as it is. The dotted line is "
        "the tolerance of reach, +{tolerance} nats.",
    ),
    "cost_after_training": Metric(
        title="Cost at the trained length, after training for each",
        axis="loss of the last {last} tokens at {trained}\n"
        "over the model as it is (nats per token)",
        unit="nats per token",
        paired=True,
        reading="The same, of the models that were trained for the evaluation length.",
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
    "short_loss": Metric(
        title="Loss at the trained length",
        axis="loss (nats per token)",
        unit="nats per token",
        figure=False,
        table=False,
        reading="",
    ),
    "short_exact_match": Metric(
        title="Exact match at the trained length",
        axis="exact match (fraction)",
        unit="%",
        decimals=1,
        percent=True,
        lower_is_better=False,
        reading="What becomes of the sequences of the trained length in a model that is made or "
        "set for the evaluation length.",
    ),
    "end_loss": Metric(
        title="Loss of the last tokens",
        axis="loss (nats per token)",
        unit="nats per token",
        figure=False,
        reading="The loss of the last tokens up to each evaluation length, which are other tokens "
        "at each: a hard passage looks like harm. The loss over the control does not have this "
        "flaw.",
    ),
    "control_loss": Metric(
        title="Loss of the control",
        axis="loss (nats per token)",
        unit="nats per token",
        figure=False,
        reading="The loss of the last tokens up to each evaluation length in the model as it is, "
        "seen with no more than its trained length before them.",
    ),
    "loss_by_position": Metric(
        title="Loss by position",
        axis="loss (nats per token)",
        unit="nats per token",
        table=False,
        reading="Loss at each position of windows of {longest} tokens, averaged over ranges of "
        "positions; a point stands at the middle of its range. A scheme that reaches keeps "
        "falling, or stays level, to the right of the trained length. Where there is a grey line, "
        "it is the control: the same tokens, with no more than the trained length before them.",
    ),
    "control_by_position": Metric(
        title="Loss of the control by position",
        axis="loss (nats per token)",
        unit="nats per token",
        figure=False,
        table=False,
        reading="",
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
