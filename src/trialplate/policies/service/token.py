"""The management token: 256 random bits in a file that only its owner can read.

Source: policy contract, section 4.2.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from trialplate.errors import UsageError

_FORM = re.compile(r"[0-9a-f]{64}")


def token_from(path: Path) -> str:
    """Return the token in a file, which is made with mode 0600 when it does not exist.

    Raises UsageError for a link, a file that others may read or that is not ours, or one that holds no token.
    """
    try:
        return _make(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"token file {path}: {error.strerror}") from None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"token file {path}: expected a plain file, not a link: {error.strerror}") from None
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f"token file {path} is not a plain file")
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            mode = oct(stat.S_IMODE(facts.st_mode))
            raise UsageError(f"token file {path} has mode {mode}; others could use it: be its owner, with mode 0600")
        text = os.read(file, 128).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    if not _FORM.fullmatch(text):
        raise UsageError(f"token file {path} holds no token of 64 hex digits; remove it and a new one is made")
    return text


def _make(path: Path) -> str:
    token = secrets.token_hex(32)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as opened:
            os.fchmod(opened.fileno(), 0o600)
            opened.write(f"{token}\n")
    except OSError:
        path.unlink(missing_ok=True)  # a file without its token would keep the next start from making one
        raise
    return token


def bears_token(headers: Iterable[tuple[bytes, bytes]], token: str) -> bool:
    """Return whether exactly one ``Authorization: Bearer`` header has the token; compared in constant time."""
    found = [value for name, value in headers if name.lower() == b"authorization"]
    scheme, _, given = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    right = hmac.compare_digest(given.strip(), token.encode("ascii"))
    return right and scheme.lower() == b"bearer"
