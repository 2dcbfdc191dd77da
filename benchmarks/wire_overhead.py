"""What validation and recording cost a decision, in process: the control loop against asking and stepping alone.

The bare loop senses, freezes what it sensed, asks the policy and steps the world. The control loop also checks the
pictures and the rows, keeps the tallies, measures and digests every state, takes the digest of every look, and
records every exchange in full, until the file is whole. The policy computes for about 2 ms on its own core and leaves
the interpreter alone meanwhile, as one in compiled code does: packing and digests run beside it, and what they leave
on the path of a decision is counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

from figures import Figure, main
from wire_policy import Dummy
from wire_world import MAX_STEPS, SUITE, WireWorld

from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, Remaining
from trialplate.run.attempt import Limits, Seat, Setting
from trialplate.run.frames import frozen
from trialplate.run.loop import run_attempt
from trialplate.run.memory import keep_freed_memory
from trialplate.run.seating import seat_policy

NAME = "validation and recording of a decision"
TARGET_US = 150.0
ROUNDS, QUICK_ROUNDS, QUICK_STEPS = 9, 2, 30
TURNS_OF_THE_HASH = 8000
PROFILE = "pictures"


class Slow(Dummy):
    """Computes, outside of the interpreter and with hardly any memory."""

    def act(self, observation: Observation) -> Decision:
        """Answer after a while."""
        hashlib.pbkdf2_hmac("sha256", b"", b"", TURNS_OF_THE_HASH)
        return super().act(observation)


def bare(steps: int) -> float:
    """Return the seconds of an episode of which nothing is kept."""
    world, seat, setting = WireWorld(body="own", profile=PROFILE), _seat(), _setting(steps)
    seat.actor.reset(setting.info, setting.scenario)
    world.reset(setting.scenario, seed=0)
    start_s = perf_counter()
    for step in range(steps):
        sensed = world.sense(seat.cameras, proprio=seat.proprio)
        images = {name: frozen(image) for name, image in sensed.images.items()}
        proprio = {name: frozen(values) for name, values in sensed.proprio.items()}
        look = Observation(
            setting.info.episode, step, "0" * 32, seat.registration_sha256, step, setting.info.instruction, images,
            proprio, Remaining(steps - step, None),
        )  # fmt: skip
        decision = seat.actor.ask(look, world.measure).decision
        assert isinstance(decision, ActionChunk)
        world.step(decision.vectors[0])
    return perf_counter() - start_s


def recorded(steps: int) -> float:
    """Return the seconds of the same episode in the control loop, recorded in full."""
    world, seat = WireWorld(body="own", profile=PROFILE), _seat()
    setting = _setting(steps)
    start_s = perf_counter()
    attempt = run_attempt(seat, world, setting)
    data = attempt.exchanges.finish()
    spent_s = perf_counter() - start_s
    assert attempt.termination == "step_limit" and data is not None
    return spent_s


def _setting(steps: int) -> Setting:
    info = EpisodeInfo("a" * 32, SUITE.instruction, SUITE.action.control_hz, 1, steps, 0)
    return Setting(SUITE, SUITE.scenarios()[0], info, 0, Limits(steps, 256, 1, 10.0, 10.0), "detailed")


def _seat() -> Seat:
    return seat_policy(Slow(), SUITE, profile=PROFILE)


def measure(quick: bool) -> list[Figure]:
    """Let the two loops take turns; the figure is the median over the rounds of the difference within a round."""
    steps, rounds = (QUICK_STEPS, QUICK_ROUNDS) if quick else (MAX_STEPS, ROUNDS)
    keep_freed_memory()
    loops: list[Callable[[], float]] = [partial(recorded, steps), partial(bare, steps)]
    for loop in loops:
        loop()
    extra_us, bare_us = [], []
    for n in range(rounds):
        spent = [loop() for loop in (loops if n % 2 == 0 else loops[::-1])]
        full_s, plain_s = spent if n % 2 == 0 else spent[::-1]
        extra_us.append(1e6 * (full_s - plain_s) / steps)
        bare_us.append(1e6 * plain_s / steps)
    note = (
        f"two pictures and eight numbers, detailed recording, the end of the file included; the bare loop takes "
        f"{median(bare_us):.0f} us a decision, nearly all of it in the policy"
    )
    return [Figure(NAME, median(extra_us), "<", TARGET_US, "us", note)]


if __name__ == "__main__":
    main(measure, __doc__ or "")
