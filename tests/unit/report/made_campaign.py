"""A campaign that never ran: 68 scenarios, three arms and three controls, with outcomes drawn from fixed shares."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from trialplate.claims import Claim, judge_claims
from trialplate.record import Conduct, Outcome, StageResult, Status
from trialplate.report import Latency, Media, ReportData, SuiteFacts
from trialplate.scoring.summary import analyse_outcomes
from trialplate.spec.plan import AnalysisPlan, ClaimRule, ErrorsRule, ThresholdClaim
from trialplate.spec.registration import AdapterIdentity, Registration
from trialplate.spec.stages import Condition, StageChain, StageSpec

STAGES = ("reached", "grasped", "lifted", "transported", "released", "stable")
MEANINGS = (
    "fingers at the block",
    "gripper closed on it",
    "raised while grasped",
    "over the goal",
    "let go",
    "at rest",
)
VARIANTS = (
    ("nominal", "standard_objects", 7), ("nominal", "standard_lighting", 7), ("nominal", "centered_placement", 6),
    ("edge", "small_objects", 3), ("edge", "heavy_objects", 3), ("edge", "edge_placement", 3),
    ("edge", "occluded_objects", 3), ("edge", "transparent_objects", 3), ("adversarial", "low_lighting", 3),
    ("adversarial", "cluttered_scene", 3), ("adversarial", "slippery_surface", 2),
    ("adversarial", "moving_disturbance", 2), ("domain_randomization", "lighting", 10),
    ("domain_randomization", "object_colour", 5), ("domain_randomization", "position", 5),
    ("domain_randomization", "camera", 3),
)  # fmt: skip
SCENARIOS = tuple((domain, variant) for domain, variant, count in VARIANTS for _ in range(count))
ROLES = {
    "vla-small": "arm",
    "vla-large": "arm",
    "diffusion-7": "arm",
    "null": "null",
    "random": "random",
    "oracle": "oracle",
}
POLICIES = {
    "vla-small": "ws://127.0.0.1:8000",
    "vla-large": "openpi+ws://10.0.0.7:8000",
    "diffusion-7": "policies/diffusion.py:make",
}
SHARES = {"vla-small": 0.72, "vla-large": 0.9, "diffusion-7": 0.6, "null": 0.0, "random": 0.02, "oracle": 1.0}


def chain() -> StageChain:
    goal = Condition(column="goal_offset_m", op="le", limit=0.05, unit="m")
    slow = Condition(column="object_speed_m_s", op="le", limit=0.02, unit="m/s")
    near = Condition(column="finger_object_distance_m", op="le", limit=0.04, unit="m")
    lift = Condition(column="object_lift_m", op="ge", limit=0.05, unit="m")
    kinds: tuple[dict[str, Any], ...] = (
        {"when": (near,)},
        {"attachment": "held"},
        {"attachment": "held", "when": (lift,)},
        {"attachment": "held", "when": (goal,)},
        {"attachment": "released", "when": (goal,), "keep": (goal,)},
        {"attachment": "free", "when": (goal, slow), "hold_steps": 10},
    )
    return StageChain(
        attached="attached",
        opening=Condition(column="gripper_command", op="lt", limit=0.0, unit="1"),
        start_forbidden=(goal,),
        stages=tuple(
            StageSpec(name=name, meaning=meaning, **kind)
            for name, meaning, kind in zip(STAGES, MEANINGS, kinds, strict=True)
        ),
    )


def outcome(arm: str, number: int, *, climbed: int, ordinal: int, **changes: Any) -> Outcome:
    domain, variant = SCENARIOS[number]
    passed = climbed == len(STAGES)
    values: dict[str, Any] = {
        "trial_id": f"{ordinal:06d}", "arm": arm, "scenario": f"pp-{number + 1:03d}",
        "family": f"pp-{number + 1:03d}",
        "domain": domain, "variant": variant, "repeat": 0, "status": Status.PASS if passed else Status.FAIL,
        "reason": "chain_complete" if passed else "stage_not_passed",
        "stages": tuple(
            StageResult(name, n < climbed, 31 + 24 * n if n < climbed else None) for n, name in enumerate(STAGES)
        ),
        "success_once": passed, "success_final": passed,
        "first_failed_stage": None if passed else STAGES[climbed],
        "termination": "policy_stop" if passed else "step_limit", "control_steps": 212 if passed else 300,
        "trace_content_sha256": "e" * 64, "initial_state_sha256": f"{number:064x}",
    }  # fmt: skip
    values |= {"conduct": conduct(arm, steps=changes.get("control_steps", values["control_steps"]))}
    return Outcome(**(values | changes))


def conduct(arm: str, *, steps: int, rejected: int = 0) -> Conduct:
    """What an attempt of so many control steps looks like on the wire; only the served models are metered."""
    calls = -(-steps // 8) + rejected
    usage = {"requests": calls, "input_tokens": 900 * calls, "output_tokens": 40 * calls, "cost": None}
    return Conduct(
        calls=calls, calls_executed=calls - rejected, calls_rejected=rejected, short_chunks=1,
        rows_proposed=50 * calls, rows_executed=steps, rows_dropped=42 * calls, rows_discarded=8 * calls - steps,
        usage=usage if arm == "vla-small" else None, usage_reason=None if arm == "vla-small" else "not_metered",
        echo={"vla-small": "policy", "vla-large": "client"}.get(arm, "harness"),
        action_low=(-0.8, -1.0), action_high=(0.9, -1.0 if arm == "diffusion-7" else 1.0),
    )  # fmt: skip


def errored(made: Outcome, reason: str = "policy_exception", note: str = "shape (7,) expected, got (6,)") -> Outcome:
    return replace(
        made, status=Status.ERROR, reason=reason, stages=(), success_once=None, success_final=None,
        conduct=conduct(made.arm, steps=40, rejected=1),
        first_failed_stage=None, termination="fault", control_steps=40, notes=(note,),
    )  # fmt: skip


@cache
def outcomes() -> tuple[Outcome, ...]:
    """Every trial of every arm; ``diffusion-7`` has three errored episodes, ``vla-small`` two refused poses."""
    draws = np.random.default_rng(20260926)
    made = []
    for arm, share in SHARES.items():
        for number, (domain, _) in enumerate(SCENARIOS):
            chance = share if domain == "nominal" or share in (0.0, 1.0) else share - 0.12
            climbed = len(STAGES) if draws.random() < chance else int(draws.integers(0, len(STAGES)))
            if arm == "null":
                climbed = 0
            made.append(outcome(arm, number, climbed=climbed, ordinal=len(made)))
    for index in (140, 151, 170):
        made[index] = errored(made[index])
    for index in (12, 31):
        note = "step 96: the object was let go before 'transported'; lost: grasped, lifted"
        made[index] = outcome(
            "vla-small", index, climbed=3, ordinal=index, reason="control_rejected", termination="control_rejected",
            control_steps=121, notes=(note,),
        )  # fmt: skip
    return tuple(made)


@cache
def strip(seed: int, *, frames: int = 6, size_px: int = 128) -> bytes:
    """A filmstrip of coloured ramps with a block that moves."""
    height, width = size_px + 14, frames * (size_px + 2) - 2
    picture = np.full((height, width, 3), 255, dtype=np.uint8)
    ramp = np.linspace(90, 190, size_px).astype(np.uint8)
    for n in range(frames):
        left = n * (size_px + 2)
        picture[:size_px, left : left + size_px] = ramp[:, None, None]
        x, y = left + 14 + 13 * n, 70 - 6 * ((n + seed) % 4)
        picture[y : y + 20, x : x + 20] = (190, 40, 35)
        picture[92:112, left + 92 : left + 118] = (60, 140, 80)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="JPEG", quality=80)
    return buffer.getvalue()


def wire_identity(name: str, role: str, number: int) -> dict[str, Any]:
    """What a lock says about identity and wire: a served model, one with adapters, and programs of this process."""
    found: dict[str, Any] = {"kind": "diagnostic" if role != "arm" else "model"}
    adapters: list[AdapterIdentity] = []
    if role == "arm":
        found |= {
            "model": {"name": "example-vla", "revision": "2026-08"},
            "checkpoint": {"ref": f"{name}/step-40000", "sha256": f"{number}" * 64, "verified": name == "vla-small"},
            "normalization": {"stats_sha256": "3" * 64, "mode": "quantile"},
            "policy_source_reason": "withheld",
            "roles": [{"role": "planner", "name": "example-llm", "memory": "episode"}] if name == "vla-large" else [],
        }
    if name == "diffusion-7":
        params = {"target": "proprio:ee_quat", "from": "quat_wxyz", "to": "quat_xyzw"}
        adapters = [
            AdapterIdentity(name=kind, version="1", params=params, source_sha256="4" * 64)
            for kind in ("quat_reorder", "quat_reorder", "gripper_affine")
        ]
        found["adapters"] = [adapter.model_dump(mode="json") for adapter in adapters]
    registration = Registration.model_validate_json(json.dumps(found))
    return {
        "registration": registration.model_dump(mode="json"),
        "registration_sha256": registration.sha256(),
        "adapters": [adapter.model_dump(mode="json") for adapter in adapters],
        "declares": {
            "expects": {
                "instruction": role == "arm", "cameras": [{"name": "wrist"}] if role == "arm" else [],
                "proprio": [{"name": "joint_pos"}], "meta": [],
            },
            "chunk_length": 50 if role == "arm" else None,
            "declared_by": "operator" if name == "vla-large" else "policy",
        },
        "contract": {
            "observation_sha256": "5" * 64, "action_sha256": "6" * 64, "policy_spec_sha256": "7" * 64,
            "unused_channels": ["camera:primary"] if role == "arm" else [],
        },
    }  # fmt: skip


def lock_document(roles: Mapping[str, str] = ROLES, **protocol: Any) -> dict[str, Any]:
    """A lock as ``trialplate.lock`` writes it, with made digests."""
    registered = {
        "schema": "trialplate.protocol/1", "name": "pick-place-01",
        "question": "Does vla-large place the red block on the green target in at least four of five scenarios?",
        "run_class": "confirmatory",
        "suite": {"name": "pick-place", "version": "1", "body": "own", "repeats": 1, "plan": "custom"},
        "arms": [], "budgets": {"max_steps": None, "call_timeout_s": 180.0}, "schedule": {"order": "shuffled"},
        "fault_table": {}, "analysis": {"confidence": 0.95, "denominator": "measured"}, "claims": [],
    }  # fmt: skip
    arms = [
        {
            "name": name, "policy": f"control:{name}" if role != "arm" else POLICIES.get(name, "a.b:c"),
            "reference": f"made.policies:{name}", "role": role, "privileged": role == "oracle",
            "profile": "rgb-two-cameras" if name != "diffusion-7" else "rgb-wrist", "options": {},
            "weights": [] if role != "arm" else [{"path": "w.safetensors", "size_bytes": 10, "sha256": "a" * 64}],
            "replan_interval": 8, **wire_identity(name, role, n),
            "source": {"module": "made", "source_sha256": "b" * 64, "git_revision": None,
                       "git_revision_reason": "not_a_checkout", "dirty": None},
        }
        for n, (name, role) in enumerate(roles.items())
    ]  # fmt: skip
    return {
        "schema": "trialplate.lock/1", "created_utc": "2026-09-26T08:15:00.123456Z", "base": "campaign",
        "protocol": registered | protocol, "protocol_sha256": "c" * 64,
        "schedule": [{"trial_id": f"{n:06d}"} for n in range(len(SCENARIOS) * len(roles))],
        "harness": {"version": "0.1.0", "files": 96, "sha256": "d" * 64},
        "suite": {
            "name": "pick-place", "version": "1", "body": "own", "instruction": "pick up the red block",
            "sources": {"files": 24, "sha256": "e" * 64}, "manifest_sha256": "f" * 64, "scenarios": len(SCENARIOS),
            "chain": chain().model_dump(mode="json"), "columns": [], "max_steps": 300,
            "fault_table": {"policy_exception": "ERROR", "interrupted": "ERROR"}, "errors_rule": "void",
        },
        "distributions": {name: {"version": "4.0.0", "record_sha256": "1" * 64} for name in ("mujoco", "numpy")},
        "machine": {"processor": "Example CPU @ 2.50GHz", "architecture": "x86_64", "python": "3.11.9"},
        "simulator": {"name": "mujoco", "version": "4.0.0", "library_sha256": "2" * 64},
        "arms": arms,
    }  # fmt: skip


SUITE = SuiteFacts(
    name="pick-place",
    version="1",
    summary="Assisted pick and place of one block, 68 scenarios in four domains.",
    scope_note="It does not measure payload capacity, grip force, contact safety or held-object friction.",
    instruction="pick up the red block and place it on the green target",
    stages=tuple(zip(STAGES, MEANINGS, strict=True)),
    profiles={
        "rgb-two-cameras": "camera primary 256x256, camera wrist 256x256, joint_pos (rad)",
        "rgb-wrist": "camera wrist 256x256, joint_pos (rad)",
    },
    max_steps=300,
    control_hz=20.0,
)


def report_data(
    made: Sequence[Outcome] | None = None,
    *,
    roles: Mapping[str, str] = ROLES,
    rules: Sequence[ClaimRule] = (),
    blockers: Sequence[str] = (),
    comparisons: Sequence[tuple[str, str]] = (),
    errors_rule: ErrorsRule = "void",
    pictures: bool = True,
    **changes: Any,
) -> ReportData:
    """The whole input of a report."""
    chosen = [o for o in (outcomes() if made is None else made) if o.arm in roles]
    analysis = analyse_outcomes(
        chosen, planned=dict.fromkeys(roles, len(SCENARIOS)), stages=STAGES, errors_rule=errors_rule,
        plan=AnalysisPlan(comparisons=tuple(comparisons), multiplicity="none"),
        tested=[name for name, role in roles.items() if role == "arm"],
    )  # fmt: skip
    claims: tuple[Claim, ...] = judge_claims(analysis, rules, blockers)
    media = {
        o.trial_id: Media(reason="nothing was recorded") if o.status is Status.ERROR else
        Media(filmstrip_jpeg=strip(n % 5))
        for n, o in enumerate(chosen)
        if o.status is not Status.PASS
    }  # fmt: skip
    values: dict[str, Any] = {
        "lock": lock_document(roles), "lock_sha256": "9f" * 32, "suite": SUITE, "analysis": analysis,
        "claims": claims, "outcomes": tuple(chosen), "media": media if pictures else {},
        "identity": {"run": "ab" * 16, "journal records": 817, "journal head": "cd" * 32},
        "latency": {name: Latency(p50_us=38_200 + n, p95_us=1_204_000) for n, name in enumerate(roles)},
    }  # fmt: skip
    return ReportData(**(values | changes))


def full_report_data() -> ReportData:
    """Three arms (one in state ERROR, one with another profile), three controls, two claims, two comparisons."""
    rules = [
        ThresholdClaim(name="reaches-80", kind="threshold_rate", arm="vla-large", rate=0.7),
        ThresholdClaim(name="small-reaches-80", kind="threshold_rate", arm="vla-small", rate=0.8),
        ThresholdClaim(name="diffusion-reaches-50", kind="threshold_rate", arm="diffusion-7", rate=0.5),
    ]
    return report_data(rules=rules, comparisons=[("vla-large", "vla-small"), ("vla-large", "diffusion-7")])
