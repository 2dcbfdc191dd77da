"""Closed-loop success on held-out scenes, with the harness's own loop and stage chain: ``python measure.py FILE``.

The 68 scenarios of the suite are not touched here; they are measured by a campaign, and only at the end.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from policy import LearnedArm
from scenes import HELD_OUT_SEEDS, drawn_scenes

from trialplate.interfaces import Scenario
from trialplate.record import EpisodeInfo
from trialplate.run.loop import Limits, Seat, run_attempt
from trialplate.scoring.ladder import climb
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.channels import OBJECT_ESTIMATE
from trialplate.suites.pick_place.world.environment import PickPlace

REPLAN_ROWS = 4


def measure(weights: Path, scenes: Sequence[Scenario], *, seed: int) -> Counter[str]:
    """Return how often each end was met: ``passed``, ``control_rejected``, or the first stage not passed."""
    arm = LearnedArm(weights=(weights,))
    seat = Seat(policy=arm, spec=arm.spec(), privileged=False, registration_sha256="0" * 64)
    limits = Limits(SUITE.max_steps, max_chunk_length=8, replan_interval=REPLAN_ROWS, call_timeout_s=10.0,
                    first_call_timeout_s=10.0)  # fmt: skip
    environment = PickPlace(profile=OBJECT_ESTIMATE)
    ends: Counter[str] = Counter()
    for number, scene in enumerate(scenes):
        info = EpisodeInfo(f"{number:032x}", SUITE.instruction, 20.0, REPLAN_ROWS, SUITE.max_steps, number)
        attempt = run_attempt(
            seat, environment, suite=SUITE, scenario=scene, info=info, env_seed=seed + number, limits=limits
        )
        if attempt.fault is not None:
            raise attempt.fault
        trace = attempt.recorder.trace()
        assert trace is not None
        ladder = climb(trace, SUITE.chain)
        failed = "passed" if ladder.success_final else ladder.first_failed_stage
        ends[attempt.termination if attempt.termination == "control_rejected" else str(failed)] += 1
    environment.close()
    return ends


def main() -> None:
    """Measure one checkpoint on the held-out scenes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    weights = parser.parse_args().weights
    scenes = drawn_scenes(HELD_OUT_SEEDS)
    ends = measure(weights, scenes, seed=77_000)
    print(f"{weights.name}: {ends['passed']}/{len(scenes)} held-out scenes passed; {dict(ends)}")


if __name__ == "__main__":
    main()
