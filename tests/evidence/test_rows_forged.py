"""Many rows of the evidence specification, section 13, with their numbers: somebody who recomputes digests."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forger import Forger, patient_forger, writable
from sealed import PROTOCOL, Golden, edit, make_campaign, reseal, write
from trialplate import exam, sealing
from trialplate.canonical import canonical_json, document_sha256, sha256_hex
from trialplate.store import merkle
from trialplate.store.expected import Expected
from trialplate.store.view import read_campaign

Records = list[dict[str, Any]]
COSTS = ("calls", "input_tokens", "output_tokens", "cost", "requests")


def _codes(folder: Path, **options: Any) -> tuple[int, list[str]]:
    verdict = exam.verify(folder, **options)
    return verdict.exit_code, list(dict.fromkeys(item.code for item in verdict.findings))


@pytest.fixture
def campaign(golden: Golden, tmp_path: Path) -> Path:
    """A copy of the golden campaign, to be forged."""
    return writable(Path(shutil.copytree(golden.campaign, tmp_path / "campaign")))


def _lines(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    write(path, b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))


def _of(records: Records, kind: str, trial_id: str) -> int:
    return next(n for n, r in enumerate(records) if r["type"] == kind and r["data"]["trial_id"] == trial_id)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed campaign whose arms run out of control steps."""
    folder = tmp_path_factory.mktemp("failed")
    short = PROTOCOL.replace("\n[fault_table]", "\n[budgets]\nmax_steps = 12\n\n[fault_table]")
    return sealing.seal(make_campaign(folder, protocol=short), folder / "bundles").path


# -- rows 3 to 7: rows and what is computed from them --------------------------------------------------------------


def test_row_03_a_fail_that_was_set_to_pass_is_not_reproduced(failed: Path, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(failed, tmp_path / failed.name))

    def passed(lines: list[bytes]) -> list[bytes]:
        assert any(b'"status":"FAIL"' in line for line in lines)
        return [line.replace(b'"status":"FAIL"', b'"status":"PASS"') for line in lines]

    _lines(bundle / "results.jsonl", passed)
    exit_code, found = _codes(reseal(bundle))
    assert exit_code == 1 and "grades_not_reproduced" in found


def test_row_03_a_row_that_was_edited_is_not_the_one_of_its_end(lean: Path) -> None:
    edit(lean / "episodes/000003-0/row.json", lambda row: row.update(termination="policy_stop", fault_message="x"))
    other = (lean / "episodes/000003-0/row.json").read_bytes()
    lean = reseal(lean)
    assert _codes(lean) == (1, ["hash_mismatch"])
    _lines(lean / "rows.jsonl", lambda lines: [*lines[:3], other, *lines[4:]])
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 1 and "rows_digest_mismatch" in found


def test_row_04_a_row_that_was_dropped_is_missed(lean: Path) -> None:
    _lines(lean / "rows.jsonl", lambda lines: lines[:4] + lines[5:])
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 1 and "rows_digest_mismatch" in found


def test_row_04_a_trial_of_which_every_record_was_dropped_leaves_a_hole_in_the_schedule(campaign: Path) -> None:
    forger = patient_forger(campaign)
    forger.records = [record for record in forger.records if record["data"].get("trial_id") != "000011"]
    shutil.rmtree(campaign / "episodes/000011-0")
    forger.recount()
    forger.seal()
    assert _codes(campaign) == (3, ["coverage_incomplete"])


def _twice(forger: Forger) -> None:
    end = _of(forger.records, "attempt.end", "000004")
    forger.records.insert(end + 1, forger.records[end])


def _exchanged(forger: Forger) -> None:
    records = forger.records
    one, other = _of(records, "attempt.start", "000003"), _of(records, "attempt.start", "000005")
    assert records[one]["data"]["arm"] == records[other]["data"]["arm"]
    records[one : one + 2], records[other : other + 2] = records[other : other + 2], records[one : one + 2]


def _unplanned(forger: Forger) -> None:
    forger.records[_of(forger.records, "attempt.start", "000005")]["data"]["trial_id"] = "000099"


def _relabelled(forger: Forger) -> None:
    data = forger.records[_of(forger.records, "attempt.start", "000005")]["data"]
    data["arm"] = {"mine": "scripted", "scripted": "mine"}[data["arm"]]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_twice, "row_duplicated"),
        (_exchanged, "row_order"),
        (_unplanned, "row_unplanned"),
        (_relabelled, "row_unplanned"),
    ],
)
def test_row_05_a_row_twice_out_of_order_unplanned_or_of_another_arm_is_found(
    campaign: Path, change: Callable[[Forger], None], code: str
) -> None:
    forger = patient_forger(campaign)
    change(forger)
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 1 and code in found


def _members(document: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every object in a document with the name of each of its members."""
    if isinstance(document, dict):
        yield from ((document, name) for name in document)
    for item in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from _members(item)


@pytest.mark.parametrize("known", [True, False])
def test_row_06_a_count_that_was_edited_or_an_unknown_one_that_was_set_to_0_is_not_reproduced(
    lean: Path, known: bool
) -> None:
    def cheaper(summary: dict[str, Any]) -> None:
        arms = [(item, name) for item, name in _members(summary["arms"]) if name in COSTS]
        item, name = next((item, name) for item, name in arms if (type(item[name]) is int) == known)
        assert item[name] is None or item[name] > 0
        item[name] = 0

    edit(lean / "summary.json", cheaper)
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 1 and "accounting_not_reproduced" in found


@pytest.mark.parametrize(
    ("name", "code"), [("analysis.json", "analysis_not_reproduced"), ("claims.json", "claims_not_reproduced")]
)
def test_row_07_an_analysis_or_a_claim_that_was_edited_is_not_reproduced(lean: Path, name: str, code: str) -> None:
    text = (lean / name).read_bytes()
    write(lean / name, text.replace(b'"confidence":0.95', b'"confidence":0.9'))
    assert (lean / name).read_bytes() != text
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 1 and code in found


# -- rows 13 and 14: the lock --------------------------------------------------------------------------------------


def _lower_rate(lock: dict[str, Any]) -> None:
    lock["protocol"]["claims"][0]["rate"] = 0.1
    lock["protocol_sha256"] = sha256_hex(canonical_json(lock["protocol"]))


def test_row_13_a_lock_that_was_edited_is_not_the_one_that_the_journal_hangs_on(lean: Path) -> None:
    edit(lean / "lock.json", _lower_rate)
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 1 and "lock_digest_mismatch" in found


def test_row_13_a_journal_rebuilt_on_an_edited_lock_is_told_by_a_digest_that_was_kept_and_by_its_seeds(
    lean: Path,
) -> None:
    kept = sha256_hex((lean / "lock.json").read_bytes())
    edit(writable(lean) / "lock.json", _lower_rate)
    patient_forger(lean).seal()
    forged = reseal(lean)
    exit_code, found = _codes(forged, expected=Expected(lock=kept))
    assert exit_code == 1 and "expected_mismatch" in found
    exit_code, found = _codes(forged)  # seeds follow from the lock: rows of another one have others
    assert exit_code == 1 and "rows_digest_mismatch" in found and "lock_digest_mismatch" not in found


def test_row_14_a_lock_that_was_made_after_the_first_attempt_is_late(campaign: Path) -> None:
    records = [json.loads(line) for line in (campaign / "journal.jsonl").read_bytes().splitlines()]
    edit(campaign / "lock.json", lambda lock: lock.update(created_utc=records[-1]["utc"]))
    patient_forger(campaign).seal()
    assert "late_lock" in _codes(campaign)[1]


# -- rows 17 and 20: attempts and runs -----------------------------------------------------------------------------


def test_row_17_a_failed_attempt_that_was_run_again_is_found_whichever_is_kept(campaign: Path) -> None:
    forger = patient_forger(campaign)
    start, end = (forger.records[_of(forger.records, kind, "000004")] for kind in ("attempt.start", "attempt.end"))
    place = _of(forger.records, "attempt.end", "000004") + 1
    shutil.copytree(campaign / "episodes/000004-0", campaign / "episodes/000004-1")
    moved = [{**item, "path": item["path"].replace("000004-0", "000004-1")} for item in end["data"]["artifacts"]]
    forger.records[place:place] = [
        {**start, "data": {**start["data"], "attempt": 1}},
        {**end, "data": {**end["data"], "attempt": 1, "artifacts": moved}},
    ]

    def second(row: dict[str, Any]) -> None:
        row["attempt"] = 1
        for name in ("trace", "exchange"):
            if row[name] is not None:
                row[name]["path"] = row[name]["path"].replace("000004-0", "000004-1")

    forger.edit_row("000004-1", second)
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 3 and found[0] == "attempt_repeated"


def test_row_20_a_second_run_in_one_journal_is_found(campaign: Path) -> None:
    forger = patient_forger(campaign)
    opened = next(record for record in forger.records if record["type"] == "run.open")
    middle = _of(forger.records, "attempt.start", "000006")
    forger.records.insert(middle, {**opened, "data": {**opened["data"], "run_id": "0" * 32}})
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 1 and "mixed_runs" in found


def test_row_20_an_episode_of_an_earlier_run_that_was_copied_in_is_found(campaign: Path) -> None:
    forger = patient_forger(campaign)
    forger.edit_row("000006-0", lambda row: row.update(run_id="0" * 32))
    forger.seal()
    assert _codes(campaign) == (1, ["mixed_runs"])


# -- rows 21 and 39: scenes and traces -----------------------------------------------------------------------------


@pytest.mark.parametrize("other_m", [0.9, math.nextafter(0.5, 1.0), math.nextafter(0.5, 0.0)])
def test_row_21_an_applied_scene_with_a_good_digest_that_is_not_the_scenario_is_found(
    campaign: Path, other_m: float
) -> None:
    forger = patient_forger(campaign)

    def elsewhere(row: dict[str, Any]) -> None:
        assert row["applied_scene"]["block_m"] == 0.5
        row["applied_scene"]["block_m"] = other_m
        row["applied_scene_sha256"] = document_sha256(row["applied_scene"])

    first = next(row for row in read_campaign(campaign).rows if row.scenario == "toy-001")
    forger.edit_row(f"{first.trial_id}-0", elsewhere)
    forger.seal()
    assert _codes(campaign) == (1, ["scene_mismatch"])


def test_row_39_a_trace_that_declares_more_than_it_holds_is_malformed_with_good_digests(campaign: Path) -> None:
    forger = patient_forger(campaign)
    bombs = [b"", b"PAR1", b"PAR1" + b"\x15\x00" * 50 + (100).to_bytes(4, "little") + b"PAR1"]
    bombs.append(b"PAR1" + b"\x00" * 8 + (2**31 - 1).to_bytes(4, "little") + b"PAR1")
    for bomb in bombs:
        forger.replace_trace("000000-0", bomb)
        forger.seal()
        exit_code, found = _codes(campaign)
        assert (exit_code, found[0]) == (2, "trace_malformed"), bomb[:20]
        forger = patient_forger(campaign)


# -- rows 26 and 27: the chain -------------------------------------------------------------------------------------


def _changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[5].replace(b'"attempt":0', b'"attempt":1'), *lines[6:]]


@pytest.mark.parametrize(
    "change",
    [
        _changed,
        lambda lines: lines[:5] + lines[6:],
        lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
        lambda lines: [*lines[:5], lines[5], *lines[5:]],
    ],
    ids=["changed", "dropped", "swapped", "duplicated"],
)
def test_row_26_a_line_changed_dropped_swapped_or_duplicated_breaks_the_chain(
    campaign: Path, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    before = (campaign / "journal.jsonl").read_bytes()
    _lines(campaign / "journal.jsonl", change)
    assert (campaign / "journal.jsonl").read_bytes() != before
    exit_code, found = _codes(campaign)
    assert exit_code == 1 and found[0] == "journal_broken"


def test_row_26_a_chain_recomputed_from_the_change_on_is_told_by_the_head(campaign: Path) -> None:
    head = (campaign / "head.json").read_bytes()
    forger = patient_forger(campaign)
    forger.records[1]["data"]["sources"] = {}
    forger.seal()
    (campaign / "head.json").write_bytes(head)
    exit_code, found = _codes(campaign)
    assert exit_code == 1 and "journal_broken" in found


def test_row_27_a_chain_and_a_head_that_were_recomputed_are_told_by_a_root_that_was_kept(lean: Path) -> None:
    root = merkle.root((lean / "rows.jsonl").read_bytes().splitlines())
    forger = patient_forger(writable(lean))
    forger.edit_row("000000-0", lambda row: row.update(timing=row["timing"] | {"wall_us": 1}))
    forger.seal()
    exit_code, found = _codes(reseal(lean), expected=Expected(root=root))
    assert exit_code == 1 and "expected_mismatch" in found


# -- rows 33 and 34: documents -------------------------------------------------------------------------------------

MALFORMED = {
    "a key twice": b'{"a":1,"a":1}',
    "NaN": b'{"a":NaN}',
    "1e999": b'{"a":1e999}',
    "minus zero": b'{"a":-0}',
    "1.0": b'{"a":1.0}',
    "a blank": b'{"a": 1}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "CRLF": b"{}\r\n",
    "bad UTF-8": b'{"a":"\xff"}',
    "a lone surrogate": b'{"a":"\\ud800"}',
    "2^53": b'{"a":9007199254740992}',
    "depth 100,000": b"[" * 100_000,
    "trailing bytes": b"{}{}",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_row_33_a_row_that_no_canonical_writer_writes_is_malformed(campaign: Path, data: bytes) -> None:
    forger = patient_forger(campaign)
    (campaign / "episodes/000000-0/row.json").write_bytes(data)
    forger.end_of("000000-0")["row_sha256"] = sha256_hex(data)
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 2 and "malformed" in found


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("name", ["analysis.json", "claims.json", "summary.json", "models/mine.json"])
def test_row_33_what_no_canonical_writer_writes_is_malformed(lean: Path, name: str, data: bytes) -> None:
    assert (lean / name).is_file()
    write(lean / name, data)
    exit_code, found = _codes(reseal(lean))
    assert exit_code == 2 and "malformed" in found


@pytest.mark.parametrize("name", ["journal.jsonl", "rows.jsonl"])
def test_row_33_a_last_line_without_its_end_is_found(lean: Path, name: str) -> None:
    write(lean / name, (lean / name).read_bytes()[:-1])
    assert _codes(reseal(lean))[0] in (1, 2)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda row: row.update(unknown=1), "schema_mismatch"),
        (lambda row: row.update(schema="trialplate.row/2"), "version_unsupported"),
        (lambda row: row.update(attempt=False), "schema_mismatch"),
        (lambda row: row.update(control_steps=True), "schema_mismatch"),
        (lambda row: row.update(control_steps="1"), "schema_mismatch"),
    ],
    ids=["unknown field", "unknown version", "false for 0", "true for 1", "text for 1"],
)
def test_row_34_a_field_a_version_or_a_type_that_is_none_is_refused(
    campaign: Path, change: Callable[[dict[str, Any]], None], code: str
) -> None:
    forger = patient_forger(campaign)
    forger.edit_row("000000-0", change)
    forger.seal()
    exit_code, found = _codes(campaign)
    assert exit_code == 2 and code in found
