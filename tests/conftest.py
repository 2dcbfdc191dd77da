"""Shared fixtures: a toy protocol that runs in milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from toy_protocol import TOY_PROTOCOL


@pytest.fixture
def toy_protocol(tmp_path: Path) -> Path:
    """A valid protocol of the toy suite, alone in its folder."""
    folder = tmp_path / "study"
    folder.mkdir()
    path = folder / "protocol.toml"
    path.write_text(TOY_PROTOCOL, encoding="utf-8")
    return path
