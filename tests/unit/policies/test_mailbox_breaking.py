"""A mailbox that is taken away, replaced, or full, and one that leaves nothing open."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mailbox_bench import (
    Bench,
    look,
    reply,
)
from trialplate.errors import HarnessFault, StorageFailure, TrialplateError
from trialplate.interfaces import WitnessActor


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A mailbox with an open episode."""
    made = Bench(tmp_path / "root").reset()
    yield made
    made.actor.close()


def _code(error: type[TrialplateError], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return caught.value.code


# -- a mailbox that breaks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["mailbox", "act", "root"])
def test_a_mailbox_that_is_taken_away_is_a_lost_wire(bench: Bench, gone: str) -> None:
    victim = {"mailbox": bench.folder, "act": bench.act, "root": bench.folder.parent}[gone]
    bench.acts = [lambda: shutil.rmtree(victim)]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_mailbox_that_is_taken_away_between_calls_is_a_lost_wire(bench: Bench) -> None:
    shutil.rmtree(bench.folder)
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"
    assert _code(HarnessFault, lambda: bench.actor.end("error")) == "transport_lost"


def test_a_folder_of_answers_that_is_replaced_by_a_link_is_a_lost_wire(bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "00000.json").write_text(json.dumps(reply(look(0))))

    def replace() -> None:
        bench.act.rename(bench.folder / "gone")
        bench.act.symlink_to(other)

    bench.acts = [replace]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_full_disk_says_so(bench: Bench, monkeypatch: Any) -> None:
    def full(handle: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailure) as caught:
        bench.ask(look(0))
    monkeypatch.undo()
    assert caught.value.code == "storage_failure"
    assert "No space left" in caught.value.message
    assert list((bench.folder / "obs").iterdir()) == []  # not even half a file


def test_a_file_that_cannot_be_read_for_our_own_reasons_is_not_charged_to_the_actor(
    bench: Bench, monkeypatch: Any
) -> None:
    really = os.open

    def few(path: Any, flags: int, *more: Any, **keywords: Any) -> int:
        if path == "00000.json":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return really(path, flags, *more, **keywords)

    def write() -> None:
        bench.write(0, reply(look(0)))
        monkeypatch.setattr(os, "open", few)

    bench.acts = [write]
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_name_that_is_taken_is_never_used_again(bench: Bench) -> None:
    other = Bench(bench.folder.parent)
    assert _code(HarnessFault, other.reset) == "connect_failed"


@pytest.mark.parametrize("name", ["../" + "0" * 29, "0" * 31, "0" * 31 + "G", "/" + "0" * 31, "", "0" * 32 + "\n"])
def test_a_name_that_is_not_opaque_makes_no_folder(tmp_path: Path, name: str) -> None:
    made = Bench(tmp_path / "root")
    assert _code(HarnessFault, lambda: made.reset(name=name)) == "connect_failed"
    assert not (tmp_path / "root").exists()


def test_a_link_in_the_place_of_an_observation_is_replaced_and_not_followed(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (bench.folder / "obs" / "00000.json").symlink_to(target)
    shown = look(0)
    bench.acts = [lambda: bench.write(0, reply(shown))]
    bench.ask(shown)
    assert target.read_text() == "mine"
    assert bench.read(0)["call_index"] == 0


def test_a_folder_in_the_place_of_an_observation_is_a_lost_wire(bench: Bench) -> None:
    (bench.folder / "obs" / "00000.json").mkdir()
    assert _code(HarnessFault, lambda: bench.ask(look(0))) == "transport_lost"


def test_a_caller_that_nobody_listens_to_makes_the_attempt_an_error(tmp_path: Path) -> None:
    def announce(folder: Path) -> dict[str, str]:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    made = Bench(tmp_path, announce=announce)
    assert _code(HarnessFault, made.reset) == "connect_failed"
    made.actor.close()


def test_nothing_stays_open_after_close(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    made = Bench(tmp_path)
    for number in range(5):
        made.reset(name=f"{number:032x}")
        made.actor.end("aborted")
    made.actor.close()
    made.actor.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_asking_without_a_mailbox_is_refused(tmp_path: Path) -> None:
    assert _code(HarnessFault, lambda: Bench(tmp_path).ask(look(0))) == "transport_lost"


def test_it_is_an_actor_that_witnesses(bench: Bench) -> None:
    assert isinstance(bench.actor, WitnessActor)
