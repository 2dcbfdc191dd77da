"""The run's side of a planner's process: ask, wait until a deadline, believe nothing, and end it whatever happens.

Source: atomic skills, sections 4 and 6, step 5.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from trialplate.errors import LockError, PlanFault
from trialplate.policies.charging import recordable
from trialplate.policies.planning.frames import MalformedFrame, packed, read_frame
from trialplate.record import SkillPlan
from trialplate.record.plan_check import check_trajectory
from trialplate.spec.skills import SkillCase

_PIECE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class PlannerSource:
    """Where a planner comes from: ``reference`` ``module:attr`` or ``file.py:attr`` below ``base``."""

    reference: str
    base: Path
    weights: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannerCard:
    """Who a planner says it is."""

    id: str
    version: str
    capabilities: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the plain form that stands in the lock."""
        return {"id": self.id, "version": self.version, "capabilities": list(self.capabilities)}


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan that may be replayed, if its segments are right. ``belief_refused``: there was one that is none."""

    plan: SkillPlan
    belief_refused: bool


class PlannerProcess:
    """One process for one plan; use it as a context. It starts loading the planner at once."""

    def __init__(self, source: PlannerSource) -> None:
        self._source = source
        self._buffer = bytearray()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trialplate.policies.planning.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # ended as a whole, and a Ctrl-C at the terminal is the run's to handle
        )
        self._ask(
            {
                "reference": source.reference,
                "base": str(source.base),
                "weights": list(source.weights),
                "options": dict(source.options),
                "sys_path": list(sys.path),
            }
        )

    def __enter__(self) -> PlannerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def card(self, *, timeout_s: float) -> PlannerCard:
        """Return who the planner is. Raises PlanFault ``planner_exception`` or ``timeout`` when it cannot be made."""
        header, _ = self._answer(timeout_s, doing="loading")
        match header:
            case {"kind": "card", "id": str(name), "version": str(version), "capabilities": list(able)}:
                return PlannerCard(
                    recordable(name), recordable(version), tuple(recordable(str(item)) for item in able)
                )
            case {"kind": "unloadable", "message": str(message)}:
                raise PlanFault(f"planner {self._source.reference!r} cannot be made: {recordable(message)}")
        raise self._nonsense("a header that says not who it is")

    def plan(self, document: Mapping[str, Any], case: SkillCase, *, timeout_s: float) -> Planned:
        """Return the plan for a case, checked. ``document``: the case as the planner may see it.

        Raises PlanFault.
        """
        self._ask(document)
        header, data = self._answer(timeout_s, doing="planning")
        match header:
            case {"kind": "fault", "code": str(code), "message": str(message)}:
                detail = header.get("detail")
                known = code if code in ("planner_exception", "planner_reported_failure") else "planner_exception"
                raise PlanFault(recordable(message), code=known, detail=detail if isinstance(detail, str) else None)
            case {"kind": "plan", "shape": [int(rows), int(columns)], "dt_s": float(dt_s), "segments": list(listed)}:
                if min(rows, columns) < 0 or 8 * rows * columns != len(data):
                    raise self._nonsense(f"{len(data)} bytes for a plan of shape {(rows, columns)}")
                trajectory = np.frombuffer(data, dtype="<f8").reshape(rows, columns).astype(np.float64)
                plan = SkillPlan(trajectory, dt_s, self._segments(listed), _belief(header.get("belief")))
                check_trajectory(plan, case)
                return Planned(plan, belief_refused=header.get("belief_refused") is True)
        raise self._nonsense("a header that is no plan")

    def end(self) -> None:
        """End the process and everything it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _segments(self, listed: list[Any]) -> dict[str, slice]:
        found: dict[str, slice] = {}
        for item in listed:
            match item:
                case [str(name), int() | None as start, int() | None as stop]:
                    found[recordable(name)] = slice(start, stop)
                case _:
                    raise self._nonsense("segments that are none")
        return found

    # -- the pipe ----------------------------------------------------------------------------------------------

    def _ask(self, header: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # a process that died is found by its answer
            self._process.stdin.write(packed(header))
            self._process.stdin.flush()

    def _answer(self, timeout_s: float, *, doing: str) -> tuple[dict[str, Any], bytes]:
        deadline = monotonic() + timeout_s

        def read(size: int) -> bytes:
            while len(self._buffer) < size:
                self._receive(deadline, timeout_s, doing)
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            return data

        try:
            return read_frame(read)
        except MalformedFrame as error:
            raise self._nonsense(str(error)) from None

    def _receive(self, deadline: float, timeout_s: float, doing: str) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        heard = select.poll()
        heard.register(descriptor, select.POLLIN)
        left_s = deadline - monotonic()
        if left_s <= 0 or not heard.poll(1000 * left_s):
            raise PlanFault(f"the planner gave no answer within {timeout_s:g} s while {doing}", code="timeout")
        data = os.read(descriptor, _PIECE_BYTES)
        if not data:
            with suppress(subprocess.TimeoutExpired):  # it may have closed the pipe and live on
                self._process.wait(1.0)
            raise PlanFault(f"the planner's process ended while {doing}, with exit code {self._process.returncode}")
        self._buffer += data

    def _nonsense(self, what: str) -> PlanFault:
        return PlanFault(f"the planner's process sent what is no answer: {what}")


def _belief(value: Any) -> dict[str, bool] | None:
    if not isinstance(value, dict) or not all(type(item) is bool for item in value.values()):
        return None
    return {recordable(name): item for name, item in value.items()}


def describe_planner(source: PlannerSource, *, timeout_s: float) -> PlannerCard:
    """Return who a planner is. Raises LockError ``planner_load`` when it cannot be made."""
    with PlannerProcess(source) as process:
        try:
            return process.card(timeout_s=timeout_s)
        except PlanFault as fault:
            raise LockError(fault.message, code="planner_load") from None
