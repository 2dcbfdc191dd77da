"""Check one campaign: its digests, then everything that is derived from its evidence, computed again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from trialplate.errors import EvidenceError, UsageError
from trialplate.store.chain import JOURNAL
from trialplate.store.findings import exit_code, finding, ordered
from trialplate.store.survey import Belongs, in_campaign
from trialplate.store.verify import check
from trialplate.store.view import CampaignView, read_campaign
from trialplate.verification.derived import DERIVED_CODES, derived_findings, unreadable_findings
from trialplate.verification.grading import coherence_findings, grader_findings, scene_findings
from trialplate.verification.locked import locked_findings
from trialplate.verification.outcomes import exclusion_findings
from trialplate.verification.recordings import Recordings
from trialplate.verification.verdict import NOT_LOOKED_AT, Verdict

UNREADABLE = ("journal_broken", "size_limit")
"""Findings on a journal behind which nothing is computed; it is then not read a second time, however large it is."""


def verify_campaign(
    folder: Path,
    *,
    ignore: Collection[str] = (),
    qualified: bool | None = None,
    belongs: Belongs = in_campaign,
    workers: int = 1,
) -> Verdict:
    """Check digests, then recompute scenes, grades, analysis and claims. ``ignore``: derived files not looked at.

    ``qualified``: whether raw control campaigns qualify this harness; None when nobody looked. Claims that lean on
    a qualification are then blocked (``qualification_missing``), never taken at their word.
    ``belongs``: which paths are accounted for elsewhere, because a bundle lies around the campaign.
    ``workers``: processes that read recordings; above one they are spawned, so a script needs its main guard.
    """
    if not folder.is_dir():
        raise UsageError(f"no campaign at {folder}")
    recordings = Recordings(folder, workers=workers)
    integrity = check(folder, belongs=belongs, looks=recordings.look)
    findings = list(integrity.findings)
    findings += [
        finding("file_extra", name, expected="no such file", found="a derived file that nothing here computes")
        for name in integrity.unchecked
        if name not in DERIVED_CODES and not belongs(name)
    ]
    wrong = locked_findings(integrity.survey.lock_document) if integrity.survey is not None else []
    findings += wrong
    wrong += [item for item in integrity.findings if item.code in UNREADABLE and item.path == JOURNAL]
    view = _view(folder, recordings) if integrity.survey is not None and not wrong else None
    if view is None:
        findings += unreadable_findings(folder, [name for name in DERIVED_CODES if name not in ignore])
    else:
        excluded = exclusion_findings(view)
        findings += excluded
        try:
            findings += [
                *grader_findings(view),
                *coherence_findings(view, recordings.compared),
                *scene_findings(view),
            ]
            findings += derived_findings(view, ignore=ignore, qualified=qualified, recordings=recordings)
        except EvidenceError as error:
            if not any(item.pointer == "/fault_code" for item in excluded):  # such an attempt has no status at all
                scorable = "scorable evidence"
                findings.append(
                    finding("grades_not_reproduced", "results.jsonl", expected=scorable, found=error.message)
                )
    listed = ordered(findings)
    said = {True: "holds: recomputed from the raw controls", False: "does not hold for this harness"}
    return Verdict(
        listed,
        exit_code(listed),
        view,
        len(view.rows) if view else 0,
        NOT_LOOKED_AT if qualified is None else said[qualified],
    )


def _view(folder: Path, recordings: Recordings) -> CampaignView | None:
    try:
        return read_campaign(folder, known=recordings.rows())
    except EvidenceError:
        return None  # a finding already
