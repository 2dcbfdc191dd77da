"""Pictures of recorded attempts: the recorded actions are simulated again, and every state is compared.

A picture is for people and proves nothing by itself; a replay whose states differ from the recording is refused.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import EvidenceError, TrialplateError
from trialplate.interfaces import Environment, Scenario
from trialplate.record import Row, Trace
from trialplate.registry import load_attribute, load_suite

Frame = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Shot:
    """What to draw of one attempt: ``every`` control steps one frame, of ``height_px`` x ``width_px``."""

    row: Row
    trace: Trace
    body: str
    profile: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn attempt, or the reason why there is none."""

    trial_id: str
    attempt: int
    data: bytes | None
    reason: str | None


def replay_frames(
    shot: Shot,
    environment: Environment,
    scenario: Scenario,
    *,
    cameras: Sequence[str],
    steps: Iterable[int],
    size_px: int,
) -> Iterator[Mapping[str, Frame]]:
    """Yield camera -> (size_px, size_px, 3) uint8 at each of ``steps``, in increasing order.

    Raises EvidenceError (``replay_mismatch``) at the first control step whose state differs from the recording.
    """
    wanted = sorted(set(steps))
    environment.reset(scenario, seed=shot.row.env_seed)
    _same(shot, environment, 0)
    for step in range(shot.trace.steps + 1):
        if step:
            environment.step(shot.trace.action[step - 1])
            environment.measure()
            _same(shot, environment, step)
        if wanted and wanted[0] == step:
            wanted.pop(0)
            yield environment.frames(cameras, height_px=size_px, width_px=size_px)


def _same(shot: Shot, environment: Environment, step: int) -> None:
    found, recorded = environment.state_sha256(), shot.trace.state_sha256[step]
    if found != recorded:
        raise EvidenceError(
            f"trial {shot.row.trial_id}: the replay differs from the recording at control step {step}"
            f" (recorded {recorded[:12]}, found {found[:12]}); is this another machine or simulator version?",
            code="replay_mismatch",
        )


def video(shot: Shot, suite_name: str, *, fps: int = 20, size_px: int = 320) -> bytes:
    """Return an H.264 mp4 of a whole attempt, the suite's people's camera beside the wrist, ``fps`` frames a second.

    At 20 frames a second a 20 Hz episode plays in real time.
    """
    suite = load_suite(suite_name)
    stride = max(1, round(suite.action.control_hz / fps))
    environment = load_attribute(suite.environment)(body=shot.body, profile=shot.profile)
    cameras = [suite.camera_for_people, *[c.name for c in suite.profiles[shot.profile].cameras if "wrist" in c.name]]
    scenario = next(item for item in suite.scenarios() if item.id == shot.row.scenario)
    try:
        steps = range(0, shot.trace.steps + 1, stride)
        frames = replay_frames(shot, environment, scenario, cameras=cameras, steps=steps, size_px=size_px)
        joined = [np.concatenate([frame[name] for name in cameras], axis=1) for frame in frames]
    finally:
        environment.close()
    data: bytes = load_attribute("trialplate.worlds.video:encode_mp4")(joined, fps=fps)
    return data


def filmstrips(
    shots: Sequence[Shot], suite_name: str, *, frames: int = 6, size_px: int = 128, workers: int = 1
) -> Iterator[Picture]:
    """Yield one JPEG filmstrip per shot, in order, drawn by ``workers`` processes.

    A shot that cannot be drawn comes back with its reason; it stops nothing else.
    """
    draw = partial(_strip, suite_name=suite_name, frames=frames, size_px=size_px)
    if workers == 1 or len(shots) < 2:
        yield from map(draw, shots)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(draw, shots, chunksize=4)


_WORLDS: dict[tuple[str, str, str], Any] = {}  # one warm world per body and profile in each drawing process


def _strip(shot: Shot, *, suite_name: str, frames: int, size_px: int) -> Picture:
    suite = load_suite(suite_name)
    scenario = next(item for item in suite.scenarios() if item.id == shot.row.scenario)
    steps = np.unique(np.linspace(0, shot.trace.steps, frames).round().astype(int)).tolist()
    camera = suite.camera_for_people
    try:
        key = (suite_name, shot.body, shot.profile)
        if key not in _WORLDS:
            _WORLDS[key] = load_attribute(suite.environment)(body=shot.body, profile=shot.profile)
        looks = replay_frames(shot, _WORLDS[key], scenario, cameras=[camera], steps=steps, size_px=size_px)
        pictures = [look[camera] for look in looks]
    except TrialplateError as error:
        return Picture(shot.row.trial_id, shot.row.attempt, None, error.message)
    labels = [f"{step / suite.action.control_hz:.1f} s" for step in steps]
    strip: bytes = load_attribute("trialplate.worlds.video:filmstrip")(pictures, labels=labels)
    return Picture(shot.row.trial_id, shot.row.attempt, strip, None)
