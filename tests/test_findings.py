"""What the built-in studies find, at a smaller size: orderings with margins, no decimals."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from longreach.results import Results


@pytest.mark.slow
def test_alibi_keeps_its_loss_past_the_trained_length_and_rope_does_not(tmp_path):
    command = [sys.executable, "-m", "longreach", "run", "quick", "--limit-steps", "800"]
    subprocess.run([*command, "--out", str(tmp_path)], check=True)
    rows = Results.read(tmp_path).rows
    last = {
        (row.scheme, row.evaluation_length): row.value for row in rows if row.metric == "last_loss"
    }
    assert last["alibi", 512] < last["alibi", 64] + 0.1
    assert last["rope", 512] > last["rope", 64] + 0.2
    assert last["rope", 64] < last["nope", 64] - 0.05
    assert last["learned", 128] is last["learned", 512] is None
    changes = json.loads((tmp_path / "study.json").read_text())["changes"]
    alibi = next(e for e in changes if (e["scheme"], e["evaluation_length"]) == ("alibi", 512))
    rope = next(e for e in changes if (e["scheme"], e["evaluation_length"]) == ("rope", 512))
    assert alibi["high"] < rope["low"]
