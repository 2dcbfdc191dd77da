"""What is shown is frozen, and its digest is the same whoever takes it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from trialplate.run.frames import SMALL_BYTES, FrameHasher, PendingDigest, frames_digest, frozen


def _pictures(seed: int, *, size: int) -> dict[str, np.ndarray]:
    stream = np.random.default_rng(seed)
    return {name: frozen(stream.integers(0, 256, (size, size, 3), dtype=np.uint8)) for name in ("wrist", "front")}


def begun(hasher: FrameHasher, look: dict[str, np.ndarray]) -> PendingDigest:
    pending = PendingDigest(look)
    hasher.begin(pending)
    return pending


def test_nobody_can_write_into_what_is_frozen() -> None:
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    kept = frozen(image[::-1])
    image[:] = 7
    assert kept.shape == (4, 4, 3) and not kept.any()
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0, 0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        kept.setflags(write=True)


@pytest.mark.parametrize("size", [8, 256])
def test_the_digest_is_that_of_names_and_pixels_on_either_thread(size: int) -> None:
    looks = [_pictures(seed, size=size) for seed in range(5)]
    assert (2 * size * size * 3 > SMALL_BYTES) == (size == 256)
    hasher = FrameHasher()
    pending = [begun(hasher, look) for look in looks]
    assert [one.result() for one in pending] == [frames_digest(look) for look in looks]
    assert len({one.result() for one in pending}) == 5
    hasher.close()


def test_a_look_without_pictures_has_no_digest() -> None:
    assert begun(FrameHasher(), {}).result() is None


def test_digests_stay_good_after_the_thread_has_ended() -> None:
    before = threading.active_count()
    hasher = FrameHasher()
    look = _pictures(1, size=256)
    pending = [begun(hasher, look) for _ in range(20)]
    hasher.close()
    hasher.close()
    assert threading.active_count() == before
    assert {one.result() for one in pending} == {frames_digest(look)}
