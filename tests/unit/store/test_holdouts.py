"""The holdout ledger: chained from 64 zeros, a pack registered once, spent by whoever opens it for anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden import StepClock
from trialplate.canonical import document_sha256, read_stored, sha256_hex
from trialplate.errors import EvidenceError, UsageError
from trialplate.store.chain import make_record, record_line
from trialplate.store.fsio import Disk
from trialplate.store.holdouts import (
    ORIGIN,
    PURPOSES,
    Ledger,
    open_pack,
    pack_sha256,
    parse_ledger,
    read_ledger,
    register_pack,
)

SCENARIOS = {name: sha256_hex(name.encode()) for name in ("near", "far", "tilted")}
PACK = pack_sha256(SCENARIOS.values())
LOCK = "c" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with one pack."""
    ledger = tmp_path / "holdouts.jsonl"
    register_pack(ledger, author="another lab", suite="toy", version="1", scenarios=SCENARIOS, clock=StepClock())
    return ledger


def _refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    return caught.value.code


def test_a_ledger_has_the_records_of_a_journal_and_begins_at_64_zeros(path: Path) -> None:
    open_pack(path, PACK, purpose="locked_run", lock_sha256=LOCK, clock=StepClock(start_s=40_000))
    first, second = (read_stored(line) for line in path.read_bytes().splitlines())
    assert (first["seq"], first["type"], first["prev_sha256"]) == (0, "holdout.registered", "0" * 64)
    assert (second["type"], second["prev_sha256"]) == ("holdout.opened", first["sha256"])
    assert second["data"] == {"pack_sha256": PACK, "purpose": "locked_run", "lock_sha256": LOCK}
    assert read_ledger(path).head_sha256 == second["sha256"]


def test_a_pack_is_named_by_its_scenarios_in_whatever_order(path: Path) -> None:
    assert PACK == document_sha256(sorted(SCENARIOS.values())) == pack_sha256(reversed(SCENARIOS.values()))
    pack = read_ledger(path).packs[PACK]
    assert (pack.author, pack.suite, pack.scenarios, pack.spent) == ("another lab", "toy", SCENARIOS, None)
    assert pack.touched_by([SCENARIOS["far"], "e" * 64]) and not pack.touched_by(["e" * 64])


def test_a_locked_run_spends_nothing_and_everything_else_does(path: Path) -> None:
    for number in range(2):
        open_pack(path, PACK, purpose="locked_run", lock_sha256=f"{number:064x}")
    assert read_ledger(path).packs[PACK].spent is None
    for purpose in set(PURPOSES) - {"locked_run"}:
        ledger = path.with_name(f"{purpose}.jsonl")
        ledger.write_bytes(path.read_bytes())
        spent = open_pack(ledger, PACK, purpose=purpose).spent
        assert spent is not None and spent.purpose == purpose and spent.lock_sha256 is None
        assert open_pack(ledger, PACK, purpose="locked_run", lock_sha256=LOCK).spent == spent


def test_a_pack_may_be_registered_by_its_digest_alone_and_is_known_by_exactly_its_scenarios(tmp_path: Path) -> None:
    pack = register_pack(tmp_path / "h.jsonl", author="a notary", sha256=PACK)
    assert pack.scenarios is None
    assert pack.touched_by(SCENARIOS.values()) and not pack.touched_by([SCENARIOS["far"]])


def test_what_may_not_be_recorded_is_refused_and_nothing_is_written(path: Path) -> None:
    before = path.read_bytes()
    other = {"near": SCENARIOS["near"]}
    for call, code in (
        (lambda: register_pack(path, author="x", suite="toy", version="1", scenarios=SCENARIOS), "pack_registered"),
        (lambda: register_pack(path, author=" ", suite="toy", version="1", scenarios=other), "author"),
        (lambda: register_pack(path, author="x" * 201, suite="toy", version="1", scenarios=other), "author"),
        (lambda: register_pack(path, author="x", scenarios=other), "registration_malformed"),
        (lambda: register_pack(path, author="x", suite="toy", version="1", scenarios={}), "registration_malformed"),
        (lambda: register_pack(path, author="x", sha256="ABC"), "pack_malformed"),
        (lambda: open_pack(path, "d" * 64, purpose="inspection"), "no_such_pack"),
        (lambda: open_pack(path, PACK, purpose="fun"), "purpose_unknown"),
        (lambda: open_pack(path, PACK, purpose="locked_run"), "purpose_unknown"),
        (lambda: open_pack(path, PACK, purpose="inspection", lock_sha256="short"), "opening_malformed"),
    ):
        assert _refused(call) == code
    assert path.read_bytes() == before


def test_a_ledger_is_read_as_it_was_at_an_earlier_head(path: Path) -> None:
    then = read_ledger(path)
    open_pack(path, PACK, purpose="inspection")
    now = read_ledger(path)
    earlier = now.until(then.head_sha256)
    assert earlier is not None and earlier.packs == then.packs
    assert now.until(ORIGIN) == Ledger() and now.until("e" * 64) is None
    assert now.packs[PACK].spent is not None


def test_a_changed_cut_or_reordered_ledger_is_refused(path: Path) -> None:
    open_pack(path, PACK, purpose="inspection")
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for data in (whole.replace(b"inspection", b"locked_run"), whole[:-1], lines[1] + lines[0], b"{}\n", lines[1]):
        with pytest.raises(EvidenceError) as caught:
            parse_ledger(data)
        assert caught.value.code == "journal_broken"
    assert parse_ledger(lines[0]).packs[PACK].spent is None  # a cut between records is seen by a head that was kept


def test_a_record_that_is_chained_well_and_may_not_stand_there_is_a_schema_mismatch(path: Path) -> None:
    ledger = read_ledger(path)
    for kind, data in (
        ("holdout.closed", {"pack_sha256": PACK}),
        ("holdout.opened", {"pack_sha256": PACK, "purpose": "inspection", "lock_sha256": None}),
        ("holdout.opened", {"pack_sha256": PACK, "purpose": "inspection", "lock_sha256": LOCK, "note": "x"}),
        ("holdout.registered", {"pack_sha256": "d" * 64, "author": "x"}),
    ):
        record = make_record(kind, data, seq=1, prev_sha256=ledger.head_sha256, stamp=StepClock()())
        with pytest.raises(EvidenceError) as caught:
            parse_ledger(path.read_bytes() + record_line(record))
        assert caught.value.code == "schema_mismatch"


def test_a_ledger_that_is_not_there_or_is_being_written_is_told(path: Path, tmp_path: Path) -> None:
    assert _refused(lambda: read_ledger(tmp_path / "none.jsonl")) == "no_ledger"
    disk = Disk()
    descriptor = disk.open_append(path)
    disk.lock(descriptor)
    try:
        assert _refused(lambda: open_pack(path, PACK, purpose="inspection")) == "campaign_busy"
    finally:
        disk.close(descriptor)
