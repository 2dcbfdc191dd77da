"""Pictures of recorded attempts: the recorded actions are simulated again, and every state is compared.

A picture is for people and proves nothing by itself; a replay whose states differ from the recording is refused.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import EvidenceError, TrialplateError
from trialplate.interfaces import Environment, Scenario
from trialplate.registry import load_attribute
from trialplate.resimulation import Recorded, Worlds, simulate_again

Frame = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn attempt, or the reason why there is none."""

    trial_id: str
    attempt: int
    data: bytes | None
    reason: str | None


def replay_frames(
    recording: Recorded,
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
    for moment in simulate_again(recording, environment, scenario):
        recorded = recording.trace.state_sha256[moment.step]
        if moment.state_sha256 != recorded:
            raise EvidenceError(
                f"trial {recording.row.trial_id}: the replay differs from the recording at control step {moment.step}"
                f" (recorded {recorded[:12]}, found {moment.state_sha256[:12]}); is this another machine or simulator"
                " version?",
                code="replay_mismatch",
            )
        if wanted and wanted[0] == moment.step:
            wanted.pop(0)
            yield environment.frames(cameras, height_px=size_px, width_px=size_px)


def video(recording: Recorded, suite_name: str, *, fps: int = 20, size_px: int = 320) -> bytes:
    """Return an H.264 mp4 of a whole attempt, the suite's people's camera beside the wrist, ``fps`` frames a second.

    At 20 frames a second a 20 Hz episode plays in real time.
    """
    worlds = Worlds(suite_name)
    suite = worlds.suite
    stride = max(1, round(suite.action.control_hz / fps))
    profile = suite.profiles[recording.profile]
    cameras = [suite.camera_for_people, *[camera.name for camera in profile.cameras if "wrist" in camera.name]]
    try:
        frames = replay_frames(
            recording,
            worlds.world(recording.body, recording.profile),
            worlds.scenario(recording.row.scenario),
            cameras=cameras,
            steps=range(0, recording.trace.steps + 1, stride),
            size_px=size_px,
        )
        joined = [np.concatenate([frame[name] for name in cameras], axis=1) for frame in frames]
    finally:
        worlds.close()
    data: bytes = load_attribute("trialplate.worlds.video:encode_mp4")(joined, fps=fps)
    return data


def filmstrips(
    recordings: Sequence[Recorded], suite_name: str, *, frames: int = 6, size_px: int = 128, workers: int = 1
) -> Iterator[Picture]:
    """Yield one JPEG filmstrip per recording, in order, drawn by ``workers`` processes.

    A recording that cannot be drawn comes back with its reason; it stops nothing else.
    """
    draw = partial(_strip, suite_name=suite_name, frames=frames, size_px=size_px)
    if workers == 1 or len(recordings) < 2:
        yield from map(draw, recordings)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(draw, recordings, chunksize=4)


_WORLDS: dict[str, Worlds] = {}  # the warm worlds of each suite in each drawing process


def _strip(recording: Recorded, *, suite_name: str, frames: int, size_px: int) -> Picture:
    row = recording.row
    if suite_name not in _WORLDS:
        _WORLDS[suite_name] = Worlds(suite_name)
    worlds = _WORLDS[suite_name]
    steps = np.unique(np.linspace(0, recording.trace.steps, frames).round().astype(int)).tolist()
    camera = worlds.suite.camera_for_people
    try:
        world, scenario = worlds.world(recording.body, recording.profile), worlds.scenario(row.scenario)
        looks = replay_frames(recording, world, scenario, cameras=[camera], steps=steps, size_px=size_px)
        pictures = [look[camera] for look in looks]
    except TrialplateError as error:
        return Picture(row.trial_id, row.attempt, None, error.message)
    labels = [f"{step / worlds.suite.action.control_hz:.1f} s" for step in steps]
    strip: bytes = load_attribute("trialplate.worlds.video:filmstrip")(pictures, labels=labels)
    return Picture(row.trial_id, row.attempt, strip, None)
