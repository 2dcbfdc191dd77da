"""`trialplate mailbox run` and actors as real processes: deaths of either side, hostile actors, full disks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mailbox_campaign as mc
from mailbox_campaign import end_reason, events, observation, put, reply
from trialplate.store.disclosing import find_attempt
from trialplate.store.view import read_campaign

STOP = {"stop": {"reason": None}}
SCENARIOS = tuple(f"reach-{number:03d}" for number in range(1, 11))


@pytest.fixture
def root() -> Iterator[Path]:
    """Where mailboxes may be made."""
    with mc.opaque_root() as place:
        yield place


def stop(folder: Path) -> None:
    """Play an episode as shortly as can be."""
    put(folder, 0, reply(observation(folder), **STOP))


# -- the death of the runner -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("interrupted", ["error", "replace"])
def test_row_48_a_runner_that_is_killed_leaves_an_error_and_nothing_is_replayed_that_was_not_registered(
    tmp_path: Path, root: Path, interrupted: str
) -> None:
    mc.locked(tmp_path, mc.arm(), scenarios=SCENARIOS[:3], interrupted=interrupted)
    with mc.running(tmp_path, root) as run:
        stop(next(run.mailboxes()))
        orphan = run.mailbox()
        assert orphan is not None
        put(orphan, 0, reply(observation(orphan)))
        put(orphan, 1, reply(observation(orphan, 1)))  # it has moved
        observation(orphan, 2)
        run.kill()
    assert end_reason(orphan) is None
    noted = [record["data"] for record in read_campaign(tmp_path / "c").records if record["type"] == "event"]
    assert [item["mailbox"] for item in noted if item["kind"] == "mailbox_opened"][1:] == [orphan.name]
    assert len(noted[-1]["template_sha256"]) == len(noted[-1]["rendered_sha256"]) == 64
    assert find_attempt(read_campaign(tmp_path / "c"), orphan.name) == ("000001", 0)
    put(orphan, 2, reply(observation(orphan, 2), **STOP))  # nobody is there to read it
    with mc.running(tmp_path, root, "--resume") as run:
        played = []
        for folder in run.mailboxes():
            assert end_reason(orphan) == "aborted"  # its actor was told before anybody else was asked
            stop(folder)
            played.append(folder)
        run.ended(expected=1 if interrupted == "error" else 0)
    found = [(row.trial_id, row.attempt, row.termination) for row in mc.rows(tmp_path)]
    once = [("000000", 0, "policy_stop"), ("000001", 0, "interrupted")]
    again = [("000001", 1, "policy_stop")] if interrupted == "replace" else []
    assert sorted(found) == sorted([*once, *again, ("000002", 0, "policy_stop")])
    assert orphan not in played
    assert mc.verdicts(tmp_path) == ["FAIL", "ERROR" if interrupted == "error" else "FAIL", "FAIL"]
    assert sorted(path.name for path in (orphan / "act").iterdir()) == ["00000.json", "00001.json", "00002.json"]
    mc.verified(tmp_path)


@pytest.mark.slow
def test_a_runner_killed_at_any_moment_is_resumed_until_every_trial_has_one_attempt(
    tmp_path: Path, root: Path
) -> None:
    mc.locked(tmp_path, mc.arm(), scenarios=SCENARIOS)
    pause = threading.Event()
    for turn in range(60):
        if len({trial for trial, _ in read_started(tmp_path)}) == len(SCENARIOS):
            break
        with mc.running(tmp_path, root, *(("--resume",) if turn else ())) as run:
            folder = run.mailbox()
            if folder is not None:
                killer = threading.Timer(0.013 * (turn % 9), run.process.kill)
                killer.start()
                while run.process.poll() is None and end_reason(folder) is None:
                    answer_all(folder)
                    pause.wait(0.002)
                killer.cancel()
            run.kill()
    with mc.running(tmp_path, root, "--resume") as run:
        for folder in run.mailboxes():
            stop(folder)
        run.process.wait(timeout=30)
    started = read_started(tmp_path)
    assert sorted(trial for trial, _ in started) == [f"{n:06d}" for n in range(len(SCENARIOS))]
    assert all(attempt == 0 for _, attempt in started)
    assert all(end_reason(folder) is not None for folder in root.iterdir() if (folder / "spec.json").exists())
    mc.verified(tmp_path)


def read_started(folder: Path) -> list[tuple[str, int]]:
    """Return every attempt that was started."""
    if not (folder / "c" / "journal.jsonl").exists():
        return []
    return list(read_campaign(folder / "c").started)


def answer_all(folder: Path) -> None:
    """Answer each observation that is there and has no answer."""
    for path in sorted((folder / "obs").glob("?????.json")):
        if not (folder / "act" / path.name).exists():
            put(folder, int(path.stem), reply(observation(folder, int(path.stem))))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_episode_tells_the_actor_and_resume_goes_on(tmp_path: Path, root: Path, number: int) -> None:
    mc.locked(tmp_path, mc.arm())
    with mc.running(tmp_path, root) as run:
        cut = run.mailbox()
        assert cut is not None
        put(cut, 0, reply(observation(cut)))
        observation(cut, 1)
        run.process.send_signal(number)
        errors = run.ended(expected=1)
    assert "continue with --resume" in errors and "Traceback" not in errors
    assert end_reason(cut) == "aborted"
    with mc.running(tmp_path, root, "--resume") as run:
        for folder in run.mailboxes():
            stop(folder)
        run.ended(expected=1)
    assert [row.termination for row in mc.rows(tmp_path)] == ["interrupted", "policy_stop"]
    mc.verified(tmp_path)


def test_a_living_run_keeps_its_mailbox_when_another_resumes_beside_it(tmp_path: Path, root: Path) -> None:
    mc.locked(tmp_path, mc.arm())
    with mc.running(tmp_path, root) as run:
        folder = run.mailbox()
        assert folder is not None
        shown = observation(folder)
        with mc.running(tmp_path, root, "--resume") as other:
            assert other.mailbox() is None
            assert "is being written" in other.ended(expected=2)
        assert end_reason(folder) is None
        put(folder, 0, reply(shown, **STOP))
        for folder in run.mailboxes():
            stop(folder)
        run.ended()
    mc.verified(tmp_path)


# -- the death of an actor -------------------------------------------------------------------------------------------


def test_an_actor_that_is_killed_is_a_policy_timeout_and_the_next_actor_goes_on(tmp_path: Path, root: Path) -> None:
    mc.locked(tmp_path, mc.arm(), call_timeout_s=0.6)
    thinking = (
        "import sys, time; sys.path.insert(0, sys.argv[2]); import mailbox_actor as m; from pathlib import Path\n"
    )
    thinking += "still = {'chunk': {'vectors': [[0, 0, 0, 0, 0, 0, 1]]}}\n"
    thinking += "m.serve(Path(sys.argv[1]), lambda seen, at: still if seen['call_index'] < 2 else time.sleep(60))\n"
    with mc.running(tmp_path, root) as run:
        first = run.mailbox()
        assert first is not None
        actor = subprocess.Popen([sys.executable, "-I", "-c", thinking, str(first), str(mc.ACTOR.parent)])
        observation(first, 2)
        (first / "act" / "00002.json.tmp").write_text('{"protocol": "trial')  # it was about to write
        actor.kill()
        assert actor.wait(timeout=10) == -signal.SIGKILL
        second = run.mailbox()
        assert second is not None
        with mc.start_actor(second) as good:
            assert good.communicate(timeout=20)[0] == "policy_stop\n"
        run.ended()
    killed, other = mc.rows(tmp_path)
    assert [opened["mailbox"] for row in (killed, other) for opened in mc.events(row, "mailbox_opened")] == [
        first.name, second.name,
    ]  # fmt: skip
    assert (killed.fault_code, killed.control_steps, killed.calls) == ("policy_timeout", 2, 3)
    assert "00002.json.tmp" in (killed.fault_message or "")
    assert end_reason(first) == "error"
    assert (other.termination, other.fault_code) == ("policy_stop", None)
    assert mc.verdicts(tmp_path) == ["FAIL", "FAIL"]  # by the fault table; and by the scorer
    mc.verified(tmp_path)


# -- hostile actors --------------------------------------------------------------------------------------------------


def link(folder: Path) -> None:
    (folder / "act" / "00000.json").symlink_to("/etc/hostname")


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "act" / "00000.json")


def gigabyte(folder: Path) -> None:
    with (folder / "act" / "x.tmp").open("wb") as file:
        file.write(b"[" + b" " * 2**20)
        file.truncate(2**30)
    (folder / "act" / "x.tmp").rename(folder / "act" / "00000.json")


def flood(folder: Path) -> None:
    for number in range(3_000):
        (folder / "act" / f"{number + 1:05d}.json").touch()


def half(folder: Path) -> None:
    (folder / "act" / "00000.json").write_text('{"protocol": "trialplate.policy/1", "type": "deci')


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


def swapped(folder: Path) -> None:
    (folder / "act").rename(folder / "was")
    (folder / "act").symlink_to("/tmp")


def late(folder: Path) -> None:
    shown = observation(folder)
    while end_reason(folder) is None:
        time.sleep(0.002)
    put(folder, 0, reply(shown))


HOSTILE: dict[Callable[[Path], None], tuple[str, str, str]] = {
    link: ("invalid_response_schema", "response_refused", "a symbolic link"),
    fifo: ("invalid_response_schema", "response_refused", "a special file (p)"),
    gigabyte: ("message_too_large", "response_refused", "longer than is read"),
    flood: ("invalid_response_schema", "wrong_index", ""),
    half: ("wire_malformed", "response_refused", ""),
    gone: ("transport_lost", "", ""),
    swapped: ("transport_lost", "", ""),
    late: ("policy_timeout", "late_response", ""),
}


def test_row_43_whatever_an_actor_leaves_costs_its_own_episode_and_no_other(tmp_path: Path, root: Path) -> None:
    mc.locked(tmp_path, mc.arm(), scenarios=SCENARIOS[: len(HOSTILE) + 1], first_call_timeout_s=3.0)
    with mc.running(tmp_path, root) as run:
        for act, folder in zip(HOSTILE, run.mailboxes(), strict=False):
            observation(folder)
            act(folder)
        last = run.mailbox()
        assert last is not None
        memory_bytes = peak_bytes(run.process.pid)
        stop(last)
        assert "Traceback" not in run.ended(expected=1)
    found = mc.rows(tmp_path)
    for row, (act, (code, kind, refusal)) in zip(found[:-1], HOSTILE.items(), strict=True):
        assert (row.fault_code, row.control_steps) == (code, 0), (act.__name__, row.fault_message)
        if kind:
            assert events(row, kind)[0].get("refusal", "") == refusal, act.__name__
    assert found[-1].termination == "policy_stop"
    assert memory_bytes < 400 * 2**20  # of the gigabyte nothing was read
    assert sum(len(event.detail) for row in found for event in row.events) < 40_000
    mc.verified(tmp_path)


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process ever held."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


# -- a mailbox that breaks -------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(root: Path) -> Iterator[Path]:
    """A root on a disk of 96 KiB."""
    root.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(root)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a disk")
    yield root
    subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_full_disk_ends_one_attempt_and_the_run_and_resume_plays_the_rest(tmp_path: Path, small_disk: Path) -> None:
    mc.locked(tmp_path, mc.arm(), scenarios=SCENARIOS[:4])
    with mc.running(tmp_path, small_disk) as run:
        stop(next(run.mailboxes()))
        second = run.mailbox()
        assert second is not None
        shown = observation(second)
        (second / "act" / "mine.tmp").write_bytes(b"x" * (free_bytes(small_disk) - 8192))
        put(second, 0, reply(shown))
        assert run.mailbox() is None  # no other trial was burnt for it
        errors = run.ended(expected=1)
    assert "No space left on device" in errors and "continue with --resume" in errors
    assert [(row.termination, row.fault_code) for row in mc.rows(tmp_path)] == [
        ("policy_stop", None), ("fault", "storage_failure"),
    ]  # fmt: skip
    (second / "act" / "mine.tmp").unlink()
    with mc.running(tmp_path, small_disk, "--resume") as run:
        for folder in run.mailboxes():
            stop(folder)
        run.ended(expected=1)
    assert mc.verdicts(tmp_path) == ["FAIL", "ERROR", "FAIL", "FAIL"]
    mc.verified(tmp_path)


def free_bytes(place: Path) -> int:
    """Return how much a disk still takes."""
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_bsize


@pytest.mark.parametrize("told_on", ["stdout", "stderr"])
def test_a_run_that_nobody_listens_to_any_more_stops_and_resumes(tmp_path: Path, root: Path, told_on: str) -> None:
    mc.locked(tmp_path, mc.arm(), scenarios=SCENARIOS[:4])
    kept = tmp_path / "kept.txt"
    command = mc.command("mailbox", "run", tmp_path / "c", "--root", root, *(["--json"] * (told_on == "stderr")))
    with (
        kept.open("wb") as other,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE if told_on == "stdout" else other,
            stderr=subprocess.PIPE if told_on == "stderr" else other,
        ) as process,
    ):
        heard = getattr(process, told_on)
        while not (line := heard.readline().decode()).startswith(str(root)):
            assert line, kept.read_text()
        heard.close()  # the first mailbox is still unanswered: no other one has been told of
        stop(Path(line.strip()))
        assert process.wait(timeout=60) == 1
    errors = kept.read_text()
    assert ("nobody can be told of the mailbox" in errors) == (told_on == "stdout") and "Traceback" not in errors
    assert [(row.termination, row.fault_code) for row in mc.rows(tmp_path)] == [
        ("policy_stop", None), ("fault", "connect_failed"),
    ]  # fmt: skip
    with mc.running(tmp_path, root, "--resume") as run:
        for folder in run.mailboxes():
            stop(folder)
        run.ended(expected=1)
    assert mc.verdicts(tmp_path) == ["FAIL", "ERROR", "FAIL", "FAIL"]


# -- arms ------------------------------------------------------------------------------------------------------------


def test_arms_are_played_one_at_a_time_by_name(tmp_path: Path, root: Path) -> None:
    mc.locked(tmp_path, mc.arm(), mc.arm("other-arm", seen=("ee_pos",)))
    for arm, expected in (("other-arm", 1), ("quiet-arm", 0)):
        with mc.running(tmp_path, root, "--arm", arm, *(() if arm == "other-arm" else ("--resume",))) as run:
            for folder in run.mailboxes():
                stop(folder)
            run.ended(expected=expected)
        played = {row.arm for row in read_campaign(tmp_path / "c").rows}
        assert played == ({"other-arm"} if arm == "other-arm" else {"other-arm", "quiet-arm"})
    mc.verified(tmp_path)


def test_with_json_one_document_comes_at_the_end_and_the_mailboxes_before_it_on_the_error_stream(
    tmp_path: Path, root: Path
) -> None:
    mc.locked(tmp_path, mc.arm())
    line = mc.command("mailbox", "run", tmp_path / "c", "--root", root, "--json")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        told = [Path(line.strip()) for line in process.stderr if line.startswith(str(root)) and not stop_at(line)]
        document = json.loads(process.stdout.read())
    assert (process.returncode, document["complete"], document["errors"]) == (0, True, 0)
    assert [Path(item["folder"]) for item in document["mailboxes"]] == told
    assert len({item["rendered_sha256"] for item in document["mailboxes"]}) == len(told) == 2


def stop_at(line: str) -> None:
    """Play the episode of a mailbox that was announced."""
    stop(Path(line.strip()))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--arm", "quiet"), "did you mean 'quiet-arm'"),
        (("--root", "{c}/boxes"), "an actor could read there"),
        (("--root", "{c}/.."), "an actor could read there"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_first_mailbox(
    tmp_path: Path, root: Path, arguments: tuple[str, ...], code: str
) -> None:
    mc.locked(tmp_path, mc.arm())
    given = [argument.format(c=tmp_path / "c") for argument in arguments]
    place = [] if "--root" in given else ["--root", str(root)]
    done = subprocess.run(
        mc.command("mailbox", "run", tmp_path / "c", *place, *given), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert code in done.stderr
    assert not (tmp_path / "c" / "journal.jsonl").exists()
