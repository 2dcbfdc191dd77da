"""The benchmarks run and report; how fast this machine is, is no test."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
LINE = re.compile(r"^(.+): (?:[-+.\de]+(?: [A-Za-z]+)? \(must be .+\) (PASS|FAIL)|not available here .+)$")
TABLE = FOLDER / "table.py"
SCRIPTS = sorted(path for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))
SCRIPTS.remove(TABLE)
NEEDS_GL = "cameras.py"


def _python(script: str) -> str:
    """Run a few lines beside the benchmarks and return what they print."""
    done = subprocess.run([sys.executable, "-c", script], cwd=FOLDER, capture_output=True, text=True, check=True)
    return done.stdout


def _marked(path: Path) -> object:
    marks = [pytest.mark.slow] if path.name != "startup.py" else []
    return pytest.param(path, id=path.stem, marks=[*marks, *([pytest.mark.gl] if path.name == NEEDS_GL else [])])


@pytest.mark.parametrize("script", [_marked(path) for path in SCRIPTS])
def test_a_quick_benchmark_prints_every_figure_for_machines_and_for_people(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script), "--quick"], capture_output=True, text=True, timeout=300)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    documents, sentences = [json.loads(line) for line in lines[0::2]], [LINE.match(line) for line in lines[1::2]]
    assert documents
    for document, sentence in zip(documents, sentences, strict=True):
        assert sentence is not None, done.stdout
        assert sentence[1] == document["name"]
        assert sentence[2] == {True: "PASS", False: "FAIL", None: None}[document["passed"]]
        assert document["value"] is None or document["value"] > 0
    assert done.returncode == (1 if any(document["passed"] is False for document in documents) else 0)


def test_the_table_runs_every_benchmark() -> None:
    listed = _python("import table; print(*table.SCRIPTS)").split()
    assert sorted(listed) == [path.name for path in SCRIPTS]


def test_the_page_has_a_place_for_the_table_and_explains_every_benchmark() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    markers = _python("import table; print(table.BEGIN); print(table.END)").splitlines()
    assert [page.count(marker) for marker in markers] == [1, 1]
    assert [path.name for path in SCRIPTS if f"benchmarks/{path.name}" not in page] == []


def test_a_missed_target_fails_and_an_unmeasured_figure_does_not() -> None:
    script = """
import figures, sys
sys.argv = ["x"]
def run(*values):
    try:
        figures.main(lambda quick: [figures.Figure("f", v, ">=", 2.0, "", "n") for v in values], "")
    except SystemExit as end:
        print("exit", end.code)
run(2.0, None)
run(3.0, 1.9)
"""
    told = [line for line in _python(script).splitlines() if not line.startswith("{")]
    assert told == [
        "f: 2 (must be >= 2) PASS",
        "f: not available here (must be >= 2): n",
        "exit 0",
        "f: 3 (must be >= 2) PASS",
        "f: 1.9 (must be >= 2) FAIL",
        "exit 1",
    ]


def test_a_ratio_is_the_median_over_rounds_of_their_time_over_ours() -> None:
    script = "import figures; print(figures.Turns((1.0, 2.0, 9.0), (2.0, 2.0, 3.0)).speed_ratio)"
    assert float(_python(script)) == 1.0
