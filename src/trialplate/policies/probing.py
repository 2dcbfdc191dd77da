"""Does an environment send what it declares? Known poses, an open and a closed gripper and a colour card tell.

A declaration and the numbers can agree with each other on paper and still be two conventions; only a state that is
known from elsewhere shows it. A channel that could not be put into a known state is reported as not probed.

Source: policy contract ``trialplate.policy/1``, sections 9 and 10 (rows 3 and 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trialplate.errors import Unavailable
from trialplate.interfaces import Environment, ProbeableEnvironment
from trialplate.policies.adapters import pictures, rotations
from trialplate.spec.channels import CameraSpec, GripperRange, ObservationSpec, ProprioSpec

Verdict = Literal["agrees", "contradicts", "not probed"]

_HALF = 0.5**0.5
POSES: Mapping[str, tuple[float, float, float, float]] = {
    "identity": (1.0, 0.0, 0.0, 0.0),
    "90 deg about x": (_HALF, _HALF, 0.0, 0.0),
    "90 deg about z": (_HALF, 0.0, 0.0, _HALF),
    "74 deg about (1, -2, 2)": (0.8, 0.2, -0.4, 0.4),
}
"""Orientations, wxyz: the last one has three different angles and tells every representation from every other."""

CARD: Mapping[str, tuple[int, int, int]] = {
    "top_left": (255, 0, 0),
    "top_right": (0, 255, 0),
    "bottom_left": (0, 0, 255),
    "bottom_right": (255, 255, 0),
}
"""Four colours (red, green, blue) which no flip, turn or swap of channels brings back into these places."""

TOLERANCE_RAD = 0.01
_GRIPPER_TOLERANCE = 0.05
_COLOUR_TOLERANCE = 0.35
_DARKEST = 40


@dataclass(frozen=True, slots=True)
class Finding:
    """What one probe says about one channel. ``channel``: ``camera:NAME`` or ``proprio:NAME``."""

    channel: str
    probe: str
    declared: str
    verdict: Verdict
    detail: str

    def document(self) -> dict[str, str]:
        """Return the plain form."""
        return asdict(self)


def probe_environment(environment: Environment, spec: ObservationSpec) -> list[Finding]:
    """Put a world that was just reset into known states and hold what it sends against what it declares.

    Returns one finding for every channel with a convention to get wrong (rotations, grippers, cameras), and one for
    every other channel that does not even have the declared form. The world is of no use for an episode afterwards.
    """
    cameras, unseen = _seen(environment, spec.cameras)
    findings = [finding for finding in _forms(environment, spec.proprio, cameras) if finding.verdict == "contradicts"]
    broken = {finding.channel for finding in findings}
    turned = [channel for channel in spec.proprio if channel.rotation is not None and _key(channel) not in broken]
    grips = [channel for channel in spec.proprio if channel.gripper is not None and _key(channel) not in broken]
    whole = [camera for camera in cameras if _key(camera) not in broken]
    if not isinstance(environment, ProbeableEnvironment):
        why = "this world cannot be put into known states: it has no ProbeableEnvironment"
        listed = _unprobed((("pose", turned), ("gripper", grips), ("colour card", whole)), why=why)
        if not listed and not unseen:
            listed = [Finding("world", "known states", "no rotation, gripper or camera", "not probed", why)]
        return [*findings, *listed, *unseen]
    return [
        *findings,
        *_probe_poses(environment, turned),
        *_probe_grippers(environment, grips),
        *_probe_cameras(environment, whole),
        *unseen,
    ]


def _seen(
    environment: Environment, cameras: Sequence[CameraSpec]
) -> tuple[dict[CameraSpec, NDArray[Any] | None], list[Finding]]:
    """Return what each camera sends now; where nothing can draw, none, and that they could not be probed."""
    try:
        images = environment.sense([camera.name for camera in cameras], proprio=()).images
    except Unavailable as error:
        return {}, _unprobed((("colour card", cameras),), why=error.message)
    return {camera: images.get(camera.name) for camera in cameras}, []


def _unprobed(wanted: Iterable[tuple[str, Sequence[CameraSpec | ProprioSpec]]], *, why: str) -> list[Finding]:
    """Report every channel with a convention as not probed."""
    return [
        Finding(_key(channel), probe, _declared(channel, probe), "not probed", why)
        for probe, channels in wanted
        for channel in channels
    ]


def _forms(
    environment: Environment, proprio: Sequence[ProprioSpec], cameras: Mapping[CameraSpec, NDArray[Any] | None]
) -> Iterable[Finding]:
    sensed = environment.sense((), proprio=[channel.name for channel in proprio])
    for camera, image in cameras.items():
        yield _form(camera, image, shape=camera.shape, dtype="uint8")
    for channel in proprio:
        yield _form(channel, sensed.proprio.get(channel.name), shape=(channel.dim,), dtype="float64")


def _form(
    channel: CameraSpec | ProprioSpec, values: NDArray[Any] | None, *, shape: tuple[int, ...], dtype: str
) -> Finding:
    sent = "nothing" if values is None else f"{values.dtype} {values.shape}"
    declared = f"{dtype} {shape}"
    return Finding(_key(channel), "form", declared, "agrees" if sent == declared else "contradicts", f"sent {sent}")


def _probe_poses(environment: ProbeableEnvironment, channels: list[ProprioSpec]) -> Iterable[Finding]:
    seen: dict[str, dict[str, NDArray[np.float64]]] = {channel.name: {} for channel in channels}
    for pose, wxyz in POSES.items() if channels else ():
        shown = [name for name in environment.pose_for_probe(wxyz) if name in seen]
        sensed = environment.sense((), proprio=shown)
        for name in shown:
            seen[name][pose] = sensed.proprio[name]
    for channel in channels:
        yield _judge_rotation(channel, seen[channel.name])


def _judge_rotation(channel: ProprioSpec, seen: Mapping[str, NDArray[np.float64]]) -> Finding:
    declared = str(channel.rotation)

    def said(verdict: Verdict, detail: str) -> Finding:
        return Finding(_key(channel), "pose", declared, verdict, detail)

    missing = [pose for pose in POSES if pose not in seen]
    wrong = [pose for pose, values in seen.items() if not _is_pose(values, declared, POSES[pose])]
    if wrong:
        numbers = ", ".join(f"{value:.4f}" for value in seen[wrong[0]])
        return said("contradicts", f"{wrong[0]}: sent [{numbers}]{_explained(channel, seen)}")
    if missing:
        return said("not probed", f"not brought into the pose: {', '.join(missing)}")
    return said("agrees", f"{len(seen)} known poses")


def _is_pose(
    values: NDArray[np.float64], representation: str, wxyz: tuple[float, ...], *, inverse: bool = False
) -> bool:
    try:
        read = rotations.to_quaternion(values, representation)
    except ValueError:
        return False
    known = np.array(wxyz) * (np.array([1.0, -1.0, -1.0, -1.0]) if inverse else 1.0)
    return float(rotations.angle_between_rad(read, known)) <= TOLERANCE_RAD


def _explained(channel: ProprioSpec, seen: Mapping[str, NDArray[np.float64]]) -> str:
    """Say which other convention all the numbers fit, if there is one."""
    for inverse in (False, True):
        for name, dim in rotations.DIMS.items():
            fits = dim == channel.dim and all(
                _is_pose(values, name, POSES[pose], inverse=inverse) for pose, values in seen.items()
            )
            if fits:
                return f"; all of them fit {name}{' of the inverse rotation' if inverse else ''}"
    return ""


def _probe_grippers(environment: ProbeableEnvironment, channels: list[ProprioSpec]) -> Iterable[Finding]:
    seen: dict[str, dict[str, float]] = {channel.name: {} for channel in channels}
    openings: tuple[Literal["closed", "open"], ...] = ("closed", "open")
    for opening in openings if channels else ():
        shown = [name for name in environment.gripper_for_probe(opening) if name in seen]
        sensed = environment.sense((), proprio=shown)
        for name in shown:
            seen[name][opening] = float(sensed.proprio[name].mean())
    for channel in channels:
        assert channel.gripper is not None
        yield _judge_gripper(channel, channel.gripper, seen[channel.name])


def _judge_gripper(channel: ProprioSpec, declared: GripperRange, seen: Mapping[str, float]) -> Finding:
    def said(verdict: Verdict, detail: str) -> Finding:
        return Finding(_key(channel), "gripper", _declared(channel, "gripper"), verdict, detail)

    if set(seen) != {"closed", "open"}:
        return said("not probed", "not brought to both ends")
    sent = f"sent {seen['closed']:g} closed, {seen['open']:g} open"
    near = _GRIPPER_TOLERANCE * abs(declared.open - declared.closed)
    if abs(seen["closed"] - declared.closed) <= near and abs(seen["open"] - declared.open) <= near:
        return said("agrees", sent)
    swapped = abs(seen["closed"] - declared.open) <= near and abs(seen["open"] - declared.closed) <= near
    return said("contradicts", f"{sent}{': the other way round' if swapped else ''}")


def _probe_cameras(environment: ProbeableEnvironment, cameras: list[CameraSpec]) -> Iterable[Finding]:
    shown = set(environment.colour_card(CARD)) if cameras else set()
    sensed = environment.sense([camera.name for camera in cameras if camera.name in shown], proprio=())
    for camera in cameras:
        declared = _declared(camera, "colour card")
        if camera.name not in shown:
            yield Finding(_key(camera), "colour card", declared, "not probed", "no card was held before it")
            continue
        verdict, detail = _judge_card(camera, sensed.images[camera.name])
        yield Finding(_key(camera), "colour card", declared, verdict, detail)


def _judge_card(camera: CameraSpec, sent: NDArray[np.uint8]) -> tuple[Verdict, str]:
    hwc = pictures.relayout(sent, camera.layout, to="hwc")
    if _shows_card(_undone(hwc, camera.orientation, camera.color)):
        return "agrees", "all four corners"
    for orientation in ("upright", "flip_v", "flip_h", "rot180"):
        for color in ("rgb", "bgr"):
            if _shows_card(_undone(hwc, orientation, color)):
                return "contradicts", f"what is sent is {orientation}, {color}"
    if _shows_card(_undone(np.swapaxes(hwc, 0, 1), camera.orientation, camera.color)):
        return "contradicts", "rows and columns are exchanged"
    corners = {name: tuple(int(v) for v in colour) for name, colour in _corners(hwc).items()}
    return "contradicts", f"no view of the card: {corners}"


def _undone(hwc: NDArray[np.uint8], orientation: str, color: str) -> NDArray[np.uint8]:
    upright = pictures.reorient(hwc, orientation, to="upright", layout="hwc")
    return upright if color == "rgb" else pictures.swap_colours(upright, layout="hwc")


def _shows_card(hwc: NDArray[np.uint8]) -> bool:
    """Compare hues, not brightness: light falls on a card as it will."""
    for name, colour in _corners(hwc).items():
        brightest = colour.max()
        if (
            brightest < _DARKEST
            or (np.abs(colour / brightest - np.array(CARD[name]) / 255) > _COLOUR_TOLERANCE).any()
        ):
            return False
    return True


def _corners(hwc: NDArray[np.uint8]) -> dict[str, NDArray[np.float64]]:
    """Return the median colour of a patch one eighth to one quarter of the way in from each corner."""
    (top, bottom), (left, right) = _ends(hwc.shape[0]), _ends(hwc.shape[1])
    patches = {
        "top_left": hwc[top, left],
        "top_right": hwc[top, right],
        "bottom_left": hwc[bottom, left],
        "bottom_right": hwc[bottom, right],
    }
    return {name: np.median(patch.reshape(-1, 3), axis=0) for name, patch in patches.items()}


def _ends(size: int) -> tuple[slice, slice]:
    first, last = size // 8, max(size // 4, size // 8 + 1)
    return slice(first, last), slice(size - last, size - first)


def _key(channel: CameraSpec | ProprioSpec) -> str:
    return f"{'camera' if isinstance(channel, CameraSpec) else 'proprio'}:{channel.name}"


def _declared(channel: CameraSpec | ProprioSpec, probe: str) -> str:
    if isinstance(channel, CameraSpec):
        return f"{channel.orientation}, {channel.color}, {channel.layout}"
    if probe == "gripper" and channel.gripper is not None:
        return f"{channel.gripper.closed:g} closed, {channel.gripper.open:g} open"
    return str(channel.rotation)
