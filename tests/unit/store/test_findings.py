"""Findings: the table of codes, their order and the exit code that follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialplate.errors import CanonicalError, EvidenceError
from trialplate.store.findings import (
    MAX_FINDINGS,
    STAGE_NAMES,
    Collector,
    exit_code,
    finding,
    malformed,
    ordered,
    problem,
)

# One line per stage of the specification: code and exit.
TABLE = {
    "container": {"unreadable": 2, "archive_refused": 2, "not_regular_file": 2, "size_limit": 2, "path_unsafe": 2},
    "integrity": {"file_missing": 1, "file_extra": 1, "size_mismatch": 1, "hash_mismatch": 1, "expected_mismatch": 1},
    "signature": {"envelope_malformed": 2, "signature_invalid": 1, "signature_missing": 3},
    "documents": {"malformed": 2, "schema_mismatch": 2, "version_unsupported": 2, "trace_malformed": 2},
    "binding": {"lock_digest_mismatch": 1, "mixed_runs": 1, "late_lock": 3},
    "journal and rows": {"journal_broken": 1, "row_unplanned": 1, "coverage_incomplete": 3, "attempt_repeated": 3},
    "inputs": {"model_digest_mismatch": 1, "inputs_changed_during_run": 3},
    "qualification": {"qualification_failed": 3},
    "recomputation": {"grades_not_reproduced": 1, "scene_mismatch": 1, "grader_differs_from_lock": 3},
    "rules": {"not_confirmatory": 3, "stop_rule": 3, "exploratory_registration": 3},
    "replay": {"replay_mismatch": 1, "not_comparable_here": 3},
}
CODES = [(stage, code, number) for stage, codes in TABLE.items() for code, number in codes.items()]


@pytest.mark.parametrize(("stage", "code", "number"), CODES)
def test_a_code_has_its_stage_and_exit_code(stage: str, code: str, number: int) -> None:
    item = finding(code, "a.json")
    assert (STAGE_NAMES[item.stage], item.exit_code) == (stage, number)
    assert exit_code([item]) == number


def test_the_stages_stand_in_the_order_of_the_specification() -> None:
    assert list(TABLE) == list(STAGE_NAMES)


def test_no_finding_is_verified() -> None:
    assert exit_code([]) == 0


def test_the_first_stage_that_fails_decides() -> None:
    late, early = finding("stop_rule", "a"), finding("hash_mismatch", "b")
    assert exit_code([late, early]) == 1
    assert exit_code([finding("unreadable", "c"), early, late]) == 2
    assert exit_code([finding("late_lock", "d"), finding("grades_not_reproduced", "e")]) == 3


def test_inside_a_stage_malformed_comes_before_broken_before_blocked() -> None:
    three, one, two = (
        finding(code, "a") for code in ("signature_missing", "signature_invalid", "envelope_malformed")
    )
    assert exit_code([three, one]) == 1
    assert exit_code([three, one, two]) == 2
    assert exit_code([three]) == 3


@given(st.lists(st.sampled_from([code for _, code, _ in CODES]), max_size=6), st.randoms())
def test_the_order_of_findings_does_not_depend_on_the_order_of_the_checks(codes: list[str], order: object) -> None:
    items = [finding(code, f"{n % 3}.json") for n, code in enumerate(codes)]
    shuffled = list(items)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ordered(shuffled) == ordered(items)
    assert exit_code(shuffled) == exit_code(items)
    stages = [item.stage for item in ordered(items)]
    assert stages == sorted(stages)


def test_the_same_finding_is_told_once() -> None:
    assert len(ordered([finding("malformed", "a"), finding("malformed", "a")])) == 1


def test_an_unknown_code_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        finding("something_else", "a")


def test_a_problem_is_an_evidence_error_that_says_what_was_expected() -> None:
    error = problem("hash_mismatch", "rows.jsonl", pointer="line 3", expected="aa", found="bb")
    assert isinstance(error, EvidenceError)
    assert error.code == "hash_mismatch"
    assert error.message == "hash_mismatch: rows.jsonl at line 3: expected aa, found bb"


def test_a_refused_document_keeps_the_code_and_place_of_the_reader() -> None:
    item = malformed(
        "lock.json", CanonicalError("duplicate_key", "twice", pointer="/arms"), pointer="line 1 "
    ).finding
    assert (item.code, item.pointer) == ("malformed", "line 1 /arms")
    assert "duplicate_key" in item.found


def test_what_a_terminal_would_act_upon_is_escaped() -> None:
    item = finding("file_extra", "a\x1b[2J", pointer="\u202e", expected="\udcff", found="ä\n")
    assert (item.path, item.pointer, item.expected, item.found) == ("a\\x1b[2J", "\\u202e", "\\udcff", "ä\\n")


def test_of_too_many_findings_of_one_code_some_are_listed_and_the_rest_is_counted() -> None:
    found = Collector()
    for number in range(MAX_FINDINGS + 5):
        found.add("file_extra", f"{number:06d}")
    found.add("hash_mismatch", "lock.json")
    listed = found.listed()
    assert len(listed) == MAX_FINDINGS + 2
    assert [item.found for item in listed if item.path == "and others"] == [f"{MAX_FINDINGS + 5} in all"]
    assert exit_code(listed) == 1


def test_a_problem_is_kept_and_what_stands_behind_it_goes_on() -> None:
    found = Collector()
    with found.keeping():
        raise problem("malformed", "x")
    with found.keeping(), pytest.raises(ValueError, match="not ours"):
        raise ValueError("not ours")
    assert [item.code for item in found.listed()] == ["malformed"]
