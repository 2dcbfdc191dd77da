"""One OpenGL context per process, and one cheap drawing surface per compiled model.

MuJoCo's own Renderer makes a new OpenGL context per model. Here the context is made once and lent to every model; a
:class:`Surface` costs about 2 ms for a model of primitives. The context belongs to one thread of one process: another
thread cannot draw with it, and a forked child would hang, so both are refused.
"""

from __future__ import annotations

import os
import threading
from dataclasses import asdict, dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from trialplate.errors import HarnessFault, Unavailable
from trialplate.worlds.gl import GL_ADVICE, GL_BACKEND_VARIABLE, GL_DISABLED, choose_gl_backend
from trialplate.worlds.known_states import Corners, add_card

Frame = NDArray[np.uint8]  # (H, W, 3)

_FONT_SCALE_PERCENT = 100
_MAX_SCENE_GEOMS = 2000
_CONTEXT_SIDE_PX = 64
_owner: tuple[int, int] | None = None
_context: Any = None


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """How pictures are made; part of the suite's digest. Defaults are the cheap and exactly repeatable ones."""

    width_px: int = 256
    height_px: int = 256
    shadows: bool = False
    shadow_map_px: int = 1
    multisamples: int = 0
    slices: int = 24  # facets around a cylinder
    stacks: int = 12  # facets along a sphere
    quads: int = 2  # facets along a box side

    def document(self) -> dict[str, Any]:
        """Return the settings as a plain JSON object for a digest."""
        return asdict(self)


def apply_rendering(spec: mujoco.MjSpec, settings: RenderSettings) -> None:
    """Write the settings into a scene before it is compiled."""
    quality = spec.visual.quality
    quality.shadowsize = settings.shadow_map_px
    quality.offsamples = settings.multisamples
    quality.numslices = settings.slices
    quality.numstacks = settings.stacks
    quality.numquads = settings.quads
    spec.visual.global_.offwidth = settings.width_px
    spec.visual.global_.offheight = settings.height_px


class Surface:
    """Draws one model from its fixed cameras into an off-screen buffer.

    ``card``: colours that are held before each camera while it is probed, None in every episode.
    """

    card: Corners | None = None

    def __init__(self, model: mujoco.MjModel, *, settings: RenderSettings) -> None:
        self._model = model
        self._size = (settings.height_px, settings.width_px)
        _make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_SCENE_GEOMS)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = settings.shadows
        self._options = mujoco.MjvOption()
        self._rect = mujoco.MjrRect(0, 0, settings.width_px, settings.height_px)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._mjr: Any = _drawing_buffers(model, settings)
        mujoco.mjr_resizeOffscreen(settings.width_px, settings.height_px, self._mjr)

    def draw(self, data: mujoco.MjData, *, camera_id: int) -> Frame:
        """Return the picture of one camera, (H, W, 3), top row first."""
        self._render(data, camera_id=camera_id)
        flipped = np.empty((*self._size, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(flipped, None, self._rect, self._mjr)
        return np.ascontiguousarray(flipped[::-1])

    def geom_ids(self, data: mujoco.MjData, *, camera_id: int) -> NDArray[np.int32]:
        """Return which geom each pixel shows, (H, W), -1 where it is none."""
        flags = self._scene.flags
        kept = flags.copy()
        flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
        flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
        try:
            codes = self.draw(data, camera_id=camera_id).astype(np.int32) @ np.array([1, 256, 65536], dtype=np.int32)
        finally:
            flags[:] = kept
        table = np.full(self._scene.ngeom + 1, -1, dtype=np.int32)
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                table[geom.segid + 1] = geom.objid
        return np.asarray(table[codes], dtype=np.int32)

    def close(self) -> None:
        """Free the buffers; the process keeps its context."""
        if self._mjr is not None and _owner == _here():
            _make_current()
            self._mjr.free()
        self._mjr = None

    def _render(self, data: mujoco.MjData, *, camera_id: int) -> None:
        if self._mjr is None:
            raise HarnessFault("this drawing surface was closed; make a new one", code="observation_unhealthy")
        _make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._mjr)  # another surface may have drawn last
        self._camera.fixedcamid = camera_id
        mujoco.mjv_updateScene(
            self._model, data, self._options, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        if self.card is not None:
            aspect = self._size[1] / self._size[0]
            add_card(self._scene, self._model, data, camera_id=camera_id, corners=self.card, aspect=aspect)
        mujoco.mjr_render(self._rect, self._scene, self._mjr)


def people_settings(*, height_px: int, width_px: int) -> RenderSettings:
    """Return smooth edges for films that people watch; no policy ever sees them.

    Shadows stay off: in software they cost ten times the picture, and their map flickers on small round parts.
    """
    return RenderSettings(width_px=width_px, height_px=height_px, multisamples=4)


def _drawing_buffers(model: mujoco.MjModel, settings: RenderSettings) -> Any:
    """Return MuJoCo's drawing context, made by these settings and not by those the model was compiled with."""
    quality = model.vis.quality
    wanted = {
        "shadowsize": settings.shadow_map_px,
        "offsamples": settings.multisamples,
        "numslices": settings.slices,
        "numstacks": settings.stacks,
        "numquads": settings.quads,
    }
    compiled = {field: getattr(quality, field) for field in wanted}
    try:
        for field, value in wanted.items():
            setattr(quality, field, value)
        return mujoco.MjrContext(model, _FONT_SCALE_PERCENT)
    finally:
        for field, value in compiled.items():
            setattr(quality, field, value)


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def _make_current() -> None:
    """Make the context of this process current, creating it at the first call."""
    global _owner, _context
    if _owner is None:
        _context = _new_context()
        _owner = _here()
    elif _owner != _here():
        same_process = _owner[0] == os.getpid()
        where = "another thread of this process" if same_process else "the process that forked this one"
        raise HarnessFault(
            f"the OpenGL context belongs to {where}; draw in the thread that drew first, and start workers "
            "by spawn, not by fork",
            code="observation_unhealthy",
        )
    _context.make_current()


def _new_context() -> Any:
    backend = choose_gl_backend()
    if backend.lower() in (GL_DISABLED, "disabled", "off", "false", "0"):
        raise Unavailable(
            f"cameras need OpenGL, and this process has none ({GL_BACKEND_VARIABLE}={backend}); {GL_ADVICE}"
        )
    from mujoco.rendering.classic import gl_context

    try:
        return gl_context.GLContext(_CONTEXT_SIDE_PX, _CONTEXT_SIDE_PX)
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise Unavailable(
            f"cameras need OpenGL, and back end {backend!r} does not start: {error}; {GL_ADVICE}"
        ) from error
