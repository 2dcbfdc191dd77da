"""Processes of other programs, started from environments of their own."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment, which `make peers` makes."""
    return ROOT / ".peers" / peer / "bin" / "python"


@contextmanager
def peer_server(peer: str, script: str, *arguments: str, after: tuple[str, ...] = ()) -> Iterator[int]:
    """Run ``script ARGUMENTS PORT AFTER`` until the block is left; yield the port once somebody listens there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen(
        [python_of(peer), HERE / script, *arguments, str(port), *after],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until_s = time.monotonic() + 60
        while not _answers(port):
            assert running.poll() is None and time.monotonic() < until_s, f"{peer}'s server did not come up"
            time.sleep(0.05)
        yield port
    finally:
        running.kill()
        running.wait(timeout=20)


def _answers(port: int) -> bool:
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) == 0
