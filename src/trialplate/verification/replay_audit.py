"""A few attempts of the raw controls simulated again when a harness qualifies, picked by nobody.

The summary of a qualification keeps which attempts, by which randomness, and the state that each of them ended in. A
reader without a simulator picks the same attempts and compares those states with the recorded ones; a reader with one
simulates them again. Source: evidence specification, sections 8 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError

from trialplate.canonical import canonical_json
from trialplate.record import Row
from trialplate.replaying import comparability, repeat_rows, rows_root
from trialplate.resimulation import MISMATCH, Repeat
from trialplate.spec.channels import Part
from trialplate.store import merkle
from trialplate.store.findings import Finding, finding
from trialplate.store.view import CampaignView

AUDIT_MEMBER = "replay_audit"
AUDITED = 29
"""As many find out, with a probability of 95 %, that a tenth of all attempts does not repeat."""

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Views = Mapping[str, CampaignView]


class AuditedAttempt(Part):
    """One attempt that was picked, and the state it ended in when it was simulated again.

    ``reason``: what kept it from being simulated, or how it differed; None when it repeated.
    """

    run: str
    trial_id: str
    attempt: Annotated[int, Field(ge=0)]
    last_state_sha256: Digest | None
    reason: str | None


class ReplayAudit(Part):
    """The attempts of all control runs that ``root`` (over their rows, run by run) and ``beacon`` picked."""

    root: Digest
    beacon: Digest
    episodes: tuple[AuditedAttempt, ...]


def audit_controls(views: Views, *, beacon: bytes) -> ReplayAudit:
    """Simulate the picked attempts of control runs again. ``beacon``: 32 bytes drawn after the runs had ended."""
    root, picked = _picked(views, beacon)
    elsewhere = comparability(next(iter(views.values())).lock_document)
    found: dict[tuple[str, str, int], AuditedAttempt] = {}
    for run, view in views.items():
        rows = [row for name, row in picked if name == run]
        repeats = repeat_rows(view, rows) if not elsewhere else [_not_here(row, elsewhere[0]) for row in rows]
        found |= {(run, done.trial_id, done.attempt): _audited(run, done) for done in repeats}
    episodes = tuple(found[run, row.trial_id, row.attempt] for run, row in picked)
    return ReplayAudit(root=root, beacon=beacon.hex(), episodes=episodes)


def parse_audit(summary: Any) -> ReplayAudit | None:
    """Return the audit that a summary holds; None when there is none that can be read."""
    document = summary.get(AUDIT_MEMBER) if isinstance(summary, dict) else None
    try:
        return ReplayAudit.model_validate_json(canonical_json(document))
    except ValidationError:
        return None


def audit_result(audit: ReplayAudit | None, views: Views) -> tuple[bool, str, str]:
    """Say, without a simulator, whether an audit is the one of these runs and every attempt in it repeated.

    Returns whether it holds, what is expected and what is there.
    """
    total = sum(len(view.rows) for view in views.values())
    expected = f"{min(AUDITED, total)} of {total} attempts repeat"
    if audit is None:
        return False, expected, "no audit"
    root, picked = _picked(views, bytes.fromhex(audit.beacon))
    listed = [(item.run, item.trial_id, item.attempt) for item in audit.episodes]
    if audit.root != root or listed != [(run, row.trial_id, row.attempt) for run, row in picked]:
        return False, expected, "an audit of other attempts"
    wrong = [
        f"{item.run}/{item.trial_id}-{item.attempt}: {item.reason or 'another state at its end'}"
        for item, (run, row) in zip(audit.episodes, picked, strict=True)
        if not _repeated(item, views[run], row)
    ]
    if wrong:
        return False, expected, f"{len(wrong)} do not, first {wrong[0]}"
    return True, expected, expected


def audit_findings(audit: ReplayAudit, views: Views, *, path: str) -> list[Finding]:
    """Simulate an audit again and return where it turns out otherwise, or that it cannot be done here."""
    elsewhere = comparability(next(iter(views.values())).lock_document)
    if elsewhere:
        return elsewhere
    again = audit_controls(views, beacon=bytes.fromhex(audit.beacon))
    return [
        finding(
            MISMATCH,
            path,
            pointer=f"/{AUDIT_MEMBER}/episodes/{number}",
            expected=f"{said.run}/{said.trial_id}-{said.attempt}: {said.last_state_sha256}",
            found=f"{now.last_state_sha256} {now.reason or ''}".strip(),
        )
        for number, (said, now) in enumerate(zip(audit.episodes, again.episodes, strict=False))
        if said != now
    ]


def _picked(views: Views, beacon: bytes) -> tuple[str, list[tuple[str, Row]]]:
    """Return the root over the rows of all runs, and the picked rows with their runs."""
    rows = [(run, row) for run, view in views.items() for row in view.rows]
    root = rows_root([row for _, row in rows])
    indices = merkle.audit_sample(root, beacon, n=len(rows), k=min(AUDITED, len(rows)))
    return root, [rows[index] for index in indices]


def _audited(run: str, done: Repeat) -> AuditedAttempt:
    reason = str(done.findings[0]) if done.findings else done.reason
    return AuditedAttempt(
        run=run,
        trial_id=done.trial_id,
        attempt=done.attempt,
        last_state_sha256=done.last_state_sha256,
        reason=reason,
    )


def _not_here(row: Row, why: Finding) -> Repeat:
    return Repeat(row.trial_id, row.attempt, reason=str(why))


def _repeated(item: AuditedAttempt, view: CampaignView, row: Row) -> bool:
    """Say whether an attempt ended in the recorded state; one without a recording has nothing to repeat."""
    if row.trace is None:
        return item.last_state_sha256 is None
    return item.reason is None and item.last_state_sha256 == view.load_trace(row).state_sha256[-1]
