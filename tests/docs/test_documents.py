"""Documents that break when they lie."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest
from cyclopts import App
from pages import DOCS, FENCE, PAGES, ROOT, blocks, page_name, text

import trialplate
from trialplate.cli import app
from trialplate.registry import load_suite
from trialplate.store import layout

MADE_BY_COMMANDS = {"site/", "report.html", "still.py"}


def test_the_navigation_lists_every_page_and_only_pages_that_exist() -> None:
    listed = re.findall(r":\s+([\w/.-]+\.md)$", text(ROOT / "mkdocs.yml"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text(page))
    assert [t for t in targets if "://" not in t and not (page.parent / t).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_named_file_exists(page: Path) -> None:
    prose = FENCE.sub("", text(page))
    named = re.findall(r"`(\.?[\w-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|md|toml|json|yml))`", prose)
    if page.is_relative_to(DOCS):  # pages also name files of a campaign and of the reader
        named = [file for file in named if file.startswith(("src/", "tests/", "docs/", "tools/", "benchmarks/"))]
    missing = [
        file
        for file in named
        if file not in MADE_BY_COMMANDS and not (ROOT / file).exists() and not list(ROOT.glob(f"src/**/{file}"))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_python_block_compiles(page: Path) -> None:
    for body in blocks(page, "python"):
        compile(textwrap.dedent(body), str(page), "exec")


def test_the_main_path_is_the_same_wherever_it_is_shown() -> None:
    (readme,) = blocks(ROOT / "README.md", "python")
    assert readme in blocks(DOCS / "index.md", "python")
    verbs = re.findall(r"tp\.(\w+)\(", readme)
    assert verbs == ["load_protocol", "lock", "run", "score", "analyse", "judge", "report"]
    assert re.findall(r"tp\.(\w+)\(", trialplate.__doc__ or "") == verbs


def test_the_readme_is_short() -> None:
    assert len(text(ROOT / "README.md").splitlines()) <= 64


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_named_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text(ROOT / "Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)\b", re.sub(r"to make \w+", "", text(ROOT / page))))
    assert named and named <= targets


def test_every_public_name_is_on_the_python_page() -> None:
    shown = {line.rsplit(".", 1)[1] for line in text(DOCS / "api.md").splitlines() if line.startswith(":::")}
    assert set(trialplate.__all__) <= shown


def test_the_suite_page_counts_scenarios_as_the_manifest_does() -> None:
    rows = [line.split("|")[1:4] for line in text(DOCS / "suites" / "pick-place.md").splitlines() if line[:1] == "|"]
    shown: dict[str, int] = {}
    for _, variants, counts in rows:
        numbers = re.findall(r"\d+", counts)
        names = re.findall(r"`([a-z_]+)`", variants)
        if names and len(names) == len(numbers) and re.fullmatch(r"[\d, ]+", counts):
            shown |= {name: int(number) for name, number in zip(names, numbers, strict=True)}
    counted: dict[str, int] = {}
    for scenario in load_suite("pick-place").scenarios():
        counted[scenario.variant] = counted.get(scenario.variant, 0) + 1
    assert shown == counted


def test_the_evidence_page_names_every_file_of_a_campaign() -> None:
    page = text(DOCS / "evidence.md")
    files = {*layout.TOP_FILES, layout.ROW, layout.TRACE} - {"report.html"}
    assert {name for name in files if f"`{name}`" not in page} == set()


def test_the_suite_page_lists_the_stages_in_order() -> None:
    page = text(DOCS / "suites" / "pick-place.md")
    assert tuple(re.findall(r"^\| \d \| `(\w+)`", page, flags=re.MULTILINE)) == load_suite("pick-place").chain.names


def _commands() -> dict[str, set[str]]:
    """Return every command with its options, read from the functions that implement them."""
    found: dict[str, set[str]] = {}

    def collect(group: App, words: tuple[str, ...]) -> None:
        for name in (name for name in group if not name.startswith("-")):
            command = group[name].default_command
            if command is None:
                collect(group[name], (*words, name))
                continue
            parameters = inspect.signature(command).parameters.values()
            named = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
            found[" ".join((*words, name))] = {f"--{option.replace('_', '-')}" for option in named - {"json"}}

    collect(app, ())
    return found


def test_every_command_and_option_is_documented_and_no_other() -> None:
    sections = re.split(r"^### `trialplate ", text(DOCS / "commands.md"), flags=re.MULTILINE)[1:]
    shown: dict[str, set[str]] = {}
    for section in sections:
        head, _, body = section.partition("\n")
        name = " ".join(re.findall(r"\b[a-z]+\b", head.split("--")[0]))
        shown[name] = set(re.findall(r"^\* `(--[a-z-]+)`", body, flags=re.MULTILINE))
    assert shown == _commands()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    known = {name.split()[0] for name in _commands()}
    named = set(re.findall(r"(?:`|^|\$ )trialplate ([a-z]+)\b", text(page), flags=re.MULTILINE))
    assert named - {"does", "is"} <= known


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_line_of_shell_that_calls_trialplate_is_understood(page: Path) -> None:
    for body in blocks(page, "sh"):
        for line in re.findall(r"^(?:\$ )?trialplate (.+)$", body.replace("\\\n", " "), flags=re.MULTILINE):
            app.parse_args(line.partition(" #")[0], exit_on_error=False, print_error=False)


def test_every_room_of_the_policies_has_its_line() -> None:
    page = text(ROOT / "CONTRIBUTING.md")
    shown = set(
        re.findall(r"`(\w+(?:/|\.py))`", page[page.index("## The rooms") : page.index("## How to add a transport")])
    )
    rooms = ROOT / "src" / "trialplate" / "policies"
    there = {path.name for path in rooms.glob("*.py")} - {"__init__.py"}
    assert shown == there | {f"{path.parent.name}/" for path in rooms.glob("*/__init__.py")}
