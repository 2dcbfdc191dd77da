"""One of every message that this package writes, as the tests of messages and schemas need them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trialplate.policies import messages as write
from trialplate.record import (
    Ack,
    ActionChunk,
    EpisodeInfo,
    History,
    Issue,
    Observation,
    PolicyDecision,
    Remaining,
    Stop,
    Usage,
)
from trialplate.spec.channels import (
    ActionComponent,
    ActionSpec,
    CameraSpec,
    GripperRange,
    HistorySpec,
    ObservationSpec,
    PolicySpec,
    ProprioSpec,
)
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import ModelIdentity, Registration

EPISODE, LOOK, IDENTITY = "5a" * 16, "0f" * 16, "86" * 32
UPRIGHT: dict[str, Any] = {"color": "rgb", "orientation": "upright"}
SPEC = ObservationSpec(
    instruction=True,
    cameras=(
        CameraSpec(name="front", height=2, width=4, layout="hwc", **UPRIGHT),
        CameraSpec(name="hand", height=2, width=5, layout="chw", encoding="png", **UPRIGHT),
    ),
    proprio=(ProprioSpec(name="q", dim=3, unit="rad", frame="joint", rotation=None, gripper=None),),
    history=HistorySpec(frames=2, actions=2),
    meta=("step_index", "sim_time_s", "control_hz", "remaining_steps", "remaining_calls"),
)
ACTION = ActionSpec(
    control_hz=20,
    dim=7,
    components=(
        ActionComponent(
            name="ee_delta_pos", dim=3, kind="ee_position", mode="delta", delta_base="step", unit="m", frame="base",
            rotation=None, gripper=None, low=(-0.05,) * 3, high=(0.05,) * 3,
        ),
        ActionComponent(
            name="ee_delta_rot", dim=3, kind="ee_rotation", mode="delta", delta_base="step", unit="rad", frame="base",
            rotation="axis_angle_pi", gripper=None, low=(-0.5,) * 3, high=(0.5,) * 3,
        ),
        ActionComponent(
            name="gripper", dim=1, kind="gripper", mode="absolute", delta_base=None, unit="1", frame=None,
            rotation=None, gripper=GripperRange(closed=0, open=1), low=(0,), high=(1,),
        ),
    ),
)  # fmt: skip
INFO = EpisodeInfo(EPISODE, "put it there", 20.0, 8, 200, 100921260)
PEOPLE = Registration(kind="model", model=ModelIdentity(name="arm", revision="3"))
POLICY = PolicySpec(expects=SPEC, emits=ACTION, chunk_length=8, state="none", max_batch_size=4)
BUDGETS = Budgets()


def observation(*, call_index: int = 3, issue: Issue | None = None, calls: int | None = None) -> Observation:
    """Return a look with everything that a look can have."""
    front = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    hand = np.arange(30, dtype=np.uint8).reshape(3, 2, 5)
    return Observation(
        episode=EPISODE,
        call_index=call_index,
        observation_id=LOOK,
        registration_sha256=IDENTITY,
        step_index=16,
        instruction="put it there",
        images={"front": front, "hand": hand},
        proprio={"q": np.array([0.1, -1e-300, 2 / 3])},
        remaining=Remaining(184, calls),
        history=History(
            {"front": (None, front + 1), "hand": (None, hand + 1)}, (None, np.array([0.1] * 6 + [1.0]))
        ),
        meta={
            "step_index": 16, "sim_time_s": 0.8, "control_hz": 20.0, "remaining_steps": 184, "remaining_calls": calls
        },
        issue=issue,
    )  # fmt: skip


def bare_observation() -> Observation:
    """Return a look with nothing that a look can do without."""
    return Observation(EPISODE, 0, LOOK, IDENTITY, 0, None, {}, {}, Remaining(1, 5))


ISSUE = Issue("invalid_action", 3, "ee_delta_rot[1]", "in [-0.5, 0.5]")
CHUNK = ActionChunk([[0.0, 0, 0.05, 0, 0, 0, 1]])
TERMS = write.terms_part(SPEC, ACTION, replan_interval=8, budgets=BUDGETS, max_steps=200)


def _decisions() -> list[PolicyDecision]:
    metered = Usage(1, 812, 64, None)
    return [
        PolicyDecision(CHUNK),
        PolicyDecision(ActionChunk(np.zeros((2, 7))), latency_ms=1.5, batch_size=4),
        PolicyDecision(ActionChunk(np.zeros((1, 7), np.float32)), usage=metered),
        PolicyDecision(Stop("done"), usage=Usage(), latency_ms_reason="withheld"),
        PolicyDecision(Stop()),
    ]


def written() -> list[tuple[str, dict[str, Any]]]:
    """Return (name of the schema, message) for one or more of every message."""
    ack = Ack(EPISODE, 3, False, 5, 0, 0, 0, ISSUE, "observation")
    limited = Budgets(max_calls=5, policy_time_limit_s=9.5, invalid_action_handling="feedback")
    terms = write.terms_part(SPEC, ACTION, replan_interval=8, budgets=limited, max_steps=200)
    driver = write.driver_hello_message(encodings=["json"], max_message_bytes=2**26)
    attempts: list[dict[str, Any]] = [
        {"attempt": "0001", "episode": EPISODE, "status": "FAIL", "reason": "step_limit", "code": None}
    ]
    found: list[tuple[str, dict[str, Any]]] = [
        ("observation", write.observation_message(observation(), spec=SPEC)),
        ("observation", write.observation_message(observation(issue=ISSUE, calls=4))),
        ("observation", write.observation_message(bare_observation())),
        *(("decision", write.decision_message(decision, observation())) for decision in _decisions()),
        ("ack", write.ack_message(ack)),
        ("ack", write.ack_message(Ack(EPISODE, 3, True, 30, 8, 22, 0, None, "episode_end"))),
        ("episode_end", write.episode_end_message(EPISODE, "policy_stop")),
        *(("error", write.error_message(code, "what happened")) for code in write.CLASS_OF),
        ("reset", write.reset_message(INFO)),
        ("ready", write.ready_message(EPISODE)),
        ("close", write.close_message()),
        ("close", write.close_message(EPISODE)),
        ("hello_driver", driver),
        ("hello_policy", write.policy_hello_message(POLICY, PEOPLE, encodings=["msgpack"], max_message_bytes=2**26)),
        ("hello_policy", write.policy_hello_message(None, PEOPLE, encodings=["msgpack"], max_message_bytes=2**26)),
        (
            "hello_service",
            write.service_hello_message(TERMS, encodings=["json", "msgpack"], max_message_bytes=2**26),
        ),
        ("register", write.register_message(PEOPLE, POLICY)),
        ("register", write.register_message(PEOPLE, None)),
        ("registered", write.registered_message(IDENTITY, exploratory=True)),
        ("episode", write.episode_message(EPISODE)),
        ("episode", write.no_episode_message("complete")),
        ("spec", write.spec_message(INFO, IDENTITY, terms=terms)),
        ("status", write.status_message("running", planned=40, initiated=12, ended=11)),
        ("results", write.results_message(attempts)),
        ("request", write.request_message("observe")),
    ]
    return [*found, ("request", {**write.request_message("start"), "id": 7})]
