"""Find suites and other parts by name, and load them only when they are asked for."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from trialplate.errors import UsageError, nearest
from trialplate.interfaces import Suite

SUITES = "trialplate.suites"


def suite_names() -> tuple[str, ...]:
    """Return the names of all installed suites, sorted."""
    return tuple(sorted(_suite_points()))


def load_suite(name: str) -> Suite:
    """Return an installed suite. Raises UsageError with the nearest names when there is none such.

    One whose declarations are refused (a privileged channel: code ``privileged_channel``; deltas from the start of a
    chunk: ``unplayable_action``) is refused with the reason.
    """
    points = _suite_points()
    if name not in points:
        raise UsageError(f"unknown suite {name!r}{nearest(name, points)}", code="unknown_suite")
    try:
        suite = points[name].load()
    except (ImportError, AttributeError, ValueError) as error:
        code = "privileged_channel" if "privileged_channel" in str(error) else "bad_entry_point"
        raise UsageError(f"suite {name!r} cannot be loaded: {error}", code=code) from error
    if not isinstance(suite, Suite):
        raise UsageError(
            f"entry point {name!r} of {SUITES} is {type(suite).__name__}, expected trialplate.interfaces.Suite",
            code="bad_entry_point",
        )
    _refuse_unplayable(suite)
    return suite


def _refuse_unplayable(suite: Suite) -> None:
    """Refuse a suite whose declared actions nothing here could carry out as declared."""
    for component in suite.action.components:
        if component.delta_base == "chunk_start":
            raise UsageError(
                f"suite {suite.name!r} declares that {component.name!r} is a delta from the start of its chunk "
                "(delta_base = 'chunk_start'). A world is given row after row and is not told where a chunk begins: "
                "expected 'step'. A policy that sends such deltas needs an adapter that turns them into steps",
                code="unplayable_action",
            )


def load_attribute(reference: str) -> Any:
    """Import ``module:attr`` and return the attribute. Raises UsageError that names what is missing."""
    module_name, separator, attribute = reference.partition(":")
    if not separator or not module_name or not attribute:
        raise UsageError(f"{reference!r} is not of the form module:attr", code="bad_reference")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(f"{reference!r}: no module named {error.name!r}", code="bad_reference") from error
    if not hasattr(module, attribute):
        public = [name for name in dir(module) if not name.startswith("_")]
        raise UsageError(
            f"{reference!r}: module has no attribute {attribute!r}{nearest(attribute, public)}", code="bad_reference"
        )
    return getattr(module, attribute)


def _suite_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=SUITES)}
