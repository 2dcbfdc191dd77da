"""Rows 30 and 53 of the evidence specification, section 13, and promotion: whole or absent, old pointer or new."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from placing_matrix import (
    GOOD,
    ROOM,
    SOURCE,
    Act,
    Place,
    Publishing,
    Sealing,
    Small,
    examine,
    make_small,
    one_harness,
    places,
)
from sealed import Golden, make_campaign, write
from trialplate import exam, publishing, sealing
from trialplate.canonical import canonical_json, read_stored
from trialplate.errors import EvidenceError, TrialplateError, UsageError
from trialplate.sealing import FreshVerdict
from trialplate.store.container import check_container
from trialplate.store.fsio import Disk
from trialplate.store.placing import STAGING_PREFIX
from trialplate.store.pointer import POINTER, Pointer, Seen, accept, advance, parse_pointer, read_pointer, read_seen
from trialplate.testing.faulty_disk import ProcessEnded


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


@pytest.fixture
def small(golden: Golden) -> Iterator[Small]:
    """Bundle document, lock and nested files of the golden bundle."""
    with one_harness():
        yield make_small(golden)


def _examine(act: Act, which: Callable[[Place], bool], *, every: int = 1) -> int:
    """Examine every n-th of the crash points that are meant."""
    chosen = [place for place in places(act) if which(place)][::every]
    for place in chosen:
        examine(act, place)
    return len(chosen)


def killed(place: Place) -> bool:
    return place.power is None and place.fault.action in ("stop", "tear")


@pytest.mark.parametrize("old", [False, True], ids=["first", "second"])
def test_row_53_a_publication_that_is_killed_at_any_call_leaves_the_bundle_absent_or_whole(
    small: Small, old: bool
) -> None:
    assert _examine(Publishing(small, old=old), killed) > 40


def test_row_53_a_publication_that_loses_power_at_any_call_leaves_the_bundle_absent_or_whole(small: Small) -> None:
    assert _examine(Publishing(small, old=True), lambda place: place.power is not None) > 120


def test_row_53_a_publication_whose_disk_fails_at_any_call_can_be_said_again(small: Small) -> None:
    assert _examine(Publishing(small, old=True), lambda place: place.fault.action in ("fail", "fill")) > 80


SHARES = [pytest.param(9, id="a share"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("every", SHARES)
def test_a_sealing_that_is_disturbed_at_any_call_leaves_the_bundle_absent_or_whole(
    golden: Golden, every: int
) -> None:
    with one_harness():
        assert _examine(Sealing(golden), lambda place: True, every=every) > 1000 // every


def test_row_53_what_a_killed_publication_left_is_set_aside_and_not_deleted(small: Small) -> None:
    act = Publishing(small, old=False)
    middle = [place for place in places(act) if killed(place)][20]
    dying = act.start().next_process(fault=middle.fault)
    with pytest.raises(ProcessEnded):
        act.publish(dying)
    after = dying.next_process()
    staging = ROOM / f"{STAGING_PREFIX}{small.bundle_id}"
    left = after.tree(staging)
    assert left
    act.publish(after)
    (aside,) = after.entries(ROOM / "quarantine")
    assert aside.endswith("-stale_staging")
    assert after.tree(ROOM / "quarantine" / aside / staging.name) == left


def test_row_53_a_target_that_exists_is_refused_whatever_it_is(small: Small) -> None:
    act = Publishing(small, old=False)
    disk, target = act.start(), ROOM / small.bundle_id
    disk.make_folder(target)
    assert code(lambda: act.publish(disk)) == "target_exists"
    assert disk.entries(target) == {}
    disk.replace(target / "bundle.json", b"{}")
    assert code(lambda: act.publish(disk)) == "target_exists"
    assert disk.tree(target) == {"bundle.json": b"{}"}
    assert read_pointer(disk, ROOM) is None
    other = act.start()
    act.publish(other)
    assert code(lambda: act.publish(other)) == "published_already"


def test_row_53_two_at_a_time_do_not_publish_into_one_folder(small: Small) -> None:
    act = Publishing(small, old=False)
    disk = act.start()
    second = disk.beside()
    seen = []

    def verify(folder: Path) -> FreshVerdict:
        seen.append(code(lambda: act.publish(second)))
        return GOOD

    publishing.publish(SOURCE / small.bundle_id, ROOM, disk=disk, verifier=verify)
    assert seen == ["room_busy"]
    act.assert_finished(disk)


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
