"""Check a campaign as the store knows it: that nothing was changed, lost, added or run twice.

Reads only; never raises for what it finds. A survey of the campaign, then a look at what each attempt left, one at a
time. What the numbers are worth is computed again above, in ``trialplate.verification``. Source: evidence
specification, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.record import Column
from trialplate.store.attempts import look
from trialplate.store.findings import Collector, Finding, exit_code
from trialplate.store.folder import CAPS, Caps, Folder
from trialplate.store.layout import DERIVED
from trialplate.store.survey import Belongs, Survey, in_campaign, survey
from trialplate.store.view import lock_columns

__all__ = ["Finding", "Integrity", "check", "exit_code"]

Looks = Callable[[Survey, tuple[Column, ...] | None], Iterable[tuple[Finding, ...]]]


@dataclass(frozen=True, slots=True)
class Integrity:
    """What a check found. ``survey`` is None when lock or journal cannot be read at all.

    ``unchecked``: derived files that are there and that nobody gave expected bytes for.
    """

    findings: tuple[Finding, ...]
    survey: Survey | None
    unchecked: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 verified, 1 integrity or recomputation, 2 malformed, 3 intact but blocked."""
        return exit_code(self.findings)


def check(
    path: Path,
    *,
    expected_derived: Mapping[str, bytes] | None = None,
    caps: Caps = CAPS,
    belongs: Belongs = in_campaign,
    looks: Looks | None = None,
) -> Integrity:
    """Check a campaign folder.

    ``expected_derived``: name -> bytes that a layer above computed from the evidence; each must lie in the folder
    with exactly these bytes. Derived files without expected bytes are returned as ``unchecked``.
    ``belongs``: which paths are no part of the campaign. ``looks``: yields what was found of each ended attempt, for
    who makes more of what :func:`trialplate.store.attempts.look` reads.
    """
    found, seen, expected = Collector(), None, dict(expected_derived or {})
    with found.keeping(), Folder(path) as folder:
        seen = survey(folder, found, caps=caps, belongs=belongs)
        _check_derived(folder, expected, found)
        if seen is not None:
            _check_attempts(folder, seen, found, caps=caps, looks=looks)
    present = seen.derived - expected.keys() if seen is not None else ()
    return Integrity(found.listed(), seen, tuple(name for name in DERIVED if name in present))


def _check_attempts(folder: Folder, seen: Survey, found: Collector, *, caps: Caps, looks: Looks | None) -> None:
    columns = None
    with found.keeping():
        columns = lock_columns(seen.lock_document)
    for findings in looks(seen, columns) if looks is not None else _one_by_one(folder, seen, columns, caps=caps):
        found.take(findings)


def _one_by_one(
    folder: Folder, seen: Survey, columns: tuple[Column, ...] | None, *, caps: Caps
) -> Iterator[tuple[Finding, ...]]:
    for attempt in seen.ended:
        yield look(folder, attempt, run_id=seen.run_id, columns=columns, caps=caps).findings


def _check_derived(folder: Folder, expected: Mapping[str, bytes], found: Collector) -> None:
    for name, wanted in expected.items():
        with found.keeping():
            digest = folder.sha256(name)
            if digest != sha256_hex(wanted):
                found.add(DERIVED[name], name, expected=sha256_hex(wanted), found=digest)
