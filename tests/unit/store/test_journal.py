"""The chain, its scan against the shared vectors, the writer and its recovery."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import StepClock
from trialplate.canonical import canonical_json, sha256_hex
from trialplate.errors import CanonicalError, EvidenceError, StorageFailure, UsageError
from trialplate.store.chain import Stamp, anchor, check_partial, make_record, record_line
from trialplate.store.fsio import Disk
from trialplate.store.journal import HEAD, JOURNAL, PARTIAL, Head, Journal, read_head, scan

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "canonical.json").read_text(encoding="utf-8")
)
LOCK = "614b9bb4f7b6b2492c0a1b4f747b7428eb1dc6982376ed723c6e04c8c031243d"


def _new(folder: Path, *, disk: Disk | None = None) -> Journal:
    return Journal.create(
        folder / JOURNAL, lock_sha256=LOCK, disk=disk or Disk(durability="process"), clock=StepClock()
    )


def _reopen(folder: Path, *, disk: Disk | None = None) -> Journal:
    disk = disk or Disk(durability="process")
    return Journal.open(folder / JOURNAL, lock_sha256=LOCK, disk=disk, clock=StepClock(start_s=50_000))


def _three(folder: Path) -> bytes:
    journal = _new(folder)
    for number in range(3):
        journal.append("inputs.checked", {"number": number})
    journal.close()
    return (folder / JOURNAL).read_bytes()


@pytest.mark.parametrize("vector", VECTORS["journal"], ids=["chain"])
def test_records_are_chained_as_the_vectors_say(vector: dict[str, Any]) -> None:
    previous, data = vector["lock_sha256"], b""
    for seq, given_record in enumerate(vector["records"]):
        stamp = Stamp(given_record["utc"], given_record["mono_us"])
        record = make_record(given_record["type"], given_record["data"], seq=seq, prev_sha256=previous, stamp=stamp)
        previous = record["sha256"]
        assert previous == vector["sha256"][seq]
        assert record_line(record).decode() == vector["lines"][seq]
        data += record_line(record)
    assert (len(data), sha256_hex(data)) == (vector["size"], vector["file_sha256"])
    assert anchor(data) == vector["lock_sha256"]


@pytest.mark.parametrize("vector", VECTORS["journal_scan"], ids=lambda v: v["name"])
def test_a_scan_tells_clean_torn_and_broken_apart(vector: dict[str, Any]) -> None:
    head = Head(**vector["head"]) if vector["head"] is not None else None
    found = scan(base64.b64decode(vector["bytes_base64"]), lock_sha256=vector["lock_sha256"], head=head)
    assert (found.status, len(found.records), found.good_bytes) == (
        vector["status"],
        vector["records"],
        vector["good_bytes"],
    )
    assert bool(found.problem) is (found.status != "clean")


def test_with_the_head_every_flipped_bit_and_every_cut_of_a_journal_is_broken(tmp_path: Path) -> None:
    data = _three(tmp_path)
    head = read_head((tmp_path / HEAD).read_bytes())
    assert scan(data, lock_sha256=LOCK, head=head).status == "clean"
    for place in range(len(data)):
        for bit in range(8):
            changed = data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
            assert scan(changed, lock_sha256=LOCK, head=head).status == "broken", (place, bit)
        assert scan(data[:place], lock_sha256=LOCK, head=head).status == "broken", place


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.data())
def test_without_a_head_any_prefix_of_a_journal_is_clean_or_torn(count: int, data: st.DataObject) -> None:
    previous, whole, ends = LOCK, b"", [0]
    for seq in range(count):
        record = make_record("event", {"n": seq}, seq=seq, prev_sha256=previous, stamp=StepClock()())
        previous = record["sha256"]
        whole += record_line(record)
        ends.append(len(whole))
    cut = data.draw(st.integers(0, len(whole)))
    found = scan(whole[:cut], lock_sha256=LOCK, head=None)
    assert found.status == ("clean" if cut in ends else "torn")
    assert found.good_bytes == max(end for end in ends if end <= cut)


@pytest.mark.parametrize(
    ("member", "value"),
    [("seq", True), ("mono_us", "0"), ("utc", "2026-11-29"), ("data", []), ("type", None), ("prev_sha256", "00")],
)
def test_a_record_whose_members_have_other_types_is_not_a_record(member: str, value: Any) -> None:
    record = make_record("event", {}, seq=0, prev_sha256=LOCK, stamp=StepClock()())
    record[member] = value
    body = {key: item for key, item in record.items() if key != "sha256"}
    record["sha256"] = sha256_hex(b"trialplate/1 journal\n" + canonical_json(body))
    assert len(scan(record_line(record), lock_sha256=LOCK, head=None).records) == 0


def test_a_recovered_record_must_say_what_was_discarded() -> None:
    for data in (
        {},
        {"discarded_bytes": 0, "discarded_sha256": LOCK},
        {"discarded_bytes": 1, "discarded_sha256": ""},
    ):
        record = make_record("recovered", data, seq=0, prev_sha256=LOCK, stamp=StepClock()())
        assert len(scan(record_line(record), lock_sha256=LOCK, head=None).records) == 0


@pytest.mark.parametrize("own", [True, False])
def test_a_digest_that_stands_in_the_data_as_well_is_not_taken_for_that_of_the_record(own: bool) -> None:
    stamp = Stamp("2026-11-29T09:00:00.000000Z", 1)
    named = "5" * 64
    record = make_record("event", {"sha256": named, "type": "x"}, seq=0, prev_sha256="0" * 64, stamp=stamp)
    if not own:
        record["sha256"] = named
    found = scan(record_line(record), lock_sha256="0" * 64, head=None)
    assert len(found.records) == int(own)
    # the same record without what stands in its data does not carry the digest either
    bare = {**record, "data": {"type": "x"}}
    assert scan(record_line(bare), lock_sha256="0" * 64, head=None).records == ()


def test_members_that_a_later_version_adds_are_hashed_and_accepted() -> None:
    record = make_record("event", {}, seq=0, prev_sha256=LOCK, stamp=StepClock()())
    record["actor"] = "console"
    body = {key: item for key, item in record.items() if key != "sha256"}
    record["sha256"] = sha256_hex(b"trialplate/1 journal\n" + canonical_json(body))
    assert scan(record_line(record), lock_sha256=LOCK, head=None).status == "clean"
    record["actor"] = "somebody else"
    assert scan(record_line(record), lock_sha256=LOCK, head=None).status == "torn"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"count":1,"head_sha256":"00"}', "schema_mismatch"),
        (b'{"count":true,"head_sha256":"00","size":1}', "schema_mismatch"),
        (b'{"count":-1,"head_sha256":"00","size":1}', "schema_mismatch"),
        (b'{"count":1,"extra":1,"head_sha256":"00","size":1}', "schema_mismatch"),
        (b"[]", "schema_mismatch"),
        (b'{"count": 1}', "malformed"),
        (b"", "malformed"),
    ],
)
def test_a_head_of_another_form_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(EvidenceError, match=r"head\.json") as caught:
        read_head(data)
    assert caught.value.code == code


def test_the_head_follows_every_record_but_the_start_of_an_attempt(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    journal.append("run.open", {})
    first = read_head((tmp_path / HEAD).read_bytes())
    journal.append("attempt.start", {})
    assert read_head((tmp_path / HEAD).read_bytes()) == first
    journal.append("attempt.end", {})
    assert (
        read_head((tmp_path / HEAD).read_bytes())
        == journal.head
        == Head(3, journal.records[-1]["sha256"], (tmp_path / JOURNAL).stat().st_size)
    )
    journal.close()


def test_the_head_is_never_ahead_of_what_was_synced(tmp_path: Path) -> None:
    order: list[str] = []

    class Watching(Disk):
        def fsync(self, descriptor: int) -> None:
            order.append(f"fsync {self._paths[descriptor].name}")
            super().fsync(descriptor)

        def replace(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
            order.append(f"replace {path.name}")
            super().replace(path, data, mode=mode)

    journal = _new(tmp_path, disk=Watching())
    order.clear()
    journal.append("run.close", {})
    assert order == ["fsync journal.jsonl", "replace head.json", "fsync .head.json.tmp"]
    journal.close()


def test_a_second_writer_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    with pytest.raises(UsageError) as caught:
        _reopen(tmp_path)
    assert caught.value.code == "campaign_busy"
    journal.close()
    _reopen(tmp_path).close()


def test_a_forked_child_cannot_write(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            journal.append("event", {})
        except UsageError as error:
            os._exit(0 if error.code == "campaign_busy" else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    journal.append("event", {})
    journal.close()


def test_a_closed_journal_accepts_nothing(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    journal.close()
    with pytest.raises(UsageError, match="closed"):
        journal.append("event", {})


@pytest.mark.parametrize("foreign", [b"{}\n", b"x", b""])
def test_a_journal_that_somebody_else_wrote_into_takes_nothing_more(tmp_path: Path, foreign: bytes) -> None:
    journal = _new(tmp_path)
    journal.append("inputs.checked", {"number": 0})
    path = tmp_path / JOURNAL
    kept = path.read_bytes()
    path.write_bytes(kept + foreign if foreign else kept[:-1])
    for _ in range(2):
        with pytest.raises(StorageFailure, match="somebody else wrote into it"):
            journal.append("inputs.checked", {"number": 1})
    journal.close()
    assert path.read_bytes() == (kept + foreign if foreign else kept[:-1])


def test_a_journal_that_was_replaced_under_its_writer_is_not_written_to(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    journal.append("run.open", {})
    (tmp_path / JOURNAL).rename(tmp_path / "moved")
    (tmp_path / JOURNAL).write_bytes(b"")
    with pytest.raises(StorageFailure, match="removed or replaced"):
        journal.append("event", {})
    assert (tmp_path / JOURNAL).read_bytes() == b""
    journal.close()


def test_after_a_failed_fsync_no_record_follows_although_the_next_one_would_succeed(tmp_path: Path) -> None:
    class OnceFailing(Disk):
        armed = False

        def fsync(self, descriptor: int) -> None:
            if self.armed:
                self.armed = False
                raise StorageFailure("could not fsync journal.jsonl: Input/output error (EIO)")
            super().fsync(descriptor)

    disk = OnceFailing()
    journal = _new(tmp_path, disk=disk)
    journal.append("run.open", {})
    disk.armed = True
    with pytest.raises(StorageFailure, match=r"EIO.*Read back, the record is there"):
        journal.append("event", {"n": 1})
    size = (tmp_path / JOURNAL).stat().st_size
    with pytest.raises(StorageFailure, match="accepts nothing more"):
        journal.append("event", {"n": 2})
    assert (tmp_path / JOURNAL).stat().st_size == size
    journal.close()


def test_a_record_above_one_mebibyte_is_refused_and_the_journal_goes_on(tmp_path: Path) -> None:
    journal = _new(tmp_path)
    with pytest.raises(CanonicalError, match="artifact"):
        journal.append("event", {"text": "x" * 2**20})
    with pytest.raises(CanonicalError):
        journal.append("event", {"x": float("nan")})
    journal.append("event", {})
    journal.close()
    assert scan((tmp_path / JOURNAL).read_bytes(), lock_sha256=LOCK, head=None).status == "clean"


@pytest.mark.parametrize("tail", [b"{", b'{"data":{}', b"\n", b"\x00" * 64, b"garbage\nmore garbage\n"])
def test_a_torn_tail_is_kept_aside_and_told_of(tmp_path: Path, tail: bytes) -> None:
    data = _three(tmp_path)
    (tmp_path / JOURNAL).write_bytes(data + tail)
    journal = _reopen(tmp_path)
    assert journal.records[-1]["type"] == "recovered"
    assert journal.records[-1]["data"] == {"discarded_bytes": len(tail), "discarded_sha256": sha256_hex(tail)}
    journal.append("event", {})
    journal.close()
    after = (tmp_path / JOURNAL).read_bytes()
    assert after.startswith(data)
    assert (tmp_path / PARTIAL).read_bytes() == tail
    found = scan(after, lock_sha256=LOCK, head=read_head((tmp_path / HEAD).read_bytes()))
    assert found.status == "clean"
    check_partial(tail, found.records)


def test_tails_of_two_crashes_stand_one_after_the_other(tmp_path: Path) -> None:
    _three(tmp_path)
    for tail in (b"first", b"second, longer"):
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(tail)
        _reopen(tmp_path).close()
    partial = (tmp_path / PARTIAL).read_bytes()
    assert partial == b"firstsecond, longer"
    records = scan((tmp_path / JOURNAL).read_bytes(), lock_sha256=LOCK, head=None).records
    check_partial(partial, records)
    for changed, code in ((b"fIrst" + partial[5:], "hash_mismatch"), (partial + b"x", "size_mismatch")):
        with pytest.raises(EvidenceError, match=r"journal\.partial") as caught:
            check_partial(changed, records)
        assert caught.value.code == code
    with pytest.raises(EvidenceError, match="hash_mismatch"):
        check_partial(partial[:-1], records)


def test_damage_is_never_repaired(tmp_path: Path) -> None:
    data = _three(tmp_path)
    (tmp_path / JOURNAL).write_bytes(data[:-5])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(EvidenceError, match="never repaired") as caught:
        _reopen(tmp_path)
    assert caught.value.code == "journal_broken"
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / JOURNAL).read_bytes() == data[:-5]


def test_a_journal_of_another_lock_is_refused(tmp_path: Path) -> None:
    _three(tmp_path)
    with pytest.raises(EvidenceError) as caught:
        Journal.open(tmp_path / JOURNAL, lock_sha256="00" * 32, disk=Disk(durability="process"))
    assert caught.value.code == "journal_broken"


def test_opening_brings_a_head_that_is_behind_up_to_date(tmp_path: Path) -> None:
    _three(tmp_path)
    current = (tmp_path / HEAD).read_bytes()
    (tmp_path / HEAD).unlink()
    _reopen(tmp_path).close()
    assert (tmp_path / HEAD).read_bytes() == current
