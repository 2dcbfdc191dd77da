"""Whatever bytes a file of a bundle holds, no verifier breaks down, waits, fills the memory or differs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sealed import Golden

HERE = Path(__file__).parent
MOST_S, MOST_MIB = 60.0, 300.0
"""Of one verifier on one bundle, with room for a machine that does other things; of the process that holds both."""


@pytest.mark.slow
def test_whatever_bytes_a_file_holds_both_verifiers_say_so_in_bounded_time_and_memory(
    golden: Golden, tmp_path: Path
) -> None:
    program = [sys.executable, str(HERE / "any_bytes.py"), str(golden.lean), str(tmp_path), "7"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["asked"] > 500
    assert said["wrong"] == []
    assert said["slowest_s"] < MOST_S, said["slowest"]
    assert said["most_mib"] < MOST_MIB
