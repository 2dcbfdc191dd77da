"""What a policy sees: pictures of named cameras, checked before anybody is shown them.

A blank picture, two cameras with one picture, or a picture that stood still while the arm moved through it is a
:class:`SensorInvalid` that names the camera and the step. Source: fair pick-and-place protocol, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault, SensorInvalid, nearest
from trialplate.worlds.drawing import Frame, RenderSettings, Surface
from trialplate.worlds.known_states import Corners

STALE_MOTION_PX = 3.0
"""A watched point that moved this far inside a picture must have changed the picture."""

_SAMPLE = (slice(None, None, 16), slice(None, None, 16))


class CameraRig:
    """The named cameras of one compiled model.

    ``watch_site`` names a point of the arm; its motion through a camera's picture proves a frozen picture stale. A
    still scene, or a point outside the picture, proves nothing and is never refused.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        *,
        names: Sequence[str],
        settings: RenderSettings | None = None,
        watch_site: str | None = None,
    ) -> None:
        self.settings = settings if settings is not None else RenderSettings()
        self._model = model
        self._ids = {name: camera_id(model, name) for name in names}
        self._watch = None if watch_site is None else int(model.site(watch_site).id)
        self._surface = Surface(model, settings=self.settings)
        self._warm = False
        self._last: dict[str, tuple[Frame, NDArray[np.float64] | None]] = {}

    def reset(self) -> None:
        """Forget the pictures of the episode before, and the card of a probe."""
        self._last.clear()
        self._surface.card = None

    def hold_card(self, corners: Corners) -> None:
        """Hold a card in four colours before every camera until the next reset; for probes, never in an episode."""
        self._surface.card = dict(corners)

    def capture(self, data: mujoco.MjData, *, step: int, names: Sequence[str] | None = None) -> dict[str, Frame]:
        """Return the checked pictures (H, W, 3) of the named cameras, all of the rig's by default.

        Raises :class:`SensorInvalid` for a blank, twin or stale picture.
        """
        wanted = tuple(self._ids) if names is None else tuple(names)
        frames = {name: self._surface.draw(data, camera_id=self._id(name)) for name in self._warmed(data, wanted)}
        check_frames(frames, step=step)
        for name, frame in frames.items():
            self._check_moving(name, frame=frame, data=data, step=step)
        return frames

    def geom_ids(self, data: mujoco.MjData, *, name: str) -> NDArray[np.int32]:
        """Return the geom that each pixel of a camera shows, (H, W), -1 for none; privileged."""
        self._warmed(data, (name,))
        return self._surface.geom_ids(data, camera_id=self._id(name))

    def close(self) -> None:
        """Free the drawing buffers."""
        self._surface.close()

    def _id(self, name: str) -> int:
        if name not in self._ids:
            raise HarnessFault(
                f"this rig has no camera {name!r}{nearest(name, self._ids)}", code="observation_unhealthy"
            )
        return self._ids[name]

    def _warmed(self, data: mujoco.MjData, names: tuple[str, ...]) -> tuple[str, ...]:
        """Draw every camera once before the first picture counts: the first can differ by a pixel."""
        if not self._warm:
            for identity in self._ids.values():
                self._surface.draw(data, camera_id=identity)
            self._warm = True
        return names

    def _check_moving(self, name: str, *, frame: Frame, data: mujoco.MjData, step: int) -> None:
        point = self._watched_px(data, self._ids[name])
        before = self._last.get(name)
        self._last[name] = (frame, point)
        if before is None or point is None or before[1] is None:
            return
        moved_px = float(np.sqrt(((point - before[1]) ** 2).sum()))
        if moved_px >= STALE_MOTION_PX and _same(frame, before[0]):
            raise SensorInvalid(
                f"step {step}: camera {name!r} repeats its last picture although the arm moved {moved_px:.1f} pixels "
                "through it; the picture is stale"
            )

    def _watched_px(self, data: mujoco.MjData, camera: int) -> NDArray[np.float64] | None:
        """Return where the watched point lies in a camera's picture (2,), None when it is outside."""
        if self._watch is None:
            return None
        rotation = data.cam_xmat[camera].reshape(3, 3)
        x_m, y_m, z_m = rotation.T @ (data.site_xpos[self._watch] - data.cam_xpos[camera])
        if z_m >= 0.0:
            return None
        height, width = self.settings.height_px, self.settings.width_px
        focal_px = 0.5 * height / np.tan(np.deg2rad(self._model.cam_fovy[camera]) / 2)
        point = np.array([width / 2 - focal_px * x_m / z_m, height / 2 + focal_px * y_m / z_m])
        inside = 0.0 <= point[0] < width and 0.0 <= point[1] < height
        return point if inside else None


def camera_id(model: mujoco.MjModel, name: str) -> int:
    """Return the index of a named camera; an unknown name is a :class:`HarnessFault` that lists the known ones."""
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, name)
    if index < 0:
        known = [model.camera(n).name for n in range(model.ncam)]
        raise HarnessFault(f"the scene has no camera {name!r}{nearest(name, known)}", code="observation_unhealthy")
    return int(index)


def check_frames(frames: Mapping[str, Frame], *, step: int) -> None:
    """Refuse a blank picture, and two cameras that show the same one, with :class:`SensorInvalid`."""
    for name, frame in frames.items():
        if _blank(frame):
            colour = tuple(int(v) for v in frame[0, 0])
            raise SensorInvalid(f"step {step}: camera {name!r} is blank, every pixel is {colour}; look at its lights")
    for first, second in combinations(frames, 2):
        if _same(frames[first], frames[second]):
            raise SensorInvalid(
                f"step {step}: cameras {first!r} and {second!r} show the same picture, pixel by pixel"
            )


def _blank(frame: Frame) -> bool:
    corner = frame[0, 0]
    return bool((frame[_SAMPLE] == corner).all()) and bool((frame == corner).all())


def _same(first: Frame, second: Frame) -> bool:
    if first.shape != second.shape or not np.array_equal(first[_SAMPLE], second[_SAMPLE]):
        return False
    return bool(np.array_equal(first, second))
