"""Is the installed suite the locked one, and do lock, rows and scenes agree with it?

Scenes are compared with the suite's manifest by code that does not know how the world was built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from trialplate import fingerprint
from trialplate.canonical import document_sha256
from trialplate.coherence import input_findings, lock_findings, registration_findings, row_findings, told_findings
from trialplate.errors import TrialplateError
from trialplate.lock import other_harness
from trialplate.record import Row
from trialplate.registry import load_attribute, load_suite
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView
from trialplate.verification.outcomes import stop_findings

Compared = Callable[[Row], Iterable[Finding]]


def grader_findings(view: CampaignView) -> list[Finding]:
    """Compare the installed scorer and manifest with those of the lock."""
    locked = view.lock_document
    try:
        suite = load_suite(locked["suite"]["name"])
    except TrialplateError as error:
        return [
            finding("grader_differs_from_lock", "lock.json", expected=locked["suite"]["name"], found=error.message)
        ]
    found = []
    manifest = document_sha256(suite.manifest_document())
    if manifest != locked["suite"]["manifest_sha256"]:
        found.append(
            finding(
                "grader_differs_from_lock",
                "lock.json",
                pointer="/suite/manifest_sha256",
                expected=locked["suite"]["manifest_sha256"],
                found=manifest,
            )
        )
    harness = fingerprint.harness()["sha256"]
    if harness != locked["harness"]["sha256"]:
        found.append(
            finding(
                "grader_differs_from_lock",
                "lock.json",
                pointer="/harness/sha256",
                expected=locked["harness"]["sha256"],
                found=f"{harness}{other_harness(locked)}",
            )
        )
    return found


def coherence_findings(view: CampaignView, compared: Compared | None = None) -> list[Finding]:
    """Compare lock, inputs, rows and identities with the installed suite.

    ``compared``: gives what was found in rows whose traces were read before.
    """
    try:
        suite = load_suite(view.lock_document["suite"]["name"])
    except TrialplateError:
        return []  # grader_findings has said so
    return [
        *lock_findings(view.lock_document, suite),
        *input_findings(view),
        *told_findings(view),
        *(row_findings(view, suite) if compared is None else chain.from_iterable(map(compared, view.rows))),
        *registration_findings(view),
        *stop_findings(view),
    ]


def scene_findings(view: CampaignView) -> list[Finding]:
    """Rebuild every applied scene from the manifest and compare it with the readback of its episode."""
    try:
        suite = load_suite(view.lock_document["suite"]["name"])
    except TrialplateError:
        return []  # grader_findings has said so
    compare = load_attribute(suite.verify_scene)
    scenarios = {scenario.id: scenario.document() for scenario in suite.scenarios()}
    compared: dict[tuple[str, str], tuple[tuple[str, Any, Any], ...]] = {}
    found = []
    for row in view.rows:
        if row.applied_scene is None:
            continue
        path = f"episodes/{row.trial_id}-{row.attempt}/row.json"
        digest = document_sha256(row.applied_scene)
        if digest != row.applied_scene_sha256:
            found.append(
                finding(
                    "scene_mismatch",
                    path,
                    pointer="/applied_scene_sha256",
                    expected=digest,
                    found=row.applied_scene_sha256,
                )
            )
        place = (row.scenario, digest)  # equal scenes differ alike
        if place not in compared:
            compared[place] = tuple(compare(scenarios[row.scenario], row.applied_scene))
        for pointer, expected, got in compared[place]:
            found.append(finding("scene_mismatch", path, pointer=pointer, expected=expected, found=got))
    return found
