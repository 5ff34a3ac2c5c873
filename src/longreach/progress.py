"""How a running study shows itself: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

LINE_SECONDS = 20.0
"""Without a terminal, a line at most so often."""


def minutes(seconds: float) -> str:
    """A time as one says it.

    >>> minutes(42), minutes(200), minutes(7300)
    ('42 s', '3 min 20 s', '2 h 1 min')
    """
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Lines:
    """Plain lines on standard error: runs finished, and how far all steps are.

    runs, steps: what to call them.
    """

    def __init__(self, runs: str = "runs", steps: str = "steps") -> None:
        self.run_noun, self.step_noun = runs, steps

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Says what there is to do."""
        self.runs, self.finished, self.steps, self.done = runs, finished, steps, 0
        self.began = self.spoke = time.monotonic()
        there = f"{runs} {self.run_noun}, {finished} of them there already"
        print(there, file=sys.stderr, flush=True)

    def advance(self, steps: int) -> None:
        """Now and then, a line with an estimate."""
        self.done += steps
        now = time.monotonic()
        if now - self.spoke > LINE_SECONDS and self.done:
            self.spoke = now
            left = (now - self.began) * (self.steps - self.done) / self.done
            print(
                f"{self.done / self.steps:4.0%} of {self.steps:,} {self.step_noun}, "
                f"{self.finished} of {self.runs} {self.run_noun}, about {minutes(left)} left",
                file=sys.stderr,
                flush=True,
            )

    def finish(self, label: str) -> None:
        """A line for each run."""
        self.finished += 1
        print(f"finished {self.finished} of {self.runs}: {label}", file=sys.stderr, flush=True)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to tidy up."""


class Bars:
    """Two live bars on the terminal: runs, and training steps with an estimate.

    runs, steps: what to call them.
    """

    def __init__(self, console: Console, runs: str = "runs", steps: str = "steps") -> None:
        self.run_noun, self.step_noun = runs, steps
        self.bars = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )

    def start(self, *, runs: int, finished: int, steps: int) -> None:
        """Sets both bars up."""
        self.runs = self.bars.add_task(self.run_noun, total=runs, completed=finished)
        self.steps = self.bars.add_task(self.step_noun, total=max(steps, 1))

    def advance(self, steps: int) -> None:
        """Moves the lower bar."""
        self.bars.advance(self.steps, steps)

    def finish(self, label: str) -> None:
        """Moves the upper bar, with a line above."""
        self.bars.console.print(f"[dim]finished[/dim] {label}", highlight=False)
        self.bars.advance(self.runs)

    def __enter__(self) -> Bars:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()


def display(runs: str = "runs", steps: str = "steps") -> Bars | Lines:
    """What fits where standard error goes. runs, steps: what to call what is counted."""
    console = Console(stderr=True)
    return Bars(console, runs, steps) if console.is_terminal else Lines(runs, steps)
