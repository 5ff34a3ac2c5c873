"""Mutants: plants one-line wrongs in a copy of the tree; each must make the tests of its file fail.

Most were really shipped somewhere in the field, unnoticed by tests. Run with `make mutants`, or
`python tests/mutants.py WORD` for those whose name contains WORD. Exits with 1 if one survives, or
if the line it would change is no longer there.
"""
# ruff: noqa: T201

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """A wrong: in `file` of the package, `right` (found exactly once) becomes `wrong`."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str


NORMAL = """p = right / count
    error = 1.96 * (p * (1 - p) / count) ** 0.5
    return p - error, p + error"""

MUTANTS = [
    Mutant(
        "ALiBi slopes by the paper's formula for every head count",
        "schemes/alibi.py",
        "return geometric + slopes(2 * whole)[0::2][: heads - whole]",
        "return [2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]",
        "test_schemes.py",
    ),
    Mutant(
        "ALiBi rewards distance",
        "schemes/alibi.py",
        "return -by_head",
        "return by_head",
        "test_schemes.py",
    ),
    Mutant(
        "T5 buckets grow one step too slowly",
        "schemes/t5_bias.py",
        "(grown * (buckets - exact)).long()",
        "(grown * (buckets - exact - 1)).long()",
        "test_schemes.py",
    ),
    Mutant(
        "T5 distance counted from one",
        "schemes/t5_bias.py",
        "rows = bucket(distance,",
        "rows = bucket(distance + 1,",
        "test_schemes.py",
    ),
    Mutant(
        "RoPE ignores its base",
        "schemes/rope.py",
        "Spectrum.rope(shape.head_dim, base)",
        "Spectrum.rope(shape.head_dim)",
        "test_schemes.py",
    ),
    Mutant(
        "RoPE ignores the amplitude",
        "schemes/rope.py",
        "torch.full_like(turned, self.spectrum.amplitude)",
        "torch.ones_like(turned)",
        "test_schemes.py",
    ),
    Mutant(
        "RoPE turns backwards",
        "schemes/rope.py",
        "pairs * turn.to(torch.complex64)",
        "pairs * turn.conj().to(torch.complex64)",
        "test_schemes.py",
    ),
    Mutant(
        "positions counted in bfloat16",
        "schemes/base.py",
        "positions[:, None].double()",
        "positions[:, None].bfloat16().double()",
        "test_schemes.py",
    ),
    Mutant(
        "angles in float32",
        "schemes/base.py",
        "positions[:, None].double() * inverse_frequencies.to(positions.device, torch.float64)",
        "positions[:, None].float() * inverse_frequencies.to(positions.device, torch.float32)",
        "test_schemes.py",
    ),
    Mutant(
        "learned positions clamped to the last row",
        "schemes/learned.py",
        "        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) "
        "< self.limit:",
        "        positions = positions.clamp(0, self.limit - 1)\n        if False:",
        "test_schemes.py",
    ),
    Mutant(
        "sines and cosines swapped",
        "schemes/sinusoidal.py",
        "[turned.sin(), turned.cos()]",
        "[turned.cos(), turned.sin()]",
        "test_schemes.py",
    ),
    Mutant(
        "frequencies over head_dim / 2 - 1, so that the slowest pair reaches the base",
        "spectrum.py",
        "dtype=np.float64) / head_dim",
        "dtype=np.float64) / max(head_dim - 2, 1)",
        "test_spectrum.py",
    ),
    Mutant(
        "cached keys keep the old rotation when the spectrum changes",
        "model/cache.py",
        "fresh = start if scheme.stamp is self._stamp else 0",
        "fresh = start",
        "test_model.py",
    ),
    Mutant(
        "a cache that refused tokens counts them all the same",
        "model/cache.py",
        "        end = len(self) + len(positions)\n",
        "        end = len(self) + len(positions)\n"
        "        self.positions = torch.cat([self.positions, positions])\n",
        "test_model.py",
    ),
    Mutant(
        "no causal mask but for square attention",
        "model/attention.py",
        "(queries == known or queries == 1)",
        "(queries == known or queries < known)",
        "test_model.py",
    ),
    Mutant(
        "the mask lets one token of the future through",
        "model/attention.py",
        "future.triu(known - queries + 1)",
        "future.triu(known - queries + 2)",
        "test_model.py",
    ),
    Mutant(
        "the bias of the first queries for the last",
        "model/attention.py",
        "self.bias[:, -queries:]",
        "self.bias[:, :queries]",
        "test_model.py",
    ),
    Mutant(
        "reading on from a cache counts tokens, not positions",
        "model/decoder.py",
        "int(cache.positions[-1]) + 1",
        "len(cache)",
        "test_schemes.py",
    ),
    Mutant(
        "another spectrum stays on",
        "model/decoder.py",
        "            self.scheme.spectrum = worn\n",
        "            pass\n",
        "test_model.py",
    ),
    Mutant(
        "a post-norm block without its first norm",
        "model/decoder.py",
        "        x = self.attention_norm(x)\n",
        "",
        "test_model.py",
    ),
    Mutant(
        "recall's source may be the very first token",
        "tasks/recall.py",
        "torch.randint(1, length // 2,",
        "torch.randint(0, length // 2,",
        "test_tasks.py",
    ),
    Mutant(
        "recall's query may stand twice",
        "tasks/recall.py",
        "tokens >= query[:, None]",
        "tokens > query[:, None]",
        "test_tasks.py",
    ),
    Mutant(
        "recall's ceiling counts successors of other tokens",
        "tasks/recall.py",
        "b + (held and not holds)",
        "b + (not holds)",
        "test_tasks.py",
    ),
    Mutant(
        "recall's ceiling lets the token itself be another's box",
        "tasks/recall.py",
        "expected_maximum(a, b, symbols - 1)",
        "expected_maximum(a, b, symbols)",
        "test_tasks.py",
    ),
    Mutant(
        "a text window may run past the end",
        "tasks/text.py",
        "room = len(self._train) - length",
        "room = len(self._train) - length + 1",
        "test_tasks.py",
    ),
    Mutant(
        "the frame leaves <eos> unscored",
        "tasks/frame.py",
        "scored[:, prompt.shape[1] + 2 :] = True",
        "scored[:, prompt.shape[1] + 2 : -1] = True",
        "test_tasks.py",
    ),
    Mutant(
        "padding is scored",
        "tasks/frame.py",
        "batch.scored.gather(1, order) & (tokens != PAD)",
        "batch.scored.gather(1, order) | (tokens == PAD)",
        "test_tasks.py",
    ),
    Mutant(
        "padding stays where digits are missing",
        "tasks/frame.py",
        "padding.byte().argsort(dim=1, stable=True)",
        "padding.byte().cumsum(1).argsort(dim=1, stable=True)",
        "test_tasks.py",
    ),
    Mutant(
        "reverse starts one symbol late",
        "tasks/reverse.py",
        "answer = string.flip(1)",
        "answer = string.flip(1).roll(-1, 1)",
        "test_tasks.py",
    ),
    Mutant(
        "a symbol may be replaced by itself",
        "tasks/copy.py",
        "new += new >= old",
        "new += new > old",
        "test_tasks.py",
    ),
    Mutant(
        "addition loses its carries",
        "tasks/addition.py",
        "written[:, column - 1] = written[:, column] // 10",
        "written[:, column - 1] = 0",
        "test_tasks.py",
    ),
    Mutant(
        "the shorter number is always the second",
        "tasks/addition.py",
        "sizes = [drawn.clamp(max=length), (2 * length - drawn).clamp(max=length)]",
        "sizes = [drawn.clamp(length, length), (2 * length - drawn).clamp(1, length)]",
        "test_tasks.py",
    ),
    Mutant(
        "addition's chance counts answers of n digits alone",
        "tasks/addition.py",
        "sums: int = 2 * (10**length - 1) - least + 1",
        "sums: int = 10**length - least",
        "test_tasks.py",
    ),
    Mutant(
        "parity counts zeros",
        "tasks/parity.py",
        "odd = bits.sum(1, keepdim=True) % 2",
        "odd = (1 - bits).sum(1, keepdim=True) % 2",
        "test_tasks.py",
    ),
    Mutant(
        "sorting by digits, not by size",
        "tasks/sort.py",
        "spelt(numbers.sort(1).values)",
        "spelt(numbers.gather(1, (numbers % 1000).argsort(1)))",
        "test_tasks.py",
    ),
    Mutant(
        "a question about the first half of the chain",
        "tasks/lego.py",
        "torch.randint((length + 1) // 2, length,",
        "torch.randint(length // 2, length,",
        "test_tasks.py",
    ),
    Mutant(
        "`after` acts in the order of the words",
        "tasks/scan.py",
        "second.actions + first.actions",
        "first.actions + second.actions",
        "test_tasks.py",
    ),
    Mutant(
        "echo repeats the first symbol",
        "tasks/pcfg.py",
        '"echo": lambda x: x + x[-1:]',
        '"echo": lambda x: x + x[:1]',
        "test_tasks.py",
    ),
    Mutant(
        "pcfg draws all shapes of a tree alike",
        "tasks/pcfg.py",
        "two = (1 - UNARY_SHARE) * (1 - NESTED)\n    splits",
        "two = 1 - UNARY_SHARE\n    splits",
        "test_tasks.py",
    ),
    Mutant(
        "pcfg's chance forgets that long strings are drawn again",
        "tasks/pcfg.py",
        "kept / kept.sum()",
        "kept / weight(functions)",
        "test_tasks.py",
    ),
    Mutant(
        "mqar's chance lets values repeat",
        "tasks/mqar.py",
        "1 / perm(self.keys, length)",
        "1 / self.keys**length",
        "test_tasks.py",
    ),
    Mutant(
        "a needle never at the very end",
        "tasks/needle.py",
        "torch.randint(0, length + 1, (count, 1)",
        "torch.randint(0, length, (count, 1)",
        "test_tasks.py",
    ),
    Mutant(
        "one right token makes a sequence right",
        "measure/exact_match.py",
        "return fits.all(1)",
        "return fits.any(1)",
        "test_measure.py",
    ),
    Mutant(
        "losses against the tokens read, not the next ones",
        "measure/text_loss.py",
        "chunk[:, -last:].flatten()",
        "chunk[:, -last - 1 : -1].flatten()",
        "test_measure.py",
    ),
    Mutant(
        "the loss divided by one token too many",
        "measure/text_loss.py",
        "windows.per_document(losses[:, :length].mean(1))",
        "windows.per_document(losses[:, :length].sum(1) / (length + 1))",
        "test_measure.py",
    ),
    Mutant(
        "the last loss of other tokens at every length",
        "measure/text_loss.py",
        "windows.tokens[:, -length - 1 :]",
        "windows.tokens[:, : length + 1]",
        "test_measure.py",
    ),
    Mutant(
        "windows weigh alike, however many their document has",
        "tasks/text.py",
        "np.bincount(owners, values) / np.bincount(owners)",
        "np.bincount(owners, values) * (max(owners) + 1) / len(owners)",
        "test_tasks.py",
    ),
    Mutant(
        "a resumed training draws its batches from the start again",
        "train.py",
        'data.set_state(tensors["data"])',
        'tensors["data"]',
        "test_run.py",
    ),
    Mutant(
        "a resumed training forgets the optimizer's state",
        "train.py",
        'optimizer.load_state_dict({**optimizer.state_dict(), "state": state})',
        "state",
        "test_run.py",
    ),
    Mutant(
        "no range of positions ends at the trained length",
        "measure/text_loss.py",
        "edges.add(trained_length)",
        "edges.add(trained_length + 1)",
        "test_measure.py",
    ),
    Mutant(
        "bits per byte averaged over documents",
        "measure/text_loss.py",
        "value = float(bits.sum() / sizes.sum())",
        "value = float((bits / sizes).mean())",
        "test_measure.py",
    ),
    Mutant(
        "a normal interval for Wilson's",
        "measure/measured.py",
        "return float(found.low), float(found.high)",
        NORMAL,
        "test_measure.py",
    ),
    Mutant(
        "the spread of the population for that of the sample",
        "measure/measured.py",
        "values.std(ddof=1)",
        "values.std()",
        "test_measure.py",
    ),
]


def passes(tree: Path, tests: str) -> bool:
    """Whether the tests of one file pass on the copy."""
    # No bytecode: two mutants of one size within a second would share it.
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"tests/{tests}"], cwd=tree, env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        # Neither passed nor failed: the tests did not run, which kills nothing.
        raise SystemExit(f"tests/{tests} did not run:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def copied(tree: Path) -> None:
    """Copies what the tests need."""
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tree)


def check_copy(chosen: list[Mutant]) -> None:
    """Makes sure that a copy is what its tests import, and that they pass on it unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        copied(tree)
        found = subprocess.run(
            [sys.executable, "-c", "import longreach; print(longreach.__file__)"],
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        if not Path(found).is_relative_to(tree):
            raise SystemExit(f"the tests would import {found}, not the copy in {tree}")
        for tests in sorted({mutant.tests for mutant in chosen}):
            if not passes(tree, tests):
                raise SystemExit(f"tests/{tests} fails before anything is changed")


def fate(mutant: Mutant) -> str:
    """What becomes of one mutant, on a copy of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve()
        copied(tree)
        path = tree / "src" / "longreach" / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.right) != 1:
            return f"NOT FOUND once in {mutant.file}"
        path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
        return "SURVIVED" if passes(tree, mutant.tests) else "killed"


def main(word: str = "") -> int:
    """Tries all mutants whose name contains `word`; returns how many did not die."""
    chosen = [mutant for mutant in MUTANTS if word in mutant.name]
    check_copy(chosen)
    alive = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, verdict in zip(chosen, pool.map(fate, chosen), strict=True):
            print(f"{verdict:8}  {mutant.name}", flush=True)
            alive += verdict != "killed"
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    return alive


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:2]) else 0)
