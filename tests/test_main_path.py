"""The README's main path runs as printed, and the public surface is what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trialplate

ROOT = Path(__file__).parents[1]


def _readme_block() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks, "the README shows the main path"
    return str(blocks[0])


def test_the_readme_shows_the_seven_verbs_in_order() -> None:
    verbs = re.findall(r"tp\.(\w+)\(", _readme_block())
    assert verbs == ["load_protocol", "lock", "run", "score", "analyse", "judge", "report"]


@pytest.mark.slow
@pytest.mark.gl
def test_the_readme_runs_verbatim(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "trialplate" / "examples", tmp_path / "examples")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", _readme_block()], cwd=tmp_path, check=True, timeout=900, env=environment)
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_the_public_surface_is_pinned() -> None:
    assert trialplate.__all__ == [
        "ActionChunk", "ActionComponent", "ActionSpec", "CameraSpec", "Campaign", "ContractFault", "EpisodeInfo",
        "EvidenceError", "GripperRange", "HarnessFault", "LockError", "Observation", "ObservationSpec", "Outcome",
        "PlanningFailed", "PolicyDecision", "PolicyFault", "PolicySpec", "ProprioSpec", "ProtocolError", "SkillCase",
        "SkillPlan", "Stop", "TrialplateError",
        "Usage", "UsageError", "analyse", "judge", "load_protocol", "lock", "report", "run", "score", "verify",
    ]  # fmt: skip
    for name in trialplate.__all__:
        assert getattr(trialplate, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        trialplate.nothing  # type: ignore[attr-defined] # noqa: B018
