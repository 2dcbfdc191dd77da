"""One sealed campaign for all tests of this folder; every test that changes it takes a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sealed import Golden, make_golden


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """A campaign, its controls, and the bundle of both. Only copied, never changed."""
    return make_golden(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def bundle(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the golden bundle, under its own name, to be changed."""
    return Path(shutil.copytree(golden.bundle, tmp_path / "copy" / golden.bundle.name))


@pytest.fixture
def lean(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the bundle without raw controls, to be changed."""
    return Path(shutil.copytree(golden.lean, tmp_path / "lean" / golden.lean.name))
