"""The digest of the pictures that were really sent, so that a stranger can tell two looks apart without them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


def frames_digest(images: Mapping[str, NDArray[np.uint8]]) -> str | None:
    """Return the SHA-256 over names and pixels in the order of the names; None when there is no picture."""
    if not images:
        return None
    digest = hashlib.sha256()
    for name in sorted(images):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(images[name]).data)
    return digest.hexdigest()
