"""Which OpenGL back end draws: chosen once, before mujoco is imported, and reported for the doctor and the lock."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from dataclasses import dataclass

GL_BACKEND_VARIABLE = "MUJOCO_GL"
GL_DISABLED = "disable"
GL_ADVICE = (
    "install the software renderer (Debian, Ubuntu: apt-get install libegl1 libgl1-mesa-dri libegl-mesa0) "
    "and set MUJOCO_GL=egl"
)
_REPORT_TIMEOUT_S = 60.0
_PROBE = """
import sys
from trialplate.worlds.gl import _print_gl_strings
_print_gl_strings()
"""


@dataclass(frozen=True, slots=True)
class GlInfo:
    """What draws here: ``backend`` (``egl``, ``osmesa``, ...), the driver's renderer and version strings.

    ``renderer`` and ``version`` are None where nothing can draw, and ``reason`` then says why.
    """

    backend: str
    renderer: str | None
    version: str | None
    reason: str | None


def choose_gl_backend() -> str:
    """Return the OpenGL back end of this process, choosing one where the user has chosen none.

    On Linux the choice is ``egl`` when its library loads, else ``disable``: mujoco must still import on a machine
    that cannot draw. Must be called before mujoco is imported; importing ``trialplate.worlds`` does it.
    """
    chosen = os.environ.get(GL_BACKEND_VARIABLE)
    if chosen:
        return chosen
    if sys.platform != "linux":
        return "native"
    backend = "egl" if _loads("libEGL.so.1") else GL_DISABLED
    os.environ[GL_BACKEND_VARIABLE] = backend
    return backend


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def gl_report() -> GlInfo:
    """Return what draws on this machine, asked in a child process.

    A context made here would make a later fork hang, so the question is never asked in the calling process.
    """
    backend = choose_gl_backend()
    if backend == GL_DISABLED:
        return GlInfo(
            backend, None, None, f"libEGL.so.1 does not load, or {GL_BACKEND_VARIABLE}=disable; {GL_ADVICE}"
        )
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=_REPORT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return GlInfo(backend, None, None, f"the OpenGL probe did not answer in {_REPORT_TIMEOUT_S:g} s; {GL_ADVICE}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("gl:")]
    if done.returncode != 0 or len(lines) != 2:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return GlInfo(backend, None, None, f"the OpenGL probe failed ({last}); {GL_ADVICE}")
    return GlInfo(backend, lines[0][3:], lines[1][3:], None)


def _print_gl_strings() -> None:
    """Make a context and print its renderer and version; runs in the child of :func:`gl_report` only."""
    from mujoco.rendering.classic import gl_context

    gl = importlib.import_module("OpenGL.GL")
    context = gl_context.GLContext(64, 64)
    context.make_current()
    for name in (gl.GL_RENDERER, gl.GL_VERSION):
        print("gl:" + gl.glGetString(name).decode())
    context.free()
