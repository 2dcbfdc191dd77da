"""Where a hand may take an object: tool frames from above and from the side, and their seeded variants.

A tool frame's z points out of the hand, its y from finger to finger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from trialplate.suites.atomic_skills.rigid import FloatArray, about_z
from trialplate.suites.atomic_skills.world_spec import ObjectSpec

WIDEST_M = 0.078
"""Widest side that the open hand takes with room to spare."""
SIDE_TILT_RAD = 0.60
"""How far a grasp from the side looks down."""
FINGER_BELOW_M = 0.021
"""How far a finger reaches beyond the tool frame."""
JITTER_M = 0.003
BACK_M = 0.10
"""From before a grasp to the grasp, along the hand."""


def tool_frame(position_m: FloatArray, *, out: FloatArray, across: FloatArray) -> FloatArray:
    """Return the tool frame (4, 4) whose z is ``out`` and whose y is ``across``, unit vectors (3,)."""
    made = np.eye(4)
    made[:3, 0], made[:3, 1], made[:3, 2] = np.cross(across, out), across, out
    made[:3, 3] = position_m
    return made


def flipped(frame: FloatArray) -> FloatArray:
    """Return the same grasp with the fingers exchanged."""
    made = frame.copy()
    made[:3, :2] = -made[:3, :2]
    return made


def backed(frame: FloatArray, distance_m: float = BACK_M) -> FloatArray:
    """Return a tool frame that stands back along the hand."""
    made = frame.copy()
    made[:3, 3] = made[:3, 3] - distance_m * made[:3, 2]
    return made


def raised(frame: FloatArray, height_m: float) -> FloatArray:
    """Return a frame higher in the world."""
    made = frame.copy()
    made[2, 3] += height_m
    return made


def level_directions(thing: ObjectSpec, pose: FloatArray) -> Iterator[FloatArray]:
    """Yield level unit vectors (3,) across which a standing object is narrow enough, the narrowest first."""
    if thing.shape == "box":
        for index in np.argsort(thing.size_m[:2]):
            if 2.0 * thing.size_m[index] <= WIDEST_M:
                yield unit_level(pose[:3, index])
        return
    if thing.shape == "hex_prism":
        for turned in (0.5, 1.5, 2.5):  # across the flats
            yield unit_level(pose[:3, :3] @ about_z(turned * math.pi / 3.0) @ np.array([1.0, 0.0, 0.0]))
        return
    for angle in (0.5, 0.4, 0.6, 0.25, 0.75, 0.0):  # a round body has no preferred side
        yield about_z(angle * math.pi) @ np.array([1.0, 0.0, 0.0])


def unit_level(vector: FloatArray) -> FloatArray:
    """Return a vector without its vertical part, at length 1."""
    level = np.array([vector[0], vector[1], 0.0])
    unit: FloatArray = level / np.linalg.norm(level)
    return unit


def from_above(thing: ObjectSpec, pose: FloatArray, *, support_m: float) -> Iterator[FloatArray]:
    """Yield grasps of a standing object that point down; deep, but with the fingers clear of the support."""
    top_m = pose[2, 3] + thing.half_height_m
    height_m = max(top_m - 0.030, support_m + FINGER_BELOW_M + 0.002)
    for across in level_directions(thing, pose):
        at = np.array([pose[0, 3], pose[1, 3], height_m])
        frame = tool_frame(at, out=np.array([0.0, 0.0, -1.0]), across=across)
        yield frame
        yield flipped(frame)


def from_side(
    thing: ObjectSpec, pose: FloatArray, *, support_m: float, tilt_rad: float = SIDE_TILT_RAD, height: float = 0.3
) -> Iterator[FloatArray]:
    """Yield grasps of a standing object that look forward and down by ``tilt_rad``, those most forward first.

    ``height``: of the grasp above the centre, as a share of the half height.
    """
    lowest_m = support_m + FINGER_BELOW_M * math.sin(tilt_rad) + 0.013 * math.cos(tilt_rad) + 0.002
    height_m = max(pose[2, 3] + height * thing.half_height_m, lowest_m)
    outward = unit_level(pose[:3, 3])
    found: list[tuple[float, int, FloatArray, FloatArray]] = []
    for across in level_directions(thing, pose):
        for sign in (1.0, -1.0):
            forward = np.cross(sign * across, np.array([0.0, 0.0, 1.0]))
            found.append((float(-forward @ outward), len(found), sign * across, forward))
    for _, _, across, forward in sorted(found, key=lambda item: item[:2]):
        out = math.cos(tilt_rad) * forward - math.sin(tilt_rad) * np.array([0.0, 0.0, 1.0])
        frame = tool_frame(np.array([pose[0, 3], pose[1, 3], height_m]), out=out, across=across)
        yield frame
        yield flipped(frame)


def of_lying(thing: ObjectSpec, pose: FloatArray, *, support_m: float) -> Iterator[FloatArray]:
    """Yield grasps from above of an object that lies along its own z, with the fingers clear of the support."""
    axis = unit_level(pose[:3, 2])
    at = pose[:3, 3].copy()
    at[2] = max(at[2], support_m + FINGER_BELOW_M)
    across = np.array([-axis[1], axis[0], 0.0])
    frame = tool_frame(at, out=np.array([0.0, 0.0, -1.0]), across=across)
    yield frame
    yield flipped(frame)


def jittered(frame: FloatArray, random: np.random.Generator) -> FloatArray:
    """Return a grasp shifted a little along the fingers' width and along the hand, as the seed says."""
    shift = random.uniform(-JITTER_M, JITTER_M, 2)
    made = frame.copy()
    made[:3, 3] = made[:3, 3] + shift[0] * made[:3, 0] - abs(shift[1]) * made[:3, 2]
    return made
