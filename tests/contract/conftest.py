"""Campaigns of one arm whose source the test writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from toy_campaigns import PROTOCOL

from trialplate import api


@pytest.fixture
def campaign(tmp_path: Path) -> Callable[..., Path]:
    """Run the protocol with an arm's source into a folder of that name; ``edits``: text of the protocol -> other.

    ``lock_only``: lock it, and let the test run it.
    """

    def make(
        name: str, source: str, *, edits: Mapping[str, str] | None = None, lock_only: bool = False, **how: Any
    ) -> Path:
        text = PROTOCOL
        for old, new in (edits or {}).items():
            assert old in text
            text = text.replace(old, new)
        study = tmp_path / "study"
        study.mkdir(exist_ok=True)
        (study / "mine.py").write_text(source, encoding="utf-8")
        protocol = study / f"{name}.toml"
        protocol.write_text(text, encoding="utf-8")
        folder = tmp_path / name
        lock = api.lock(api.load_protocol(protocol), into=folder)
        if not lock_only:
            api.run(lock, **how)
        return folder

    return make
