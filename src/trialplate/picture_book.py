"""Gather what a report shows: facts from the lock, outcomes from the evidence, and pictures of every failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trialplate.claims.gate import Claim
from trialplate.coherence import declared_registrations
from trialplate.errors import EvidenceError, UsageError, nearest
from trialplate.interfaces import Suite
from trialplate.record import Outcome, Row
from trialplate.registry import load_suite
from trialplate.render import filmstrips, video
from trialplate.report import Change, Latency, Media, ReportData, Said, SuiteFacts, build_report
from trialplate.resimulation import Recorded
from trialplate.result_identity import Timed, addresses, call_times_us
from trialplate.scoring.conduct import nearest_rank
from trialplate.store.disclosures import attempt_id
from trialplate.store.view import CampaignView
from trialplate.verification import analyse_document, score_and_time
from trialplate.verification.clocks import unsynchronised

STRIP_FRAMES = 6
STRIP_SIZE_PX = 128


def write_report(
    view: CampaignView,
    claims: Sequence[Claim],
    *,
    to: Path,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the report of a campaign to ``to``; pictures are drawn by re-simulating the recorded actions."""
    if to.is_dir():
        raise UsageError(f"{to} is a folder; name the file to write")
    if view.folder.resolve() in to.resolve().parents:
        raise UsageError(f"{to} lies inside the campaign, where a check would find it: choose another folder")
    suite = load_suite(view.lock_document["suite"]["name"])
    outcomes, timed = score_and_time(view)
    data = ReportData(
        lock=view.lock_document,
        lock_sha256=view.lock_sha256,
        suite=suite_facts(suite),
        analysis=analyse_document(outcomes, view.lock_document),
        claims=tuple(claims),
        outcomes=outcomes,
        media=draw_failures(view, suite, outcomes, workers=workers, progress=progress),
        identity=identity_facts(view),
        latency=latencies(view, timed=timed),
        unsynchronised=unsynchronised(view),
        exploratory={name: sorted(digests) for name, digests in sorted(declared_registrations(view).items())},
        addresses=addresses(view),
        amendments=tuple(
            Said(n=a.n, kind=a.kind, at=a.created_utc, attempts_seen=a.attempts_seen, reason=a.reason, text=a.text)
            for a in view.amendments
        ),
        changes=tuple(
            Change(first_attempt=attempt_id(*cutover.first_attempt), change=cutover.change, at=cutover.at)
            for cutover in view.cutovers
        ),
    )
    build_report(data, to=to)
    return to


def suite_facts(suite: Suite) -> SuiteFacts:
    """Return what a reader must know about the benchmark."""
    return SuiteFacts(
        name=suite.name,
        version=suite.version,
        summary=suite.summary,
        scope_note=suite.scope_note,
        instruction=suite.instruction,
        stages=tuple(suite.stage_meanings.items()),
        profiles={name: ", ".join(_channels(suite, name)) for name in suite.profiles},
        max_steps=suite.max_steps,
        control_hz=suite.action.control_hz,
    )


def _channels(suite: Suite, profile: str) -> list[str]:
    spec = suite.profiles[profile]
    cameras = [f"camera {camera.name} {camera.width}x{camera.height}" for camera in spec.cameras]
    return cameras + [f"{channel.name} ({channel.unit})" for channel in spec.proprio]


def identity_facts(view: CampaignView) -> dict[str, Any]:
    """Return the named digests of a campaign that are not in its lock."""
    head = view.records[-1] if view.records else None
    runs = [record["data"]["run_id"] for record in view.records if record["type"] in ("run.open", "run.resume")]
    return {
        "run": runs[0] if runs else None,
        "times resumed": max(0, len(runs) - 1),
        "interrupted attempts": sum(row.termination == "interrupted" for row in view.rows),
        "journal records": len(view.records),
        "journal head": head["sha256"] if head else None,
    }


def latencies(view: CampaignView, *, timed: Timed | None = None) -> dict[str, Latency]:
    """Return how long each arm took to decide, over every recorded call of every attempt.

    ``timed``: see :func:`trialplate.result_identity.call_times_us`.
    """
    return {
        name: Latency(p50_us=nearest_rank(found, 0.50), p95_us=nearest_rank(found, 0.95))
        for name, found in call_times_us(view, timed=timed).items()
    }


def draw_failures(
    view: CampaignView,
    suite: Suite,
    outcomes: Sequence[Outcome],
    *,
    workers: int,
    progress: Callable[[int, int], None],
) -> Mapping[str, Media]:
    """Return trial id -> filmstrip of every counted attempt that did not pass, or the reason for none."""
    counted = {row.trial_id: row for row in view.rows}  # rows come in order: the last attempt of a trial counts
    profiles = {arm["name"]: arm["profile"] for arm in view.lock_document["arms"]}
    media: dict[str, Media] = {}
    shots = []
    for outcome in outcomes:
        row = counted[outcome.trial_id]
        if outcome.status == "PASS":
            continue
        shot = _shot(view, row, profiles[row.arm])
        if isinstance(shot, Recorded):
            shots.append(shot)
        else:
            media[row.trial_id] = shot
    progress(0, len(shots))
    strips = filmstrips(shots, suite.name, frames=STRIP_FRAMES, size_px=STRIP_SIZE_PX, workers=workers)
    for done, picture in enumerate(strips, 1):
        media[picture.trial_id] = Media(filmstrip_jpeg=picture.data, reason=picture.reason)
        progress(done, len(shots))
    return media


def draw_attempt(view: CampaignView, trial: str, *, into: Path, fps: int, size_px: int) -> list[Path]:
    """Write TRIAL.mp4 and TRIAL.jpg of the last attempt of a trial. Raises UsageError for an unknown trial."""
    rows = {row.trial_id: row for row in view.rows}
    if not (32 <= size_px <= 2048 and size_px % 4 == 0 and 1 <= fps <= 60):
        raise UsageError(f"expected size 32 to 2048 in steps of 4 and fps 1 to 60, got size {size_px}, fps {fps}")
    if trial not in rows:
        raise UsageError(f"no attempt of trial {trial!r}{nearest(trial, rows)}", code="unknown_trial")
    row = rows[trial]
    profile = next(arm["profile"] for arm in view.lock_document["arms"] if arm["name"] == row.arm)
    shot = _shot(view, row, profile)
    if isinstance(shot, Media):
        raise UsageError(f"trial {trial} cannot be drawn: {shot.reason}", code="no_trace")
    name = view.lock_document["suite"]["name"]
    into.mkdir(parents=True, exist_ok=True)
    files = {f"{trial}.mp4": video(shot, name, fps=fps, size_px=size_px)}
    picture = next(iter(filmstrips([shot], name, frames=8, size_px=size_px // 2)))
    if picture.data is None:
        raise EvidenceError(picture.reason or "no picture")
    files[f"{trial}.jpg"] = picture.data
    for file, data in files.items():
        (into / file).write_bytes(data)
    return [into / file for file in files]


def _shot(view: CampaignView, row: Row, profile: str) -> Recorded | Media:
    if row.trace is None:
        return Media(reason=f"nothing was recorded: {row.fault_message or row.termination}")
    try:
        trace = view.load_trace(row)
    except EvidenceError as error:
        return Media(reason=error.message)
    return Recorded(row, trace, view.lock_document["suite"]["body"], profile)
