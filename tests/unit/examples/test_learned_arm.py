"""The learned arm: always legal, honest about what it learnt on, and forgetful between episodes."""

import hashlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import trialplate as tp
from trialplate.canonical import document_sha256
from trialplate.errors import LockError, UsageError
from trialplate.interfaces import Scenario
from trialplate.policies.in_process import load_policy
from trialplate.policies.matching import compare
from trialplate.policies.validation import validate_chunk
from trialplate.record import ActionChunk, EpisodeInfo, Observation, Remaining, Stop
from trialplate.run.attempt import Limits, Setting
from trialplate.run.loop import run_attempt
from trialplate.run.seating import seat_policy
from trialplate.scoring.ladder import climb
from trialplate.suites.pick_place import SUITE
from trialplate.suites.pick_place.scenarios import MANIFEST_PATH, SUITE_SEED, generate

EXAMPLES = Path(tp.__file__).parent / "examples"
FOLDER = EXAMPLES / "learned_arm"
CHECKPOINTS = ("weights-short.npz", "weights-long.npz")
MODULES = ("policy", "teacher", "scenes", "demonstrations", "measure")
INFO = EpisodeInfo("0" * 32, SUITE.instruction, 20.0, 4, 300, 7)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of the example as its own scripts do."""
    monkeypatch.syspath_prepend(FOLDER)

    def module(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield module
    for name in MODULES:
        sys.modules.pop(name, None)


def _arm(checkpoint: str = "weights-long.npz") -> Any:
    return load_policy("policy.py:LearnedArm", base=FOLDER, weights=(checkpoint,))


def _seen(stream: np.random.Generator, *, step: int, spread_m: float = 0.3) -> Observation:
    proprio = {
        "finger_pos": stream.uniform(0.0, 0.04, 2),
        "ee_pos": stream.normal(0.3, spread_m, 3),
        "object_estimate": stream.normal(0.3, spread_m, 3),
        "goal_estimate": stream.normal(0.3, spread_m, 3),
    }
    return Observation(
        INFO.episode, step // 4, "a" * 32, "b" * 64, step, None, {}, proprio, Remaining(300 - step, None)
    )


def _rows(arm: Any, observation: Observation) -> np.ndarray:
    decision = arm.act(observation)
    assert isinstance(decision, ActionChunk)
    return np.asarray(decision.vectors)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize("spread_m", [0.02, 0.3, 1000.0])
def test_every_chunk_is_legal_whatever_the_arm_sees(checkpoint: str, spread_m: float) -> None:
    arm, stream = _arm(checkpoint), np.random.default_rng(3)
    chunks = 0
    for _ in range(20):
        arm.reset(INFO)
        for step in range(0, 40, 4):
            decision = arm.act(_seen(stream, step=step, spread_m=spread_m))
            if isinstance(decision, ActionChunk):
                assert validate_chunk(decision.vectors, SUITE.action, max_rows=8).shape == (8, 7)
                chunks += 1
    assert chunks > 100


def test_it_declares_only_channels_of_the_profile_and_no_camera() -> None:
    spec = _arm().spec()
    offered = {channel.name for channel in SUITE.profiles["object-estimate"].proprio}
    assert set(spec.expects.proprio_names) <= offered
    assert spec.expects.cameras == ()
    assert (spec.emits.dim, spec.emits.control_hz, spec.chunk_length) == (7, 20.0, 8)
    assert spec.emits.sha256() != SUITE.action.sha256()  # the suite says in prose what each component means
    fits = compare(SUITE.profiles["object-estimate"], SUITE.action, spec, replan_interval=4)
    assert not fits.differences


def test_reset_clears_what_was_remembered() -> None:
    first = _seen(np.random.default_rng(1), step=0, spread_m=0.1)
    arm, stream = _arm(), np.random.default_rng(2)
    arm.reset(INFO)
    fresh = _rows(arm, first)
    for step in range(4, 24, 4):
        arm.act(_seen(stream, step=step, spread_m=0.1))
    remembered = _rows(arm, first)
    arm.reset(INFO)
    assert (_rows(arm, first) == fresh).all()
    assert not np.allclose(remembered, fresh)


def test_loading_the_policy_loads_neither_torch_nor_a_simulator() -> None:
    code = (
        "import sys; from pathlib import Path; from trialplate.policies.in_process import load_policy;"
        f"load_policy('policy.py:LearnedArm', base=Path({str(FOLDER)!r}), weights=('weights-long.npz',));"
        "print(sorted({'torch', 'mujoco', 'mink'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with np.load(FOLDER / "weights-long.npz") as stored:
        arrays = dict(stored)
    np.savez(tmp_path / "small.npz", **{**arrays, "sizes": np.array([24, 256, 256, 256, 32])})
    del arrays["mean"]
    np.savez(tmp_path / "partial.npz", **arrays)
    for name, message in (("small.npz", "maps 24 to 32 numbers, expected 25"), ("partial.npz", "has no mean")):
        with pytest.raises(UsageError, match=message):
            load_policy("policy.py:LearnedArm", base=FOLDER, weights=(str(tmp_path / name),))
    with pytest.raises(UsageError, match="exactly one checkpoint, got 2"):
        load_policy("policy.py:LearnedArm", base=FOLDER, weights=CHECKPOINTS)
    with pytest.raises(LockError):
        load_policy("policy.py:LearnedArm", base=FOLDER)


def test_the_checkpoints_are_small_and_have_the_digests_that_are_written_down() -> None:
    promised = dict(reversed(line.split()) for line in (FOLDER / "SHA256SUMS").read_text().splitlines())
    assert set(promised) == set(CHECKPOINTS)
    for name, digest in promised.items():
        data = (FOLDER / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest
        assert len(data) < 2_000_000


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_what_a_checkpoint_learnt_on_is_none_of_the_68_scenarios(example: Any, checkpoint: str) -> None:
    metadata = _arm(checkpoint).metadata
    recipe = metadata["recipe"]
    learnt: list[Scenario] = []
    for seed in recipe["scene_seeds"]:
        learnt += example("scenes").drawn_scenes((seed,))[: recipe["scenes_per_round"]]
    digests = sorted(document_sha256(dict(scene.parameters)) for scene in learnt)
    assert document_sha256(digests) == metadata["training_scenes_sha256"]
    assert len(learnt) == metadata["training_scenes"] == metadata["episodes"]

    measured = {document_sha256(dict(scenario.parameters)) for scenario in SUITE.scenarios()}
    assert len(measured) == 68
    assert not measured & set(digests)
    assert metadata["shared_digests"] == 0
    assert metadata["manifest_sha256"] == hashlib.sha256(MANIFEST_PATH.read_bytes()).hexdigest()

    nearest_m = min(np.linalg.norm(_places(learnt)[:, None] - _places(SUITE.scenarios()), axis=-1).ravel())
    assert nearest_m == pytest.approx(metadata["nearest_m"], abs=1e-9)
    assert nearest_m >= 0.01
    assert metadata["disjoint"] is True


def _places(scenes: Any) -> np.ndarray:
    """Start and goal of every scene as one point (n, 4)."""
    parts = [(scene.parameters["block"]["pos_m"][:2], scene.parameters["goal"]["pos_m"][:2]) for scene in scenes]
    return np.array(parts).reshape(-1, 4)


def test_a_measured_scene_among_those_to_learn_on_is_noticed(example: Any) -> None:
    scenes = example("scenes")
    honest = generate(1001)[:10]
    assert scenes.disjointness(honest).shared_digests == 0
    smuggled = scenes.disjointness((*honest, SUITE.scenarios()[40]))
    assert (smuggled.shared_digests, smuggled.nearest_m, smuggled.holds) == (1, 0.0, False)
    with pytest.raises(UsageError, match="measured, never learnt"):
        scenes.drawn_scenes((SUITE_SEED,))


def test_the_held_out_scenes_are_neither_learnt_on_nor_measured(example: Any) -> None:
    scenes = example("scenes")
    assert not set(scenes.HELD_OUT_SEEDS) & set(scenes.TRAINING_SEEDS)
    assert scenes.disjointness(scenes.drawn_scenes(scenes.HELD_OUT_SEEDS)).holds


def test_the_demonstrator_places_the_block_and_its_rows_are_legal(example: Any) -> None:
    demonstrations = example("demonstrations")
    scenes = example("scenes").drawn_scenes((9001,))[::9]
    shown = demonstrations.collect(scenes, lambda situation, rows: rows, seed=5)
    assert shown.placed == shown.episodes == len(scenes)
    assert shown.labels.shape == (len(shown.features), 8, 4)
    assert np.abs(shown.labels).max() <= 1.0
    assert set(np.unique(shown.labels[..., 3])) == {-1.0, 1.0}
    assert shown.sha256() == demonstrations.collect(scenes, lambda situation, rows: rows, seed=5).sha256()


def test_on_a_held_out_scene_it_places_the_block_waits_and_stops(example: Any) -> None:
    environment = example("demonstrations").PickPlace(profile="object-estimate")
    scene = example("scenes").drawn_scenes((9001,))[0]
    arm = _arm()
    seat = seat_policy(arm, SUITE, profile="object-estimate")
    limits = Limits(300, max_chunk_length=8, replan_interval=4, call_timeout_s=60.0, first_call_timeout_s=60.0)
    attempt = run_attempt(seat, environment, Setting(SUITE, scene, INFO, 9, limits))
    environment.close()
    trace = attempt.recorder.trace()
    assert attempt.termination == "policy_stop"
    assert trace is not None
    ladder = climb(trace, SUITE.chain)
    assert ladder.success_final
    released = next(stage.step for stage in ladder.stages if stage.name == "released")
    assert released is not None
    assert attempt.recorder.steps - released >= 15


def test_it_never_stops_before_it_has_held_something() -> None:
    arm, stream = _arm(), np.random.default_rng(4)
    arm.reset(INFO)
    for step in range(0, 120, 4):
        seen = _seen(stream, step=step)
        still = {**seen.proprio, "finger_pos": np.array([0.04, 0.04]), "object_estimate": np.array([0.5, 0.1, 0.02])}
        still["goal_estimate"] = still["object_estimate"]
        decision = arm.act(replace(seen, proprio=still, step_index=step))
        assert not isinstance(decision, Stop)


@pytest.mark.parametrize("name", ["protocol.toml", "compare_checkpoints.toml", "four_arms.toml"])
def test_the_protocols_that_use_it_are_valid(name: str) -> None:
    loaded = tp.load_protocol(EXAMPLES / "pick_place" / name)
    learned = [arm for arm in loaded.protocol.arms if "learned_arm" in arm.policy]
    assert learned
    assert all(arm.profile == "object-estimate" for arm in learned)
    assert {arm.replan_interval for arm in learned} == ({4, 8} if name == "four_arms.toml" else {4})
