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
        "notebook: markup in a name is markup",
        "show/notebook.py",
        "autoescape=True",
        "autoescape=False",
        "test_notebook.py",
    ),
    Mutant(
        "notebook: a text view hides behind the repr of a dataclass",
        "views.py",
        "        cls._repr_pretty_ = cls._repr_pretty_  # type: ignore[method-assign]\n",
        "",
        "test_notebook.py",
    ),
    Mutant(
        "measured: a T5 reads text without the token that its decoder starts from",
        "pretrained/adapters/t5.py",
        '        self.start = token(config, "decoder_start_token_id", "pad_token_id")\n',
        "",
        "test_pretrained.py",
    ),
    Mutant(
        "measured: the hidden states of a T5 with tied ends go to the head unscaled",
        "pretrained/adapters/t5.py",
        "return float(config.d_model**-0.5) if scaled else 1.0",
        "return 1.0",
        "test_pretrained.py",
    ),
    Mutant(
        "adapted: the head of a T5 becomes its embeddings",
        "pretrained/rescale.py",
        "        model.get_output_embeddings().weight = nn.Parameter(head.detach().to(dtype))\n",
        "",
        "test_adapt.py",
    ),
    Mutant(
        "measured: a dynamic model stays stretched by what it read before",
        "pretrained/loading.py",
        "            self.adapter.fresh()",
        "            pass",
        "test_pretrained.py",
    ),
    Mutant(
        "measured: of a dynamic model a prefix stands for a shorter text",
        "pretrained/work.py",
        "if self.model.by_length:",
        "if False:",
        "test_measuring.py",
    ),
    Mutant(
        "needles: what one question leaves behind is read with the next",
        "pretrained/loading.py",
        "copy.deepcopy(cache)",
        "cache",
        "test_pretrained.py",
    ),
    Mutant(
        "extended: a fine-tune begins from fresh weights",
        "train.py",
        "model.load_state_dict(begin.state_dict())",
        "begin.state_dict()",
        "test_extension.py",
    ),
    Mutant(
        "extended: a fine-tune goes without its repair",
        "train.py",
        "model.turn_by(repaired(model, repair, task, training.trained_length, extended.length))",
        "repaired(model, repair, task, training.trained_length, extended.length)",
        "test_extension.py",
    ),
    Mutant(
        "extended: a worn repair is set for the longest length",
        "evaluate.py",
        "spectrum = repaired(model, repair, task, training.trained_length, length)",
        "spectrum = repaired(model, repair, task, training.trained_length, asked.lengths[-1])",
        "test_extension.py",
    ),
    Mutant(
        "extended: longer sequences are as many, so that steps read more",
        "run.py",
        "max(1, round(recipe.batch * base.trained_length / length))",
        "recipe.batch",
        "test_extension.py",
    ),
    Mutant(
        "extended: what is short is measured at the length extended to",
        "evaluate.py",
        '("short_loss", trained)',
        '("short_loss", length)',
        "test_extension.py",
    ),
    Mutant(
        "extended: a change starts from another seed",
        "report/aggregate.py",
        "[mine[seed].astype(np.float64) - theirs[seed] for seed in mine if seed in theirs]",
        "[mine[seed].astype(np.float64) - theirs[min(theirs)] for seed in mine if seed in theirs]",
        "test_extension.py",
    ),
    Mutant(
        "adapted: what follows a skip is taken for another text",
        "pretrained/adapters/base.py",
        '{"position_ids": positions, "attention_mask": torch.ones_like(tokens)}',
        '{"position_ids": positions}',
        "test_adapt.py",
    ),
    Mutant(
        "adapted: skips go past the target",
        "pretrained/pose.py",
        "target_length - length + 1",
        "target_length + 1",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: what is held out is trained on",
        "pretrained/batches.py",
        "self.documents, others = split(distinct(found, self.label))",
        "others, self.documents = split(distinct(found, self.label))",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: nothing stands between two documents",
        "pretrained/batches.py",
        "parts += [row, self._ending()]",
        "parts += [row]",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: tokens are scored against themselves",
        "pretrained/scored.py",
        "hidden.flatten(0, 1), tokens[:, 1:].flatten())",
        "hidden.flatten(0, 1), tokens[:, :-1].flatten())",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: logits are kept for the backward pass",
        "pretrained/scored.py",
        """checkpoint(
            part, states, wanted, use_reentrant=False, preserve_rng_state=False
        )""",
        "part(states, wanted)",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: moments of the optimizer begin anew when a training goes on",
        "pretrained/saves.py",
        'optimizer.load_state_dict({**optimizer.state_dict(), "state": state})',
        "pass",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: dropout depends on what was drawn before",
        "pretrained/adapt.py",
        'torch.manual_seed(seed_of("dropout", recipe.seed, step, rank))',
        "pass",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: what the config makes of a repair is not looked at",
        "pretrained/rescale.py",
        "if off > CLOSE:",
        "if off > CLOSE and repair is None:",
        "test_adapt.py",
    ),
    Mutant(
        "adapted: without a repair the one in the config is lost",
        "pretrained/rescale.py",
        "return ({keys[0]: target_length} if keys else {}), ()",
        'return {"max_position_embeddings": target_length, "rope_parameters": None}, ()',
        "test_adapt.py",
    ),
    Mutant(
        "ranked: ties go to who stands first",
        "report/ranking.py",
        '("average", "max", "min")',
        '("ordinal", "max", "min")',
        "test_ranking.py",
    ),
    Mutant(
        "ranked: the trained length counts too",
        "report/ranking.py",
        "if row.metric == METRIC and row.evaluation_length > task.trained_length:",
        "if row.metric == METRIC and row.evaluation_length >= task.trained_length:",
        "test_ranking.py",
    ),
    Mutant(
        "ranked: a scheme without positions is left out of its own mean",
        "report/ranking.py",
        "append(row.value or 0.0)",
        "append(1.0 if row.value is None else row.value)",
        "test_ranking.py",
    ),
    Mutant(
        "met in training: a sequence that stands twice counts once",
        "held_out.py",
        "found.setdefault(length, []).append(place in met)",
        "found.setdefault(length, []).append(place in met and not (met.discard(place)))",
        "test_run.py",
    ),
    Mutant(
        "worn: the amplitude is left out",
        "pretrained/wear.py",
        "(angles.cos() * amplitude).to(x.dtype), (angles.sin() * amplitude).to(x.dtype)",
        "angles.cos().to(x.dtype), angles.sin().to(x.dtype)",
        "test_pretrained.py",
    ),
    Mutant(
        "worn: a repair starts from the repair in the config",
        "pretrained/wear.py",
        "(rotary, group, repair.apply(group.spectrum, Extension(length, target_length)))",
        "(rotary, group, repair.apply(group.used(), Extension(length, target_length)))",
        "test_pretrained.py",
    ),
    Mutant(
        "worn: layers with a window are repaired as well",
        "pretrained/wear.py",
        "open_ = [group for group in groups if group.window is None]",
        "open_ = groups",
        "test_pretrained.py",
    ),
    Mutant(
        "worn: what stood on the module is lost when a repair comes off",
        "pretrained/wear.py",
        "            module.forward = had\n",
        "            del module.forward\n",
        "test_pretrained.py",
    ),
    Mutant(
        "loaded: hidden states are scored against their own token",
        "pretrained/loading.py",
        "truth = tokens[:, -scored:]",
        "truth = tokens[:, -scored - 1 : -1]",
        "test_pretrained.py",
    ),
    Mutant(
        "loaded: a soft cap on logits is passed over",
        "pretrained/adapters/gemma3.py",
        "return logits if cap is None else (logits / cap).tanh() * cap",
        "return logits",
        "test_pretrained.py",
    ),
    Mutant(
        "loaded: layers that do not turn count as turned",
        "pretrained/adapters/llama.py",
        'if getattr(attention, "use_rope", True)',
        "if True",
        "test_pretrained.py",
    ),
    Mutant(
        "measured: the control sees as much as the model",
        "pretrained/work.py",
        "Pass(tokens[end - trained : end + 1], scored)",
        "Pass(tokens[: end + 1], scored)",
        "test_measuring.py",
    ),
    Mutant(
        "measured: the control wears the repair",
        "pretrained/rows.py",
        "plain = np.stack([whole(work, window, None)[longest] for window in chosen])",
        "plain = np.stack([whole(work, window, asked.repairs[-1])[longest] for window in chosen])",
        "test_measuring.py",
    ),
    Mutant(
        "measured: a dynamic repair is read in the longest length's spectrum",
        "pretrained/work.py",
        "Pass(tokens[: n + 1], n, repair, n) if changed[n]",
        "Pass(tokens[: n + 1], n, repair, lengths[-1]) if changed[n]",
        "test_measuring.py",
    ),
    Mutant(
        "measured: a pass is known by its tokens alone",
        "pretrained/passes.py",
        'key_of(f"{model.digest} {self.scored} {worn}", self.tokens)',
        'key_of(f"{model.digest} {self.scored}", self.tokens)',
        "test_measuring.py",
    ),
    Mutant(
        "measured: windows of a document overlap",
        "pretrained/windows.py",
        "start = part * room + int(draw.integers(0, room - size + 1))",
        "start = int(draw.integers(0, len(tokens) - size + 1))",
        "test_measuring.py",
    ),
    Mutant(
        "judged: unpaired with the model as it is",
        "pretrained/verdict.py",
        "values = values - items[only(run.rows, metric, length, None).item_key]",
        "values = values - items[only(run.rows, metric, length, None).item_key].mean()",
        "test_verdict.py",
    ),
    Mutant(
        "judged: what was not looked for is taken as found",
        "pretrained/verdict.py",
        "(not self.needles_asked or self.needles_hold is True)",
        "(self.needles_hold is not False)",
        "test_verdict.py",
    ),
    Mutant(
        "judged: the first that holds, whatever it costs",
        "pretrained/verdict.py",
        "equal = [trial for trial in fixed if trial.cost[0] <= least + SAME_COST]",
        "equal = list(fixed)",
        "test_verdict.py",
    ),
    Mutant(
        "judged: a spectrum that changes with the length like any other",
        "pretrained/verdict.py",
        "[trial for trial in holding if not trial.changes] or holding",
        "list(holding)",
        "test_verdict.py",
    ),
    Mutant(
        "searched: on what is measured",
        "pretrained/windows.py",
        "rows, names = rows[skip:], names[skip:]",
        "rows, names = rows[:-skip or None], names[:-skip or None]",
        "test_search.py",
    ),
    Mutant(
        "searched: factors may fall",
        "pretrained/search.py",
        "np.maximum.accumulate(np.clip(bent, 1.0, largest))",
        "np.clip(bent, 1.0, largest)",
        "test_search.py",
    ),
    Mutant(
        "searched: the last point is taken, not the best",
        "pretrained/search.py",
        "return min(self.history, key=lambda each: each[1])",
        "return self.history[-1]",
        "test_search.py",
    ),
    Mutant(
        "attention is handed out without its division by sqrt(head_dim)",
        "model/attention.py",
        "self.keys.float().mT / sqrt(self.queries.shape[-1])",
        "self.keys.float().mT",
        "test_attention.py",
    ),
    Mutant(
        "attention is handed out before the scheme's bias",
        "model/attention.py",
        "logits = logits + self.mask",
        "logits = logits + self.mask.clamp(max=-torch.inf).where(self.mask.isinf(), 0)",
        "test_attention.py",
    ),
    Mutant(
        "a head is scored on the place of the token it reads, not of the one to come",
        "measure/attention.py",
        "sources[:, 1 : read + 1]",
        "sources[:, :read]",
        "test_attention.py",
    ),
    Mutant(
        "padding has a say in how far heads look",
        "measure/attention.py",
        "reads = column[:read] < lengths[:, None]",
        "reads = column[:read] < lengths.amax().expand(len(lengths), 1)",
        "test_attention.py",
    ),
    Mutant(
        "the pointing head is chosen anew at the first length shown",
        "show/attention.py",
        "trained = self.found[self.training.trained_length]",
        "trained = self.found[self.lengths[0]]",
        "test_attention.py",
    ),
    Mutant(
        "outlines mark where the token read stands",
        "show/heatmaps.py",
        "sources[first + 1 :].tolist()",
        "sources[first:-1].tolist()",
        "test_attention.py",
    ),
    Mutant(
        "a recorded map of another task is shown",
        "explorer/maps.py",
        "if (one.task, one.scheme) == (task, scheme)",
        "if one.scheme == scheme",
        "test_maps.py",
    ),
    Mutant(
        "recorded maps are read on another scale than they were written",
        "explorer/maps.py",
        "(np.array(made.weights) / WHOLE)",
        "(np.array(made.weights) / (WHOLE + 5))",
        "test_maps.py",
    ),
    Mutant(
        "ALiBi slopes by the paper's formula for every head count",
        "biases.py",
        "return geometric + alibi_slopes(2 * full)[0::2][: heads - full]",
        "return [2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]",
        "test_biases.py",
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
        "biases.py",
        "growing = buckets - exact\n",
        "growing = buckets - exact - 1\n",
        "test_biases.py",
    ),
    Mutant(
        "T5 buckets begin after their first distance",
        "schemes/t5_bias.py",
        "starts, right=True) - 1",
        "starts, right=False) - 1",
        "test_biases.py",
    ),
    Mutant(
        "the last bucket of T5 begins at max_distance",
        "biases.py",
        "return starts[:buckets]",
        "return [*starts[: buckets - 1], max_distance]",
        "test_biases.py",
    ),
    Mutant(
        "T5 buckets at an exact power fall into the one before",
        "biases.py",
        "int(grown + ROUNDING)",
        "int(grown)",
        "test_biases.py",
    ),
    Mutant(
        "MPT's slopes in ALiBi's order of heads",
        "biases.py",
        "geometric[1::2] + geometric[0::2]",
        "geometric[0::2] + geometric[1::2]",
        "test_biases.py",
    ),
    Mutant(
        "MPT's alibi_bias_max has no effect",
        "biases.py",
        "2.0 ** (-bias_max * (i + 1) / full)",
        "2.0 ** (-8 * (i + 1) / full)",
        "test_biases.py",
    ),
    Mutant(
        "T5 distance counted from one",
        "schemes/t5_bias.py",
        "bucket(distance.clamp(min=0), self.each_side",
        "bucket(distance.clamp(min=0) + 1, self.each_side",
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
        "pairs * turn)",
        "pairs * turn.conj())",
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
        "positions[:, None].double() * (inverse_frequencies.to(positions.device) / (2 * pi))",
        "positions[:, None].float() * (inverse_frequencies.float() / (2 * pi))",
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
        "a spectrum ignores its base",
        "spectrum.py",
        "float(base) ** -exponents",
        "10_000.0 ** -exponents",
        "test_spectrum.py",
    ),
    Mutant(
        "wavelengths from one over the frequency, inverted",
        "spectrum.py",
        "return 2 * pi / self.inverse_frequencies",
        "return 2 * pi * self.inverse_frequencies",
        "test_spectrum.py",
    ),
    Mutant(
        "wavelengths without the full circle",
        "spectrum.py",
        "return 2 * pi / self.inverse_frequencies",
        "return 1 / self.inverse_frequencies",
        "test_spectrum.py",
    ),
    Mutant(
        "a repaired spectrum is compared with itself",
        "spectrum.py",
        "return self if self.before is None else self.before.original",
        "return self",
        "test_repairs.py",
    ),
    Mutant(
        "only the last repair is remembered",
        "spectrum.py",
        "return self if self.before is None else self.before.original",
        "return self.before or self",
        "test_spectrum.py",
    ),
    Mutant(
        "the largest angle met is that of the target length",
        "spectrum.py",
        "self.original.inverse_frequencies * extension.trained_length",
        "self.original.inverse_frequencies * extension.target_length",
        "test_spectrum.py",
    ),
    Mutant(
        "pairs that met every angle count as unseen",
        "spectrum.py",
        "return self.never_completed(extension.trained_length) & past",
        "return past",
        "test_spectrum.py",
    ),
    Mutant(
        "half a turn is taken for a whole one",
        "spectrum.py",
        "return self.original.turns(trained_length) < 1",
        "return self.original.turns(trained_length) < 0.5",
        "test_spectrum.py",
    ),
    Mutant(
        "the effective length of the most slowed pair",
        "spectrum.py",
        "self.speed_kept[slow].max()",
        "self.speed_kept[slow].min()",
        "test_repairs.py",
    ),
    Mutant(
        "a repair forgets the amplitude before it",
        "spectrum.py",
        "kept = self.amplitude if amplitude is None else amplitude",
        "kept = 1.0 if amplitude is None else amplitude",
        "test_spectrum.py",
    ),
    Mutant(
        "decay of weights that are lengths, not their squares",
        "spectrum.py",
        "(share / share.sum())",
        "(share**0.5 / (share**0.5).sum())",
        "test_spectrum.py",
    ),
    Mutant(
        "independent vectors are one vector",
        "spectrum.py",
        "q, k = draw[..., 0] + 1j * draw[..., 1]",
        "q = k = (draw[..., 0] + 1j * draw[..., 1])[0]",
        "test_spectrum.py",
    ),
    Mutant(
        "interpolation speeds pairs up",
        "repairs.py",
        "return spectrum.repaired(spectrum.inverse_frequencies / _factor(extension, factor))",
        "return spectrum.repaired(spectrum.inverse_frequencies * _factor(extension, factor))",
        "test_repairs.py",
    ),
    Mutant(
        "NTK with the factor itself for its power d / (d - 2)",
        "repairs.py",
        "factor ** (-index / (spectrum.pairs - 1))",
        "factor ** (-index / spectrum.pairs)",
        "test_repairs.py",
    ),
    Mutant(
        "NTK with the factor's square",
        "repairs.py",
        "factor ** (-index / (spectrum.pairs - 1))",
        "factor ** (-2 * index / (spectrum.pairs - 1))",
        "test_repairs.py",
    ),
    Mutant(
        "dynamic NTK ignores the length",
        "repairs.py",
        "return _ntk(spectrum, factor * extension.factor - (factor - 1))",
        "return _ntk(spectrum, factor * factor - (factor - 1))",
        "test_repairs.py",
    ),
    Mutant(
        "dynamic NTK multiplies without taking off",
        "repairs.py",
        "return _ntk(spectrum, factor * extension.factor - (factor - 1))",
        "return _ntk(spectrum, factor * extension.factor)",
        "test_repairs.py",
    ),
    Mutant(
        "dynamic NTK changes short texts too",
        "repairs.py",
        "    if extension.target_length <= extension.trained_length:\n        return spectrum\n",
        "    if extension.target_length < extension.trained_length / 4:\n        return spectrum\n",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's ramp is inverted",
        "repairs.py",
        "return plain / factor * (1 - left_alone) + plain * left_alone",
        "return plain / factor * left_alone + plain * (1 - left_alone)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's corners are clamped at the last pair",
        "repairs.py",
        "return max(fast, 0), min(slow, 2 * spectrum.pairs - 1)",
        "return max(fast, 0), min(slow, spectrum.pairs - 1)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's corners are not clamped",
        "repairs.py",
        "return max(fast, 0), min(slow, 2 * spectrum.pairs - 1)",
        "return fast, slow",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's corners are rounded inward",
        "repairs.py",
        "fast, slow = floor(fast), ceil(slow)",
        "fast, slow = ceil(fast), floor(slow)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's upper corner is not rounded",
        "repairs.py",
        "fast, slow = floor(fast), ceil(slow)",
        "fast = floor(fast)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's corners are always rounded",
        "repairs.py",
        "    if truncate:\n",
        "    if True:\n",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's corners are swapped",
        "repairs.py",
        "fast, slow = index(beta_fast), index(beta_slow)",
        "fast, slow = index(beta_slow), index(beta_fast)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's ramp is off by one pair",
        "repairs.py",
        "(np.arange(spectrum.pairs, dtype=np.float64) - fast)",
        "(np.arange(1, spectrum.pairs + 1, dtype=np.float64) - fast)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's ramp in turns is always taken",
        "repairs.py",
        "= _left_alone_by_index(spectrum, extension, beta_fast, beta_slow, truncate)",
        "= _left_alone_by_turns(spectrum, extension, beta_fast, beta_slow)",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN's amplitude is squared before it is worn",
        "repairs.py",
        "amplitude=spectrum.amplitude * amplitude\n    )\n\n\ndef dynamic_yarn",
        "amplitude=spectrum.amplitude * amplitude**2\n    )\n\n\ndef dynamic_yarn",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN has no amplitude",
        "repairs.py",
        "amplitude = yarn_amplitude(scale, attention_factor, mscale, mscale_all_dim)",
        "amplitude = 1.0",
        "test_repairs.py",
    ),
    Mutant(
        "a given attention_factor is ignored",
        "repairs.py",
        "if attention_factor is not None:\n        return number",
        "if attention_factor == -1:\n        return number",
        "test_repairs.py",
    ),
    Mutant(
        "the ratio of mscale and mscale_all_dim is inverted",
        "repairs.py",
        "growth(factor, mscale) / growth(factor, mscale_all_dim)",
        "growth(factor, mscale_all_dim) / growth(factor, mscale)",
        "test_repairs.py",
    ),
    Mutant(
        "mscale alone changes the amplitude",
        "repairs.py",
        "    return growth(factor)\n",
        "    return growth(factor, mscale or 1)\n",
        "test_repairs.py",
    ),
    Mutant(
        "the softmax factor is not squared",
        "repairs.py",
        "growth(factor, mscale_all_dim) ** 2 if",
        "growth(factor, mscale_all_dim) if",
        "test_repairs.py",
    ),
    Mutant(
        "YaRN grows with the logarithm to base 2",
        "repairs.py",
        "0.1 * mscale * log(factor) + 1 if",
        "0.1 * mscale * log(factor) / log(2) + 1 if",
        "test_repairs.py",
    ),
    Mutant(
        "Llama 3's corners are swapped",
        "repairs.py",
        "spectrum, extension, high_freq_factor, low_freq_factor)",
        "spectrum, extension, low_freq_factor, high_freq_factor)",
        "test_repairs.py",
    ),
    Mutant(
        "the blend in turns is inverted",
        "repairs.py",
        "return np.clip((turns - beta_slow) / (beta_fast - beta_slow), 0, 1)",
        "return 1 - np.clip((turns - beta_slow) / (beta_fast - beta_slow), 0, 1)",
        "test_repairs.py",
    ),
    Mutant(
        "the blend in turns goes by the target length",
        "repairs.py",
        "turns = spectrum.turns(extension.trained_length)\n",
        "turns = spectrum.turns(extension.target_length)\n",
        "test_repairs.py",
    ),
    Mutant(
        "LongRoPE's lists are swapped",
        "repairs.py",
        "used = longer if extension.target_length > extension.trained_length else shorter",
        "used = shorter if extension.target_length > extension.trained_length else longer",
        "test_repairs.py",
    ),
    Mutant(
        "LongRoPE's long list is taken at the trained length already",
        "repairs.py",
        "used = longer if extension.target_length > extension.trained_length else shorter",
        "used = longer if extension.target_length >= extension.trained_length else shorter",
        "test_repairs.py",
    ),
    Mutant(
        "LongRoPE's amplitude without its root",
        "repairs.py",
        "return sqrt(1 + log(factor) / log(trained_length))",
        "return 1 + log(factor) / log(trained_length)",
        "test_repairs.py",
    ),
    Mutant(
        "a new base over one pair too few",
        "repairs.py",
        "index = np.arange(spectrum.pairs) / spectrum.pairs",
        "index = np.arange(spectrum.pairs) / (spectrum.pairs - 1)",
        "test_repairs.py",
    ),
    Mutant(
        "NTK's factor by the last pair, which always reaches",
        "repairs.py",
        "exponent = (spectrum.pairs - 1) / int(slow[0])",
        "exponent = (spectrum.pairs - 1) / int(slow[-1])",
        "test_repairs.py",
    ),
    Mutant(
        "options of a repair are not checked",
        "repairs.py",
        "            if option not in known:\n",
        "            if not option:\n",
        "test_repairs.py",
    ),
    Mutant(
        "an option given twice counts once",
        "repairs.py",
        "not option or option in options:",
        "not option:",
        "test_repairs.py",
    ),
    Mutant(
        "cached keys keep the old rotation when the spectrum changes",
        "model/cache.py",
        "if start and scheme.stamp is not self._stamp:",
        "if start and scheme.stamp is None:",
        "test_model.py",
    ),
    Mutant(
        "the last queries are turned as the first ones",
        "model/attention.py",
        "rotate(asked, places.positions[-asked.shape[2] :])",
        "rotate(asked, places.positions[: asked.shape[2]])",
        "test_model.py",
    ),
    Mutant(
        "of packed rows, the queries asked after are turned as the first ones",
        "model/attention.py",
        "at = rows.positions[rows.chosen]",
        "at = rows.positions[: len(rows.chosen)]",
        "test_model.py",
    ),
    Mutant(
        "a cache gets turned keys for unturned ones",
        "model/cache.py",
        "self._keys.narrow(2, start, new).copy_(fresh)",
        "self._keys.narrow(2, start, new).copy_(turned)",
        "test_model.py",
    ),
    Mutant(
        "a single query is given the first query's bias",
        "model/attention.py",
        "return self.bias[:, -1:].to(dtype)[None], False",
        "return self.bias[:, :1].to(dtype)[None], False",
        "test_model.py",
    ),
    Mutant(
        "a cache that refused tokens counts them all the same",
        "model/cache.py",
        "        end = len(self) + positions.shape[0]\n",
        "        end = len(self) + positions.shape[0]\n"
        "        self.positions = torch.cat([self.positions, positions])\n",
        "test_model.py",
    ),
    Mutant(
        "a query folded into the keys' projection is scaled by a token's width",
        "model/attention.py",
        "scale=of_keys.shape[1] ** -0.5",
        "scale=of_keys.shape[2] ** -0.5",
        "test_model.py",
    ),
    Mutant(
        "a query is folded where keys turn",
        "model/attention.py",
        "last == 1 and cache is None and places.scheme.stamp is None",
        "last == 1 and cache is None",
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
        "            self.scheme.spectrum = before  # type: ignore[assignment]\n",
        "            pass\n",
        "test_model.py",
    ),
    Mutant(
        "a post-norm block without its first norm",
        "model/decoder.py",
        "return x if self.pre else norm(x)",
        "return x",
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
        'found = {"exact_match": fits.all(1)}',
        'found = {"exact_match": fits.any(1)}',
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
        "windows.tokens[:, -context - 1 :]",
        "windows.tokens[:, : context + 1]",
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
    Mutant(
        "encoder-decoder: padding is read",
        "model/attention.py",
        "return unpadded(self.bias, self.padding, dtype), False",
        "return unpadded(self.bias, None, dtype), False",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: padding is seen from the target",
        "model/attention.py",
        "unpadded(None, padding, x.dtype))",
        "None)",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: a target sees its source causally",
        "model/attention.py",
        "memory.keys, memory.values, attn_mask=memory.mask\n",
        "memory.keys, memory.values, attn_mask=memory.mask, is_causal=memory.mask is None\n",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: the source is read causally",
        "model/attention.py",
        "bias, causal=False, padding=padding)",
        "bias, causal=True, padding=padding)",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: the memory is not normed",
        "model/encoder_decoder.py",
        "return self.encoder_norm(x)",
        "return x",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: every layer looks with the first one's keys",
        "model/encoder_decoder.py",
        "[block.cross.remember(encoded, hidden) for",
        "[self.decoder[0].cross.remember(encoded, hidden) for",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: keys of the source before",
        "model/encoder_decoder.py",
        "memories = self.remember(source, lengths)\n        cache = Cache",
        'memories = vars(self).setdefault("kept", self.remember(source, lengths))\n'
        "        cache = Cache",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: a row goes on after its end",
        "model/encoder_decoder.py",
        "chosen = chosen.masked_fill(ended, end)",
        "chosen = chosen.clone()",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: one table for both halves together",
        "train.py",
        "(prompt + 1, answer + 1)",
        "(prompt + answer + 2, prompt + answer + 2)",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: ALiBi rewards the distance of later keys",
        "schemes/alibi.py",
        "distance = distance.abs()",
        "distance = +distance",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: T5 takes both sides for one",
        "schemes/t5_bias.py",
        "after = (distance < 0) * self.each_side",
        "after = (distance < 0) * 0",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "encoder-decoder: a new key changes old digests",
        "study.py",
        "if whole[part][key] == unsaid:",
        "if whole[part][key] is None:",
        "test_encoder_decoder.py",
    ),
    Mutant(
        "seeds of the two are compared without pairing their sequences",
        "report/compare.py",
        "items[0][length] - items[1][length], means[0]",
        "items[0][length] - items[1][length][:, ::-1], means[0]",
        "test_compare.py",
    ),
    Mutant(
        "a bootstrap of few seeds is taken at its word",
        "report/compare.py",
        "bounds += student(items.mean(axis=1), mean)",
        "bounds += []",
        "test_compare.py",
    ),
    Mutant(
        "an interval that ends at 0 tells two apart",
        "report/compare.py",
        "return not self.low <= 0 <= self.high",
        "return not self.low < 0 < self.high",
        "test_compare.py",
    ),
    Mutant(
        "a repair reaches as far as the model as it is",
        "report/compare.py",
        "done.reach.get(side.repair)",
        "done.reach.get(None)",
        "test_compare.py",
    ),
    Mutant(
        "what stands over the control is held to where it begins",
        "report/compare.py",
        '0.0 if rows[0].metric == "excess" else None',
        "None",
        "test_compare.py",
    ),
    Mutant(
        "a repair worn past the trained length alone has no start",
        "report/compare.py",
        "rows += [row for row in plain if row.evaluation_length <= row.trained_length]",
        "rows += []",
        "test_compare.py",
    ),
    Mutant(
        "a drawn reach skips a length that fails",
        "report/compare.py",
        "alive &= means >= REACH_SHARE",
        "alive = means >= REACH_SHARE",
        "test_compare.py",
    ),
    Mutant(
        "a run is held to the trained length alone where it was trained at a range",
        "report/summarise.py",
        "in_distribution=sum(shares.values()) / len(shares) if shares else None",
        "in_distribution=shares.get(first.trained_length)",
        "test_report.py",
    ),
    Mutant(
        "past the limit only the task's own metric says so",
        "report/aggregate.py",
        "if (row.curve, name, row.evaluation_length) not in known:",
        "if (row.curve, name, row.evaluation_length) in known:",
        "test_report.py",
    ),
    Mutant(
        "weights are not looked at before rows are trusted",
        "cell.py",
        "elif (found := sha256(path)) != expected:",
        "elif (found := sha256(path)) is None:",
        "test_faults.py",
    ),
    Mutant(
        "a damaged run is thrown away when it is trained again",
        "run.py",
        "cell.folder.rename(aside)",
        "__import__('shutil').rmtree(cell.folder)",
        "test_faults.py",
    ),
    Mutant(
        "workers outlive a killed parent",
        "where/local.py",
        "    end_with_parent()\n",
        "",
        "test_faults.py",
    ),
    Mutant(
        "a run folder is filled in its place",
        "cell.py",
        'whole = cell.work / "run"',
        "whole = cell.folder",
        "test_faults.py",
    ),
    Mutant(
        "what arrives from a node is not checked",
        "where/cluster.py",
        "        checked(whole)\n",
        "",
        "test_where.py",
    ),
    Mutant(
        "a node works with whatever PyTorch it has",
        "where/cluster.py",
        "if (found := _libraries()) != expected:",
        "if not (found := _libraries()):",
        "test_where.py",
    ),
    Mutant(
        "a node trains on whatever corpus it has under that name",
        "where/cluster.py",
        "if _sums(_files(folder)) != self.sums:",
        "if not _files(folder):",
        "test_where.py",
    ),
    Mutant(
        "a needle's choice counts ties as right",
        "pretrained/needles.py",
        "(true[:, None] > others).all()",
        "(true[:, None] >= others).all()",
        "test_needles.py",
    ),
    Mutant(
        "a needle's answer is read one token too early",
        "pretrained/needles.py",
        "endings, self.shape[1])",
        "endings, self.shape[1] + 1)",
        "test_needles.py",
    ),
    Mutant(
        "a needle's prompt does not depend on the trial",
        "pretrained/needles.py",
        "length, *seed, number]",
        "length, *seed, 0]",
        "test_needles.py",
    ),
    Mutant(
        "the line breaks that a needle brings count against its length",
        "pretrained/haystack.py",
        "reached = end - (length - max(map(len, endings)) - sum(map(len, pieces.values())))",
        "reached = start",
        "test_needles.py",
    ),
    Mutant(
        "text around a needle may hold its answer",
        "pretrained/answers.py",
        "[word for word in self.words if word not in text]",
        "list(self.words)",
        "test_needles.py",
    ),
    Mutant(
        "needles by depth are told in another order than by length",
        "pretrained/hunt.py",
        "column = judged[:, place, number]",
        "column = judged[:, -1 - place, number]",
        "test_needles.py",
    ),
    Mutant(
        "a repair that depends on length is set for the longest needle prompt",
        "pretrained/hunt.py",
        "target = length if by_length else",
        "target =",
        "test_needles.py",
    ),
    Mutant(
        "sheet: a name becomes a formula",
        "report/sheet.py",
        """return f"'{text}" if risky else text""",
        "return text",
        "test_report.py",
    ),
    Mutant(
        "two lists of factors that begin and end alike share a name",
        "repairs.py",
        "{max(value):.4g} #{told}]",
        "{max(value):.4g}]",
        "test_repairs.py",
    ),
    Mutant(
        "site: files of others are swept away with the old site",
        "site/folder.py",
        "strangers = sorted(found - listed - {MARKER})",
        "strangers: list[str] = []",
        "test_site.py",
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
