"""The suite object: light to import, complete, and consistent with what it names."""

import subprocess
import sys

from trialplate.errors import CONTRACT_FAULTS, DEFAULT_STATUS, HARNESS_FAULTS, POLICY_FAULTS
from trialplate.registry import load_attribute
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.settings import suite_settings


def test_importing_the_suite_loads_no_simulator():
    code = (
        "import sys, trialplate.suites.pick_place as p; p.SUITE.scenarios(); p.SUITE.manifest_document();"
        "from trialplate.suites.pick_place import expected_scene, controls, oracle, scripted;"
        "expected_scene.expected_scene(p.SUITE.scenarios()[0].parameters);"
        "print([m for m in ('mujoco', 'mink', 'daqp', 'scipy', 'trialplate.worlds') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_reference_of_the_suite_can_be_loaded():
    for reference in (SUITE.environment, SUITE.identity, SUITE.verify_scene):
        assert callable(load_attribute(reference))
    for control in SUITE.controls.values():
        policy = load_attribute(control.policy)()
        assert policy.spec().emits == SUITE.action
    assert (SUITE.action.dim, SUITE.action.control_hz) == (7, 20.0)


def test_the_chain_reads_only_columns_that_are_measured():
    assert set(SUITE.chain.columns) <= {column.name for column in SUITE.columns}
    assert SUITE.chain.names == ("reached", "grasped", "lifted", "transported", "released", "stable")


def test_the_fault_table_covers_every_fault_and_calls_only_bad_actions_failures():
    table = {**DEFAULT_STATUS, **SUITE.fault_table}
    assert set(table) == {*POLICY_FAULTS, *CONTRACT_FAULTS, *HARNESS_FAULTS}
    failures = {code for code, status in table.items() if status == "FAIL"}
    assert failures == {"invalid_action", "native_rejected", "call_budget_exhausted", "forbidden_tool"}
    assert set(table.values()) == {"FAIL", "ERROR"}


def test_one_control_step_is_three_interface_steps_of_a_sixtieth_second():
    physics = suite_settings().physics
    assert physics.interface_steps == 3
    assert physics.physics_rate_hz / physics.substeps == 60.0
    assert SUITE.max_steps == 300


def test_an_all_zero_action_is_legal_and_closes_the_gripper():
    gripper = SUITE.action.components[-1]
    assert gripper.gripper is not None and gripper.gripper.open < 0.0 <= gripper.gripper.closed
    assert all(low <= 0.0 <= high for low, high in zip(SUITE.action.low, SUITE.action.high, strict=True))


def test_only_the_named_profile_carries_a_state_estimate():
    standard = {channel.name for channel in SUITE.profiles["standard"].proprio}
    assert standard == {"joint_pos", "finger_pos", "ee_pos", "ee_quat"}
    estimate = {channel.name for channel in SUITE.profiles["object-estimate"].proprio}
    assert estimate - standard == {"object_estimate", "goal_estimate"}


def test_the_scope_note_says_what_is_not_measured():
    for word in ("payload capacity", "grip force", "contact safety", "held-object friction"):
        assert word in SUITE.scope_note
