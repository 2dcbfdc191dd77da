"""The controls that must pass nothing: silence, noise, and a cheat.

Source: fair pick-and-place protocol, section 7.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trialplate.record import ActionChunk, Decision, EpisodeInfo, Observation, Stop
from trialplate.spec.channels import PolicySpec
from trialplate.suites.pick_place.channels import action_spec, standard_profile
from trialplate.suites.pick_place.settings import suite_settings

ACTION_DIM = 7
CLAIM = "success: the red block is on the green target, all stages passed, score 1.0"


class Null:
    """All zeros, through the same path as everybody. An all-zero action also closes the gripper."""

    def spec(self) -> PolicySpec:
        """It looks at nothing."""
        return PolicySpec(emits=action_spec(suite_settings()))

    def reset(self, episode: EpisodeInfo) -> None:
        """Send as many rows a call as will be executed."""
        self._rows = np.zeros((episode.replan_interval, ACTION_DIM))

    def act(self, observation: Observation) -> Decision:
        """Return zeros."""
        return ActionChunk(self._rows.copy())

    def close(self) -> None:
        """Nothing to release."""


class Random:
    """Uniform actions over the whole legal range, from the policy's own seed."""

    def spec(self) -> PolicySpec:
        """It looks at nothing."""
        return PolicySpec(emits=action_spec(suite_settings()))

    def reset(self, episode: EpisodeInfo) -> None:
        """Seed a new stream."""
        self._stream = np.random.Generator(np.random.PCG64(episode.policy_seed))
        self._rows = episode.replan_interval

    def act(self, observation: Observation) -> Decision:
        """Return rows of noise in [-1, 1]."""
        return ActionChunk(self._stream.uniform(-1.0, 1.0, (self._rows, ACTION_DIM)))

    def close(self) -> None:
        """Nothing to release."""


class Exploit:
    """A cheat: another trick each episode, chosen by the policy's seed. None of them may pass or break a run.

    ``trick`` pins one of ``TRICKS`` for a test.
    """

    def __init__(self, *, trick: str | None = None) -> None:
        self._pinned = trick
        self._tricks: dict[str, Callable[[Observation], Decision]] = {
            "claims_success": self._claim,
            "stops_early": self._stop_early,
            "floods": self._flood,
            "sends_six_numbers": self._six_numbers,
            "leaves_the_range": self._leave_range,
            "hides_a_nan": self._hide_nan,
            "runs_away": self._run_away,
            "writes_outside": self._write_outside,
        }
        self._folder: Path | None = None

    def spec(self) -> PolicySpec:
        """It declares one channel, to have something to scribble on."""
        return PolicySpec(expects=standard_profile().only("ee_pos"), emits=action_spec(suite_settings()))

    def reset(self, episode: EpisodeInfo) -> None:
        """Choose a trick, and ask for a thousand times the budget."""
        names = sorted(self._tricks)
        self.trick = self._pinned if self._pinned is not None else names[episode.policy_seed % len(names)]
        self._chosen = self._tricks[self.trick]
        self._wipe()
        object.__setattr__(episode, "max_steps", episode.max_steps * 1000)

    def act(self, observation: Observation) -> Decision:
        """Scribble on what was handed over, then play the trick."""
        for reading in observation.proprio.values():
            with contextlib.suppress(ValueError):  # a read-only array
                reading[:] = 0.0
        return self._chosen(observation)

    def close(self) -> None:
        """Remove what was written."""
        self._wipe()

    def _claim(self, observation: Observation) -> Decision:
        return Stop(CLAIM)

    def _stop_early(self, observation: Observation) -> Decision:
        return ActionChunk(np.zeros((1, ACTION_DIM))) if observation.step_index < 5 else Stop(CLAIM)

    def _flood(self, observation: Observation) -> Decision:
        return ActionChunk(np.zeros((100_000, ACTION_DIM)))

    def _six_numbers(self, observation: Observation) -> Decision:
        return ActionChunk([[0.0] * (ACTION_DIM - 1)])

    def _leave_range(self, observation: Observation) -> Decision:
        rows = np.zeros((4, ACTION_DIM))
        rows[2, 0] = 1.0001
        return ActionChunk(rows)

    def _hide_nan(self, observation: Observation) -> Decision:
        rows = np.zeros((8, ACTION_DIM))
        rows[3, 2] = math.nan
        return ActionChunk(rows)

    def _run_away(self, observation: Observation) -> Decision:
        return ActionChunk([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, -1.0]])

    def _write_outside(self, observation: Observation) -> Decision:
        """Leave a forged result where nobody asked for one."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="trialplate-exploit-"))
        forged = {"status": "PASS", "success_final": True, "claim": CLAIM}
        (self._folder / "row.json").write_text(json.dumps(forged), encoding="utf-8")
        return self._stop_early(observation)

    def _wipe(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
