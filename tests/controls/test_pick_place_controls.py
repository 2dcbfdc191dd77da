"""The exam of the suite: nothing passes by doing nothing, by cheating or by luck; the oracle passes everything."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest

from trialplate.canonical import binary32
from trialplate.errors import DEFAULT_STATUS
from trialplate.interfaces import Scenario, Suite
from trialplate.record import ActionChunk, EpisodeInfo, Stop
from trialplate.registry import load_attribute
from trialplate.run.attempt import Attempt, Limits, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.scoring.ladder import Ladder, climb
from trialplate.spec.channels import PolicySpec
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.channels import SLICES
from trialplate.suites.pick_place.controls import Exploit
from trialplate.suites.pick_place.motion import CLOSE, still
from trialplate.suites.pick_place.oracle import Oracle
from trialplate.suites.pick_place.world.environment import PickPlace
from trialplate.worlds.gl import gl_report

SAMPLE = ("pp-001", "pp-021", "pp-024", "pp-029", "pp-030", "pp-041", "pp-042", "pp-045", "pp-056", "pp-061")
INFO = {"episode": "0" * 32, "instruction": SUITE.instruction, "control_hz": 20.0, "max_steps": SUITE.max_steps}


@dataclass(frozen=True)
class Played:
    attempt: Attempt
    ladder: Ladder

    @property
    def first_failed(self):
        return self.ladder.first_failed_stage


@pytest.fixture(scope="module")
def world():
    environment = PickPlace()
    yield environment
    environment.close()


def _scenario(name: str) -> Scenario:
    return next(scenario for scenario in SUITE.scenarios() if scenario.id == name)


def _play(world, policy, scenario, *, privileged=False, seed=7, replan=8, suite: Suite = SUITE) -> Played:
    info = EpisodeInfo(**INFO, replan_interval=replan, policy_seed=seed)
    limits = Limits(300, 256, replan, call_timeout_s=60.0, first_call_timeout_s=60.0)
    seat = seat_policy(policy, suite, privileged=privileged)
    attempt = run_attempt(seat, world, Setting(suite, scenario, info, seed, limits))
    return Played(attempt, climb(attempt.recorder.trace(), suite.chain))


def _control(name):
    return load_attribute(SUITE.controls[name].policy)()


def _semantics(played):
    return [(stage.name, stage.passed, stage.step) for stage in played.ladder.stages]


@pytest.mark.parametrize("name", SAMPLE)
def test_the_oracle_passes_a_sample_in_good_time(world, name):
    played = _play(world, Oracle(), _scenario(name), privileged=True)
    assert played.ladder.success_final, played.ladder
    assert played.attempt.termination == "policy_stop"
    assert played.attempt.recorder.steps < 170


@pytest.mark.slow
def test_the_oracle_passes_all_68_and_twice_the_same(world):
    first = [_play(world, Oracle(), scenario, privileged=True) for scenario in SUITE.scenarios()]
    assert sum(played.ladder.success_final for played in first) == 68
    assert max(played.attempt.recorder.steps for played in first) < 170
    fresh = PickPlace()
    again = [_play(fresh, Oracle(), scenario, privileged=True) for scenario in SUITE.scenarios()]
    fresh.close()
    for one, other in zip(first, again, strict=True):
        assert _semantics(one) == _semantics(other)
        assert one.attempt.recorder.trace().content_sha256() == other.attempt.recorder.trace().content_sha256()


@pytest.mark.parametrize("replan", [1, 3])
def test_the_oracle_passes_at_other_replan_intervals(world, replan):
    assert _play(world, Oracle(), _scenario("pp-045"), privileged=True, replan=replan).ladder.success_final


def test_the_null_control_passes_nothing_of_a_sample(world):
    for name in SAMPLE:
        played = _play(world, _control("null"), _scenario(name), replan=20)
        assert not played.ladder.success_once and played.first_failed == "reached"
        assert played.attempt.termination == "step_limit" and played.attempt.recorder.steps == 300


@pytest.mark.slow
def test_the_null_control_passes_none_of_68(world):
    passed = [_play(world, _control("null"), s, replan=50).ladder.success_once for s in SUITE.scenarios()]
    assert passed == [False] * 68


def test_random_actions_pass_nothing_of_a_sample_and_stay_legal(world):
    for seed, name in enumerate(SAMPLE):
        played = _play(world, _control("random"), _scenario(name), seed=seed)
        assert not played.ladder.success_once
        assert played.attempt.fault is None
        assert played.attempt.termination in ("step_limit", "control_rejected")


TRICKS = {
    "claims_success": ("policy_stop", None),
    "stops_early": ("policy_stop", None),
    "floods": ("fault", "invalid_action"),
    "sends_six_numbers": ("fault", "invalid_action"),
    "leaves_the_range": ("fault", "invalid_action"),
    "hides_a_nan": ("fault", "invalid_action"),
    "runs_away": ("control_rejected", None),
    "writes_outside": ("policy_stop", None),
}


def test_every_trick_of_the_exploit_is_known():
    seen = set()
    for seed in range(64):
        policy, info = Exploit(), _info(seed)
        policy.reset(info)
        seen.add(policy.trick)
    assert seen == set(TRICKS)


def _info(seed):
    return EpisodeInfo(**INFO, replan_interval=1, policy_seed=seed)


@pytest.mark.parametrize("trick", sorted(TRICKS))
def test_a_trick_passes_nothing_and_breaks_nothing(world, trick):
    termination, fault = TRICKS[trick]
    policy = Exploit(trick=trick)
    played = _play(world, policy, _scenario("pp-001"))
    policy.close()
    assert not played.ladder.success_once
    assert played.attempt.termination == termination
    assert (played.attempt.fault.code if played.attempt.fault else None) == fault
    assert fault is None or {**DEFAULT_STATUS, **SUITE.fault_table}[fault] == "FAIL"
    assert played.attempt.recorder.steps <= 300
    after = _play(world, Oracle(), _scenario("pp-001"), privileged=True)
    assert after.ladder.success_final


def test_nothing_of_a_chunk_runs_when_one_of_its_rows_is_illegal(world):
    played = _play(world, Exploit(trick="hides_a_nan"), _scenario("pp-001"))
    assert played.attempt.recorder.steps == 0
    assert "row 3, ee_delta_pos[2]" in played.attempt.fault.message


class _Holder(Oracle):
    """Carries the block to the goal and never opens."""

    def reset(self, episode, scenario):
        super().reset(episode, scenario)
        self._sequence._phases["open"] = lambda belief: still(8, gripper=CLOSE)


class _Dropper(Oracle):
    """Takes another place for the goal."""

    def reset(self, episode, scenario):
        super().reset(episode, scenario)
        away = -0.09 if self._goal_m[1] > 0 else 0.09
        self._goal_m = self._goal_m + np.array([0.0, away])


class _FromHigh(Oracle):
    """Opens high above the goal instead of setting down."""

    def reset(self, episode, scenario):
        super().reset(episode, scenario)
        self._sequence._phases["lower"] = lambda belief: still(0, gripper=CLOSE)


class _Thrower(Oracle):
    """Opens at full speed while it passes into the goal region."""

    def act(self, observation, measurement):
        offset_m = measurement.values[SLICES["goal_offset_m"]][0]
        if self._sequence.phase == "carry" and offset_m < 0.12:
            hand_m = measurement.values[SLICES["commanded_pos_m"]][:2]
            way = self._goal_m - hand_m
            ahead = way / max(np.linalg.norm(way), 1e-9)
            self._thrown = getattr(self, "_thrown", 0) + 1
            gripper = -1.0 if self._thrown > 2 else 1.0
            return ActionChunk(np.array([[*(ahead * 0.9), 0.0, 0.0, 0.0, 0.0, gripper]]))
        return super().act(observation, measurement)


class _Pusher:
    """Goes behind the block with closed fingers and pushes it into the goal."""

    def spec(self):
        return PolicySpec(emits=SUITE.action)

    def reset(self, episode, scenario):
        self._goal_m = np.array(scenario.parameters["goal"]["pos_m"][:2])
        self._phase = 0

    def act(self, observation, measurement):
        hand_m = measurement.values[SLICES["commanded_pos_m"]]
        block_m = measurement.values[SLICES["object_pos_m"]][:2]
        way = (self._goal_m - block_m) / np.linalg.norm(self._goal_m - block_m)
        if self._phase < 2:
            target = np.array([*(block_m - 0.07 * way), (0.15, 0.02)[self._phase]])
            if np.linalg.norm(target - hand_m) < 0.002:
                self._phase += 1
        if self._phase == 2:
            if measurement.values[SLICES["goal_offset_m"]][0] < 0.02:
                return Stop("pushed")
            target = np.array([*(hand_m[:2] + 0.008 * way), 0.02])
        step = target - hand_m
        step = step * min(1.0, 0.03 / max(np.linalg.norm(step), 1e-9))
        return ActionChunk(np.array([[*(step / 0.05), 0.0, 0.0, 0.0, 1.0]]))

    def close(self):
        """Nothing to release."""


@pytest.mark.parametrize(
    ("cheat", "stage"),
    [
        (_Holder, "released"),
        (_Dropper, "transported"),
        (_FromHigh, "released"),
        (_Thrower, "released"),
        (_Pusher, "grasped"),
    ],
)
def test_a_shortcut_fails_at_the_stage_it_skips(world, cheat, stage):
    played = _play(world, cheat(), _scenario("pp-001"), privileged=True)
    assert not played.ladder.success_once
    assert played.first_failed == stage
    offset_m = played.attempt.recorder.trace().measured["goal_offset_m"]
    if cheat in (_Holder, _Pusher, _FromHigh):
        assert offset_m[-1] <= 0.05  # the block is in the goal, and that alone earns nothing


def _changed(scenario, change):
    parameters = copy.deepcopy(dict(scenario.parameters))
    change(parameters)
    return Scenario(scenario.id, scenario.family, scenario.domain, scenario.variant, parameters)


def test_a_disturbance_that_carries_the_block_into_the_goal_earns_nothing(world):
    push = {"start_step": 5, "duration_steps": 4, "force_n": [0.0, -0.5, 0.0]}
    pushed = _changed(_scenario("pp-042"), lambda p: p["disturbances"].append(push))
    rest = _play(world, _control("null"), pushed).attempt.recorder.trace().measured["object_pos_m"][-1]
    goal = [binary32(float(rest[0])), binary32(float(rest[1]))]
    there = _changed(pushed, lambda p: p["goal"]["pos_m"].__setitem__(slice(0, 2), goal))
    played = _play(world, _control("null"), there)
    trace = played.attempt.recorder.trace()
    assert trace.measured["goal_offset_m"][0] > 0.05 and trace.measured["goal_offset_m"][-1] < 0.001
    assert not played.ladder.success_once and played.first_failed == "reached"


def test_a_block_that_slides_out_after_the_release_fails_at_stable(world):
    slippery = _scenario("pp-042")
    honest = _play(world, Oracle(), slippery, privileged=True)
    released = {stage.name: stage.step for stage in honest.ladder.stages}["released"]
    push = {"start_step": released + 6, "duration_steps": 4, "force_n": [0.0, 0.5, 0.0]}
    pushed = _changed(slippery, lambda p: p["disturbances"].append(push))
    played = _play(world, Oracle(), pushed, privileged=True)
    assert played.attempt.recorder.trace().measured["goal_offset_m"][-1] > 0.05
    assert not played.ladder.success_once and played.first_failed == "stable"


@pytest.fixture(scope="module")
def _gl():
    info = gl_report()
    if info.renderer is None:
        pytest.skip(str(info.reason))


@pytest.mark.gl
@pytest.mark.usefixtures("_gl")
def test_the_scripted_arm_finds_its_way_by_its_cameras_alone(world):
    for name in ("pp-001", "pp-021", "pp-036", "pp-067"):
        assert _play(world, _control("scripted"), _scenario(name), replan=12).ladder.success_final


@pytest.mark.gl
@pytest.mark.usefixtures("_gl")
def test_without_the_wrist_camera_an_occluded_block_is_not_seen(world):
    assert _play(world, _control("scripted-primary"), _scenario("pp-001"), replan=12).ladder.success_final
    hidden = _play(world, _control("scripted-primary"), _scenario("pp-030"), replan=12)
    assert hidden.first_failed == "reached" and hidden.attempt.events[-1].detail == "no red block in sight"
