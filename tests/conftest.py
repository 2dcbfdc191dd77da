"""Shared fixtures: a toy protocol that runs in milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

TOY_PROTOCOL = """
schema = "trialplate.protocol/1"
name = "toy"
question = "Does the scripted arm carry the block?"
run_class = "development"

[suite]
name = "toy"
version = "1"
repeats = 2

[[arms]]
name = "null"
policy = "control:null"

[[arms]]
name = "scripted"
policy = "control:scripted"

[[arms]]
name = "oracle"
policy = "control:oracle"

[schedule]
interrupted = "replace"

[[claims]]
name = "scripted-half"
kind = "threshold_rate"
arm = "scripted"
rate = 0.5
"""


@pytest.fixture
def toy_protocol(tmp_path: Path) -> Path:
    """A valid protocol of the toy suite, alone in its folder."""
    folder = tmp_path / "study"
    folder.mkdir()
    path = folder / "protocol.toml"
    path.write_text(TOY_PROTOCOL, encoding="utf-8")
    return path
