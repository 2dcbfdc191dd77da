"""Whatever is changed in a finished campaign is found, and the file is named."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forger import Edit, Forger
from golden import CREATED_UTC, build, build_torn, lock_bytes, lock_document, snapshot
from trialplate.canonical import canonical_json, sha256_hex
from trialplate.errors import EvidenceError
from trialplate.store.derived import write_derived
from trialplate.store.findings import Finding
from trialplate.store.verify import Integrity, check
from trialplate.store.view import read_campaign

LOCK = lock_bytes(repeats=1, interrupted="replace")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that was torn, resumed and closed; it is only copied, never changed."""
    folder = build_torn(tmp_path_factory.mktemp("golden") / "c", lock=LOCK)
    write_derived(folder, "results.jsonl", b'{"status":"PASS"}\n')
    write_derived(folder, "claims.json", b'{"claims":[]}')
    assert check(folder, expected_derived=DERIVED).findings == ()
    return folder


DERIVED = {"results.jsonl": b'{"status":"PASS"}\n', "claims.json": b'{"claims":[]}'}
FILES = (
    "lock.json",
    "journal.jsonl",
    "journal.partial",
    "head.json",
    "rows.jsonl",
    "completion.json",
    "results.jsonl",
    "claims.json",
    "episodes/000000-0/row.json",
    "episodes/000000-0/trace.parquet",
    "episodes/000001-0/row.json",
    "episodes/000001-0/trace.parquet.partial",
)


@pytest.fixture
def campaign(golden: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(golden, tmp_path / "c"))


def _check(folder: Path) -> Integrity:
    return check(folder, expected_derived=DERIVED)


def _codes(folder: Path) -> list[str]:
    return [item.code for item in _check(folder).findings]


def _named(findings: tuple[Finding, ...]) -> set[str]:
    return {item.path for item in findings}


def test_the_files_of_the_golden_campaign_are_the_ones_tampered_with(golden: Path) -> None:
    others = [name for name in snapshot(golden) if name not in FILES]
    assert all(name.startswith("episodes/") for name in others)
    assert set(FILES) <= set(snapshot(golden))


@pytest.mark.parametrize("name", FILES)
def test_one_changed_byte_anywhere_is_found_and_the_file_is_named(campaign: Path, name: str) -> None:
    path = campaign / name
    path.chmod(0o644)
    data = path.read_bytes()
    draw = random.Random(len(data))
    places = range(len(data)) if len(data) <= 120 else sorted(draw.sample(range(len(data)), 120))
    for place in places:
        changed = data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]
        path.write_bytes(changed)
        result = _check(campaign)
        assert result.exit_code in (1, 2), place
        assert name in _named(result.findings), (place, [str(item) for item in result.findings])
    path.write_bytes(data)
    assert _codes(campaign) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_found_and_the_file_is_named(campaign: Path, name: str) -> None:
    path = campaign / name
    path.chmod(0o644)
    data = path.read_bytes()
    draw = random.Random(1)
    flips = [(place, bit) for place in range(len(data)) for bit in range(8)]
    for place, bit in flips if len(flips) <= 2000 else draw.sample(flips, 2000):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :])
        result = _check(campaign)
        assert name in _named(result.findings), (place, bit)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_cut_emptied_or_longer_is_found(campaign: Path, name: str) -> None:
    path = campaign / name
    path.chmod(0o644)
    data = path.read_bytes()
    for changed in (b"", data[: len(data) // 2], data[:-1], data + b"\n", data + b"\0", data + data, b"\n" + data):
        path.write_bytes(changed)
        assert name in _named(_check(campaign).findings), changed[-20:]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_removed_or_renamed_is_found(campaign: Path, name: str) -> None:
    (campaign / name).rename(campaign / f"{name}.bak")
    result = _check(campaign)
    assert ("file_missing", name) in {(item.code, item.path) for item in result.findings}
    assert result.exit_code == 1
    (campaign / f"{name}.bak").unlink()
    assert name in _named(_check(campaign).findings)


@pytest.mark.parametrize(
    "name",
    ["extra.txt", ".hidden", "episodes/notes.txt", "episodes/000000-0/extra.bin", "episodes/000099-0/row.json"],
)
def test_a_file_that_nobody_recorded_is_found(campaign: Path, name: str) -> None:
    (campaign / name).parent.mkdir(exist_ok=True)
    (campaign / name).write_bytes(b"x")
    result = _check(campaign)
    assert (result.exit_code, name in _named(result.findings)) == (1, True)
    assert {item.code for item in result.findings} == {"file_extra"}


def test_an_empty_folder_that_nobody_recorded_is_found(campaign: Path) -> None:
    (campaign / "episodes" / "000000-0" / "more").mkdir()
    result = _check(campaign)
    assert [(item.code, item.path) for item in result.findings] == [("file_extra", "episodes/000000-0/more/")]


@pytest.mark.parametrize("name", FILES)
def test_a_link_a_second_name_or_a_pipe_in_the_place_of_a_file_is_malformed(
    campaign: Path, tmp_path: Path, name: str
) -> None:
    path = campaign / name
    outside = tmp_path / "outside"
    path.rename(outside)
    for place in (lambda: path.symlink_to(outside), lambda: path.hardlink_to(outside), lambda: os.mkfifo(path)):
        place()
        result = _check(campaign)
        assert result.exit_code == 2
        assert (name, "not_regular_file") in {(item.path, item.code) for item in result.findings}
        path.unlink()


def test_a_folder_that_is_a_link_is_not_followed(campaign: Path, tmp_path: Path) -> None:
    (campaign / "episodes").rename(tmp_path / "elsewhere")
    (campaign / "episodes").symlink_to(tmp_path / "elsewhere")
    result = _check(campaign)
    assert result.exit_code == 2
    assert ("episodes", "not_regular_file") in {(item.path, item.code) for item in result.findings}
    with pytest.raises(EvidenceError):
        read_campaign(campaign)


def test_files_of_two_episodes_that_change_places_are_found(campaign: Path) -> None:
    one, other = (campaign / f"episodes/00000{n}-0" for n in (2, 3))
    for name in ("row.json", "trace.parquet"):
        first, second = (one / name).read_bytes(), (other / name).read_bytes()
        (one / name).write_bytes(second)
        (other / name).write_bytes(first)
    named = _named(_check(campaign).findings)
    assert {f"episodes/00000{n}-0/{name}" for n in (2, 3) for name in ("row.json", "trace.parquet")} <= named


@pytest.mark.parametrize("name", ["lock.json", "rows.jsonl", "head.json", "episodes/000000-0/trace.parquet"])
def test_a_file_of_another_valid_campaign_is_found(campaign: Path, tmp_path: Path, name: str) -> None:
    other = build(tmp_path / "other", lock=lock_bytes(repeats=1))
    (campaign / name).unlink()
    data = (other / name).read_bytes()
    if name.endswith("parquet"):
        data = (other / "episodes/000002-0/trace.parquet").read_bytes()
    (campaign / name).write_bytes(data)
    result = _check(campaign)
    assert result.exit_code == 1
    assert name in _named(result.findings)


def test_a_journal_cut_at_every_byte_is_broken_while_the_head_is_current(campaign: Path) -> None:
    path = campaign / "journal.jsonl"
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        findings = _check(campaign).findings
        assert any((item.code, item.path) == ("journal_broken", "journal.jsonl") for item in findings), size


@pytest.fixture
def forger(campaign: Path) -> Forger:
    """Somebody who rewrites the copy."""
    return Forger(campaign)


def test_a_coherent_rewrite_without_a_contradiction_passes_and_only_a_kept_digest_could_tell(forger: Forger) -> None:
    forger.edit_row("000000-0", lambda row: row.update(fault_message="rewritten"))
    forger.seal()
    assert _codes(forger.folder) == []


def _set(*path: str | int, value: Any) -> Edit:
    def edit(document: Any) -> None:
        for part in path[:-1]:
            document = document[part]
        document[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "code", "pointer"),
    [
        (_set("arm", value="hasty"), "row_unplanned", "/arm"),
        (_set("scenario", value="far"), "row_unplanned", "/scenario"),
        (_set("ordinal", value=3), "row_unplanned", "/ordinal"),
        (_set("attempt", value=1), "row_unplanned", "/attempt"),
        (_set("control_steps", value=True), "schema_mismatch", "/control_steps"),
        (_set("control_steps", value="4"), "schema_mismatch", "/control_steps"),
        (_set("control_steps", value=None), "schema_mismatch", "/control_steps"),
        (_set("arm", value=None), "schema_mismatch", "/arm"),
        (_set("unknown", value=1), "schema_mismatch", ""),
        (lambda row: row.pop("calls"), "schema_mismatch", ""),
        (_set("schema", value="trialplate.row/2"), "version_unsupported", "/schema"),
        (_set("schema", value=1), "schema_mismatch", "/schema"),
        (_set("events", value={}), "schema_mismatch", ""),
        (_set("events", value=[1]), "schema_mismatch", ""),
        (_set("events", 0, "step", value=True), "schema_mismatch", "/events/0/step"),
        (_set("timing", "wall_us", value="1"), "schema_mismatch", "/timing/wall_us"),
        (_set("trace", value=None), "rows_digest_mismatch", "/trace"),
        (_set("trace", "path", value="episodes/000002-0/trace.parquet"), "rows_digest_mismatch", "/trace/path"),
        (_set("trace", "path", value="../../elsewhere"), "rows_digest_mismatch", "/trace/path"),
        (_set("trace", "file_sha256", value="0" * 64), "rows_digest_mismatch", "/trace/file_sha256"),
        (_set("trace", "content_sha256", value="0" * 64), "rows_digest_mismatch", "/trace/content_sha256"),
        (_set("trace", "size_bytes", value=1), "rows_digest_mismatch", "/trace/size_bytes"),
        (_set("trace", "steps", value=3), "trace_malformed", ""),
        (_set("trace", "steps", value=2**52), "trace_malformed", ""),
        (_set("trace", "steps", value=-5), "trace_malformed", ""),
    ],
)
def test_a_row_edited_with_every_digest_recomputed_still_contradicts_something(
    forger: Forger, edit: Edit, code: str, pointer: str
) -> None:
    forger.edit_row("000000-0", edit)
    forger.seal()
    findings = _check(forger.folder).findings
    assert (code, pointer) in {(item.code, item.pointer) for item in findings}, [str(item) for item in findings]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a": 1}', "malformed"),
        (b'{"a":1,"a":1}', "malformed"),
        (b'{"a":1e999}', "malformed"),
        (b"\xef\xbb\xbf{}", "malformed"),
        (b'{"a":"\xff"}', "malformed"),
        (b"[" * 100_000, "malformed"),
        (b"{}\r\n", "malformed"),
        (b"[]", "schema_mismatch"),
    ],
)
def test_a_row_that_is_no_canonical_document_is_malformed_with_exit_2(forger: Forger, data: bytes, code: str) -> None:
    path = forger.folder / "episodes/000000-0/row.json"
    path.write_bytes(data)
    forger.end_of("000000-0")["row_sha256"] = sha256_hex(data)
    forger.seal()
    result = _check(forger.folder)
    assert (code, "episodes/000000-0/row.json") in {(item.code, item.path) for item in result.findings}
    assert result.exit_code == 2


def _drop_trial(forger: Forger) -> None:
    forger.records = [record for record in forger.records if record["data"].get("trial_id") != "000005"]
    shutil.rmtree(forger.folder / "episodes/000005-0")


def _find(forger: Forger, kind: str, trial_id: str) -> int:
    found = [
        n
        for n, record in enumerate(forger.records)
        if record["type"] == kind and record["data"]["trial_id"] == trial_id
    ]
    return found[-1]


def _end_before_start(forger: Forger) -> None:
    start, end = _find(forger, "attempt.start", "000004"), _find(forger, "attempt.end", "000004")
    forger.records[start], forger.records[end] = forger.records[end], forger.records[start]


def _second_end(forger: Forger) -> None:
    end = _find(forger, "attempt.end", "000004")
    forger.records.insert(end + 1, forger.records[end])


def _second_attempt(forger: Forger) -> None:
    start, end = (forger.records[_find(forger, kind, "000004")] for kind in ("attempt.start", "attempt.end"))
    place = _find(forger, "attempt.end", "000004") + 1
    shutil.copytree(forger.folder / "episodes/000004-0", forger.folder / "episodes/000004-1")
    again = {**end["data"], "attempt": 1, "artifacts": []}
    forger.records[place:place] = [{**start, "data": {**start["data"], "attempt": 1}}, {**end, "data": again}]
    (forger.folder / "episodes/000004-1/trace.parquet").unlink()

    def as_second(row: dict[str, Any]) -> None:
        row["attempt"] = 1
        row["trace"] = None

    forger.edit_row("000004-1", as_second)


def _swapped_order(forger: Forger) -> None:
    one, other = _find(forger, "attempt.start", "000003"), _find(forger, "attempt.start", "000004")
    records = forger.records
    records[one], records[one + 1], records[other], records[other + 1] = (
        records[other],
        records[other + 1],
        records[one],
        records[one + 1],
    )


def _unplanned(forger: Forger) -> None:
    data = forger.records[_find(forger, "attempt.start", "000005")]["data"]
    data["trial_id"] = "000099"


def _relabelled(forger: Forger) -> None:
    forger.records[_find(forger, "attempt.start", "000005")]["data"]["arm"] = "careful"


def _second_run(forger: Forger) -> None:
    resumed = next(n for n, record in enumerate(forger.records) if record["type"] == "run.resume")
    forger.records[resumed] = {**forger.records[resumed], "type": "run.open"}


def _claims_to_be_incomplete(forger: Forger) -> None:
    forger.records[-1]["data"]["complete"] = False


def _unknown_record(forger: Forger) -> None:
    forger.records.insert(-1, {**forger.records[-1], "type": "score.edited"})


def _artifact_elsewhere(forger: Forger) -> None:
    forger.end_of("000000-0")["artifacts"][0]["path"] = "../outside.parquet"


def _changed_inputs(forger: Forger) -> None:
    last = [record for record in forger.records if record["type"] == "inputs.checked"][-1]
    last["data"]["digests"]["hasty"] = "0" * 64


@pytest.mark.parametrize(
    ("edit", "code", "exit_code"),
    [
        (_drop_trial, "coverage_incomplete", 3),
        (_end_before_start, "end_without_start", 1),
        (_second_end, "row_duplicated", 1),
        (_second_attempt, "attempt_repeated", 3),
        (_swapped_order, "row_order", 1),
        (_unplanned, "row_unplanned", 1),
        (_relabelled, "row_unplanned", 1),
        (_second_run, "mixed_runs", 1),
        (_claims_to_be_incomplete, "coverage_incomplete", None),
        (_unknown_record, "schema_mismatch", 2),
        (_artifact_elsewhere, "path_unsafe", 2),
        (_changed_inputs, "inputs_changed_during_run", 3),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)).lstrip("_"),
)
def test_a_journal_rewritten_with_every_digest_recomputed_still_breaks_a_rule(
    forger: Forger, edit: Callable[[Forger], None], code: str, exit_code: int | None
) -> None:
    edit(forger)
    forger.seal()
    result = _check(forger.folder)
    assert code in {item.code for item in result.findings}, [str(item) for item in result.findings]
    if exit_code in (2, 3):
        assert result.exit_code == exit_code, [str(item) for item in result.findings]
    else:
        assert result.exit_code != 0


def test_a_changed_lock_is_told_by_the_chain_and_a_rebuilt_chain_is_only_self_attested(forger: Forger) -> None:
    path = forger.folder / "lock.json"
    path.chmod(0o644)
    document = lock_document(repeats=1, interrupted="replace", note="a tolerance was moved")
    path.write_bytes(canonical_json(document))
    result = _check(forger.folder)
    assert [(item.code, item.path) for item in result.findings] == [("lock_digest_mismatch", "lock.json")]
    assert result.survey is None
    forger.seal()
    assert _codes(forger.folder) == []


def test_a_lock_made_after_the_first_attempt_is_late(forger: Forger) -> None:
    path = forger.folder / "lock.json"
    path.chmod(0o644)
    late = CREATED_UTC.replace("T09", "T23")
    path.write_bytes(canonical_json(lock_document(repeats=1, interrupted="replace", created_utc=late)))
    forger.seal()
    result = _check(forger.folder)
    assert [(item.code, item.exit_code) for item in result.findings] == [("late_lock", 3)]


@pytest.mark.parametrize(
    ("name", "code"),
    [("results.jsonl", "grades_not_reproduced"), ("claims.json", "claims_not_reproduced")],
)
def test_a_derived_file_that_is_not_what_is_computed_is_not_reproduced(campaign: Path, name: str, code: str) -> None:
    (campaign / name).write_bytes(b"{}")
    result = _check(campaign)
    assert [(item.code, item.path) for item in result.findings] == [(code, name)]
    assert check(campaign).findings == ()
    assert check(campaign).unchecked == ("results.jsonl", "claims.json")


def test_a_parquet_bomb_with_good_digests_is_malformed(forger: Forger) -> None:
    bomb = b"PAR1" + b"\x15\x00" * 50 + (100).to_bytes(4, "little") + b"PAR1"
    path = forger.folder / "episodes/000000-0/trace.parquet"
    path.write_bytes(bomb)
    digest = {"sha256": sha256_hex(bomb), "size": len(bomb)}
    artifact = forger.end_of("000000-0")["artifacts"][0]
    artifact.update(digest)

    def refer(row: dict[str, Any]) -> None:
        row["trace"] |= {"file_sha256": digest["sha256"], "size_bytes": digest["size"]}

    forger.edit_row("000000-0", refer)
    forger.seal()
    result = _check(forger.folder)
    assert [(item.code, item.exit_code) for item in result.findings] == [("trace_malformed", 2)]


def test_a_file_that_cannot_be_read_is_a_finding(campaign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if path == "rows.jsonl":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refusing)
    findings = _check(campaign).findings
    assert [(item.code, item.path, item.found) for item in findings] == [
        ("unreadable", "rows.jsonl", "Permission denied")
    ]


def test_a_name_with_terminal_escapes_is_printed_harmless(campaign: Path) -> None:
    (campaign / "\x1b[31mred\u202e").touch()
    findings = _check(campaign).findings
    assert len(findings) == 1
    assert str(findings[0]).isprintable()
    assert "red" in findings[0].path


def test_checking_and_reading_write_nothing(campaign: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in campaign.rglob("*")}
    _check(campaign)
    read_campaign(campaign)
    assert {path: path.stat().st_mtime_ns for path in campaign.rglob("*")} == before
