"""Rows 30 and 53 of the evidence specification, section 13, and promotion: whole or absent, old pointer or new."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sealed import Golden, make_campaign, write
from trialplate import exam, fingerprint, publishing, sealing
from trialplate.canonical import canonical_json, read_stored
from trialplate.errors import EvidenceError, StorageFailure, TrialplateError, UsageError
from trialplate.sealing import FreshVerdict
from trialplate.store.container import check_container
from trialplate.store.fsio import Disk
from trialplate.store.placing import BUSY, STAGING_PREFIX
from trialplate.store.pointer import POINTER, Pointer, Seen, accept, advance, parse_pointer, read_pointer, read_seen
from trialplate.testing.faulty_disk import CHANGING, Fault, FaultyDisk, ProcessEnded

GOOD = FreshVerdict(0, {"findings": []})


def fresh(folder: Path) -> FreshVerdict:
    """What a verifier process would say, said in this one."""
    verdict = exam.verify(folder)
    return FreshVerdict(verdict.exit_code, verdict.document())


# -- promotion and states -----------------------------------------------------------------------------------


def test_a_bundle_that_a_fresh_process_verifies_is_promoted_and_published(bundle: Path, tmp_path: Path) -> None:
    assert publishing.standing(bundle).state == "QUALIFIED"
    done = publishing.promote(bundle)
    assert (done.exit_code, done.reasons) == (0, ())
    record = read_stored(done.path.read_bytes())
    assert record["bundle_id"] == bundle.name and record["result"] == "promoted"
    assert publishing.standing(bundle).state == "PROMOTED"
    published = publishing.publish(bundle, tmp_path / "public")
    assert published.pointer == Pointer(1, bundle.name, None)
    assert {path.stat().st_mode & 0o777 for path in published.path.rglob("*") if path.is_file()} == {0o444}
    assert publishing.standing(published.path).state == "PROMOTED"
    assert read_pointer(Disk(), tmp_path / "public") == published.pointer


def test_a_bundle_with_a_changed_file_is_refused_and_the_refusal_is_recorded(bundle: Path) -> None:
    write(bundle / "claims.json", b"{}")
    done = publishing.promote(bundle, verifier=fresh)
    assert (done.exit_code, done.document["result"]) == (1, "refused")
    assert "size_mismatch" in done.reasons
    assert publishing.standing(bundle).state == "QUARANTINED"
    assert publishing.standing(bundle).reasons == done.reasons
    with pytest.raises(UsageError, match="not promoted"):
        publishing.publish(bundle, bundle.parent / "public", verifier=fresh)
    assert not (bundle.parent / "public").exists()


def test_a_bundle_without_controls_is_verified_and_not_promoted(lean: Path) -> None:
    assert publishing.standing(lean).state == "VERIFIED"
    done = publishing.promote(lean, verifier=fresh)
    assert (done.exit_code, done.reasons) == (3, ("qualification_missing",))


def test_row_19_a_development_run_is_not_promoted(golden: Golden, tmp_path: Path) -> None:
    text = (golden.campaign.parent / "protocol.toml").read_text(encoding="utf-8")
    campaign = make_campaign(tmp_path / "c", protocol=text.replace('"confirmatory"', '"development"'))
    made = sealing.seal(campaign, tmp_path / "b", qualification=golden.qualification, verifier=fresh)
    assert made.verdict.exit_code == 0
    assert publishing.standing(made.path).state == "DEVELOPMENT"
    done = publishing.promote(made.path, verifier=fresh)
    assert (done.exit_code, done.reasons) == (3, ("not_confirmatory",))


def test_a_record_that_was_written_by_hand_promotes_nothing(lean: Path, tmp_path: Path) -> None:
    done = publishing.promote(lean, verifier=fresh)
    forged = {**done.document, "result": "promoted", "reasons": []}
    done.path.write_bytes(canonical_json(forged))
    assert publishing.standing(lean).state == "VERIFIED"
    with pytest.raises(EvidenceError) as caught:
        publishing.publish(lean, tmp_path / "public", verifier=fresh)
    assert caught.value.code == "promotion_not_reproduced"
    assert not (tmp_path / "public" / lean.name).exists()
    (moved,) = (tmp_path / "public" / "quarantine").iterdir()
    assert moved.name.endswith("-promotion_not_reproduced")
    assert read_stored((moved / "reason.json").read_bytes())["reason"] == "promotion_not_reproduced"
    assert not (tmp_path / "public" / POINTER).exists()


def test_the_state_of_a_campaign_follows_from_what_lies_in_it(golden: Golden, tmp_path: Path) -> None:
    assert publishing.standing(golden.campaign).state == "ERROR"
    text = (golden.campaign.parent / "protocol.toml").read_text(encoding="utf-8")
    clean = make_campaign(tmp_path / "clean", protocol=text.replace("mine.py:Arm", "control:oracle").replace(
        'weights = ["mine.bin"]\n', ""
    ))  # fmt: skip
    assert publishing.standing(clean).state == "COMPLETE"
    locked = tmp_path / "locked"
    locked.mkdir()
    shutil.copy(clean / "lock.json", locked)
    assert publishing.standing(locked).state == "LOCKED"
    write(clean / "rows.jsonl", b"")
    assert publishing.standing(clean) == publishing.Standing("QUARANTINED", ("rows_digest_mismatch",))


# -- row 30: the pointer --------------------------------------------------------------------------------------

A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(TrialplateError) as caught:
        call()
    return caught.value.code


def test_row_30_an_older_version_than_one_that_was_seen_is_refused() -> None:
    third = Pointer(3, C, B)
    assert accept(third, seen=Seen(3, C)) == third
    assert accept(third, seen=Seen(2, B)) == third
    assert accept(third, seen=Seen(1, A)) == third
    assert code(lambda: accept(Pointer(2, B, A), seen=Seen(3, C))) == "pointer_rollback"
    assert code(lambda: accept(Pointer(3, B, A), seen=Seen(3, C))) == "pointer_rollback"
    assert code(lambda: accept(third, seen=Seen(2, A))) == "pointer_skipped"


@pytest.mark.parametrize("new", [Pointer(4, C, B), Pointer(2, C, B), Pointer(3, C, A), Pointer(1, C, None)])
def test_row_30_a_version_that_is_not_the_next_one_is_refused(new: Pointer) -> None:
    assert code(lambda: advance(Pointer(2, B, A), new)) == "pointer_skipped"


def test_row_30_the_first_version_is_one() -> None:
    assert advance(None, Pointer(1, A, None)) == Pointer(1, A, None)
    assert code(lambda: advance(None, Pointer(2, B, A))) == "pointer_skipped"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda d: d.update(version=0), "schema_mismatch"),
        (lambda d: d.update(version=True), "schema_mismatch"),
        (lambda d: d.update(version="2"), "schema_mismatch"),
        (lambda d: d.update(bundle_id="x"), "schema_mismatch"),
        (lambda d: d.update(bundle_id=None), "schema_mismatch"),
        (lambda d: d.update(prev_bundle_id=None), "schema_mismatch"),
        (lambda d: d.update(more=1), "schema_mismatch"),
        (lambda d: d.update(schema="trialplate.pointer/2"), "version_unsupported"),
        (lambda d: d.update(schema="trialplate.lock/1"), "schema_mismatch"),
    ],
)
def test_a_pointer_of_another_form_is_refused(edit: Any, expected: str) -> None:
    pointer = Pointer(2, B, A)
    assert parse_pointer(pointer.stored()) == pointer
    document = pointer.document()
    edit(document)
    assert code(lambda: parse_pointer(canonical_json(document))) == expected
    assert code(lambda: parse_pointer(pointer.stored() + b"\n")) == "malformed"


def test_what_a_reader_remembers_is_read_back() -> None:
    assert read_seen(f"3:{A}") == Seen(3, A)
    for text in ("", "3", f"x:{A}", f"3:{A[1:]}", f"-1:{A}", f"٣:{A}"):
        assert code(lambda text=text: read_seen(text)) == "usage"


# -- row 53: killed anywhere ----------------------------------------------------------------------------------

SOURCE, ROOM = Path("/bundles"), Path("/public")


@dataclass(frozen=True)
class Small:
    """A few files that stand for a promoted bundle, and the record beside it."""

    bundle_id: str
    files: dict[str, bytes]
    record: bytes

    def put(self, disk: Disk) -> Path:
        """Write the bundle and its record into memory, durably."""
        folder = SOURCE / self.bundle_id
        for name, data in self.files.items():
            disk.make_folder((folder / name).parent)
            disk.replace(folder / name, data, mode=0o444)
        disk.replace(publishing.record_path(folder), self.record)
        return folder

    def verifier(self, disk: FaultyDisk) -> Callable[[Path], FreshVerdict]:
        """Return a verifier that compares a folder in memory with the files that it must have."""

        def verify(folder: Path) -> FreshVerdict:
            if disk.tree(folder) == self.files:
                return GOOD
            return FreshVerdict(1, {"findings": [{"code": "hash_mismatch"}]})

        return verify


@pytest.fixture
def small(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Bundle document, lock and a nested file of the golden bundle."""
    monkeypatch.setattr(fingerprint, "harness", lambda: {"sha256": "ab" * 32})
    names = ("bundle.json", "lock.json", "rows.jsonl", "models/mine.json", "qualification/null/head.json")
    files = {name: (golden.bundle / name).read_bytes() for name in names}
    disk = FaultyDisk()
    bare = Small(golden.bundle.name, files, b"{}")
    done = publishing.promote(bare.put(disk), disk=disk, verifier=bare.verifier(disk))
    assert done.exit_code == 0
    return Small(golden.bundle.name, files, canonical_json(done.document))


def published(disk: FaultyDisk, small: Small) -> publishing.Published:
    return publishing.publish(SOURCE / small.bundle_id, ROOM, disk=disk, verifier=small.verifier(disk))


def assert_whole_or_absent(disk: FaultyDisk, small: Small, old: Pointer | None) -> None:
    there = disk.tree(ROOM / small.bundle_id) if small.bundle_id in disk.entries(ROOM) else None
    assert there in (None, small.files)
    pointer = read_pointer(disk, ROOM)
    assert pointer == old or (pointer is not None and pointer.bundle_id == small.bundle_id and there is not None)


def assert_finished(disk: FaultyDisk, small: Small, old: Pointer | None) -> None:
    assert disk.tree(ROOM / small.bundle_id) == small.files
    assert read_pointer(disk, ROOM) == (old.next(small.bundle_id) if old else Pointer(1, small.bundle_id, None))
    left = set(disk.entries(ROOM)) - {"quarantine", "b" * 64}
    assert left == {BUSY, POINTER, small.bundle_id, f"{small.bundle_id}.promotion.json"}


def prepared(small: Small, *, old: bool) -> tuple[FaultyDisk, Pointer | None]:
    """Return a disk that holds the source, with or without a pointer to another bundle."""
    disk = FaultyDisk()
    small.put(disk)
    if not old:
        return disk, None
    pointer = Pointer(1, "b" * 64, None)
    disk.make_folder(ROOM / ("b" * 64))
    disk.replace(ROOM / POINTER, pointer.stored())
    return disk, pointer


def places(disk: FaultyDisk, small: Small) -> list[int]:
    """Return the numbers of the calls of a publication that change something."""
    trial = disk.next_process()
    published(trial, small)
    return [number for number, call in enumerate(trial.calls) if call.name in CHANGING]


@pytest.mark.parametrize("old", [False, True], ids=["first", "second"])
def test_row_53_a_publication_that_is_killed_at_any_call_leaves_the_bundle_absent_or_whole(
    small: Small, old: bool
) -> None:
    numbers = places(prepared(small, old=old)[0], small)
    assert len(numbers) > 40
    for number in numbers:
        disk, pointer = prepared(small, old=old)
        killed = disk.next_process(fault=Fault(number))
        with pytest.raises(ProcessEnded):
            published(killed, small)
        after = killed.next_process()
        assert_whole_or_absent(after, small, pointer)
        if f"{small.bundle_id}.promotion.json" not in after.entries(ROOM):
            published(after, small)
        assert_finished(after, small, pointer)


@pytest.mark.parametrize("names", ["lost", "kept", "mixed"])
def test_row_53_a_publication_that_loses_power_at_any_call_leaves_the_bundle_absent_or_whole(
    small: Small, names: Any
) -> None:
    for number in places(prepared(small, old=True)[0], small):
        disk, pointer = prepared(small, old=True)
        killed = disk.next_process(fault=Fault(number))
        with pytest.raises(ProcessEnded):
            published(killed, small)
        after = killed.after_power_cut(names=names, seed=number)
        assert_whole_or_absent(after, small, pointer)
        if f"{small.bundle_id}.promotion.json" not in after.entries(ROOM):
            published(after, small)
        assert_finished(after, small, pointer)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])
def test_row_53_a_publication_whose_disk_fails_at_any_call_can_be_said_again(small: Small, number: int) -> None:
    for place in places(prepared(small, old=True)[0], small):
        disk, pointer = prepared(small, old=True)
        failing = disk.next_process(fault=Fault(place, "fail", number))
        with pytest.raises(StorageFailure):
            published(failing, small)
        after = failing.next_process()
        assert_whole_or_absent(after, small, pointer)
        if f"{small.bundle_id}.promotion.json" not in after.entries(ROOM):
            published(after, small)
        assert_finished(after, small, pointer)


def test_row_53_what_a_killed_publication_left_is_set_aside_and_not_deleted(small: Small) -> None:
    middle = places(prepared(small, old=False)[0], small)[20]
    disk, _ = prepared(small, old=False)
    killed = disk.next_process(fault=Fault(middle))
    with pytest.raises(ProcessEnded):
        published(killed, small)
    after = killed.next_process()
    staging = ROOM / f"{STAGING_PREFIX}{small.bundle_id}"
    left = after.tree(staging)
    assert left
    published(after, small)
    (aside,) = after.entries(ROOM / "quarantine")
    assert aside.endswith("-stale_staging")
    assert after.tree(ROOM / "quarantine" / aside / staging.name) == left


def test_row_53_a_target_that_exists_is_refused_whatever_it_is(small: Small) -> None:
    disk, _ = prepared(small, old=False)
    target = ROOM / small.bundle_id
    disk.make_folder(target)
    assert code(lambda: published(disk, small)) == "target_exists"
    assert disk.entries(target) == {}
    disk.replace(target / "bundle.json", b"{}")
    assert code(lambda: published(disk, small)) == "target_exists"
    assert disk.tree(target) == {"bundle.json": b"{}"}
    assert read_pointer(disk, ROOM) is None
    other, _ = prepared(small, old=False)
    published(other, small)
    assert code(lambda: published(other, small)) == "published_already"


def test_row_53_two_at_a_time_do_not_publish_into_one_folder(small: Small) -> None:
    disk, _ = prepared(small, old=False)
    second = disk.beside()
    seen = []

    def verify(folder: Path) -> FreshVerdict:
        seen.append(code(lambda: published(second, small)))
        return GOOD

    publishing.publish(SOURCE / small.bundle_id, ROOM, disk=disk, verifier=verify)
    assert seen == ["room_busy"]
    assert_finished(disk, small, None)


def test_a_bundle_is_not_published_into_itself(bundle: Path) -> None:
    publishing.promote(bundle, verifier=lambda _: GOOD)
    assert code(lambda: publishing.publish(bundle, bundle / "public", verifier=lambda _: GOOD)) == "usage"
    assert check_container(bundle).findings == ()


# -- real processes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_row_53_real_processes_killed_while_they_publish_leave_the_bundle_absent_or_whole(
    bundle: Path, tmp_path: Path
) -> None:
    assert publishing.promote(bundle, verifier=fresh).exit_code == 0
    room, draw = tmp_path / "public", random.Random(5)
    command = [sys.executable, "-m", "trialplate.cli", "publish", str(bundle), "--into", str(room)]
    started = time.monotonic()
    subprocess.run([*command[:-1], str(tmp_path / "calm")], check=True, capture_output=True)
    whole_s = time.monotonic() - started
    for _ in range(12):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(draw.random() * whole_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (room / bundle.name).exists():
            assert check_container(room / bundle.name).findings == ()
        pointer = read_pointer(Disk(), room) if room.exists() else None
        assert pointer in (None, Pointer(1, bundle.name, None))
        if (room / f"{bundle.name}.promotion.json").exists():
            break
    else:
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert publishing.standing(room / bundle.name).state == "PROMOTED"
    assert [path.name for path in room.iterdir() if path.name.startswith(STAGING_PREFIX)] == []


def commands(*arguments: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "trialplate.cli", *map(str, arguments), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {"exit_code": done.returncode, **json.loads(done.stdout)}


def test_the_commands_promote_publish_and_current_tell_the_same_story(bundle: Path, tmp_path: Path) -> None:
    room = tmp_path / "public"
    assert commands("publish", bundle, "--into", room)["error"] == "not_promoted"
    assert commands("promote", bundle)["result"] == "promoted"
    assert commands("publish", bundle, "--into", room)["version"] == 1
    found = commands("current", room, "--seen", f"1:{bundle.name}")
    assert (found["exit_code"], found["bundle"]) == (0, str(room / bundle.name))
    assert commands("current", room, "--seen", f"2:{A}")["error"] == "pointer_rollback"
    assert commands("current", tmp_path)["error"] == "nothing_published"
