"""The folder of a mailbox: names that an actor may leave there, who holds it, and mailboxes whose run is dead."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_bench import EPISODE, Bench, look, reply
from trialplate.errors import HarnessFault, PolicyFault, StorageFailure
from trialplate.policies.mailbox import folder as mailbox_folder
from trialplate.policies.mailbox.folder import MailboxFolder
from trialplate.policies.mailbox.orphans import end_orphans

OTHER = "f" * 32
HOSTILE_NAMES: tuple[bytes, ...] = (
    b"0.json", b"0000.json", b"000000.json", b"0000000.json", b"00000000.json", b"00000", b"00000.", b"00000.JSON",
    b"00000.json5", b"00000.jsonl", b"00000.json ", b" 00000.json", b"00000.json\n", b"\n00000.json", b"00000.json\t",
    b"00000.json.tmp", b"00000.json~", b".00000.json", b"#00000.json#", b"00000.json.swp", b"00000 (1).json",
    b"+0000.json", b"-0000.json", b"-00000.json", b"0_000.json", b"0e000.json", b"0x000.json", b"1e400.json",
    b"99999999999999999999.json", b"0" * 250 + b".json", "０００００.json".encode(), "٠٠٠٠٠.json".encode(),
    "0000𝟎.json".encode(), "00000\u200b.json".encode(), "\u202e00000.json".encode(), "00000․json".encode(),
    b"\xff\xfe00000.json", b"00000.json\x80", b"00000\x1b[2J.json", b"00000.json\r", b"..00000.json", b"00000..json",
    b"00000.json;rm -rf", b"$(00000).json", b"%s00000.json", b"00000\\..\\00000.json", b"CON.json", b"done.json",
    b"spec.json", b"-rf", b"NaN.json", b"null.json", b"x" * 255,
)  # fmt: skip
"""Names of no answer, whatever they look like to somebody else. A slash and a zero byte are in no file's name."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A mailbox with an open episode."""
    made = Bench(tmp_path / "root").reset()
    yield made
    made.actor.close()


# -- names -------------------------------------------------------------------------------------------------------


def _leave(bench: Bench, name: bytes) -> None:
    (bench.act / os.fsdecode(name)).write_text(json.dumps(reply(look(0), chunk={"vectors": [[0.9, 0.9]]})))


def test_a_name_that_only_looks_like_that_of_an_answer_is_nobodys_business(bench: Bench) -> None:
    for name in HOSTILE_NAMES:
        _leave(bench, name)
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown))]
    assert bench.ask(shown).decision.vectors == [[0.5, -1.0]]
    bench.actor.end("terminated")
    assert [event for event in bench.events() if "mailbox" not in event] == []


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_a_strange_name_waits_out_the_timeout_and_is_named_in_letters_that_print(bench: Bench, name: bytes) -> None:
    bench.acts = [lambda: _leave(bench, name)]
    with pytest.raises(PolicyFault) as caught:
        bench.ask(look(0))
    assert caught.value.code == "policy_timeout"
    assert caught.value.message.isascii() and caught.value.message.isprintable()
    assert "act/ holds " in caught.value.message
    assert len(caught.value.message.encode()) <= 512


def test_names_of_every_strange_kind_at_once_keep_the_message_short(bench: Bench) -> None:
    for name in HOSTILE_NAMES:
        _leave(bench, name)
    with pytest.raises(PolicyFault) as caught:
        bench.ask(look(0))
    assert len(caught.value.message.encode()) <= 1024
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(("name", "index"), [("00007.json", 7), ("99999.json", 99_999), ("100000.json", 100_000)])
def test_a_name_that_is_that_of_another_answer_is_a_wrong_number(bench: Bench, name: str, index: int) -> None:
    bench.acts = [lambda: (bench.act / name).write_text("{}")]
    with pytest.raises(PolicyFault) as caught:
        bench.ask(look(0))
    assert caught.value.code == "invalid_response_schema"
    assert bench.events("wrong_index")[0]["file"] == f"act/{index:05d}.json"


LEASE = (
    "import fcntl, os, signal, sys; signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
    "handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.write(handle, b'{}')\n"
    "fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK); print('held', flush=True); sys.stdin.read()\n"
)


def test_an_answer_that_its_writer_holds_a_lease_on_is_refused_and_not_waited_for(bench: Bench) -> None:
    place = bench.act / "00000.json"
    holder = subprocess.Popen(
        [sys.executable, "-c", LEASE, str(bench.act / "x.tmp")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "held\n":
            pytest.skip("this disk knows no leases")
        bench.acts = [lambda: (bench.act / "x.tmp").rename(place)]
        with pytest.raises(PolicyFault) as caught:
            bench.ask(look(0))
        holder.kill()
    assert caught.value.code == "invalid_response_schema"
    assert "cannot be opened" in bench.events("response_refused")[0]["refusal"]


# -- who holds a mailbox -----------------------------------------------------------------------------------------


def _hold(place: Path) -> subprocess.Popen[str]:
    """Make a mailbox in a process of its own, which then waits."""
    program = (
        "import sys; from pathlib import Path; from trialplate.policies.mailbox.folder import MailboxFolder\n"
        f"box = MailboxFolder.create(Path(sys.argv[1]), {OTHER!r}); print('made', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    return process


def test_a_mailbox_is_held_until_its_process_dies_and_only_then_ended_by_another(tmp_path: Path) -> None:
    with _hold(tmp_path) as process:
        assert end_orphans(tmp_path) == ()
        process.kill()
        process.wait(timeout=10)
    assert end_orphans(tmp_path) == (OTHER,)
    assert json.loads((tmp_path / OTHER / "done.json").read_bytes()) == {"reason": "aborted"}
    assert end_orphans(tmp_path) == ()


def test_an_orphan_that_has_ended_keeps_its_reason(bench: Bench) -> None:
    bench.actor.end("step_limit")
    bench.actor.close()
    assert end_orphans(bench.root) == ()
    assert json.loads((bench.folder / "done.json").read_bytes()) == {"reason": "step_limit"}


@pytest.mark.parametrize("kind", ["no act", "file", "link", "other name", "nothing"])
def test_what_is_no_whole_mailbox_is_left_alone(tmp_path: Path, kind: str) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    MailboxFolder.create(away, OTHER).close()
    place = root / (OTHER if kind != "other name" else "notes")
    if kind != "nothing":
        root.mkdir()
    if kind == "no act":
        (place / "obs").mkdir(parents=True)
    elif kind == "file":
        place.touch()
    elif kind == "link":
        place.symlink_to(away / OTHER)
    elif kind == "other name":
        (away / OTHER).rename(place)
    assert end_orphans(root) == ()
    assert list(tmp_path.rglob("done.json")) == []


def test_where_nothing_can_be_held_no_mailbox_is_taken_for_an_orphan(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(mailbox_folder.fcntl, "flock", refuse)
    MailboxFolder.create(tmp_path, OTHER).close()
    assert end_orphans(tmp_path) == ()


# -- a run that cannot go on -------------------------------------------------------------------------------------


def _full(handle: int, data: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("when", ["reset", "ask", "end"])
def test_a_full_disk_is_remembered_whenever_it_is_met(bench: Bench, monkeypatch: Any, when: str) -> None:
    assert bench.actor.broken is None
    monkeypatch.setattr(os, "write", _full)
    with pytest.raises(StorageFailure) as caught:
        if when == "reset":
            bench.reset(name=OTHER)
        elif when == "ask":
            bench.ask(look(0))
        else:
            bench.actor.end("step_limit")
    monkeypatch.undo()
    assert bench.actor.broken is caught.value


def test_a_root_where_no_mailbox_can_be_made_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    made = Bench(tmp_path / "root")
    with pytest.raises(HarnessFault):
        made.reset()
    assert made.actor.broken is not None


@pytest.mark.parametrize("act", ["timeout", "gone", "no decision"])
def test_what_an_actor_does_is_no_reason_to_stop_a_run(bench: Bench, act: str) -> None:
    if act == "gone":
        bench.acts = [lambda: bench.act.rename(bench.folder / "was")]
    elif act == "no decision":
        bench.acts = [lambda: bench.write(0, b"{}")]
    with pytest.raises((PolicyFault, HarnessFault)):
        bench.ask(look(0))
    assert bench.actor.broken is None
    assert bench.folder.name == EPISODE
