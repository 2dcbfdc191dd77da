"""What is shown cannot be changed, and has a digest: a stranger can tell two looks apart without the pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Images = Mapping[str, NDArray[np.uint8]]
Scalar = TypeVar("Scalar", bound=np.generic)
SMALL_BYTES = 32_768
"""Up to here a digest is taken faster than another thread could be asked to."""

_CLOSE_S = 10.0


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a copy that nobody can write into: it lies in ``bytes``, so it cannot be made writable again either.

    A policy in this process is shown such arrays, exactly as one behind a wire gets them, and the recording keeps
    them without another copy.
    """
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)


def frames_digest(images: Images) -> str | None:
    """Return the SHA-256 over names and pixels in the order of the names; None when there is no picture."""
    if not images:
        return None
    digest = hashlib.sha256()
    for name in sorted(images):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(images[name]).data)
    return digest.hexdigest()


class PendingDigest:
    """The digest of one look, on its way."""

    __slots__ = ("_images", "_lock", "_value")

    def __init__(self, images: Images) -> None:
        self._images: Images = images
        self._lock = Lock()
        self._value: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the pictures whose digest is still to be taken."""
        return sum(image.nbytes for image in self._images.values())

    def compute(self) -> None:
        """Take the digest, unless the other thread does it or has done it."""
        with self._lock:
            if self._images:
                self._value = frames_digest(self._images)
                self._images = {}

    def result(self) -> str | None:
        """Return the digest; None when there is no picture."""
        self.compute()
        return self._value


class FrameHasher:
    """Takes digests on a thread of its own, while the pictures are on their way to the policy.

    The pictures are frozen, so the digest is that of what was sent, whenever it is taken. One that the thread has
    not begun when it is asked for is taken by the caller: nothing ever waits for a thread that is gone.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[PendingDigest | None] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self, pending: PendingDigest) -> None:
        """Begin with the digest of one look."""
        if pending.size_bytes <= SMALL_BYTES:
            pending.compute()
            return
        if self._thread is None:
            self._thread = Thread(target=_work, args=(self._jobs,), name="trialplate-frames", daemon=True)
            self._thread.start()
        self._jobs.put(pending)

    def close(self) -> None:
        """End the thread; digests that were begun stay good."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join(_CLOSE_S)
            self._thread = None


def _work(jobs: Any) -> None:
    while (pending := jobs.get()) is not None:
        pending.compute()
