"""The live world of the skill suite: what it is built of, what it refuses, what it reads back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from trialplate.errors import CaseFault, HarnessFault, PolicyFault, SceneMismatch, UsageError
from trialplate.interfaces import Scenario, SkillEnvironment
from trialplate.suites.atomic_skills import SUITE
from trialplate.suites.atomic_skills.casebook.layout import sealed
from trialplate.suites.atomic_skills.cases import nominal_cases, profile_cases, scenario_of
from trialplate.suites.atomic_skills.channels import case_columns
from trialplate.suites.atomic_skills.expected_scene import expected_scene, verify_scene
from trialplate.suites.atomic_skills.planners.baseline import Baseline
from trialplate.suites.atomic_skills.world import environment as environment_module
from trialplate.suites.atomic_skills.world.environment import AtomicSkills
from trialplate.suites.atomic_skills.world.scene import Composed, compose
from trialplate.suites.atomic_skills.world.trial import Trial


@pytest.fixture(scope="module")
def world() -> AtomicSkills:
    return AtomicSkills()


def first(skill: str) -> dict[str, Any]:
    return copy.deepcopy(nominal_cases()[skill][0])


def changed(scene: Any) -> Any:
    """Return a ``compose`` that changes the scene before it is compiled."""

    def composing(case: Any, *, pictures: bool = False) -> Composed:
        composed = compose(case, pictures=pictures)
        scene(composed.spec)
        return composed

    return composing


@pytest.mark.parametrize("case", profile_cases("smoke"), ids=lambda case: case["skill"])
def test_each_skill_starts_as_its_case_says(world: AtomicSkills, case: dict[str, Any]) -> None:
    evidence = world.reset(scenario_of(case), seed=0)
    assert verify_scene({"parameters": case}, evidence.applied_scene) == []
    assert world.measure().values.shape == (sum(column.dim for column in case_columns(case)),)
    assert np.isfinite(world.measure().values).all()


def test_the_world_is_a_skill_environment(world: AtomicSkills) -> None:
    assert isinstance(world, SkillEnvironment)


def test_every_robot_body_is_compensated_for_gravity_and_no_object_is(world: AtomicSkills) -> None:
    world.reset(scenario_of(first("pick_up")), seed=0)
    model = world.model
    compensated = {model.body(n).name: float(model.body_gravcomp[n]) for n in range(1, model.nbody)}
    assert compensated.pop("box") == 0.0
    assert set(compensated.values()) == {1.0}
    assert all(name.startswith("arm_") for name in compensated)


def test_arm_drives_are_not_limited_and_so_cannot_clip(world: AtomicSkills) -> None:
    world.reset(scenario_of(first("move_joints")), seed=0)
    limited = [bool(world.model.actuator_ctrllimited[n]) for n in range(world.model.nu)]
    assert limited == [False] * 6 + [True]


def test_the_options_of_the_scene_are_those_of_the_suite(world: AtomicSkills) -> None:
    world.reset(scenario_of(first("open_door")), seed=0)
    option = world.model.opt
    assert (option.timestep, option.impratio) == (0.002, 10.0)
    assert option.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    assert option.cone == mujoco.mjtCone.mjCONE_ELLIPTIC


def test_nothing_but_friction_ties_a_hand_to_an_object(world: AtomicSkills, monkeypatch: pytest.MonkeyPatch) -> None:
    def weld(spec: mujoco.MjSpec) -> None:
        equality = spec.add_equality(
            type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1="arm_hand_left_pad", name2="box"
        )
        equality.data[3:10] = [0, 0, 0, 1, 0, 0, 0]
        equality.active = True

    monkeypatch.setattr(environment_module, "compose", changed(weld))
    with pytest.raises(HarnessFault, match=r"^equality_constraint: case pick_up") as caught:
        AtomicSkills().reset(scenario_of(first("pick_up")), seed=0)
    assert caught.value.code == "reset_failed"


def test_friction_that_reaches_only_the_object_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case = first("pick_up")
    case["world"]["friction_scale"] = 0.7

    def undo_pads(spec: mujoco.MjSpec) -> None:
        for geom in spec.geoms:
            if geom.priority:
                geom.friction[0] /= 0.7

    monkeypatch.setattr(environment_module, "compose", changed(undo_pads))
    with pytest.raises(HarnessFault, match=r"^perturbation_not_applied: .*/friction/arm_pads/0"):
        AtomicSkills().reset(scenario_of(case), seed=0)


def test_friction_is_scaled_in_the_contact_itself(world: AtomicSkills) -> None:
    found = {}
    for scale in (1.0, 0.7, 1.3):
        case = first("move_held_object")
        case["world"]["friction_scale"] = scale
        Trial(world, case)
        geoms = world.data.contact.geom
        named = [{world.model.geom(int(geom)).name for geom in pair} for pair in geoms]
        pads = [n for n, pair in enumerate(named) if "target_cube" in pair and any("pad" in name for name in pair)]
        assert pads
        found[scale] = {round(float(world.data.contact.friction[n, 0]), 6) for n in pads}
    assert {round(value * 0.7, 6) for value in found[1.0]} == found[0.7]
    assert {round(value * 1.3, 6) for value in found[1.0]} == found[1.3]


def test_a_mass_that_was_not_applied_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def heavier(spec: mujoco.MjSpec) -> None:
        spec.geom("target_box").mass = 0.2

    monkeypatch.setattr(environment_module, "compose", changed(heavier))
    with pytest.raises(HarnessFault, match=r"^perturbation_not_applied: .*/mass_kg/box is 0.2"):
        AtomicSkills().reset(scenario_of(first("pick_up")), seed=0)


def test_another_timestep_is_another_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(spec: mujoco.MjSpec) -> None:
        spec.option.timestep = 0.004

    monkeypatch.setattr(environment_module, "compose", changed(slower))
    with pytest.raises(SceneMismatch, match="/physics/timestep_s"):
        AtomicSkills().reset(scenario_of(first("press")), seed=0)


def test_a_start_that_touches_the_table_is_refused(world: AtomicSkills) -> None:
    case = first("pick_up")
    case["q_start"][1] += 0.9
    with pytest.raises(HarnessFault, match=r"^initial_contact: case pick_up.* on "):
        world.reset(scenario_of(case), seed=0)


def test_a_start_with_a_closed_hand_is_refused(world: AtomicSkills) -> None:
    case = first("press")
    case["q_start"][6] = 0.0
    with pytest.raises(HarnessFault, match="open grippers"):
        world.reset(scenario_of(case), seed=0)


@pytest.mark.parametrize("bad", ["short", "nan", "opening"])
def test_a_row_that_cannot_be_commanded_is_refused_and_not_clipped(world: AtomicSkills, bad: str) -> None:
    case = first("move_joints")
    world.reset(scenario_of(case), seed=0)
    row = np.array(case["q_start"])
    if bad == "short":
        row = row[:6]
    elif bad == "nan":
        row[2] = np.nan
    else:
        row[6] = 1.0001
    before = world.state_sha256()
    with pytest.raises(PolicyFault) as caught:
        world.step(row)
    assert caught.value.code == "invalid_action"
    assert world.state_sha256() == before


def test_a_joint_target_beyond_its_limit_is_commanded_as_it_is(world: AtomicSkills) -> None:
    case = first("move_joints")
    world.reset(scenario_of(case), seed=0)
    row = np.array(case["q_start"])
    row[2] = 3.5
    world.step(row)
    assert world.data.ctrl[2] == 3.5


def test_rows_last_as_long_as_their_kind(world: AtomicSkills) -> None:
    case = first("move_joints")
    world.reset(scenario_of(case), seed=0)
    row, times = np.array(case["q_start"]), []
    for kind in ("setup", "waypoint", "settle"):
        world.phase(kind)  # type: ignore[arg-type]
        began = world.data.time
        world.step(row)
        times.append(round(world.data.time - began, 9))
    assert times == [0.032, 0.032, 0.004]
    assert world.measure().values[0] == 3.0
    with pytest.raises(UsageError, match="waypoints"):
        world.phase("waypoints")  # type: ignore[arg-type]


def test_an_arm_in_the_table_is_told_with_pair_and_force(world: AtomicSkills) -> None:
    case = first("pick_up")
    world.reset(scenario_of(case), seed=0)
    world.phase("waypoint")
    row = np.array(case["q_start"])
    largest_n = 0.0
    for _ in range(70):
        row[1] += 0.015
        world.step(row)
        largest_n = max(
            largest_n, float(dict(zip(_names(case), world.measure().values, strict=True))["unintended_n"])
        )
    events = world.drain_events()
    assert largest_n > 1.0
    assert events and all(event.kind == "unintended_contact" for event in events)
    assert any("support" in event.detail and event.detail.endswith(" N") for event in events)
    assert world.drain_events() == ()


def _names(case: dict[str, Any]) -> list[str]:
    return [column.name for column in case_columns(case) for _ in range(column.dim)]


def test_the_same_rows_lead_through_the_same_states_in_a_fresh_and_in_a_kept_world(world: AtomicSkills) -> None:
    case = first("slide")
    other = AtomicSkills()
    plan = Baseline().plan(Trial(world, case).seen)
    states = []
    for place in (world, world, other):
        trial = Trial(place, case)
        trial.replay(plan)
        states.append(trial.states)
    assert states[0] == states[1] == states[2]


def test_a_planner_sees_the_state_after_the_set_up_and_no_label(world: AtomicSkills) -> None:
    case = sealed({**first("place"), "axis": "friction", "set": "robustness"})
    trial = Trial(world, case)
    assert (trial.seen.set, trial.seen.domain, trial.seen.axis) == (None, None, None)
    assert trial.seen.poses["cube"][2] > case["poses"]["cube"][2] + 0.1
    assert trial.seen.q_start[6] < 0.9
    assert trial.seen.case_sha256 == case["case_sha256"]


def test_a_set_up_holds_with_both_fingers_to_its_end(world: AtomicSkills) -> None:
    for skill in ("move_held_object", "pour", "coordinated_placement"):
        case = first(skill)
        trial = Trial(world, case)
        where = _names(case).index("pad_force_n")
        pads = np.array(trial.values)[-10:, where : where + 2 * len(case["world"]["arms"])]
        assert (pads >= 0.1).all(), skill


def test_the_suite_is_found_by_its_name_and_names_every_stage() -> None:
    assert SUITE.kind == "skill"
    assert len(SUITE.ladders) == 15
    assert SUITE.columns_of(scenario_of(first("hand_over"))) == case_columns(first("hand_over"))
    assert SUITE.action_of(scenario_of(first("hand_over"))).dim == 14


def test_what_is_expected_of_a_scene_needs_no_simulator() -> None:
    scene = expected_scene(first("open_door"))
    assert scene["asset"]["frictionloss"] == pytest.approx(0.15)
    assert scene["robot_to_object_constraints"] == 0
    assert isinstance(scenario_of(first("press")), Scenario)


@pytest.mark.gl
@pytest.mark.parametrize("skill", ["pick_up", "open_door"])
def test_pictures_for_people_show_the_scene_and_leave_its_state(world: AtomicSkills, skill: str) -> None:
    world.reset(scenario_of(first(skill)), seed=0)
    before = world.state_sha256()
    picture = world.frames([SUITE.camera_for_people], height_px=120, width_px=160)[SUITE.camera_for_people]
    assert picture.shape == (120, 160, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 100
    assert world.state_sha256() == before
    world.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e12])
def test_row_22_a_state_that_is_not_finite_or_explodes_has_diverged(
    world: AtomicSkills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo logs its warnings into the working directory
    case = first("move_joints")
    world.reset(scenario_of(case), seed=0)
    world.phase("waypoint")
    world.data.qvel[0] = value
    with pytest.raises(CaseFault, match=r"mjWARN_BAD\w+ in row 1 ") as caught:
        world.step(np.array(case["q_start"]))
    assert (caught.value.code, caught.value.detail) == ("invalid_case", "replay_diverged")


def test_row_22_another_warning_of_the_simulator_is_a_crash(world: AtomicSkills) -> None:
    case = first("move_joints")
    world.reset(scenario_of(case), seed=0)
    world.phase("waypoint")
    world.data.warning.number[int(mujoco.mjtWarning.mjWARN_CONTACTFULL)] = 1
    with pytest.raises(HarnessFault, match=r"mjWARN_CONTACTFULL") as caught:
        world.step(np.array(case["q_start"]))
    assert caught.value.code == "simulator_crash"
