"""Acceptance cases 35 and 36: a peer that speaks another dialect, or lies about sizes, over real sockets.

The number in each name is the row of the contract's acceptance table.
"""

from __future__ import annotations

import os
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from lying_servers import hello_of, honest, openpi_server, own_server, websocket_server
from served_policies import DECLARED, MAPPING, Stub, WideEyed, asked, begin, look, nothing, process, setting
from trialplate.errors import ContractFault, TrialplateError
from trialplate.policies.client.openpi import OpenpiActor
from trialplate.policies.client.websocket import WebSocketActor
from trialplate.policies.messages.openpi_mapping import OpenpiMapping
from trialplate.policies.messages.writing import observation_message, reset_message
from trialplate.policies.server.hosting import serving
from trialplate.policies.server.openpi_dialect import OpenpiDialect
from trialplate.policies.wire import openpi, own
from trialplate.spec.registration import Registration

MIB = 2**20
GROWTH_BYTES = 24 * MIB
"""What a process may take at most, at any moment, beyond what it took before it was lied to."""

ROWS = np.array([[1.0, 0.5]], dtype=np.float32)
pack = msgspec.msgpack.encode


def _own(array: np.ndarray) -> dict[str, Any]:
    return {"__ndarray__": True, "dtype": array.dtype.str, "shape": array.shape, "data": array.tobytes()}


def _openpi(array: np.ndarray) -> dict[bytes, Any]:
    return {b"__ndarray__": True, b"data": array.tobytes(), b"dtype": array.dtype.str, b"shape": array.shape}


def _nd(array: np.ndarray) -> dict[bytes, Any]:
    """Return an array in the third form in use, which nobody speaks here."""
    return {b"nd": True, b"type": array.dtype.str, b"kind": b"", b"shape": array.shape, b"data": array.tobytes()}


FORMS: dict[str, Callable[[np.ndarray], Any]] = {"own": _own, "openpi": _openpi, "nd": _nd}
DIALECTS = ("own", "openpi")


@contextmanager
def begun(dialect: str, reply: Callable[[dict[str, Any]], bytes], **budgets: Any) -> Iterator[Any]:
    """Yield an actor that has begun an episode with a server that answers each observation by ``reply``."""

    def speak(message: dict[str, Any]) -> Any:
        return reply(message) if message["type"] == "observation" else honest(message)

    server = own_server(hello_of(DECLARED), speak) if dialect == "own" else openpi_server(reply)
    with server as uri:
        terms = setting(**budgets)
        actor: Any = (
            WebSocketActor(uri, terms)
            if dialect == "own"
            else OpenpiActor(uri, terms, mapping=MAPPING, single_vector=False)
        )
        actor.reset(begin(), None)
        yield actor
        actor.close()


class Plain(Stub):
    """Expects what openpi's dialect can carry."""

    declared = DECLARED.model_copy(update={"expects": DECLARED.expects.model_copy(update={"meta": ()})})


@contextmanager
def openpi_policy() -> Iterator[str]:
    """Serve a policy in openpi's dialect."""

    def dialect(declared: Any) -> OpenpiDialect:
        mapping = OpenpiMapping(MAPPING, declared.expects)
        return OpenpiDialect(declared, Registration(), mapping=mapping, max_message_bytes=2**26)

    with serving(Plain, dialect=dialect) as uri:
        yield uri


@contextmanager
def raw(uri: str) -> Iterator[ClientConnection]:
    """Yield a plain WebSocket that has heard the first frame."""
    with connect(uri, compression=None, max_size=2**27, close_timeout=1) as connection:
        connection.recv(timeout=5)
        yield connection


# -- row 35 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_row_35_a_client_decodes_an_array_only_in_the_dialect_of_its_address(dialect: str, form: str) -> None:
    array = FORMS[form](ROWS)

    def reply(message: dict[str, Any]) -> bytes:
        return pack({"actions": array} if dialect == "openpi" else honest(message, chunk={"vectors": array}))

    with begun(dialect, reply) as actor:
        if form == dialect:
            assert np.array_equal(asked(actor, look()), ROWS)
            return
        with pytest.raises(ContractFault) as foreign:
            actor.ask(look(), nothing)
    assert foreign.value.code == "wire_dialect_mismatch"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_row_35_a_server_decodes_an_array_only_in_its_own_dialect(dialect: str, form: str) -> None:
    seen = look(word="down")
    picture = FORMS[form](seen.images["front"])
    if dialect == "own":
        frame = pack({**observation_message(seen), "images": {"front": picture}, "id": 1})
        with serving(Stub) as uri, raw(uri) as client:
            client.send(own.encode({**reset_message(begin()), "id": 0}))
            client.recv(timeout=5)
            client.send(frame)
            reply = own.decode(client.recv(timeout=5), max_bytes=MIB)  # type: ignore[arg-type]
        assert reply.get("code", reply["type"]) == ("decision" if form == "own" else "wire_dialect_mismatch")
        return
    state = FORMS[form](np.concatenate([seen.proprio["joint_pos"], seen.proprio["finger"]]))
    with openpi_policy() as uri, raw(uri) as client:
        client.send(pack({"observation/image": picture, "observation/state": state, "prompt": "down"}))
        answer = client.recv(timeout=5)
    if form == "openpi":
        assert openpi.decode(answer, max_bytes=MIB)["actions"][0, 0] == 4.0  # type: ignore[arg-type]
    else:
        assert isinstance(answer, str) and answer.startswith("wire_dialect_mismatch")


# -- row 36 ---------------------------------------------------------------------------------------------------------


class Trap:
    """Leaves a mark on disk when somebody unpickles it."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._mark),)


def lies(mark: Path) -> dict[str, bytes]:
    """Return frames that lie, by what they lie about."""
    trap = pickle.dumps(Trap(mark))
    arrays = {
        "an object": ("|O", [1], trap), "a pickled object": ("O", [1], trap), "big-endian": (">f4", [1], b"\0" * 4),
        "2**80 numbers": ("<f4", [2**40, 2**40], b"\0" * 4), "a negative size": ("<f4", [-4], b"\0" * 4),
        "a byte too few": ("<f4", [2], b"\0" * 7), "a byte too many": ("<f4", [2], b"\0" * 9),
        "a product that wraps": ("|u1", [2**32, 2**32], b""),
    }  # fmt: skip
    text_keys = {
        f"{name}, own": pack({"a": dict(zip(("__ndarray__", "dtype", "shape", "data"), (True, *array), strict=True))})
        for name, array in arrays.items()
    }
    bytes_keys = {
        f"{name}, openpi": pack(
            {"a": dict(zip((b"__ndarray__", b"dtype", b"shape", b"data"), (True, *array), strict=True))}
        )
        for name, array in arrays.items()
    }
    return {
        **text_keys, **bytes_keys, "a pickle": trap, "0 bytes": b"", "truncated": pack({"a": [1.5] * 100})[:-3],
        "depth 10000": b"\x91" * 10_000 + b"\xc0", "depth 10000 of maps": b"\x81\xa1a" * 10_000 + b"\xc0",
        "4 billion items": b"\xdd\xff\xff\xff\xff" * 1000, "4 billion keys": b"\xdf\xff\xff\xff\xff" * 1000,
        "4 billion bytes": b"\xc6\xff\xff\xff\xff" + b"x" * 1000,
        "millions of empty lists": b"\xdd" + struct.pack("!I", 2**21) + b"\x90" * 2**21,
    }  # fmt: skip


def peak_bytes(pid: int | str = "self") -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def forget_peak(pid: int | str = "self") -> None:
    """Let the peak begin again at what is taken now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_row_36_a_client_that_is_lied_to_by_its_server_refuses_and_its_memory_stays_flat(
    dialect: str, tmp_path: Path
) -> None:
    frames = list(lies(tmp_path / "executed").values())
    told: list[str] = []
    number = iter(range(10**6))
    with begun(dialect, lambda message: frames[next(number) % len(frames)]) as actor:
        for repeat in range(4 * len(frames)):
            if repeat == len(frames):
                forget_peak()
                before = peak_bytes()
            episode = f"{repeat:032x}"
            actor.reset(begin(episode), None)
            with pytest.raises(ContractFault) as refused:
                actor.ask(look(episode=episode), nothing)
            told.append(refused.value.code)
    assert set(told) <= {"wire_malformed", "wire_dialect_mismatch"}
    assert peak_bytes() - before < GROWTH_BYTES
    assert not (tmp_path / "executed").exists()


def test_row_36_a_client_takes_in_no_more_than_its_limit_whatever_a_server_announces() -> None:
    announced = (b"\x82\x7f" + struct.pack("!Q", size) for size in (2**62, 2**40, 2**26 + 1))

    def lie(connection: Any) -> None:
        connection.send(hello_of(DECLARED))
        own.decode(connection.recv(), max_bytes=MIB)
        message = own.decode(connection.recv(), max_bytes=MIB)
        connection.send(own.encode(honest(message)))  # type: ignore[arg-type]
        connection.recv()
        connection.socket.sendall(next(announced))
        with suppress(OSError):
            for _ in range(200):
                connection.socket.sendall(bytes(MIB))

    with websocket_server(lie) as uri:
        actor = WebSocketActor(uri, setting())
        forget_peak()
        before = peak_bytes()
        for episode in ("d" * 32, "e" * 32, "f" * 32):
            actor.reset(begin(episode), None)  # type: ignore[arg-type]
            with pytest.raises(ContractFault) as large:
                actor.ask(look(episode=episode), nothing)
            assert large.value.code == "message_too_large"
        assert peak_bytes() - before < GROWTH_BYTES
        actor.close()


def test_row_36_a_server_that_is_lied_to_by_its_clients_refuses_and_its_memory_stays_flat(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    with process("WideEyed") as (uri, running):
        assert _honest_answer(uri)
        for name, frame in lies(mark).items():
            _refuses(uri, name, frame)
        forget_peak(running.pid)
        before = peak_bytes(running.pid)
        for _ in range(4):
            for name, frame in lies(mark).items():
                _refuses(uri, name, frame)
        for size in (2**62, 2**40, 2**26):
            _hears_too_large(uri, size)
        _announce_much_and_send_nothing(uri, connections=40)
        assert _honest_answer(uri)
        assert peak_bytes(running.pid) - before < GROWTH_BYTES + WideEyed.declared.expects.size_bytes
        assert running.poll() is None
    assert not mark.exists()


def _refuses(uri: str, name: str, frame: bytes) -> None:
    with raw(uri) as client:
        client.send(frame)
        reply = own.decode(client.recv(timeout=5), max_bytes=MIB)  # type: ignore[arg-type]
        assert reply["code"] in ("wire_malformed", "wire_dialect_mismatch"), name
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=5)


def _hears_too_large(uri: str, size: int) -> None:
    with raw(uri) as client:
        client.socket.sendall(b"\x82\xff" + struct.pack("!Q", size) + b"\0\0\0\0" + bytes(1000))
        with pytest.raises(ConnectionClosed) as closed:
            client.recv(timeout=5)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def _announce_much_and_send_nothing(uri: str, *, connections: int) -> None:
    """Begin a message of 8 MB in each of many connections, all open at once, and leave."""
    opened = []
    for _ in range(connections):
        entered = raw(uri)
        client = entered.__enter__()
        client.socket.sendall(b"\x82\xff" + struct.pack("!Q", 8 * 10**6) + b"\0\0\0\0" + bytes(1000))
        opened.append((entered, client))
    for entered, client in opened:
        client.close_socket()
        with suppress(TrialplateError, ConnectionClosed):
            entered.__exit__(None, None, None)


def _honest_answer(uri: str) -> bool:
    actor = WebSocketActor(uri, setting(WideEyed.declared, registration=_registration(uri)))
    actor.reset(begin(), None)  # type: ignore[arg-type]
    rows = asked(actor, look(WideEyed.declared, registration_sha256=_registration(uri).sha256()))
    actor.close()
    return rows.shape == (2, 2)


def _registration(uri: str) -> Registration:
    from trialplate.policies.client.websocket import describe

    return describe(uri, connect_timeout_s=5.0, max_message_bytes=2**26).registration
