"""A line that somebody waits for is told or it raises, also on streams that lose everything else without a word."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from trialplate.run.streams import Lossy, tell


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO, Lossy]]:
    """The end of a pipe that is read, and a stream onto the other one that never raises."""
    reader, writer = os.pipe()
    raw = Lossy(writer)
    yield reader, io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8"), raw
    os.close(writer)


def test_a_line_is_there_before_anything_else_happens(pipe: tuple[int, TextIO, Lossy]) -> None:
    reader, stream, _ = pipe
    tell("a mailbox", stream=stream)
    assert os.read(reader, 100) == b"a mailbox\n"
    os.close(reader)


def test_a_line_that_nobody_can_read_raises_where_a_print_is_lost_in_silence(pipe: tuple[int, TextIO, Lossy]) -> None:
    reader, stream, raw = pipe
    os.close(reader)
    print("talk", file=stream, flush=True)
    assert (raw.lost_bytes, type(raw.failure)) == (len(b"talk\n"), BrokenPipeError)
    for _ in range(2):
        with pytest.raises(BrokenPipeError):
            tell("a mailbox", stream=stream)


def test_what_was_lost_of_earlier_lines_is_not_counted_against_one_that_arrives(
    pipe: tuple[int, TextIO, Lossy], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, stream, raw = pipe
    print("talk that is lost", file=stream)
    with monkeypatch.context() as full:
        full.setattr(os, "write", _full)
        stream.flush()
    assert raw.lost_bytes > 0
    tell("a mailbox", stream=stream)
    assert os.read(reader, 100) == b"a mailbox\n"
    os.close(reader)


def test_a_line_that_waits_in_the_buffer_is_lost_alone(
    pipe: tuple[int, TextIO, Lossy], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, stream, raw = pipe
    print("talk", file=stream)
    write, turns = os.write, iter([_full])
    monkeypatch.setattr(os, "write", lambda descriptor, data: next(turns, write)(descriptor, data))
    tell("a mailbox", stream=stream)
    assert raw.lost_bytes == len(b"talk\n")
    assert os.read(reader, 100) == b"a mailbox\n"
    os.close(reader)


def test_a_stream_of_another_kind_is_told_as_well() -> None:
    stream = io.StringIO()
    tell("a mailbox", stream=stream)
    assert stream.getvalue() == "a mailbox\n"


def _full(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
