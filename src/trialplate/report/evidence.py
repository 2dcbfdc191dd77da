"""The end of the page: every attempt that did not pass, and the identity of everything that was locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trialplate.claims import wording as say
from trialplate.record import Outcome, Status
from trialplate.report.data import Media, ReportData
from trialplate.report.headline import arm_facts, is_control
from trialplate.report.text import data_uri, leaves

_STATUS_ORDER = (Status.FAIL, Status.ERROR, Status.EXCLUDED)


def gallery(data: ReportData) -> list[dict[str, Any]]:
    """Return the attempts that did not pass: arm -> groups by first failed stage (or by status and reason)."""
    facts = arm_facts(data)
    order = [name for name, _ in data.suite.stages]
    arms = []
    for name in sorted(facts, key=lambda name: is_control(facts[name])):
        mine = [outcome for outcome in data.outcomes if outcome.arm == name]
        missed = [outcome for outcome in mine if outcome.status is not Status.PASS]
        groups: dict[tuple[int, int, str], list[Outcome]] = {}
        for outcome in sorted(missed, key=lambda o: (o.scenario, o.repeat)):
            groups.setdefault(_group_key(outcome, order), []).append(outcome)
        arms.append(
            {
                "name": name,
                "control": is_control(facts[name]),
                "total": len(missed),
                "nothing": say.sentence("nothing_failed", arm=name) if mine and not missed else None,
                "groups": [_group(groups[key], data) for key in sorted(groups)],
            }
        )
    return arms


def _group_key(outcome: Outcome, order: Sequence[str]) -> tuple[int, int, str]:
    rank = _STATUS_ORDER.index(outcome.status)
    if _at_stage(outcome) and outcome.first_failed_stage in order:
        return rank, order.index(outcome.first_failed_stage), ""
    return rank, len(order), outcome.reason


def _at_stage(outcome: Outcome) -> bool:
    """Whether an attempt came to an end by itself and missed a stage; else a fault or a refusal ended it."""
    return outcome.reason == "stage_not_passed" and outcome.first_failed_stage is not None


def _group(outcomes: Sequence[Outcome], data: ReportData) -> dict[str, Any]:
    first = outcomes[0]
    meanings = dict(data.suite.stages)
    failed = _at_stage(first)
    return {
        "status": first.status.value,
        "title": first.first_failed_stage if failed else first.reason,
        "by": "at" if failed else "by",
        "meaning": meanings.get(str(first.first_failed_stage)) if failed else say.OUTCOME_REASONS.get(first.reason),
        "cards": [_card(outcome, data.media.get(outcome.trial_id)) for outcome in outcomes],
    }


def _card(outcome: Outcome, media: Media | None) -> dict[str, Any]:
    pictures = media or Media(reason="none was handed to the report")
    strip, video = pictures.filmstrip_jpeg, pictures.video_mp4
    missing = None
    if strip is None and video is None:
        missing = say.sentence("no_media", reason=pictures.reason or "none was drawn")
    return {
        "outcome": outcome,
        "reason": say.OUTCOME_REASONS.get(outcome.reason, outcome.reason),
        "strip": None if strip is None else data_uri(strip, kind="image/jpeg"),
        "video": None if video is None else data_uri(video, kind="video/mp4"),
        "missing": missing,
    }


def identity(data: ReportData) -> dict[str, Any]:
    """Return the digests and facts of the lock, section by section; packages and arms as tables of their own."""
    lock = data.lock
    protocol = {key: value for key, value in lock["protocol"].items() if key not in ("arms", "question")}
    suite = {key: value for key, value in lock["suite"].items() if key not in ("chain", "columns", "fault_table")}
    head = {
        "lock_sha256": data.lock_sha256,
        "protocol_sha256": lock["protocol_sha256"],
        "created_utc": lock["created_utc"],
        "planned trials": len(lock["schedule"]),
    }
    sections = [
        ("Lock", head),
        ("Evidence", data.identity),
        ("Harness", lock["harness"]),
        ("Suite", suite),
        ("Simulator", lock["simulator"]),
        ("Machine", lock["machine"]),
        ("Protocol", protocol),
        ("Fault table", lock["suite"]["fault_table"]),
    ]
    return {
        "sections": [(title, leaves(section)) for title, section in sections if section],
        "arms": [(arm["name"], leaves({key: arm[key] for key in arm if key != "name"})) for arm in lock["arms"]],
        "amendments": [
            say.sentence(
                "amendment",
                n=said.n,
                kind=said.kind.replace("_", " "),
                at=f"{said.at[:19].replace('T', ' ')} UTC",
                attempts_seen=said.attempts_seen,
                reason=said.reason.rstrip("."),
                text=said.text,
            )
            for said in data.amendments
        ],
        "packages": [(name, *item.values()) for name, item in lock["distributions"].items()],
    }
