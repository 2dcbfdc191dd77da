"""Calls into an arm: whatever comes out of them is the arm's, and cannot be dressed up as anybody else's fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from trialplate.errors import PolicyFault

MAX_TEXT = 512
Result = TypeVar("Result")


def charged(call: Callable[[], Result], *, doing: str, genuine: Callable[[], bool] = lambda: False) -> Result:
    """Call into an arm; whatever it raises, whatever its type, is a PolicyFault (``policy_exception``).

    That includes SystemExit and KeyboardInterrupt, unless ``genuine`` says that somebody really asked to stop.
    """
    try:
        return call()
    except BaseException as error:
        if genuine():
            raise
        message = f"policy raised in {doing}: {type(error).__name__}: {said(error)}"
        raise PolicyFault(recordable(message), code="policy_exception") from None


def said(value: object) -> str:
    """Return the text of something that an arm made, even when its ``__str__`` raises."""
    try:
        return recordable(str(value))
    except BaseException as error:
        return f"a text that could not be read ({type(error).__name__})"


def recordable(text: str) -> str:
    """Return text that every document can hold: no NUL, no half surrogate, at most 512 characters."""
    plain = str.encode(text, "utf-8", "backslashreplace").decode("utf-8").replace("\x00", "\\x00")
    return plain[:MAX_TEXT]
