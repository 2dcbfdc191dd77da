"""The process of a planner: makes it, hands it one case, sends back what it returned, and ends.

Started as ``python -m trialplate.policies.planning.child``. The answer goes through a descriptor of its own; what the
planner prints goes to standard error.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trialplate.errors import PlanFault, PlanningFailed
from trialplate.policies.charging import recordable, said
from trialplate.policies.in_process import made_from
from trialplate.policies.planning.frames import packed, read_frame
from trialplate.record import SkillPlan
from trialplate.record.plan_check import MAX_NAME, MAX_SEGMENTS, check_trajectory
from trialplate.spec.skills import SkillCase, skill_case

MAX_BELIEFS = 32
Frame = tuple[dict[str, Any], bytes]


def main() -> None:
    """Answer at most two requests: who the planner is, and one plan."""
    source, answers = _descriptors()
    request, _ = read_frame(lambda size: _exactly(source, size))
    sys.path[:] = request["sys_path"]
    planner = None
    try:
        planner = made_from(
            request["reference"], base=Path(request["base"]), weights=tuple(request["weights"]),
            options=request["options"],
        )  # fmt: skip
        frame = packed(card_of(planner))
    except BaseException as error:
        frame = packed({"kind": "unloadable", "message": _told(error)})
    _send(answers, frame)
    with suppress(EOFError):
        case, _ = read_frame(lambda size: _exactly(source, size))
        _send(answers, packed(*answer(planner, skill_case(case))))
    os._exit(0)  # whatever the planner left running ends here


def card_of(planner: Any) -> dict[str, Any]:
    """Return who a planner says it is. Raises TypeError that names what is missing."""
    if not callable(getattr(planner, "plan", None)):
        raise TypeError(f"{type(planner).__name__} has no plan(case); see trialplate.interfaces.SkillPlanner")
    capabilities = getattr(planner, "capabilities", None)
    if isinstance(capabilities, str) or not isinstance(capabilities, set | frozenset | tuple | list):
        raise TypeError(f"capabilities: expected a set of names, got {type(capabilities).__name__}")
    names = [getattr(planner, "id", None), getattr(planner, "version", None), *capabilities]
    if not all(isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in names):
        raise TypeError(f"id, version and capabilities: expected texts of at most {MAX_NAME} characters, got {names}")
    return {"kind": "card", "id": names[0], "version": names[1], "capabilities": sorted({*names[2:]})}


def answer(planner: Any, case: SkillCase) -> Frame:
    """Return the frame that tells what a planner made of a case: a plan, or why there is none."""
    try:
        return plan_frame(planner.plan(case), case)
    except PlanFault as fault:
        reason = "planner_reported_failure" if isinstance(fault, PlanningFailed) else fault.code
        return _fault(reason, said(fault), fault.detail)
    except BaseException as error:
        return _fault("planner_exception", f"plan raised {_told(error)}", None)


def plan_frame(plan: Any, case: SkillCase) -> Frame:
    """Return the frame of a plan. Raises PlanFault for one that is none."""
    if not isinstance(plan, SkillPlan):
        message = f"plan returned {type(plan).__name__}, expected trialplate.SkillPlan"
        raise PlanFault(message, code="planner_reported_failure")
    check_trajectory(plan, case)
    rows = np.array(plan.trajectory, dtype="<f8", order="C")
    belief, refused = _belief(plan.belief)
    header = {
        "kind": "plan",
        "shape": list(rows.shape),
        "dt_s": float(plan.dt_s),
        "segments": _segments(plan.segments),
        "belief": belief,
        "belief_refused": refused,
    }
    return header, rows.tobytes()


def _segments(segments: Any) -> list[list[Any]]:
    """Return name, start, stop of each; what is no slice of two whole numbers with step 1 comes without numbers."""
    if not isinstance(segments, Mapping) or len(segments) > MAX_SEGMENTS:
        message = f"segments: expected a mapping of at most {MAX_SEGMENTS} names to slices"
        raise PlanFault(message, code="planner_reported_failure")
    listed: list[list[Any]] = []
    for name, part in segments.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            message = f"segments: expected names of at most {MAX_NAME} characters"
            raise PlanFault(message, code="planner_reported_failure")
        listed.append([recordable(name), *_bounds(part)])
    return listed


def _bounds(part: Any) -> tuple[int | None, int | None]:
    try:
        step = 1 if part.step is None else operator.index(part.step)
        start, stop = operator.index(part.start), operator.index(part.stop)
    except (AttributeError, TypeError):
        return None, None
    most = 2**53
    return (start, stop) if step == 1 and abs(start) < most and abs(stop) < most else (None, None)


def _belief(belief: Any) -> tuple[dict[str, bool] | None, bool]:
    """Return a belief that can be recorded, and whether there was one that cannot."""
    if belief is None:
        return None, False
    if not isinstance(belief, Mapping) or len(belief) > MAX_BELIEFS:
        return None, True
    fits = all(isinstance(key, str) and len(key) <= MAX_NAME and type(value) is bool for key, value in belief.items())
    return ({recordable(key): value for key, value in belief.items()}, False) if fits else (None, True)


def _fault(code: str, message: str, detail: str | None) -> Frame:
    return {"kind": "fault", "code": code, "message": recordable(message), "detail": detail}, b""


def _told(error: BaseException) -> str:
    return recordable(f"{type(error).__name__}: {said(error)}")


def _descriptors() -> tuple[BinaryIO, int]:
    """Take standard input and output away: a planner finds nothing to read, and prints to standard error."""
    source = os.fdopen(os.dup(0), "rb")
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, answers


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) != size:
        raise EOFError
    return data


def _send(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    with suppress(BrokenPipeError):
        while rest:
            rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main()
