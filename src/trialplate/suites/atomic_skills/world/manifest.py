"""Makes ``data/nominal.json``, every nominal case with the evidence of its reach screen, and ``data/sets.json``.

Run once per version of the suite.

``python -m trialplate.suites.atomic_skills.world.manifest``
"""

from __future__ import annotations

import sys
from typing import Any

from trialplate.canonical import canonical_json
from trialplate.suites.atomic_skills.casebook.layout import sealed
from trialplate.suites.atomic_skills.casebook.nominal import nominal_cases
from trialplate.suites.atomic_skills.cases import NOMINAL_PATH, SETS_PATH, sets_as_made, stored_manifest
from trialplate.suites.atomic_skills.cases import nominal_cases as frozen_cases
from trialplate.suites.atomic_skills.planners.screening import screen


def screened_cases() -> list[dict[str, Any]]:
    """Return all nominal cases, made again from their factors, screened and sealed."""
    return [sealed({**case, "screen": screen(case)}) for cases in nominal_cases().values() for case in cases]


def main() -> int:
    """Write the manifest, and say how many cases are attainable."""
    cases = screened_cases()
    NOMINAL_PATH.write_bytes(stored_manifest(cases))
    frozen_cases.cache_clear()
    SETS_PATH.write_bytes(canonical_json(sets_as_made()))
    screens = [case["screen"] for case in cases if case["screen"] is not None]
    attainable = sum(bool(found["attainable"]) for found in screens)
    sys.stdout.write(f"{len(cases)} cases, {len(screens)} screened, {attainable} attainable: {NOMINAL_PATH.name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
