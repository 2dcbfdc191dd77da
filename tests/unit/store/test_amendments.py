"""Amendments: appended, chained to the lock, printed, and never a change of a rule."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden import StepClock, again, begin, build, lock_bytes, lock_document, run_trial
from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import StorageFailure, UsageError
from trialplate.store.amendments import KINDS, AmendmentChain
from trialplate.store.campaign import CampaignWriter
from trialplate.store.chain import make_record, record_line
from trialplate.store.fsio import Disk
from trialplate.store.verify import check
from trialplate.store.view import read_campaign

UTC = "2026-11-29T10:00:00.000000Z"


def _amend(writer: CampaignWriter, kind: str = "disclosure", **changes: str) -> None:
    said = {"reason": "a reader asked", "text": "the table was cleaned between two runs", **changes}
    writer.amend(kind, **said)


def _refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    return caught.value.code


def _found(folder: Path) -> list[tuple[str, int, str]]:
    return [(item.code, item.exit_code, item.path) for item in check(folder).findings]


def test_amendments_are_chained_to_the_lock_and_say_how_much_had_been_seen(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with begin(folder) as writer:
        _amend(writer, "custody", text="the digest of the lock lies with the notary")
        writer.open_run({"host": "golden"})
        run_trial(writer, writer.plan.trials[0])
        _amend(writer)
    stored = [(folder / f"amendments/000{n}.json").read_bytes() for n in (1, 2)]
    first, second = (read_stored(data) for data in stored)
    assert first["prev_sha256"] == sha256_hex(lock_bytes()) and second["prev_sha256"] == sha256_hex(stored[0])
    assert [(d["n"], d["attempts_seen"]) for d in (first, second)] == [(1, 0), (2, 1)]
    assert stat.S_IMODE((folder / "amendments/0001.json").stat().st_mode) == 0o444
    listed = read_campaign(folder).amendments
    assert [(item.kind, item.sha256) for item in listed] == [
        ("custody", sha256_hex(stored[0])), ("disclosure", sha256_hex(stored[1])),
    ]  # fmt: skip
    assert "notary" in listed[0].line() and "after 1 attempts" in listed[1].line()


def test_a_closed_campaign_is_amended_and_still_verifies_with_the_same_lock_rows_and_completion(
    tmp_path: Path,
) -> None:
    folder = build(tmp_path / "c")
    before = {name: (folder / name).read_bytes() for name in ("lock.json", "rows.jsonl", "completion.json")}
    with again(folder) as writer:
        _amend(writer, "text_correction", text="'block' in the question means the red block")
    assert _found(folder) == []
    view = read_campaign(folder)
    assert view.complete is True and view.amendments[0].attempts_seen == 12
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("kind", ["tolerance", "rule", "seed", "schedule", "denominator", "analysis", "Disclosure"])
def test_a_kind_that_would_change_a_rule_is_refused_and_nothing_is_written(tmp_path: Path, kind: str) -> None:
    with begin(tmp_path / "c") as writer:
        assert _refused(lambda: _amend(writer, kind)) == "amendment_changes_rule"
        assert writer.records == () and not (tmp_path / "c" / "amendments").exists()


def test_a_stop_is_refused_where_the_lock_registers_none_and_taken_where_it_does(tmp_path: Path) -> None:
    with begin(tmp_path / "c") as writer:
        assert _refused(lambda: _amend(writer, "stop")) == "stop_rule"
    protocol = {**lock_document()["protocol"], "stopping": {"looks": [4, 8]}}
    with begin(tmp_path / "d", lock=lock_bytes(protocol=protocol)) as writer:
        _amend(writer, "stop", text="the look at 4 trials")
        assert len(writer.records) == 1


@pytest.mark.parametrize("changes", [{"reason": ""}, {"text": "  "}, {"text": "x" * 20_001}, {"reason": "x" * 2001}])
def test_a_text_of_another_length_is_refused(tmp_path: Path, changes: dict[str, str]) -> None:
    with begin(tmp_path / "c") as writer:
        assert _refused(lambda: _amend(writer, **changes)) == "schema_mismatch"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "tolerance"}, "amendment_changes_rule"),
        ({"kind": "stop"}, "stop_rule"),
        ({"n": 2}, "amendment_chain"),
        ({"prev_sha256": "0" * 64}, "amendment_chain"),
        ({"attempts_seen": 3}, "amendment_chain"),
        ({"schema": "trialplate.amendment/2"}, "version_unsupported"),
        ({"schema": "amendment"}, "schema_mismatch"),
        ({"n": True}, "schema_mismatch"),
        ({"n": "1"}, "schema_mismatch"),
        ({"attempts_seen": -1}, "schema_mismatch"),
        ({"created_utc": "yesterday"}, "schema_mismatch"),
        ({"kind": None}, "schema_mismatch"),
        ({"tolerance": 0.1}, "schema_mismatch"),
    ],
)
def test_an_amendment_of_another_form_or_place_is_told_by_its_code(change: dict[str, Any], code: str) -> None:
    chain = AmendmentChain("a" * 64, stop_registered=False)
    good = chain.next("disclosure", reason="r", text="t", created_utc=UTC, attempts_seen=0)
    assert chain.misfit(good, attempts_seen=0) is None
    misfit = chain.misfit({**good, **change}, attempts_seen=0)
    assert misfit is not None and misfit[0] == code


@pytest.mark.parametrize("document", [None, [], "x", {}, {"schema": "trialplate.amendment/1"}])
def test_what_is_no_amendment_at_all_is_a_schema_mismatch(document: Any) -> None:
    misfit = AmendmentChain("a" * 64, stop_registered=False).misfit(document, attempts_seen=0)
    assert misfit is not None and misfit[0] == "schema_mismatch"


def test_every_kind_of_the_closed_list_has_a_meaning() -> None:
    assert set(KINDS) == {"disclosure", "text_correction", "custody", "stop"}
    assert all(KINDS.values())


def _chained(folder: Path, document: dict[str, Any]) -> None:
    """Append an amendment as a patched writer would, with the chain and the head as they must be."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    record = make_record(
        "amendment.added", {"amendment": document}, seq=len(lines), prev_sha256=read_stored(lines[-1])["sha256"],
        stamp=StepClock(start_s=50_000)(),
    )  # fmt: skip
    with (folder / "journal.jsonl").open("ab") as journal:
        journal.write(record_line(record))
    head = {
        "count": len(lines) + 1,
        "head_sha256": record["sha256"],
        "size": (folder / "journal.jsonl").stat().st_size,
    }
    (folder / "head.json").write_bytes(canonical_json(head))
    (folder / "amendments").mkdir(exist_ok=True)
    (folder / f"amendments/{document['n']:04d}.json").write_bytes(canonical_json(document))


def test_an_amendment_that_changes_a_tolerance_blocks_though_every_digest_holds(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    chain = AmendmentChain(sha256_hex(lock_bytes()), stop_registered=False)
    said = {"reason": "too strict", "text": "2 cm is 5 cm", "created_utc": UTC, "attempts_seen": 12}
    _chained(folder, chain.next("tolerance", **said))  # type: ignore[arg-type]
    assert _found(folder) == [("amendment_changes_rule", 3, "journal.jsonl")]
    assert check(folder).exit_code == 3


def test_an_amendment_that_is_removed_edited_or_added_behind_the_journal_breaks_the_chain(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    with again(folder) as writer:
        _amend(writer)
    path = folder / "amendments/0001.json"
    data = path.read_bytes()
    path.unlink()
    assert ("amendment_chain", 1, "amendments/0001.json") in _found(folder)
    assert check(folder).exit_code == 1
    path.write_bytes(data.replace(b"cleaned", b"moved"))
    assert _found(folder) == [("amendment_chain", 1, "amendments/0001.json")]
    path.write_bytes(data)
    assert _found(folder) == []
    for name in ("0002.json", "notes.txt"):
        (folder / "amendments" / name).write_bytes(data)
        assert _found(folder) == [("amendment_chain", 1, f"amendments/{name}")]
        (folder / "amendments" / name).unlink()


def test_a_folder_of_amendments_in_a_campaign_without_any_is_extra(tmp_path: Path) -> None:
    folder = build(tmp_path / "c")
    (folder / "amendments").mkdir()
    assert _found(folder) == [("file_extra", 1, "amendments/")]


def test_an_amendment_whose_document_was_lost_in_a_crash_is_written_again_from_the_journal(tmp_path: Path) -> None:
    class Dying(Disk):
        def rename(self, source: Path, target: Path) -> None:
            raise StorageFailure("the lights went out")

    folder = build(tmp_path / "c")
    with again(folder, disk=Dying(durability="process")) as writer, pytest.raises(StorageFailure):
        _amend(writer)
    (folder / "amendments" / ".0001.json.tmp").write_bytes(b"half")
    with again(folder):
        pass
    assert _found(folder) == []
    assert read_stored((folder / "amendments/0001.json").read_bytes())["n"] == 1
