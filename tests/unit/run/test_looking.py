"""A look has the same digest whether it is taken beside the policy, while its answer is on the way, or after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trialplate.errors import PolicyFault
from trialplate.policies.in_process import InProcessActor
from trialplate.record import ActionChunk, EpisodeInfo, Measurement, Observation, PolicyDecision
from trialplate.registry import load_suite
from trialplate.run.attempt import Attempt, Limits, Seat, Setting
from trialplate.run.frames import frames_digest
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.spec.channels import PolicySpec
from trialplate.store.exchanges import read_exchanges
from trialplate.testing.reach import ReachWorld

SUITE = load_suite("toy-reach")
PROFILE = "standard"
STILL = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
STEPS = 5


class Still:
    """Does nothing, and looks at the camera."""

    def spec(self) -> PolicySpec:
        return PolicySpec(expects=SUITE.profiles[PROFILE], emits=SUITE.action)

    def reset(self, episode: EpisodeInfo) -> None:
        pass

    def act(self, observation: Observation) -> Any:
        return ActionChunk(STILL)

    def close(self) -> None:
        pass


class Waits(InProcessActor):
    """Lets the loop work while it waits. ``fails``: the wire is lost before there is time for it."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(Still(), privileged=False, genuine=lambda: False)
        self.worked, self._fails = 0, fails

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        raise AssertionError("an actor that waits is asked so that it can")

    def ask_meanwhile(self, observation: Observation, work: Callable[[], None]) -> PolicyDecision:
        if self._fails:
            raise PolicyFault("no answer", code="policy_timeout")
        work()
        self.worked += 1
        return PolicyDecision(ActionChunk(STILL))


def played(actor: Any | None = None) -> Attempt:
    plain = seat_policy(Still(), SUITE, profile=PROFILE)
    seat = Seat(
        actor or plain.actor, plain.expects, plain.action, plain.adapters, plain.cameras, plain.proprio,
        plain.registration_sha256,
    )  # fmt: skip
    info = EpisodeInfo("a" * 32, SUITE.instruction, 20.0, 1, SUITE.max_steps, 7)
    setting = Setting(SUITE, SUITE.scenarios()[0], info, 1, Limits(STEPS, 256, 1, 10.0, 10.0), "detailed")
    return run_attempt(seat, ReachWorld(body="own", profile=PROFILE), setting)


def digests(attempt: Attempt) -> list[str | None]:
    return [call["frames_sha256"] for call in attempt.recorder.calls]


def test_digests_taken_while_an_answer_is_on_its_way_are_those_taken_beside_the_policy() -> None:
    actor = Waits()
    waiting, beside = played(actor), played()
    assert actor.worked == STEPS
    assert digests(waiting) == digests(beside)
    assert len(digests(waiting)) == STEPS


def test_they_are_the_digests_of_the_pictures_that_were_kept() -> None:
    attempt = played(Waits())
    kept = read_exchanges(attempt.exchanges.finish() or b"")
    assert [frames_digest(call.images) for call in kept] == digests(attempt)
    assert [call.frames_sha256 for call in kept] == digests(attempt)


def test_a_look_that_never_arrived_has_its_digest_too() -> None:
    attempt = played(Waits(fails=True))
    assert digests(attempt) == digests(played())[:1]
