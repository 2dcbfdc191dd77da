"""House rules that a machine can check, on the whole tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "trialplate"
SOURCES = sorted(SRC.rglob("*.py"))
HEAVY = ("mujoco", "mink", "daqp", "scipy", "pyarrow", "altair", "vl_convert", "av", "jinja2", "rich", "cyclopts")
LONGEST_FILE = 400
LONGEST_STANDALONE = 860
"""The one file that imports nothing of ours: it is read, and shipped in every bundle, as a whole."""
LONGEST_FUNCTION = 45


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _repository_files() -> list[Path]:
    """Files that git tracks or would track; of a copy without git, everything outside hidden folders."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        found = [ROOT / name for name in listed if name]
    else:
        found = [path for path in ROOT.rglob("*") if not path.relative_to(ROOT).parts[0].startswith(".venv")]
    return [path for path in found if path.is_file()]


def test_there_are_sources_to_check() -> None:
    assert len(SOURCES) > 40


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_source_file_fits_on_a_few_pages(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    longest = LONGEST_STANDALONE if path.parent.name == "standalone" else LONGEST_FILE
    assert lines <= longest, f"{_name(path)} has {lines} lines; split it by idea"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_function_fits_on_one_page(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            statements = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
            assert statements <= LONGEST_FUNCTION, f"{_name(path)}: {node.name} has {statements} statements"


def test_no_file_is_named_for_no_idea_in_particular() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|common|misc|managers?)(_|$)")
    assert [_name(path) for path in SOURCES if vague.search(path.stem)] == []


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_clipped(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("clip", "nan_to_num"), f"{_name(path)}:{node.lineno}: reject, never repair"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_nothing_is_unfinished(path: Path) -> None:
    words = ("TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error", "place" + "holder")
    text = path.read_text(encoding="utf-8")
    assert [word for word in words if word in text] == []


def test_no_file_names_a_package_registry_or_a_path_of_a_machine() -> None:
    hosts = (r"p[y]pi\.org", r"p[y]thonhosted", r"registry\.n[p]mjs", r"d[e]b\.debian\.org", r"c[d]n\.|u[n]pkg\.com")
    paths = (r"/w[o]rk/", r"/r[o]ot/", r"/h[o]me/\w", r"/f[a]rm/")
    forbidden = re.compile("|".join(hosts + paths))
    found = []
    for path in _repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and other binary files
        found += [f"{_name(path)}: {match.group()}" for match in forbidden.finditer(text)]
    assert found == []


@pytest.mark.parametrize("module", ["trialplate", "trialplate.suites.pick_place"])
def test_importing_the_package_loads_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_a_verb_stays_a_function_after_the_room_of_the_same_name_was_imported() -> None:
    script = (
        "import trialplate as tp; import trialplate.lock, trialplate.run.loop, trialplate.report.page\n"
        "print(*[name for name in ('lock', 'run', 'report') if type(getattr(tp, name)).__name__ != 'function'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


def test_every_room_of_the_house_is_under_the_contract_that_keeps_verdicts_off_live_worlds() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    verdicts = contracts["importlinter:contract:verdicts"]
    bound = {name.removeprefix("trialplate.") for name in verdicts["source_modules"].split()}
    rooms = {path.name for path in SRC.iterdir() if path.is_dir()} & {"scoring", "stats", "claims", "report"}
    assert rooms <= bound
    assert {"trialplate.worlds", "trialplate.policies", "trialplate.run", "mujoco"} <= set(
        verdicts["forbidden_modules"].split()
    )


def test_the_layer_picture_for_people_is_the_one_that_is_checked() -> None:
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    checked = contracts["importlinter:contract:layers"]["layers"].strip().splitlines()
    picture = re.search(r"```text\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    assert picture is not None
    drawn = [re.split(r"\s{2,}", line)[0] for line in picture.group(1).strip().splitlines()]
    present = [
        [name for name in re.findall(r"\w+", line) if (SRC / name).is_dir() or (SRC / f"{name}.py").is_file()]
        for line in checked
    ]
    assert [re.findall(r"\w+", line) for line in drawn] == [line for line in present if line]


# -- requirement files -----------------------------------------------------------------------------------------


def _wanted(name: str) -> set[str]:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return {line for line in text.splitlines() if line and not line.startswith(("#", "-r"))}


def _pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8").replace("\\\n", " ")
    pins = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            requirement, *hashes = line.split("--hash=")
            assert hashes, f"{name}: no hash for {requirement}"
            package, _, version = requirement.split(";")[0].strip().partition("==")
            pins[package] = version
    return pins


def test_the_requirement_file_asks_for_what_the_package_depends_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["project"]["dependencies"]) == _wanted("run.in") - {"setuptools>=77", "wheel"}


@pytest.mark.parametrize("name", ["run", "dev"])
def test_every_wanted_package_is_pinned_with_a_hash(name: str) -> None:
    wanted = {re.split(r"[\[<>=]", line)[0] for line in _wanted(f"{name}.in")}
    assert wanted <= _pins(f"{name}.txt").keys()


def test_developers_run_what_users_run() -> None:
    run, dev = _pins("run.txt"), _pins("dev.txt")
    assert {package: dev.get(package) for package in run} == run
