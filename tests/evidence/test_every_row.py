"""Section 13 of the evidence specification has sixty rows; each has a test that carries its number."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ELSEWHERE = (HERE.parent / "e2e" / "test_dishonest_arms.py",)
"""Tests of rows of the same table that need whole runs; other files number the rows of other tables."""
ROWS = 60


def test_every_row_of_the_table_has_a_test_with_its_number_and_no_test_has_another() -> None:
    numbered: dict[int, list[str]] = {}
    for path in (*sorted(HERE.glob("test_*.py")), *ELSEWHERE):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (found := re.match(r"test_row_(\d\d)_", node.name)):
                numbered.setdefault(int(found[1]), []).append(node.name)
    assert sorted(numbered) == list(range(1, ROWS + 1))
