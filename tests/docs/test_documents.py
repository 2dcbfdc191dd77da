"""Documents that break when they lie."""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import pytest
from cyclopts import App

import trialplate
from trialplate.admission import admit
from trialplate.cli import app
from trialplate.errors import CONTRACT_FAULTS, DEFAULT_STATUS, HARNESS_FAULTS, POLICY_FAULTS
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.adapters.conversions import CONVERSIONS
from trialplate.policies.matching import as_suite, compare
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.registry import load_suite
from trialplate.spec import protocol
from trialplate.spec.protocol import read_toml, structure_faults
from trialplate.spec.registration import Registration
from trialplate.store import layout
from trialplate.store.findings import STAGE_NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
MADE_BY_COMMANDS = {"site/", "report.html", "still.py"}
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _blocks(path: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(_text(path)) if name == language]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _table_rows(page: str, heading: str) -> set[str]:
    """Return the code words in the first column of the tables under a heading."""
    section = re.split(r"^## ", _text(DOCS / page), flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(heading))
    first_cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("|")]
    return set(re.findall(r"`([^`]+)`", " ".join(first_cells)))


def test_the_navigation_lists_every_page_and_only_pages_that_exist() -> None:
    listed = re.findall(r":\s+([\w/.-]+\.md)$", _text(ROOT / "mkdocs.yml"), flags=re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", _text(page))
    assert [t for t in targets if "://" not in t and not (page.parent / t).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_named_file_exists(page: Path) -> None:
    prose = FENCE.sub("", _text(page))
    named = re.findall(r"`(\.?[\w-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|md|toml|json|yml))`", prose)
    if page.is_relative_to(DOCS):  # pages also name files of a campaign and of the reader
        named = [name for name in named if name.startswith(("src/", "tests/", "docs/", "tools/", "benchmarks/"))]
    missing = [
        name
        for name in named
        if name not in MADE_BY_COMMANDS and not (ROOT / name).exists() and not list(ROOT.glob(f"src/**/{name}"))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_python_block_compiles(page: Path) -> None:
    for body in _blocks(page, "python"):
        compile(textwrap.dedent(body), str(page), "exec")


def test_the_main_path_is_the_same_wherever_it_is_shown() -> None:
    (readme,) = _blocks(ROOT / "README.md", "python")
    assert readme in _blocks(DOCS / "index.md", "python")
    verbs = re.findall(r"tp\.(\w+)\(", readme)
    assert verbs == ["load_protocol", "lock", "run", "score", "analyse", "judge", "report"]
    assert re.findall(r"tp\.(\w+)\(", trialplate.__doc__ or "") == verbs


def test_the_readme_is_short() -> None:
    assert len(_text(ROOT / "README.md").splitlines()) <= 60


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_named_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", _text(ROOT / "Makefile"), flags=re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)\b", re.sub(r"to make \w+", "", _text(ROOT / page))))
    assert named and named <= targets


# -- protocol page ---------------------------------------------------------------------------------------------


def _protocols(page: str) -> list[str]:
    """Return every protocol of a page; a block that only has arms stands below the head of the whole one."""
    whole = _blocks(DOCS / "protocol.md", "toml")[0]
    head = whole[: whole.index("[[arms]]")]
    return [text if text.startswith("schema") else head + text for text in _blocks(DOCS / page, "toml")]


@pytest.mark.parametrize("page", ["protocol.md", "policies.md"])
def test_every_protocol_on_a_page_is_admitted(page: str, tmp_path: Path) -> None:
    protocols = _protocols(page)
    assert len(protocols) >= 5
    for text in protocols:
        for arm in read_toml(text, source=page)["arms"]:
            for name in (arm["policy"].partition(":")[0], *arm.get("weights", ())):
                if name.endswith((".py", ".npz")):
                    (tmp_path / name).parent.mkdir(exist_ok=True)
                    (tmp_path / name).touch()
        admit(text, source=page, base=tmp_path)


@pytest.mark.parametrize("page", ["protocol.md", "policies.md"])
def test_every_arm_on_a_page_that_an_operator_declares_fits_the_suite_behind_its_adapters(page: str) -> None:
    suite, looked_at = load_suite("pick-place"), set()
    for text in _protocols(page):
        parsed, faults = structure_faults(read_toml(text, source=page))
        assert parsed is not None, faults
        for arm in parsed.arms:
            if arm.scheme not in ("openpi", "served", "mailbox"):
                continue
            chain = AdapterChain(arm.adapters, suite.profiles[arm.profile or suite.default_profile], suite.action)
            declared = arm.declares or as_suite(arm.as_suite, chain.observation, chain.action)
            match = compare(
                chain.observation, chain.action, declared, replan_interval=arm.replan_interval, mapping=arm.mapping
            )
            assert match.problems == ()
            if arm.scheme == "openpi":
                OpenpiMapping(arm.mapping, declared.expects)
            looked_at.add(arm.scheme)
    assert looked_at == {"openpi", "served", "mailbox"}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("`[suite]`", protocol.SuiteChoice),
        ("`[[arms]]`", protocol.ArmChoice),
        ("`[arms.as_suite]`", protocol.AsTheSuite),
        ("`[[arms.adapters]]`", protocol.AdapterChoice),
        ("`[budgets]`", protocol.Budgets),
        ("`[schedule]`", protocol.SchedulePlan),
        ("`[analysis]`", protocol.AnalysisPlan),
        ("`[[claims]]`", protocol.ThresholdClaim),
    ],
)
def test_every_field_of_a_table_is_documented(heading: str, model: type[protocol.Frozen]) -> None:
    assert _table_rows("protocol.md", heading) == set(model.model_fields)


def test_every_item_of_an_identity_is_documented() -> None:
    told = {name for name in Registration.model_fields if not name.endswith("_reason")}
    assert _table_rows("protocol.md", "`[arms.identity]`") == told - {"adapters", "server_metadata_sha256"}


def test_every_top_level_name_is_documented() -> None:
    names = {field.alias or name for name, field in protocol.Protocol.model_fields.items()}
    tables = set(re.findall(r"^## `\[+(\w+)\]+`", _text(DOCS / "protocol.md"), flags=re.MULTILINE))
    assert _table_rows("protocol.md", "Top level") | tables == names


def test_every_fault_is_documented_with_its_class_and_its_default_status() -> None:
    body = next(p for p in re.split(r"^## ", _text(DOCS / "protocol.md"), flags=re.MULTILINE) if p[:6] == "`[faul")
    shown: dict[str, dict[str, str]] = {}
    for line in body.splitlines():
        if found := re.search(r"\(class `(\w+)`\)", line):
            rows = shown[found[1]] = {}
        elif line.startswith("| `"):
            cells = line.split("|")
            rows |= dict.fromkeys(re.findall(r"`(\w+)`", cells[1]), cells[2].strip())
    classes = {"policy": POLICY_FAULTS, "protocol": CONTRACT_FAULTS, "infrastructure": HARNESS_FAULTS}
    assert shown == {name: {code: DEFAULT_STATUS[code] for code in codes} for name, codes in classes.items()}


def test_every_adapter_is_documented_with_its_parameters() -> None:
    parameters = {name: {*shipped.required, *shipped.optional} for name, shipped in CONVERSIONS.items()}
    parameters |= {"rename": {"to"}, "libero-state-8d": {"position", "rotation", "fingers", "to"}}
    page = re.split(r"^## ", _text(DOCS / "policies.md"), flags=re.MULTILINE)
    body = next(part for part in page if part.startswith("Bridging a difference"))
    shown = {}
    for line in body.splitlines():
        cells = line.split("|")
        if line.startswith("| `") and ":attr" not in cells[1]:
            names = set(re.findall(r"`([\w-]+)`", cells[3]))
            shown |= dict.fromkeys(re.findall(r"`([\w-]+)`", cells[1]), names)
    assert shown == parameters


# -- other pages -----------------------------------------------------------------------------------------------


def test_every_public_name_is_on_the_python_page() -> None:
    shown = {line.rsplit(".", 1)[1] for line in _text(DOCS / "api.md").splitlines() if line.startswith(":::")}
    assert set(trialplate.__all__) <= shown


def test_the_suite_page_counts_scenarios_as_the_manifest_does() -> None:
    rows = [line.split("|")[1:4] for line in _text(DOCS / "suites" / "pick-place.md").splitlines() if line[:1] == "|"]
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
    page = _text(DOCS / "evidence.md")
    files = {*layout.TOP_FILES, layout.ROW, layout.TRACE} - {"summary.json", "report.html"}
    assert {name for name in files if f"`{name}`" not in page} == set()


def test_the_evidence_page_lists_stages_in_the_order_of_the_check() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| [^|]*\? ?[^|]*\|$", _text(DOCS / "evidence.md"), flags=re.MULTILINE)
    assert len(rows) >= 7
    assert rows == [name for name in STAGE_NAMES if name in rows]


def test_the_suite_page_lists_the_stages_in_order() -> None:
    page = _text(DOCS / "suites" / "pick-place.md")
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
    sections = re.split(r"^### `trialplate ", _text(DOCS / "commands.md"), flags=re.MULTILINE)[1:]
    shown: dict[str, set[str]] = {}
    for section in sections:
        head, _, body = section.partition("\n")
        name = " ".join(re.findall(r"\b[a-z]+\b", head.split("--")[0]))
        shown[name] = set(re.findall(r"^\* `(--[a-z-]+)`", body, flags=re.MULTILINE))
    assert shown == _commands()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    known = {name.split()[0] for name in _commands()}
    named = set(re.findall(r"(?:`|^|\$ )trialplate ([a-z]+)\b", _text(page), flags=re.MULTILINE))
    assert named - {"does", "is"} <= known
