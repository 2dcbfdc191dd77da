"""Check a campaign as the store knows it: that nothing was changed, lost, added or run twice.

Reads only; never raises for what it finds. A survey of the campaign, then a look at what each attempt left, one at a
time. What the numbers are worth is computed again above, in ``trialplate.verification``. Source: evidence
specification, section 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trialplate.canonical import sha256_hex
from trialplate.store.attempts import look
from trialplate.store.findings import Collector, Finding, exit_code
from trialplate.store.folder import CAPS, Caps, Folder
from trialplate.store.layout import DERIVED
from trialplate.store.survey import Belongs, Survey, in_campaign, survey
from trialplate.store.view import lock_columns

__all__ = ["Finding", "Integrity", "check", "exit_code"]


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
) -> Integrity:
    """Check a campaign folder.

    ``expected_derived``: name -> bytes that a layer above computed from the evidence; each must lie in the folder
    with exactly these bytes. Derived files without expected bytes are returned as ``unchecked``.
    ``belongs``: which paths are no part of the campaign.
    """
    found, seen, expected = Collector(), None, dict(expected_derived or {})
    with found.keeping(), Folder(path) as folder:
        seen = survey(folder, found, caps=caps, belongs=belongs)
        _check_derived(folder, expected, found)
        if seen is not None:
            _check_attempts(folder, seen, found, caps=caps)
    present = seen.derived - expected.keys() if seen is not None else ()
    return Integrity(found.listed(), seen, tuple(name for name in DERIVED if name in present))


def _check_attempts(folder: Folder, seen: Survey, found: Collector, *, caps: Caps) -> None:
    columns = None
    with found.keeping():
        columns = lock_columns(seen.lock_document)
    for attempt in seen.ended:
        found.take(look(folder, attempt, run_id=seen.run_id, columns=columns, caps=caps).findings)


def _check_derived(folder: Folder, expected: Mapping[str, bytes], found: Collector) -> None:
    for name, wanted in expected.items():
        with found.keeping():
            digest = folder.sha256(name)
            if digest != sha256_hex(wanted):
                found.add(DERIVED[name], name, expected=sha256_hex(wanted), found=digest)
