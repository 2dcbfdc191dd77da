"""Is the installed suite the locked one, and do lock, rows and scenes agree with it?

Scenes are compared with the suite's manifest by code that does not know how the world was built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from trialplate import fingerprint
from trialplate.canonical import binary32, document_sha256
from trialplate.coherence import input_findings, lock_findings, registration_findings, row_findings, told_findings
from trialplate.errors import CanonicalError, TrialplateError
from trialplate.interfaces import ReadbackForm
from trialplate.lock import other_harness
from trialplate.record import Row
from trialplate.registry import load_attribute, load_suite
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView
from trialplate.verification.outcomes import stop_findings

Compared = Callable[[Row], Iterable[Finding]]
Difference = tuple[str, str, Any, Any]
"""Code, pointer, expected, found."""


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
    """Rebuild every applied scene from the manifest and compare it with the readback of its episode.

    ``not_binary32`` for a number that is not stored as the suite says, ``scene_mismatch`` for one that is another.
    """
    try:
        suite = load_suite(view.lock_document["suite"]["name"])
    except TrialplateError:
        return []  # grader_findings has said so
    compare = load_attribute(suite.verify_scene)
    scenarios = {scenario.id: scenario.document() for scenario in suite.scenarios()}
    compared: dict[tuple[str, str], tuple[Difference, ...]] = {}
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
            differs = compare(scenarios[row.scenario], row.applied_scene)
            compared[place] = (
                *(("not_binary32", *item) for item in misformed(row.applied_scene, suite.readback)),
                *(("scene_mismatch", *item) for item in differs),
            )
        for code, pointer, expected, got in compared[place]:
            found.append(finding(code, path, pointer=pointer, expected=expected, found=got))
    return found


def misformed(
    value: Any, readback: Mapping[str, ReadbackForm] | None, *, pointer: str = "/applied_scene", member: str = ""
) -> Iterator[tuple[str, str, Any]]:
    """Yield (pointer, expected, found) of every number of a readback that is not in the form of its member.

    ``readback``: member -> form, where it is not plain binary32; None: nothing is said of any. ``member``: in which
    ``value`` stands.
    """
    if readback is None or readback.get(member) == "binary64":
        return
    if isinstance(value, dict):
        for name, item in value.items():
            yield from misformed(item, readback, pointer=f"{pointer}/{name}", member=name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from misformed(item, readback, pointer=f"{pointer}/{index}", member=member)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            image: Any = binary32(value, direction=readback.get(member) == "direction")
        except CanonicalError as error:
            image = f"a number that binary32 has ({error.code})"
        if image != value:
            yield pointer, str(image), value
