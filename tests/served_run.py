"""A run of a few lines behind a real service: what the tests of the service drive."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np

from trialplate.errors import RECOVERABLE_FAULTS, PolicyFault, TrialplateError
from trialplate.interfaces import Scenario
from trialplate.policies.service.actor import ServedActor
from trialplate.policies.service.desk import Counts, Desk
from trialplate.policies.service.http import service_app
from trialplate.policies.service.listener import Listener
from trialplate.policies.service.rendezvous import Rendezvous
from trialplate.policies.setting import ActorSetting
from trialplate.policies.validation import validate_chunk
from trialplate.record import Ack, ActionChunk, EpisodeInfo, Issue, Measurement, Observation, Remaining
from trialplate.spec.channels import ActionComponent, ActionSpec, CameraSpec, ObservationSpec, PolicySpec, ProprioSpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration

TOKEN = "5e" * 32
PROTOCOL = "trialplate.policy/1"
SCENARIO = Scenario("secret-scenario", "secret-family", "d", "v", {"goal": [1.0]})


def setting(arm: str = "stub", *, height: int = 2, encoding: str = "raw", **budgets: Any) -> ActorSetting:
    """Return the terms of a policy with one camera, three joints and two numbers to send."""
    camera = CameraSpec(
        name="front", height=height, width=height, layout="hwc", color="rgb", orientation="upright",
        encoding=encoding,  # type: ignore[arg-type]
    )  # fmt: skip
    joints = ProprioSpec(name="joint_pos", dim=3, unit="rad", frame="joint", rotation=None, gripper=None)
    observation = ObservationSpec(cameras=(camera,), proprio=(joints,), meta=("step_index",))
    component = ActionComponent(
        name="joints", dim=2, kind="joint_position", mode="delta", delta_base="step", unit="rad", frame="joint",
        rotation=None, gripper=None, low=(-1.0, -1.0), high=(1.0, 1.0),
    )  # fmt: skip
    action = ActionSpec(control_hz=20.0, dim=2, components=(component,))
    registration = Registration()
    return ActorSetting(
        arm, PolicySpec(expects=observation, emits=action), observation, action, registration,
        registration.sha256(), replan_interval=2, max_steps=6, budgets=Budgets(**budgets),
    )  # fmt: skip


@dataclass
class ServedRun:
    """A service on a free port with ``episodes`` planned attempts of six steps behind it; a context manager."""

    terms: ActorSetting = field(default_factory=setting)
    episodes: int = 2
    executing_s: float = 0.0
    ending_s: float = 0.0
    others: Mapping[str, ActorSetting] = field(default_factory=dict)
    faults: list[TrialplateError] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)
    started: int = 0
    looks: int = 0
    hurry: threading.Event = field(default_factory=threading.Event)
    """Set at the end: whatever is being carried out then is done."""

    def __enter__(self) -> Self:
        self.table = Rendezvous(idle_timeout_s=20)
        arms = {self.terms.arm: self.terms, **self.others}
        self.desk = Desk(self.table, arms, counts=self._counts, results=self._results)
        app = service_app(self.desk, token=TOKEN)
        self.listener = Listener(app, "127.0.0.1:0", allow_remote=False, max_frame_bytes=self.desk.decision_bytes)
        self.listener.start()
        self.address = self.listener.address
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.hurry.set()
        self.table.stop("the test is over")
        self.thread.join(20)
        self.listener.stop()
        assert not self.thread.is_alive()

    # -- the run ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        for number in range(self.episodes):
            if not self.table.wait_for_next(f"{number:06d}"):
                return
            self.started += 1
            registered = self.desk.registered[self.terms.arm].sha256()
            actor = ServedActor(self.table, replace(self.terms, registration_sha256=registered))
            info = EpisodeInfo(f"{number:032x}", "touch the button", 20.0, 2, self.terms.max_steps, 7)
            try:
                actor.reset(info, SCENARIO)
                self._episode(actor, info, registered)
            except TrialplateError as fault:
                self.faults.append(fault)
                actor.end("error")
        self.table.no_more("complete")

    def _episode(self, actor: ServedActor, info: EpisodeInfo, registered: str) -> None:
        step, calls, issue = 0, 0, None
        present: Observation | None = None
        while step < info.max_steps:
            if present is None or issue is None:
                present = self._look(info, registered, step)
            present = replace(present, call_index=calls, issue=issue)
            calls += 1
            fault: TrialplateError | None = None
            rows = np.empty((0, 2))
            decision = None
            try:
                decision = actor.ask(present, lambda: Measurement(np.zeros(1))).decision
                if isinstance(decision, ActionChunk):
                    rows = validate_chunk(decision.vectors, self.terms.action, max_rows=256)
            except TrialplateError as error:
                fault = error
            self.hurry.wait(self.executing_s)
            issue = None
            if fault is not None:
                issue = Issue(fault.code, getattr(fault, "row", None), None, None)
                told = self.terms.budgets.invalid_action_handling == "feedback" and fault.code in RECOVERABLE_FAULTS
                told = told and isinstance(fault, PolicyFault) and calls < (self.terms.budgets.max_calls or 99)
                actor.acknowledge(_ack(info, present, 0, 0, issue, "observation" if told else "episode_end"))
                if not told:
                    raise fault
                continue
            if not isinstance(decision, ActionChunk):
                actor.acknowledge(_ack(info, present, 0, 0, None, "episode_end"))
                actor.end("policy_stop")
                return
            executed = min(len(rows), info.replan_interval, info.max_steps - step)
            step += executed
            self.executed.append(executed)
            over = step >= info.max_steps
            actor.acknowledge(
                _ack(info, present, len(rows), executed, None, "episode_end" if over else "observation")
            )
        self.hurry.wait(self.ending_s)
        actor.end("step_limit")

    def _look(self, info: EpisodeInfo, registered: str, step: int) -> Observation:
        self.looks += 1
        camera = self.terms.observation.cameras[0]
        picture = np.random.default_rng(step).integers(0, 255, (camera.height, camera.width, 3), dtype=np.uint8)
        return Observation(
            info.episode, 0, secrets.token_hex(16), registered, step, info.instruction,
            images={"front": picture}, proprio={"joint_pos": np.array([0.1, 0.2, 0.3])},
            remaining=Remaining(info.max_steps - step, None), meta={"step_index": step},
        )  # fmt: skip

    def _counts(self) -> Counts:
        return Counts(self.episodes, self.started, self.started)

    def _results(self) -> list[dict[str, Any]]:
        return [{"attempt": "000000", "episode": None, "status": "FAIL", "reason": "step_limit", "code": None}]

    # -- a driver --------------------------------------------------------------------------------------------------

    def client(self, *, token: str | None = TOKEN) -> httpx.Client:
        """Return an HTTP client, with the management token unless told otherwise."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=20, trust_env=False)

    def begin(self, driver: httpx.Client) -> str:
        """Say hello, register and start an episode; return its id."""
        driver.post("/v1/hello", json=HELLO).raise_for_status()
        driver.post("/v1/register", json=REGISTER).raise_for_status()
        started = driver.post("/v1/episodes").raise_for_status().json()
        return str(started["episode"])


HELLO: dict[str, Any] = {
    "protocol": PROTOCOL, "type": "hello", "role": "driver", "software": "test 1", "encodings": ["json"],
    "max_message_bytes": 2**26,
}  # fmt: skip
REGISTER: dict[str, Any] = {"protocol": PROTOCOL, "type": "register", "registration": {}, "policy_spec": None}


def decision(
    observation: Mapping[str, Any], vectors: Any = ((0.5, -0.5), (0.25, 0.0)), **changed: Any
) -> dict[str, Any]:
    """Return a decision to an observation."""
    echoed = {name: observation[name] for name in ("episode", "call_index", "observation_id", "registration")}
    chunk = {"vectors": [list(row) for row in vectors]}
    plain = {
        "protocol": PROTOCOL, "type": "decision", **echoed, "chunk": chunk, "usage": None,
        "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered",
    }  # fmt: skip
    return {**plain, **changed}


def _ack(info: EpisodeInfo, shown: Observation, proposed: int, executed: int, issue: Issue | None, next_: Any) -> Ack:
    dropped = max(0, proposed - info.replan_interval)
    return Ack(
        info.episode, shown.call_index, issue is None, proposed, executed, dropped, proposed - dropped - executed,
        issue, next_,
    )  # fmt: skip
