"""One WebSocket connection to a policy server, for one caller at a time.

Frames are made and read by the protocol core of ``websockets``; the socket is ours, so that a call costs no thread
switch and ends exactly when its time is over. Compression is off. A ping goes out every 20 s, during a call and
between calls; no pong that stays away ever closes the connection: only the caller's deadline does.

Sources: policy contract, sections 4.3 and 5; RFC 6455.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from time import monotonic
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, PayloadTooBig, WebSocketException
from websockets.frames import BINARY, CLOSE, CONT, PONG, TEXT, Frame
from websockets.protocol import CONNECTING, OPEN, SEND_EOF
from websockets.uri import parse_uri

from trialplate.policies.charging import recordable
from trialplate.policies.client.masking import Masker
from trialplate.policies.wire.pieces import Written, in_pieces, size_of

PING_INTERVAL_S = 20.0
IDLE_LOOK_S = 2.0
"""How often the socket is looked after between two calls: pings of the server are answered within this."""

MAX_FRAGMENTS = 4096
LARGE_BYTES = 2**16
"""Messages from this size on are framed by ourselves."""

_READ_BYTES = 2**14
_WHOLE_BINARY, _IN_2_BYTES, _IN_8_BYTES = 0x82, 126, 127
_LOOK_S = 0.2
"""How long one look at what has arrived may take: a server that never stops sending cannot hold us there."""


class LineLost(Exception):
    """The connection is gone; the message says why."""


class LineTooLarge(LineLost):
    """One side closed the connection because a message was above its limit."""


class LineExpired(Exception):
    """The deadline came first; nothing that arrives later on this connection may be used."""


class NoLine(Exception):
    """No connection was made. ``transient``: trying again may help."""

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient


class Line:
    """An open connection. Made by :func:`open_line`; not usable after :meth:`close` or an exception.

    A caller holds the turn during a call; the keeper, which answers and sends pings between calls, only ever takes
    the turn when it is free, and never waits for it.
    """

    def __init__(self, sock: socket.socket, protocol: ClientProtocol) -> None:
        self._socket, self._protocol = sock, protocol
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._ping_due_s = monotonic() + PING_INTERVAL_S
        self._pong_s = monotonic()
        self._masker = Masker()
        self._parts: list[bytes] = []
        self._flooded = False
        self._text = False
        self._messages: list[bytes | str] = []
        self._keeper = threading.Thread(target=self._keep, name="trialplate-line", daemon=True)

    # -- calls ---------------------------------------------------------------------------------------------------

    def send(self, message: Written, *, deadline_s: float) -> None:
        """Send one binary message before ``deadline_s`` (``time.monotonic``). Raises LineLost or LineExpired."""
        with self._turn:
            if self._protocol.state is not OPEN:
                raise self._loss()
            pieces = in_pieces(message)
            if size_of(pieces) < LARGE_BYTES:
                self._protocol.send_binary(b"".join(pieces))
                self._flush(deadline_s)
            else:
                held = b"".join(self._protocol.data_to_send())
                self._send(self._masker.frame(pieces, behind=held), deadline_s)

    def hold(self, message: bytes) -> None:
        """Keep a small message that needs no answer: it leaves in one piece with the next, and wakes nobody alone."""
        with self._turn:
            if self._protocol.state is OPEN:
                self._protocol.send_binary(message)

    def receive(self, *, deadline_s: float) -> bytes | str:
        """Return the next message before ``deadline_s``. Raises LineLost or LineExpired."""
        with self._turn:
            while not self._messages:
                self._wait(deadline_s)
            return self._messages.pop(0)

    def alive(self) -> bool:
        """Look, without waiting, whether the server still holds the connection."""
        with self._turn:
            self._drain()
            return self._protocol.state is OPEN

    def unread(self) -> int:
        """Return how many messages lie here that nobody asked for."""
        with self._turn:
            self._drain()
            return len(self._messages)

    def silence_s(self) -> float:
        """Return the seconds since the server last answered a ping, or since the connection was made."""
        return monotonic() - self._pong_s

    def close(self, *, timeout_s: float) -> None:
        """Say good-bye and wait up to ``timeout_s`` for the answer; the socket is closed in any case."""
        try:
            deadline_s = monotonic() + timeout_s
            with self._turn, suppress(LineLost, LineExpired, WebSocketException):
                if self._protocol.state is OPEN:
                    self._protocol.send_close(1000)
                    self._flush(deadline_s)
                while True:
                    self._wait(deadline_s)
        finally:
            self.discard()

    def discard(self) -> None:
        """Close the socket at once: whatever is still on its way is never read."""
        self._closing.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._keeper.is_alive():
            self._keeper.join(timeout=2.0)  # before the descriptor can be another connection's
        self._socket.close()

    def keep(self) -> None:
        """Look after pings between calls from now on."""
        self._keeper.start()

    # -- the handshake -------------------------------------------------------------------------------------------

    def shake_hands(self, *, deadline_s: float) -> None:
        """Ask for the WebSocket. Raises NoLine with the server's reason."""
        request = self._protocol.connect()
        self._protocol.send_request(request)
        try:
            self._flush(deadline_s)
            while self._protocol.handshake_exc is None and self._protocol.state is CONNECTING:
                self._wait(deadline_s)
        except LineExpired:
            raise NoLine(
                "connected, but the server does not answer the WebSocket handshake", transient=True
            ) from None
        except LineLost as error:
            if self._protocol.handshake_exc is None and self._protocol.state is CONNECTING:
                raise NoLine(str(error), transient=True) from None
        if self._protocol.handshake_exc is not None:
            raise _refusal(self._protocol.handshake_exc)

    # -- bytes ---------------------------------------------------------------------------------------------------

    def _flush(self, deadline_s: float) -> None:
        parts = self._protocol.data_to_send()
        if data := b"".join(parts):
            self._send(data, deadline_s)
        if SEND_EOF in parts:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def _send(self, data: bytes | memoryview, deadline_s: float) -> None:
        try:
            self._socket.settimeout(_left(deadline_s))
            self._socket.sendall(data)
        except TimeoutError:
            raise LineExpired("the server does not take the message") from None
        except OSError as error:
            self._read_last_words()
            raise self._loss(error) from None

    def _wait(self, deadline_s: float) -> None:
        """Wait once for bytes, sending a ping when it is due.

        Raises LineExpired at the deadline, however much still comes, and LineLost.
        """
        if self._over():
            raise self._loss()
        if monotonic() >= deadline_s:
            raise LineExpired("no message came in time")
        until_s = deadline_s
        if self._protocol.state is OPEN:
            if monotonic() >= self._ping_due_s:
                self._ping(deadline_s)
            until_s = min(deadline_s, self._ping_due_s)
        try:
            self._socket.settimeout(_left(until_s))
            data = self._socket.recv(_READ_BYTES)
        except (TimeoutError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise self._loss(error) from None
        self._take(data)
        self._flush(deadline_s)
        if not data:
            raise self._loss()

    def _over(self) -> bool:
        """Return whether the server has ended the conversation, or has broken the rules of one."""
        return self._flooded or self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None

    def _drain(self) -> None:
        """Take what has arrived, without waiting, and no further than to the first message that nobody asked for."""
        ends_s = monotonic() + _LOOK_S
        try:
            while not self._messages and monotonic() < ends_s:
                self._socket.setblocking(False)
                data = self._socket.recv(_READ_BYTES)
                self._take(data)
                self._flush(monotonic() + 1.0)
                if not data:
                    return
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except (OSError, LineLost, LineExpired):
            self._take(b"")

    def _read_last_words(self) -> None:
        """Read a close frame that the server sent before it stopped reading."""
        ends_s = monotonic() + _LOOK_S
        with suppress(OSError):
            while not self._over() and monotonic() < ends_s:
                self._socket.settimeout(_left(ends_s))
                self._take(self._socket.recv(_READ_BYTES))
        self._take(b"")

    def _take(self, data: bytes) -> None:
        """Give bytes to the protocol and keep the messages that they complete; no bytes: the end."""
        if self._take_whole(data):
            return
        if data:
            if not self._protocol.reader.eof:
                self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take_frame(event)

    def _take_whole(self, data: bytes) -> bool:
        """Keep a binary message that came alone and in one frame, as replies do; return whether it was one."""
        protocol = self._protocol
        if len(data) < 2 or data[0] != _WHOLE_BINARY or data[1] > _IN_8_BYTES or protocol.state is not OPEN:
            return False
        if protocol.reader.buffer or protocol.current_size is not None or protocol.extensions:
            return False
        size, header = data[1], 2
        if size >= _IN_2_BYTES:
            header = 4 if size == _IN_2_BYTES else 10
            size = int.from_bytes(data[2:header], "big")
        if len(data) != header + size or size > (protocol.max_message_size or 0):
            return False
        self._messages.append(data[header:])
        return True

    def _take_frame(self, frame: Frame) -> None:
        if self._flooded:
            return
        if frame.opcode is PONG:
            self._pong_s = monotonic()
        elif frame.opcode in (TEXT, BINARY, CONT):
            if frame.opcode is not CONT:
                self._text = frame.opcode is TEXT
            self._parts.append(bytes(frame.data))
            if frame.fin:
                whole = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
                self._parts.clear()
                self._messages.append(whole.decode("utf-8", "replace") if self._text else whole)
            elif len(self._parts) > MAX_FRAGMENTS:
                self._flooded = True
                self._protocol.fail(1008, f"more than {MAX_FRAGMENTS} fragments")
        elif frame.opcode is CLOSE:
            self._parts.clear()

    def _ping(self, deadline_s: float) -> None:
        self._protocol.send_ping(b"trialplate")
        self._ping_due_s = monotonic() + PING_INTERVAL_S
        self._flush(deadline_s)

    def _loss(self, error: OSError | None = None) -> LineLost:
        """Return why the connection is gone, as far as it can be told."""
        said, sent = self._protocol.close_rcvd, self._protocol.close_sent
        if said is not None and said.code == 1009:
            return LineTooLarge(f"the server refuses a message of this size: {recordable(said.reason) or 'too big'}")
        if self._flooded:
            return LineLost(f"the server sent a message in more than {MAX_FRAGMENTS} fragments")
        if isinstance(self._protocol.parser_exc, PayloadTooBig):
            return LineTooLarge(f"the server sent too much: {self._protocol.parser_exc}")
        if said is not None:
            return LineLost(
                f"the server closed the connection: code {said.code}, {recordable(said.reason) or 'no reason'}"
            )
        if sent is not None and self._protocol.parser_exc is not None:
            return LineLost(f"the server broke the WebSocket protocol: {self._protocol.parser_exc}")
        if error is not None:
            return LineLost(f"the connection broke: {error.strerror or error}")
        return LineLost("the server closed the connection without a word")

    # -- between calls -------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._closing.wait(IDLE_LOOK_S):
            if not self._turn.acquire(blocking=False):
                continue
            try:
                self._drain()
                if self._protocol.state is not OPEN:
                    with suppress(OSError):
                        self._socket.shutdown(socket.SHUT_RDWR)  # the server need not wait for the next call
                    return
                if monotonic() >= self._ping_due_s:
                    self._ping(monotonic() + 1.0)
            except (LineLost, LineExpired):
                self._take(b"")
            finally:
                self._turn.release()


def open_line(uri: str, *, deadline_s: float, max_message_bytes: int) -> Line:
    """Connect once, before ``deadline_s`` (``time.monotonic``). Raises NoLine with the reason.

    ``max_message_bytes`` limits what the server may send. No proxy is used.
    """
    address = parse_uri(uri)
    try:
        raw = socket.create_connection((address.host, address.port), timeout=_left(deadline_s))
    except OSError as error:
        raise NoLine(f"no TCP connection: {error.strerror or error or 'no answer'}", transient=True) from None
    except UnicodeError as error:
        raise NoLine(f"{address.host!r} is no name of a host: {error}", transient=False) from None
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)  # a look of two cameras leaves in one piece
        sock = _encrypted(raw, address.host, deadline_s) if address.secure else raw
        line = Line(sock, ClientProtocol(address, max_size=max_message_bytes))
        line.shake_hands(deadline_s=deadline_s)
    except BaseException:
        raw.close()
        raise
    line.keep()
    return line


def host_and_port(uri: str) -> str:
    """Return the part of an address that a message may show."""
    return urlsplit(uri).netloc.rpartition("@")[2]


def _encrypted(raw: socket.socket, host: str, deadline_s: float) -> ssl.SSLSocket:
    raw.settimeout(_left(deadline_s))
    try:
        return ssl.create_default_context().wrap_socket(raw, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise NoLine(f"the certificate is not trusted: {error.verify_message}", transient=False) from None
    except OSError as error:
        raise NoLine(f"no TLS: {error.strerror or error or 'no answer'}", transient=True) from None


def _refusal(error: Exception) -> NoLine:
    if isinstance(error, InvalidStatus):
        status, body = error.response.status_code, error.response.body or b""
        text = recordable(bytes(body[:512]).decode("utf-8", "replace").strip())
        return NoLine(f"refused with HTTP {status}{f': {text}' if text else ''}", transient=status == 503)
    cause = f" ({recordable(str(error.__cause__))})" if error.__cause__ is not None else ""
    return NoLine(f"this is no WebSocket server: {recordable(str(error))}{cause}", transient=False)


def _left(deadline_s: float) -> float:
    """Return the seconds left; a millisecond when there are none, so that the socket itself says that time is up."""
    return max(0.001, deadline_s - monotonic())
