"""What this machine can do, measured."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any

from trialplate import fingerprint
from trialplate.errors import TrialplateError, UsageError
from trialplate.registry import load_attribute, load_suite, suite_names

PACKAGES = ("mujoco", "mink", "daqp", "numpy", "scipy", "pyarrow", "pydantic", "altair", "vl-convert-python", "av")


def examine_machine() -> dict[str, Any]:
    """Return checks (name, ok, found, advice), the machine's identity and whether state-only runs are possible."""
    checks = [_cores(), _packages(), _disk(), _simulation(), _graphics()]
    needed = {"packages", "simulation"}
    usable = all(check["ok"] for check in checks if check["name"] in needed)
    return {"usable": usable, "machine": fingerprint.machine(), "suites": list(suite_names()), "checks": checks}


def _check(name: str, ok: bool, found: str, *, advice: str | None = None) -> dict[str, Any]:
    return {"name": name, "ok": ok, "found": found, "advice": None if ok else advice}


def _cores() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _check("cores", True, f"{cores} usable; use --workers {cores}")


def _packages() -> dict[str, Any]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    text = ", ".join(found) + (f"; missing: {', '.join(missing)}" if missing else "")
    return _check("packages", not missing, text, advice="install trialplate with its dependencies")


def _disk() -> dict[str, Any]:
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    return _check(
        "disk", free_gb > 1, f"{free_gb:.1f} GB free here", advice="a campaign needs about 0.1 GB per 1000 episodes"
    )


def _simulation() -> dict[str, Any]:
    """Measure control steps per second of the first installed suite, one core."""
    suite = load_suite(suite_names()[0])
    try:
        environment = load_attribute(suite.environment)(body=suite.bodies[0], profile=suite.default_profile)
        environment.reset(suite.scenarios()[0], seed=0)
        import numpy as np

        action = np.zeros(suite.action.dim)
        start_s, steps = perf_counter(), 100
        for _ in range(steps):
            environment.step(action)
        rate = steps / (perf_counter() - start_s)
        environment.close()
    except (TrialplateError, ImportError) as error:
        return _check("simulation", False, str(error), advice="reinstall mujoco and mink")
    real_time = rate / suite.action.control_hz
    return _check(
        "simulation", True, f"{suite.name}: {rate:.0f} control steps/s on one core ({real_time:.0f}x real time)"
    )


def _graphics() -> dict[str, Any]:
    """Measure frames per second of the suite's cameras at their declared size."""
    suite = load_suite(suite_names()[0])
    cameras = [camera.name for camera in suite.profiles[suite.default_profile].cameras]
    advice = (
        "cameras and video need OpenGL; on Debian: apt-get install libegl1 libgl1-mesa-dri libegl-mesa0, and"
        " MUJOCO_GL=egl. Everything else works without."
    )
    try:
        info = load_attribute("trialplate.worlds.gl:gl_report")()
        environment = load_attribute(suite.environment)(body=suite.bodies[0], profile=suite.default_profile)
        environment.reset(suite.scenarios()[0], seed=0)
        environment.sense(cameras, proprio=())
        start_s, looks = perf_counter(), 10
        for _ in range(looks):
            environment.sense(cameras, proprio=())
        rate = looks * len(cameras) / (perf_counter() - start_s)
        environment.close()
    except (TrialplateError, UsageError) as error:
        return _check("graphics", False, str(error), advice=advice)
    return _check(
        "graphics", True, f"{info.backend}, {info.renderer}: {rate:.0f} frames/s at the suite's size", advice=advice
    )
