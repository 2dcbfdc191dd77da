"""One Parquet file per episode with every call of the policy: what it was shown, what it answered, what became of it.

A *minimal* file holds decisions with their rows, acks, usage and digests: all that a scorer needs. A *detailed* one
also holds what was shown: instruction, proprioception and pictures. The past that an observation repeats
(``history``) lies in earlier rows of the same file and in the trace, and is not stored twice.

Packing runs on a thread beside the control loop, in batches of a fixed size, so that an episode needs little memory
and equal episodes give equal bytes, however fast anything ran.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Thread, get_native_id
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trialplate.errors import EvidenceError, StorageFailure
from trialplate.record import Exchange
from trialplate.store.exchange_columns import Entry, Layout, entry_of, malformed
from trialplate.store.exchange_reading import read_exchanges

__all__ = ["ExchangeWriter", "read_exchanges"]

MAX_BATCH_CALLS = 1024
MAX_BATCH_BYTES = 4 * 1024**2
_WAITING_BATCHES = 1
_POLL_S = 1.0
_NICENESS = 10


class ExchangeWriter:
    """Collects the exchanges of one episode; ``add`` costs microseconds, packing happens beside it.

    The arrays of an added exchange must not change any more: the caller owns them or has copied them. Memory stays
    below four batches of pictures (16 MiB, or four calls where one is bigger) plus the packed file.
    """

    def __init__(self, *, detailed: bool) -> None:
        self._detailed = detailed
        self._batch: list[Entry] = []
        self._batch_bytes = 0
        self._packer = _Packer(detailed=detailed)
        self._line: _Line | None = None
        self._closed = False
        pa.array([0], type=pa.int32())  # the first array looks for other libraries: not on a policy's clock

    def add(self, exchange: Exchange, *, frames: Callable[[], str | None] | None = None) -> None:
        """Take one call. Raises StorageFailure when packing failed before, EvidenceError after the end.

        ``frames``: returns the digest of the pictures; asked while packing, where the exchange does not know it yet.
        """
        if self._closed:
            raise malformed("an exchange was added after the file was finished")
        self._batch.append(entry_of(exchange, frames))
        self._batch_bytes += sum(image.nbytes for image in exchange.images.values())
        if len(self._batch) >= MAX_BATCH_CALLS or self._batch_bytes >= MAX_BATCH_BYTES:
            if self._line is None:
                self._line = _Line(self._packer)
            self._hand_over(self._line)

    def seal(self) -> None:
        """Say that no call follows: what is left is packed beside whatever comes before :meth:`finish`."""
        if self._line is not None and self._batch:
            self._hand_over(self._line)

    def _hand_over(self, line: _Line) -> None:
        line.put(self._batch)
        self._batch, self._batch_bytes = [], 0

    def finish(self) -> bytes | None:
        """Return the whole file, None when no call was made. Raises StorageFailure when it could not be packed."""
        if self._closed:
            raise malformed("the file was finished before")
        try:
            if self._line is not None:
                self._line.drain()
            self._packer.pack(self._batch)
            return self._packer.finish()
        finally:
            self.close()

    def close(self) -> None:
        """Stop packing and let go of everything; nothing happens when it is done already."""
        self._closed = True
        self._batch = []
        if self._line is not None:
            self._line.stop()
            self._line = None


class _Line:
    """A thread that packs batches in the order they are put; at most ``_WAITING_BATCHES`` wait."""

    def __init__(self, packer: _Packer) -> None:
        self._packer = packer
        self._queue: Queue[Sequence[Entry] | None] = Queue(maxsize=_WAITING_BATCHES)
        self._failure: Exception | None = None
        self._stopped = False
        self._thread = Thread(target=self._work, name="trialplate-exchanges", daemon=True)
        self._thread.start()

    def put(self, batch: Sequence[Entry] | None) -> None:
        """Hand over a batch; wait while packing lags behind."""
        while True:
            self._raise_failure()
            try:
                self._queue.put(batch, timeout=_POLL_S)
                return
            except Full:
                continue

    def drain(self) -> None:
        """Wait until all batches are packed and the thread has ended."""
        self.put(None)
        while self._thread.is_alive():
            self._thread.join(_POLL_S)
        self._raise_failure()

    def stop(self) -> None:
        """End the thread; what still waits is dropped."""
        self._stopped = True
        while self._thread.is_alive():
            with suppress(Empty):
                self._queue.get_nowait()
            with suppress(Full):
                self._queue.put_nowait(None)
            self._thread.join(_POLL_S)

    def _work(self) -> None:
        _give_way()
        try:
            while not self._stopped and (batch := self._queue.get()) is not None:
                self._packer.pack(batch)
        except Exception as error:  # reported to the loop with the next exchange, at the latest at the end
            self._failure = error

    def _raise_failure(self) -> None:
        if isinstance(self._failure, EvidenceError):
            raise self._failure
        if self._failure is not None:
            message = f"the exchanges could not be packed: {type(self._failure).__name__}: {self._failure}"
            raise StorageFailure(message[:512]) from self._failure


def _give_way() -> None:
    """Let this thread yield to those that an answer waits for: packing fills the time that they leave."""
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICENESS)


class _Packer:
    """Turns each batch into a row group; used by one thread at a time."""

    def __init__(self, *, detailed: bool) -> None:
        self._detailed = detailed
        self._layout: Layout | None = None
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None

    def pack(self, batch: Sequence[Entry]) -> None:
        if not batch:
            return
        if self._layout is None:
            self._layout = Layout.of(batch[0].exchange, detailed=self._detailed)
            self._writer = pq.ParquetWriter(
                self._sink,
                self._layout.schema,
                version="2.6",
                use_dictionary=False,
                write_statistics=False,
                write_page_checksum=True,
                data_page_size=2 * MAX_BATCH_BYTES,
                store_schema=True,
                **self._layout.codecs(),
            )
        self._writer.write_table(self._layout.table(batch), row_group_size=MAX_BATCH_CALLS)

    def finish(self) -> bytes | None:
        if self._layout is None:
            return None
        self._writer.add_key_value_metadata(self._layout.metadata)
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data
