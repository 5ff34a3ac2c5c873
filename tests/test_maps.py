"""Recorded attention maps: what a look into the weights gives, and what is told where none is."""

from __future__ import annotations

import numpy as np
import pytest

from longreach.errors import InputError
from longreach.explorer import attention, maps, studies, trial


def test_recorded_maps_are_what_a_look_into_the_weights_gives(tmp_path):
    from longreach.show.attention import chosen, gather

    made = maps.Recorded.of(trial.MODELS)
    for name in ("a", "b"):
        made.save(tmp_path / f"{name}.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    loaded = maps.Recorded.load(tmp_path / "a.json.gz")
    trained = loaded.trained_length
    assert loaded.lengths == [trained // 2, trained, 2 * trained]
    assert loaded.schemes == trial.schemes()
    folders = chosen(trial.MODELS)
    for gaze in gather(folders, loaded.lengths):
        for length in loaded.lengths:
            found, example = gaze.found[length], gaze.found[length].example
            one = loaded.get("copy", gaze.training.scheme.label, length)
            assert (one.run, one.length) == (gaze.digest, length)
            assert (one.layer, one.head) == gaze.pointer
            assert one.score == pytest.approx(found.score(gaze.pointer))
            assert f"{one.score:.1%}" in one.panel.title
            first = one.panel.first
            weights = example.weights[gaze.pointer][first:].numpy()
            np.testing.assert_allclose(one.panel.weights, weights, atol=5.1e-4)
            assert one.panel.words == [gaze.task.words[t] for t in example.tokens[:-1]]
            assert one.panel.targets == example.sources[first + 1 :].tolist()


def test_a_recorded_map_is_shown_and_one_that_is_not_there_is_told():
    library = studies.Library()
    name = "copy-reverse"
    about = attention.choices(library, name)
    assert (list(about.lengths), about.trained_length, about.made) == ([8, 16, 32], 16, False)
    copy, reverse = (
        attention.view(library, name, task, "rope", 16) for task in ("copy", "reverse")
    )
    assert copy.title.startswith("rope at 16: ")
    assert copy.spec != reverse.spec
    assert "longreach run copy-reverse, seed 0" in copy.reading
    none = attention.view(library, name, "copy", "learned", 32)
    assert none.spec is None
    assert "Past the limit: learned has" in none.seen
    for given, told in {
        ("copy", "rope", 24): "length 24; there are maps at 8, 16 and 32",
        ("copy", "ropes", 16): "did you mean 'rope'?",
        ("sort", "rope", 16): "no attention map of the task 'sort'",
        (studies.EVERY, "rope", 16): "no attention map of the task 'all tasks'",
    }.items():
        with pytest.raises(InputError, match=told.replace("?", r"\?")):
            attention.view(library, name, *given)
