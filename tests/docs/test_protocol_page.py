"""The page about the protocol file names every field, and every protocol on any page is one that may be locked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import DOCS, blocks, first_words, protocols, section, text

from trialplate.admission import admit
from trialplate.errors import CONTRACT_FAULTS, DEFAULT_STATUS, HARNESS_FAULTS, POLICY_FAULTS
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.matching import as_suite, compare
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.registry import load_suite
from trialplate.spec import plan, protocol, stopping
from trialplate.spec.protocol import read_toml, structure_faults
from trialplate.spec.registration import Registration

WITH_ARMS = sorted(path.name for path in DOCS.glob("*.md") if any("[[arms]]" in b for b in blocks(path, "toml")))


def test_the_pages_that_show_arms_are_found() -> None:
    assert {"protocol.md", "policies.md", "adapters.md", "service.md"} <= set(WITH_ARMS)


@pytest.mark.parametrize("page", WITH_ARMS)
def test_every_protocol_on_a_page_is_admitted(page: str, tmp_path: Path) -> None:
    for body in protocols(page):
        for arm in read_toml(body, source=page)["arms"]:
            for file in (arm["policy"].partition(":")[0], *arm.get("weights", ())):
                if file.endswith((".py", ".npz")):
                    (tmp_path / file).parent.mkdir(exist_ok=True)
                    (tmp_path / file).touch()
        admit(body, source=page, base=tmp_path)


@pytest.mark.parametrize("page", WITH_ARMS)
def test_every_arm_on_a_page_that_an_operator_declares_fits_the_suite_behind_its_adapters(page: str) -> None:
    for body in protocols(page):
        parsed, faults = structure_faults(read_toml(body, source=page))
        assert parsed is not None, faults
        suite = load_suite(parsed.suite.name)
        for arm in parsed.arms:
            chain = AdapterChain(arm.adapters, suite.profiles[arm.profile or suite.default_profile], suite.action)
            if arm.scheme not in ("openpi", "served", "mailbox"):
                continue
            declared = arm.declares or as_suite(arm.as_suite, chain.observation, chain.action)  # type: ignore[arg-type]
            match = compare(
                chain.observation, chain.action, declared, replan_interval=arm.replan_interval, mapping=arm.mapping
            )
            assert match.problems == ()
            if arm.scheme == "openpi":
                OpenpiMapping(arm.mapping, declared.expects)


@pytest.mark.parametrize("page", ["protocol.md", "policies.md"])
def test_a_page_about_ways_to_attach_shows_each(page: str) -> None:
    shown = set()
    for body in protocols(page):
        parsed, faults = structure_faults(read_toml(body, source=page))
        assert parsed is not None, faults
        shown |= {arm.scheme for arm in parsed.arms}
    assert shown >= {"python", "served", "ws", "openpi", "mailbox"}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("`[suite]`", protocol.SuiteChoice),
        ("`[[arms]]`", protocol.ArmChoice),
        ("`[arms.as_suite]`", protocol.AsTheSuite),
        ("`[[arms.adapters]]`", protocol.AdapterChoice),
        ("`[budgets]`", protocol.Budgets),
        ("`[clocks]`", protocol.Clocks),
        ("`[schedule]`", protocol.SchedulePlan),
        ("`[stopping]`", stopping.StoppingPlan),
        ("`[analysis]`", plan.AnalysisPlan),
    ],
)
def test_every_field_of_a_table_is_documented(heading: str, model: type[protocol.Frozen]) -> None:
    assert first_words("protocol.md", heading) == set(model.model_fields)


def test_every_kind_of_claim_and_each_of_its_fields_is_documented() -> None:
    fields = {name for kind in plan.CLAIM_KINDS.values() for name in kind.model_fields}
    assert first_words("protocol.md", "`[[claims]]`") == fields | set(plan.CLAIM_KINDS)


def test_every_item_of_an_identity_is_documented() -> None:
    told = {name for name in Registration.model_fields if not name.endswith("_reason")}
    assert first_words("protocol.md", "`[arms.identity]`") == told - {"adapters", "server_metadata_sha256"}


def test_every_top_level_name_is_documented() -> None:
    names = {field.alias or name for name, field in protocol.Protocol.model_fields.items()}
    tables = set(re.findall(r"^## `\[+(\w+)\]+`", text(DOCS / "protocol.md"), flags=re.MULTILINE))
    assert first_words("protocol.md", "Top level") | tables == names


def test_every_fault_is_documented_with_its_class_and_its_default_status() -> None:
    shown: dict[str, dict[str, str]] = {}
    for line in section("protocol.md", "`[fault_table]`").splitlines():
        if found := re.search(r"\(class `(\w+)`\)", line):
            listed = shown[found[1]] = {}
        elif line.startswith("| `"):
            cells = line.split("|")
            listed |= dict.fromkeys(re.findall(r"`(\w+)`", cells[1]), cells[2].strip())
    classes = {"policy": POLICY_FAULTS, "protocol": CONTRACT_FAULTS, "infrastructure": HARNESS_FAULTS}
    assert shown == {kind: {code: DEFAULT_STATUS[code] for code in codes} for kind, codes in classes.items()}
