"""What the compiled simulator says about itself: the applied scene, read from model and data, never from the request.

Source: fair pick-and-place protocol, section 3, readback schema 1.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco

from trialplate.canonical import binary32
from trialplate.errors import SceneMismatch
from trialplate.interfaces import Scenario
from trialplate.suites.pick_place.expected_scene import differences, directions, numbers
from trialplate.suites.pick_place.world.scene import DISTURBANCE_FIELDS, DISTURBANCE_NUMERIC, PRIMARY, WRIST
from trialplate.worlds.panda import PandaNames

_SHAPE = {int(mujoco.mjtGeom.mjGEOM_BOX): "box", int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder"}
_SHOWN_DIFFERENCES = 5


def read_applied_scene(
    model: mujoco.MjModel, data: mujoco.MjData, *, robot: PandaNames, schema: str
) -> dict[str, Any]:
    """Return the scene as the simulator holds it right after reset, every number in binary32.

    Only the orientation of a lamp stays in double precision.
    """
    names = [model.body(n).name for n in range(1, model.nbody) if model.body_parentid[n] == 0]
    lamps = [name for name in names if name.startswith("light_")]
    return {
        "schema": schema,
        "physics": {
            "timestep_s": binary32(float(model.opt.timestep)),
            "gravity_m_s2": numbers(model.opt.gravity),
            "impratio": binary32(float(model.opt.impratio)),
        },
        "robot": {
            "joint_pos_rad": numbers([data.joint(name).qpos[0] for name in robot.joints]),
            "finger_pos_m": numbers([data.joint(name).qpos[0] for name in robot.finger_joints]),
        },
        "bodies": names,
        "floor": _floor(model),
        "table": _fixed(model, "table"),
        "goal": {key: value for key, value in _fixed(model, "goal").items() if key != "friction"},
        "block": _movable(model, data, name="block"),
        "lights": [_light(model, data, body=name) for name in lamps],
        "cameras": {name: _camera(model, name, robot=robot) for name in (PRIMARY, WRIST)},
        "obstacles": [_fixed(model, name) for name in names if name.startswith("obstacle_")],
        "occluder": _fixed(model, "occluder") if "occluder" in names else None,
        "distractors": [_movable(model, data, name=name) for name in names if name.startswith("distractor_")],
        "disturbances": read_disturbances(model),
    }


def read_disturbances(model: mujoco.MjModel) -> list[dict[str, Any]]:
    """Return the pushes that the compiled model carries; the environment applies these and no others."""
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_NUMERIC, DISTURBANCE_NUMERIC)
    if index < 0:
        return []
    first, size = int(model.numeric_adr[index]), int(model.numeric_size[index])
    rows = model.numeric_data[first : first + size].reshape(-1, DISTURBANCE_FIELDS)
    return [{"start_step": int(row[0]), "duration_steps": int(row[1]), "force_n": numbers(row[2:])} for row in rows]


def check_applied_scene(scenario: Scenario, applied: Mapping[str, Any], *, expected: Mapping[str, Any]) -> None:
    """Compare a readback with what the scenario promises (``expected_scene`` of its parameters).

    Raises SceneMismatch that names pointer, promise and finding.
    """
    found = list(differences(expected, applied, pointer=""))
    if not found:
        return
    shown = "; ".join(
        f"{pointer}: expected {expected!r}, read back {got!r}"
        for pointer, expected, got in found[:_SHOWN_DIFFERENCES]
    )
    more = f"; and {len(found) - _SHOWN_DIFFERENCES} more" if len(found) > _SHOWN_DIFFERENCES else ""
    raise SceneMismatch(f"scenario {scenario.id}: the world is not the promised scene: {shown}{more}")


def _floor(model: mujoco.MjModel) -> dict[str, Any]:
    body = model.body("floor").id
    geom = int(model.body_geomadr[body])
    return {
        "pos_m": numbers(model.body_pos[body]),
        "rgba": numbers(model.geom_rgba[geom]),
        "collides": _collides(model, geom),
    }


def _fixed(model: mujoco.MjModel, name: str) -> dict[str, Any]:
    body, geom = model.body(name).id, model.geom(name).id
    return {
        **_geom(model, geom),
        "pos_m": numbers(model.body_pos[body]),
        "quat_wxyz": numbers(model.body_quat[body]),
        "friction": numbers(model.geom_friction[geom]),
    }


def _movable(model: mujoco.MjModel, data: mujoco.MjData, *, name: str) -> dict[str, Any]:
    geom = model.geom(name).id
    pose = data.joint(name).qpos
    return {
        **_geom(model, geom),
        "pos_m": numbers(pose[:3]),
        "quat_wxyz": numbers(pose[3:]),
        "friction": numbers(model.geom_friction[geom]),
        "mass_kg": binary32(float(model.body(name).mass[0])),
    }


def _geom(model: mujoco.MjModel, geom: int) -> dict[str, Any]:
    shape = _SHAPE.get(int(model.geom_type[geom]), "other")
    size = model.geom_size[geom]
    half_size_m = (size[0], size[0], size[1]) if shape == "cylinder" else size
    return {
        "shape": shape,
        "half_size_m": numbers(half_size_m),
        "rgba": numbers(model.geom_rgba[geom]),
        "collides": _collides(model, geom),
    }


def _collides(model: mujoco.MjModel, geom: int) -> bool:
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])


def _light(model: mujoco.MjModel, data: mujoco.MjData, *, body: str) -> dict[str, Any]:
    carrier = model.body(body).id
    light = next(n for n in range(model.nlight) if model.light_bodyid[n] == carrier)
    return {
        "name": model.light(light).name,
        "pos_m": numbers(data.light_xpos[light]),
        "orientation_wxyz": [float(value) for value in model.body_quat[carrier]],
        "direction": directions(data.light_xdir[light]),
        "intensity": binary32(float(model.light_intensity[light])),
        "diffuse": numbers(model.light_diffuse[light]),
        "ambient": numbers(model.light_ambient[light]),
        "specular": numbers(model.light_specular[light]),
    }


def _camera(model: mujoco.MjModel, name: str, *, robot: PandaNames) -> dict[str, Any]:
    camera = model.camera(name).id
    carrier = model.body(int(model.cam_bodyid[camera])).name
    return {
        "mount": "hand" if carrier == robot.hand_body else carrier,
        "pos_m": numbers(model.cam_pos[camera]),
        "quat_wxyz": numbers(model.cam_quat[camera]),
        "fovy_deg": binary32(float(model.cam_fovy[camera])),
    }
