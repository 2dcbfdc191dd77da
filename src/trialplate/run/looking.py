"""What a policy is shown: one look at the world, shown again unchanged after a rejected chunk."""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from trialplate.interfaces import Environment, WaitingActor
from trialplate.record import Ack, Exchange, History, Issue, Measurement, Observation, PolicyDecision, Remaining
from trialplate.run.attempt import Answer, Attempt, Seat, Setting
from trialplate.run.frames import PendingDigest, frozen
from trialplate.run.health import check_frames, check_numbers

Images = Mapping[str, NDArray[np.uint8]]


class Looking:
    """The looks of one attempt. ``shown`` is the present observation; nobody can write into what it shows."""

    shown: Observation
    digest: PendingDigest
    """Of the pictures that are shown; it may still be on its way."""

    def __init__(self, attempt: Attempt, seat: Seat, environment: Environment, setting: Setting) -> None:
        self._attempt, self._seat, self._environment, self._setting = attempt, seat, environment, setting
        self._secret, self._looks = secrets.token_bytes(32), 0
        self._detailed = setting.recording == "detailed"
        self._waiting = seat.actor if isinstance(seat.actor, WaitingActor) else None
        history = seat.expects.history
        self._frames: deque[Images] = deque(maxlen=history.frames if history else 0)
        self._present: tuple[str, Images, Mapping[str, NDArray[np.float64]], History | None] | None = None

    def look(self, *, issue: Issue | None) -> Observation:
        """Return the next observation: a new look, or the one before with another call index and its issue."""
        if self._present is None:
            self._present = self._new_look()
        observation_id, images, proprio, history = self._present
        attempt, info, expects = self._attempt, self._setting.info, self._seat.expects
        steps, calls = attempt.recorder.steps, attempt.recorder.call_count
        limits = self._setting.limits
        remaining = Remaining(limits.max_steps - steps, limits.max_calls - calls if limits.max_calls else None)
        self.shown = Observation(
            episode=info.episode,
            call_index=calls,
            observation_id=observation_id,
            registration_sha256=self._seat.registration_sha256,
            step_index=steps,
            instruction=info.instruction if expects.instruction else None,
            images=images,
            proprio=proprio,
            remaining=remaining,
            history=history,
            meta=self._meta(remaining) if expects.meta else {},
            issue=issue,
        )
        return self.shown

    def ask(self, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Ask once about what is shown; its digest is taken meanwhile where the answer is waited for."""
        if self._waiting is not None:
            return self._waiting.ask_meanwhile(self.shown, self.digest.compute)
        return self._seat.actor.ask(self.shown, measure)

    def forget(self, *, unless_same: bool) -> None:
        """Make the next observation a new look, unless nothing of the rejected chunk ran."""
        if not unless_same and self._present is not None:
            self._frames.append(self._present[1])
            self._present = None

    def exchange(self, answer: Answer, ack: Ack) -> Exchange:
        """Return the record of one call, but for the digest of its pictures."""
        images = self.shown.images if self._detailed else {}
        return Exchange(self.shown, answer.kind(ack), answer.sent, answer.reply, ack, None, images)

    def _new_look(self) -> tuple[str, Images, Mapping[str, NDArray[np.float64]], History | None]:
        seat = self._seat
        sensed = self._environment.sense(seat.cameras, proprio=seat.proprio)
        check_frames(sensed.images, step=self._attempt.recorder.steps)
        check_numbers(sensed.proprio, step=self._attempt.recorder.steps)
        images, proprio = sensed.images, sensed.proprio
        if not seat.adapters.empty:
            images, proprio = seat.adapters.observe(images, proprio)
            images = {name: images[name] for name in seat.expects.camera_names}
            proprio = {name: proprio[name] for name in seat.expects.proprio_names}
        images = {name: frozen(image) for name, image in images.items()}
        proprio = {name: frozen(values) for name, values in proprio.items()}
        self.digest = PendingDigest(images)
        if self._waiting is None and not self._detailed:  # else it is taken while waiting, or where they are packed
            self._attempt.hasher.begin(self.digest)
        return self._new_id(), images, proprio, self._history(images)

    def _new_id(self) -> str:
        """Return 32 hex digits that nobody can foresee, without a call into the machine for each of them."""
        self._looks += 1
        return hashlib.blake2b(self._looks.to_bytes(8, "big"), key=self._secret, digest_size=16).hexdigest()

    def _history(self, images: Images) -> History | None:
        wanted = self._seat.expects.history
        if wanted is None:
            return None
        looks: list[Images | None] = [*[None] * (wanted.frames - len(self._frames)), *self._frames]
        rows = list(self._attempt.executed)[-wanted.actions :] if wanted.actions else []
        past = (*[None] * (wanted.actions - len(rows)), *rows)
        return History({name: tuple(look[name] if look else None for look in looks) for name in images}, past)

    def _meta(self, remaining: Remaining) -> dict[str, float | None]:
        steps, control_hz = self._attempt.recorder.steps, self._setting.info.control_hz
        known: dict[str, float | None] = {
            "step_index": steps,
            "sim_time_s": steps / control_hz,
            "control_hz": control_hz,
            "remaining_steps": remaining.steps,
            "remaining_calls": remaining.calls,
        }
        return {name: known[name] for name in self._seat.expects.meta}
