"""The frame that most tasks share: `<bos> prompt <sep> answer <eos>`, answer and <eos> scored.

Where sequences of one length differ in tokens, they are padded on the right to the longest of the
batch. A causal model cannot see what follows, and padding is never scored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from string import ascii_lowercase
from typing import get_args

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import InputError
from ..table import nearest
from .base import NOWHERE, Batch, Task

PAD, BOS, SEP, EOS = range(4)

FIRST = 4
"""The first id that is a task's own."""

DIGITS = tuple("0123456789")


class Framed(Task):
    """A task whose sequences are `<bos> prompt <sep> answer <eos>`, with one <sep> in each.

    Prompt and answer can thus be told apart by the tokens alone: an encoder-decoder reads the one
    and writes the other.
    """

    @abstractmethod
    def parts(self, length: int) -> tuple[int, int]:
        """Tokens of the longest prompt and of the longest answer of that length."""

    def total(self, length: int) -> int:
        """Both parts and their frame: where the longest ones can stand together."""
        return sum(self.parts(length)) + 3


def words(*own: str) -> tuple[str, ...]:
    """The printed forms of a task's tokens: those of the frame, then its own.

    >>> words("a", "b")
    ('<pad>', '<bos>', '<sep>', '<eos>', 'a', 'b')
    """
    return ("<pad>", "<bos>", "<sep>", "<eos>", *own)


def letters(count: int) -> list[str]:
    """So many different names: a to z, then aa, ab and so on, as a spreadsheet's columns.

    >>> letters(3), letters(28)[-3:]
    (['a', 'b', 'c'], ['z', 'aa', 'ab'])
    """
    names: list[str] = []
    stems = [""]
    while len(names) < count:
        stems = [stem + letter for stem in stems for letter in ascii_lowercase]
        names += stems
    return names[:count]


def framed(prompt: Int[Tensor, "count prompt"], answer: Int[Tensor, "count answer"]) -> Batch:
    """Sequences of prompts and answers that all have the same length.

    >>> framed(torch.tensor([[5, 6]]), torch.tensor([[6, 5]])).tokens.tolist()
    [[1, 5, 6, 2, 6, 5, 3]]
    """
    count = len(prompt)
    edges = [torch.full((count, 1), edge) for edge in (BOS, SEP, EOS)]
    tokens = torch.cat([edges[0], prompt, edges[1], answer, edges[2]], dim=1)
    scored = torch.zeros_like(tokens, dtype=torch.bool)
    scored[:, prompt.shape[1] + 2 :] = True
    return Batch(tokens, scored)


def closed_up(batch: Batch) -> Batch:
    """The batch with PAD, wherever it stood, moved to the end of its row, and as narrow as can be.

    So a number of fewer digits is written with PAD for each digit it lacks, in all rows alike.

    >>> holes = Batch(torch.tensor([[1, 0, 5], [1, 4, 0]]), torch.tensor([[False, True, True]] * 2))
    >>> closed = closed_up(holes)
    >>> closed.tokens.tolist(), closed.scored.tolist()
    ([[1, 5], [1, 4]], [[False, True], [False, True]])
    """
    padding = batch.tokens == PAD
    width = int((~padding).sum(1).max())
    order = padding.byte().argsort(dim=1, stable=True)[:, :width]
    tokens = batch.tokens.gather(1, order)
    return Batch(tokens, batch.scored.gather(1, order) & (tokens != PAD))


def from_rows(rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Batch:
    """Sequences of prompts and answers of any lengths.

    >>> from_rows([([5], [6, 6]), ([5, 5], [6])]).tokens.tolist()
    [[1, 5, 2, 6, 6, 3], [1, 5, 5, 2, 6, 3]]
    """
    width = max(len(prompt) + len(answer) for prompt, answer in rows) + 3
    tokens, scored = [], []
    for prompt, answer in rows:
        padding = width - len(prompt) - len(answer) - 3
        tokens.append([BOS, *prompt, SEP, *answer, EOS] + [PAD] * padding)
        unscored = [False] * (len(prompt) + 2)
        scored.append(unscored + [True] * (len(answer) + 1) + [False] * padding)
    return Batch(torch.tensor(tokens), torch.tensor(scored))


def past_separator(batch: Batch) -> tuple[Int[Tensor, "batch 1"], Int[Tensor, "batch time"]]:
    """Where each row's separator stands, and every place counted from there.

    >>> past_separator(framed(torch.tensor([[5, 6]]), torch.tensor([[6, 5]])))[1].tolist()
    [[-3, -2, -1, 0, 1, 2, 3]]
    """
    separator = (batch.tokens == SEP).byte().argmax(1, keepdim=True)
    return separator, torch.arange(batch.tokens.shape[1]) - separator


def first_held(batch: Batch) -> Int[Tensor, "batch time"]:
    """The first place that holds the same token, for each scored one; NOWHERE if it is the first.

    >>> first_held(framed(torch.tensor([[5, 6]]), torch.tensor([[6, 5]]))).tolist()
    [[-1, -1, -1, -1, 2, 1, -1]]
    """
    tokens = batch.tokens
    place = (tokens[:, :, None] == tokens[:, None, :]).byte().argmax(2)
    earlier = place < torch.arange(tokens.shape[1])
    return torch.where(batch.scored & earlier, place, NOWHERE)


def shuffled(count: int, size: int, generator: torch.Generator) -> Int[Tensor, "count size"]:
    """A random order of 0 to size - 1 in each row."""
    drawn = torch.rand(count, size, generator=generator, dtype=torch.float64)
    return drawn.argsort(dim=1, stable=True)


def at_least(task: str, option: str, value: int, least: int) -> None:
    """Raises InputError if an option is too small.

    >>> at_least("copy", "symbols", 1, 2)
    Traceback (most recent call last):
    longreach.errors.InputError: copy: symbols must be at least 2, got 1
    """
    if value < least:
        raise InputError(f"{task}: {option} must be at least {least}, got {value}")


def one_of(task: str, option: str, value: str, choices: object) -> None:
    """Raises InputError if an option is none of the values of a Literal.

    >>> from typing import Literal
    >>> one_of("copy", "form", "plan", Literal["plain", "doubled"])
    Traceback (most recent call last):
    longreach.errors.InputError: copy: form cannot be 'plan'; did you mean 'plain'?
    """
    known = get_args(choices)
    if value not in known:
        raise InputError(f"{task}: {option} cannot be '{value}'; {nearest(value, known)}")
