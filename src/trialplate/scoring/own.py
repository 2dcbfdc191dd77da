"""Scoring by a suite's own scorer: a pure function that a lock names, found in the installed suite.

A scorer is called as ``scorer(row, trace, scenario=..., settings=..., fault_table=...)`` and returns an Outcome. It
sees the recording, the frozen scenario, and the settings and fault table of the lock; no world, clock or randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trialplate.errors import EvidenceError
from trialplate.interfaces import Scenario
from trialplate.record import Outcome, Row, Trace
from trialplate.registry import load_attribute, load_suite

OwnScorer = Callable[[Row, Trace | None], Outcome]


def own_scorer(lock_document: Mapping[str, Any]) -> OwnScorer | None:
    """Return the scorer of a lock whose suite has one of its own; None where the suite has a chain.

    It raises EvidenceError ``scenario_changed`` for a row whose scenario the installed suite does not have as it was.
    """
    suite = lock_document["suite"]
    if suite.get("scorer") is None:
        return None
    scorer = load_attribute(suite["scorer"])
    scenarios: dict[str, tuple[Scenario, str]] = {}

    def score(row: Row, trace: Trace | None) -> Outcome:
        if not scenarios:
            scenarios.update({item.id: (item, item.sha256()) for item in load_suite(suite["name"]).scenarios()})
        scenario, digest = scenarios.get(row.scenario, (None, None))
        if scenario is None or digest != row.scenario_sha256:
            raise EvidenceError(
                f"trial {row.trial_id}: scenario {row.scenario!r} has digest {row.scenario_sha256[:12]} in its row,"
                f" in the installed suite {(digest or 'none')[:12]}",
                code="scenario_changed",
            )
        outcome: Outcome = scorer(
            row, trace, scenario=scenario, settings=suite["settings"], fault_table=suite["fault_table"]
        )
        return outcome

    return score
