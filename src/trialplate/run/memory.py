"""Keep freed memory in the process that runs episodes, instead of asking the machine for it again at every look."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT_BYTES = 2**26
LARGEST_BYTES = 2**25
"""What is larger than this has memory of its own, which goes back once it is freed: the most that glibc takes."""


@cache
def keep_freed_memory() -> bool:
    """Let this process keep up to 64 MiB that it has freed; return whether that was possible.

    A look is kept until it is packed, so its memory is freed in batches. glibc then gives the batch back, and the
    next looks wait while the machine clears their pages again, a third of the time that the loop needs for a look.
    Another C library, or another system, is left as it is.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
    return False
