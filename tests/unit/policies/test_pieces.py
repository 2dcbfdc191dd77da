"""A look leaves with one copy: in pieces, masked once, with the ack before it; byte for byte as if encoded whole."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from time import monotonic
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from websockets.frames import BINARY
from websockets.utils import apply_mask

from lying_servers import BUSY_S, websocket_server
from trialplate.errors import ContractFault
from trialplate.policies.client.line import LARGE_BYTES, LineLost, open_line
from trialplate.policies.client.masking import Masker
from trialplate.policies.wire import openpi, own, pieces

DIALECTS = pytest.mark.parametrize("dialect", [own, openpi], ids=["own", "openpi"])
NOISE = np.random.default_rng(7)


def picture(*shape: int) -> Any:
    return NOISE.integers(0, 256, shape, dtype=np.uint8)


MESSAGES: Mapping[str, dict[str, Any]] = {
    "nothing": {},
    "no array": {"type": "close", "id": 3},
    "small arrays": {"a": picture(3, 4), "b": np.float32(0.5), "c": np.arange(3.0)},
    "two looks": {"images": {"front": picture(64, 64, 3), "hand": picture(3, 37, 41)}, "proprio": [0.5, 1.0]},
    "nested looks": {"history": {"images": {"front": [None, picture(64, 64, 3)]}}, "after": 1},
    "16 and 32 bit sizes": {"a": picture(4096), "b": picture(65_535), "c": picture(65_536), "d": picture(70_001)},
    "wide numbers": {"a": np.arange(5000.0), "b": np.arange(4000, dtype=">i4")},
    "out of order": {"a": picture(64, 80)[:, ::2], "b": picture(64, 80).T},
}


@DIALECTS
@pytest.mark.parametrize("name", MESSAGES)
def test_the_pieces_of_a_frame_are_the_frame(dialect: ModuleType, name: str) -> None:
    found = dialect.pieces(MESSAGES[name])
    assert b"".join(found) == dialect.encode(MESSAGES[name])


@DIALECTS
def test_a_large_array_is_a_piece_that_lies_where_it_lay(dialect: ModuleType) -> None:
    look = picture(64, 64, 3)
    found = dialect.pieces({"look": look, "small": picture(8)})
    (view,) = [piece for piece in found if isinstance(piece, memoryview)]
    assert np.shares_memory(np.frombuffer(view, np.uint8), look)


@DIALECTS
def test_what_has_no_place_in_a_message_is_refused_in_pieces_as_in_one(dialect: ModuleType) -> None:
    for value in (object(), np.array([1j]), np.array(["text"]), {"a": {1, object()}}):
        with pytest.raises(ContractFault) as caught:
            dialect.pieces({"value": value})
        assert caught.value.code == "wire_malformed"


def test_a_message_that_held_the_mark_would_be_refused_and_not_cut() -> None:
    with pytest.raises(ContractFault) as caught:
        own.pieces({"data": pieces._MARK, "look": picture(64, 64, 3)})
    assert caught.value.code == "wire_malformed"


def read_frame(data: bytes) -> tuple[bytes, bytes]:
    """Return payload and rest of a client's binary frame, read as RFC 6455 says and not by our own code."""
    assert data[0] == 0x80 | BINARY
    assert data[1] == 0x80 | 127
    (size,) = struct.unpack("!Q", data[2:10])
    return bytes(apply_mask(data[14 : 14 + size], data[10:14])), data[14 + size :]


@pytest.mark.parametrize("sizes", [(0,), (1,), (65_536,), (3, 65_537, 5, 131_075, 0, 2), (7,) * 40])
@pytest.mark.parametrize("behind", [0, 1, 13, 200])
def test_a_masked_frame_holds_the_pieces_in_order(sizes: tuple[int, ...], behind: int) -> None:
    masker, before = Masker(), bytes(picture(behind))
    for _ in range(2):  # the memory is used again
        parts = [picture(size).data if size % 2 else bytes(picture(size)) for size in sizes]
        data = bytes(masker.frame(parts, behind=before))
        assert data[:behind] == before
        assert read_frame(data[behind:]) == (b"".join(parts), b"")


def test_two_frames_have_two_masks() -> None:
    masker = Masker()
    keys = {bytes(masker.frame([bytes(100)], behind=b"")[10:14]) for _ in range(8)}
    assert len(keys) > 1


def test_a_smaller_frame_after_a_larger_one_has_nothing_of_it_at_its_end() -> None:
    masker = Masker()
    masker.frame([bytes(picture(10_000))], behind=b"")
    assert len(masker.frame([b"abc"], behind=b"")) == 14 + 3


@pytest.mark.parametrize("size", [10, LARGE_BYTES + 5])
def test_what_was_held_comes_first_and_only_with_the_next_message(size: int) -> None:
    heard: list[bytes] = []

    def listen(connection: Any) -> None:
        for message in connection:
            heard.append(message)
            if message != b"ack":
                connection.send(b"heard")

    with websocket_server(listen) as uri:
        line = open_line(uri, deadline_s=monotonic() + BUSY_S, max_message_bytes=2**20)
        try:
            for turn in range(2):
                line.hold(b"ack")
                assert len(heard) == 2 * turn
                look = bytes(picture(size))
                line.send([look[:4], memoryview(look)[4:]], deadline_s=monotonic() + BUSY_S)
                assert line.receive(deadline_s=monotonic() + BUSY_S) == b"heard"
                assert heard[-2:] == [b"ack", look]
        finally:
            line.discard()


def test_holding_on_a_lost_connection_does_nothing() -> None:
    with websocket_server(lambda connection: connection.close()) as uri:
        line = open_line(uri, deadline_s=monotonic() + BUSY_S, max_message_bytes=2**20)
        try:
            until_s = monotonic() + BUSY_S
            while line.alive() and monotonic() < until_s:
                pass
            line.hold(b"ack")
            assert not line.alive()
            with pytest.raises(LineLost):
                line.receive(deadline_s=monotonic() + BUSY_S)
        finally:
            line.discard()
