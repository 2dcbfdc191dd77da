"""Protocols: every mistake of a file is reported at once, with its path and the nearest known name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trialplate import api
from trialplate.errors import ProtocolError, UsageError
from trialplate.spec.protocol import Protocol


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
    assert "cannot count as FAIL" in faults["fault_table.simulator_crash"]
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
