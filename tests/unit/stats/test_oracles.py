"""Statistics are held to independent libraries that are always there: without one, tests fail and skip nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = sorted(Path(__file__).parent.glob("test_*.py"))
ORACLES = {
    "choix": "choix",
    "krippendorff": "krippendorff",
    "lifelines": "lifelines",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "statsmodels": "statsmodels",
}
"""Import name -> name in the requirements."""


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def test_every_independent_library_is_used() -> None:
    assert set(ORACLES) <= set().union(*map(imported, FILES))


@pytest.mark.parametrize("package", ORACLES.values())
def test_every_independent_library_is_pinned(package: str) -> None:
    pins = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    assert re.search(rf"^{package}==", pins, flags=re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_test_of_statistics_can_leave_itself_out(path: Path) -> None:
    called = [
        node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in called}
    assert not names & {"importorskip", "skip", "skipif", "xfail"}
