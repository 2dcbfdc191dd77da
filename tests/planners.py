"""Planners of skills that do what planners should not, and one that does what it should."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import Any

import numpy as np

from trialplate.errors import HarnessFault, PlanningFailed
from trialplate.record import SkillPlan
from trialplate.spec.skills import SkillCase

CAPABILITIES = frozenset({"single_arm", "parallel_gripper"})


class Still:
    """Holds the start, in four waypoints for each segment."""

    id, version, capabilities = "still", "1", CAPABILITIES

    def plan(self, case: SkillCase) -> Any:
        """Return the plan."""
        return self.finish(np.tile(case.q_start, (4 * len(case.segments), 1)), case)

    def finish(self, rows: np.ndarray, case: SkillCase, **changes: Any) -> SkillPlan:
        """Return a plan of these rows."""
        segments = {name: slice(4 * n, 4 * n + 4) for n, name in enumerate(case.segments)}
        return SkillPlan(**{"trajectory": rows, "dt_s": 0.032, "segments": segments, **changes})


class Options(Still):
    """Tells what it was made with, as its version."""

    def __init__(self, *, word: str, weights: tuple[Any, ...] = ()) -> None:
        self.version = f"{word}-{len(weights)}"


class Mutates(Still):
    """Takes its case apart."""

    def plan(self, case: SkillCase) -> Any:
        """Change everything that can be changed."""
        case.command.clear()
        case.poses.clear()
        case.world["support_height_m"] = -100.0
        object.__setattr__(case, "skill", "move_joints")
        return super().plan(case)


class Sleeps(Still):
    """Never returns."""

    def plan(self, case: SkillCase) -> Any:
        """Sleep."""
        time.sleep(600)


class SleepsAtImport(Still):
    """Is never made."""

    def __init__(self) -> None:
        time.sleep(600)


class Dies(Still):
    """Ends its process."""

    def plan(self, case: SkillCase) -> Any:
        """Exit at once."""
        os._exit(3)


class Crashes(Still):
    """Reads address 0."""

    def plan(self, case: SkillCase) -> Any:
        """Crash the interpreter."""
        ctypes.string_at(0)


class Raises(Still):
    """Raises what ``what`` says."""

    def __init__(self, *, what: str = "ValueError") -> None:
        self.what = what

    def plan(self, case: SkillCase) -> Any:
        """Raise."""
        kinds = {
            "ValueError": ValueError("no idea"), "SystemExit": SystemExit(0),
            "KeyboardInterrupt": KeyboardInterrupt(), "HarnessFault": HarnessFault("the simulator broke"),
            "PlanningFailed": PlanningFailed("out of reach"),
        }  # fmt: skip
        raise kinds[self.what]


class Unsupported(Still):
    """Would rather not."""

    def plan(self, case: SkillCase) -> Any:
        """Return a word."""
        return "unsupported_capability"


class Huge(Still):
    """Ten million waypoints."""

    def plan(self, case: SkillCase) -> Any:
        """Return them, in memory that holds one."""
        row = np.asarray(case.q_start)
        return self.finish(np.lib.stride_tricks.as_strided(row, (10_000_000, len(row)), (0, row.strides[0])), case)


class Shaped(Still):
    """A trajectory that is none. ``what`` says which."""

    def __init__(self, *, what: str) -> None:
        self.what = what

    def plan(self, case: SkillCase) -> Any:
        """Return it."""
        rows = np.tile(case.q_start, (4 * len(case.segments), 1))
        return self.finish(self.rows(rows), case, **self.changes(self.finish(rows, case).segments))

    def rows(self, rows: np.ndarray) -> Any:
        """Return the trajectory."""
        rows[1, 0] = np.nan if self.what == "nan" else rows[1, 0]
        rows[1, -1] = {"gripper": 1.0001, "gripper_255": 255.0}.get(self.what, rows[1, -1])
        others = {
            "one_joint_less": rows[:, :-1],
            "integers": np.zeros(rows.shape, dtype=np.int64),
            "list": rows.tolist(),
            "no_rows": rows[:0],
            "one_row": rows[:1],
            "float32": rows.astype(np.float32),
        }
        return others.get(self.what, rows)

    def changes(self, segments: Any) -> dict[str, Any]:
        """Return what else is different."""
        others: dict[str, dict[str, Any]] = {
            "dt": {"dt_s": 0.0},
            "believes": {"belief": {"grasped": True}},
            "believes_nonsense": {"belief": {"grasped": "certainly"}},
            "no_segments": {"segments": [1, 2]},
            "misspelt": {"segments": {("opne" if name == "open" else name): part for name, part in segments.items()}},
        }
        return others.get(self.what, {})


class WrongSegments(Still):
    """Writes ``cloze`` for ``close``."""

    def finish(self, rows: np.ndarray, case: SkillCase, **changes: Any) -> SkillPlan:
        """Return a plan of these rows."""
        names = [name.replace("close", "cloze") for name in case.segments]
        segments = {name: slice(4 * n, 4 * n + 4) for n, name in enumerate(names)}
        return super().finish(rows, case, segments=segments, **changes)


class Prints(Still):
    """Writes nonsense wherever it finds a descriptor, and closes what it finds."""

    def plan(self, case: SkillCase) -> Any:
        """Write into every descriptor."""
        print("this is no answer", flush=True)
        sys.stdout.flush()
        return super().plan(case)


class Forges(Still):
    """Writes an answer of its own into the pipe."""

    def __init__(self, *, what: bytes | str = "{}") -> None:
        self.what = what

    def plan(self, case: SkillCase) -> Any:
        """Write into every descriptor that takes it, and wait."""
        data = {"garbage": b"\xff" * 64, "header": b"\x02\0\0\0\0\0\0\0{}", "closes": b""}[str(self.what)]
        for descriptor in range(3, 64):
            try:
                if data:
                    os.write(descriptor, data)
                else:
                    os.close(descriptor)
            except OSError:
                continue
        time.sleep(600)


class Strings(Still):
    """Says that it can do one thing, as a text."""

    capabilities = "single_arm"  # type: ignore[assignment]


class NoPlan:
    """Has no plan."""

    id, version, capabilities = "none", "1", CAPABILITIES


INSTANCE = Still
