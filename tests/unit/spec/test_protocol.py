"""Protocols: every mistake of a file is reported at once, with its path and the nearest known name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialplate import api
from trialplate.errors import ProtocolError, UsageError
from trialplate.spec.protocol import Protocol, read_toml, structure_faults


def _faults(path: Path) -> dict[str, str]:
    with pytest.raises(ProtocolError) as caught:
        api.load_protocol(path)
    return {fault.path: fault.message for fault in caught.value.faults}


def test_a_valid_protocol_is_read(toy_protocol: Path) -> None:
    loaded = api.load_protocol(toy_protocol)
    assert [arm.name for arm in loaded.protocol.arms] == ["null", "scripted", "oracle"]
    assert loaded.protocol.document()["schema"] == "trialplate.protocol/1"


def test_five_different_mistakes_are_all_reported(toy_protocol: Path) -> None:
    text = toy_protocol.read_text(encoding="utf-8")
    text = text.replace('policy = "control:null"', 'policy = "control:nul"')  # unknown control
    text = text.replace("repeats = 2", "repeats = 0")  # no episode
    text = text.replace("[schedule]", "[schedule]\nordre = 'shuffled'")  # unknown name
    text = text.replace('arm = "scripted"', 'arm = "scriptd"')  # unknown arm in a claim
    text = text.replace('run_class = "development"', 'run_class = "dev"')  # not in the list
    toy_protocol.write_text(text, encoding="utf-8")
    faults = _faults(toy_protocol)
    assert set(faults) == {"arms[0].policy", "suite.repeats", "schedule.ordre", "claims[0].arm", "run_class"}
    assert "'null'" in faults["arms[0].policy"]
    assert "'order'" in faults["schedule.ordre"]
    assert "'scripted'" in faults["claims[0].arm"]
    assert "got 0" in faults["suite.repeats"]


def test_an_unknown_suite_offers_the_nearest_name(toy_protocol: Path) -> None:
    toy_protocol.write_text(
        toy_protocol.read_text(encoding="utf-8").replace('name = "toy"\nversion', 'name = "pickplace"\nversion'),
        encoding="utf-8",
    )
    assert "pick-place" in _faults(toy_protocol)["suite.name"]


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "true", '"3"', "nan", "1000000000"])
def test_a_number_of_repeats_that_is_none_is_refused(toy_protocol: Path, value: str) -> None:
    text = toy_protocol.read_text(encoding="utf-8").replace("repeats = 2", f"repeats = {value}")
    toy_protocol.write_text(text, encoding="utf-8")
    faults = _faults(toy_protocol)
    assert "suite.repeats" in faults or any("no place" in message for message in faults.values())


def test_another_suite_version_is_refused(toy_protocol: Path) -> None:
    text = toy_protocol.read_text(encoding="utf-8").replace('version = "1"', 'version = "2"')
    toy_protocol.write_text(text, encoding="utf-8")
    assert "two benchmarks" in _faults(toy_protocol)["suite.version"]


def test_a_fault_of_the_harness_cannot_count_as_fail(toy_protocol: Path) -> None:
    text = (
        toy_protocol.read_text(encoding="utf-8")
        + '\n[fault_table]\nsimulator_crash = "FAIL"\npolicy_exeption = "FAIL"\n'
    )
    toy_protocol.write_text(text, encoding="utf-8")
    faults = _faults(toy_protocol)
    assert "cannot count as FAIL; expected ERROR or EXCLUDED" in faults["fault_table.simulator_crash"]
    assert "policy_exception" in faults["fault_table.policy_exeption"]


def test_text_that_is_not_toml_names_the_line(toy_protocol: Path) -> None:
    toy_protocol.write_text("name = \n", encoding="utf-8")
    assert "line 1" in _faults(toy_protocol)[""]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.toml"):
        api.load_protocol(tmp_path / "nothing.toml")


def test_a_protocol_is_immutable(toy_protocol: Path) -> None:
    protocol: Protocol = api.load_protocol(toy_protocol).protocol
    with pytest.raises(ValueError, match="frozen"):
        protocol.name = "other"  # type: ignore[misc]


DECLARES = """
schema = "trialplate.protocol/1"
name = "declared"
question = "what is left out?"
run_class = "development"
suite = { name = "toy-reach", version = "1" }

[[arms]]
name = "driver"
policy = "served"

[arms.declares.expects]
proprio = [{ name = "ee_quat", dim = 4, unit = "1", frame = "base" }]

[arms.declares.emits]
control_hz = 20
dim = 1

[[arms.declares.emits.components]]
name = "gripper"
dim = 1
kind = "gripper"
mode = "absolute"
unit = "1"
low = [0.0]
high = [1.0]
gripper = { closed = 0.0, open = 1.0 }
"""


def test_a_convention_that_an_operator_leaves_out_is_null_and_not_a_mistake_of_the_file() -> None:
    protocol, faults = structure_faults(read_toml(DECLARES, source="declared.toml"))
    assert protocol is not None, faults
    declared = protocol.arms[0].declares
    assert declared is not None
    assert declared.expects.proprio[0].rotation is None
    assert (declared.emits.components[0].frame, declared.emits.components[0].delta_base) == (None, None)


def test_one_wrong_item_of_a_list_is_one_mistake() -> None:
    text = DECLARES.replace('unit = "1"\nlow', 'unit = "inch"\nlow')
    _, faults = structure_faults(read_toml(text, source="declared.toml"))
    assert [fault.path for fault in faults] == ["arms[0].declares.emits.components[0].unit"]


@pytest.mark.parametrize("line", ["declares = 3", "declares = { expects = 1, emits = [] }"])
def test_a_declaration_that_is_no_table_is_a_mistake_and_no_crash(line: str) -> None:
    text = DECLARES[: DECLARES.index("[arms.declares")] + line
    protocol, faults = structure_faults(read_toml(text, source="declared.toml"))
    assert protocol is None
    assert all(fault.path.startswith("arms[0].declares") for fault in faults)
