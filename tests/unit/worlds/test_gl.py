import subprocess
import sys

import pytest

from trialplate.worlds import gl
from trialplate.worlds.gl import GL_ADVICE, choose_gl_backend, gl_report


def test_a_backend_that_the_user_chose_is_kept(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert choose_gl_backend() == "osmesa"


@pytest.mark.skipif(sys.platform != "linux", reason="the choice is made on Linux only")
@pytest.mark.parametrize(("present", "expected"), [(True, "egl"), (False, "disable")])
def test_the_default_is_egl_only_where_its_library_loads(monkeypatch, present, expected):
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(gl, "_loads", lambda _: present)
    assert choose_gl_backend() == expected


def test_physics_still_imports_where_nothing_can_draw():
    code = "import trialplate.worlds.simulation, mujoco; print(mujoco.MjModel.from_xml_string('<mujoco/>').nq)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={"MUJOCO_GL": "disable"}
    )
    assert done.stdout.strip() == "0", done.stderr


def test_a_disabled_backend_is_reported_with_the_way_out(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    info = gl_report()
    assert info.renderer is None
    assert info.version is None
    assert GL_ADVICE in info.reason


def test_a_probe_that_fails_is_reported_with_its_last_words(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setattr(gl, "_PROBE", "raise SystemExit('no display here')")
    info = gl_report()
    assert info.renderer is None
    assert "no display here" in info.reason


@pytest.mark.gl
def test_a_working_renderer_is_named():
    info = gl_report()
    assert info.backend == "egl"
    assert info.renderer
    assert info.version
    assert info.reason is None
