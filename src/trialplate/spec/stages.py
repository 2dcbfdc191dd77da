"""A success chain as data: what a suite promises to look at, in order, before anything runs.

A condition names trace columns and bounds; ``trialplate.scoring`` interprets it over recordings.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trialplate.spec.channels import Frozen, Name


class Below(Frozen):
    """Holds at a step where ``column[index]`` <= ``limit`` (>= with ``op = "ge"``)."""

    kind: Literal["bound"] = "bound"
    column: str
    op: Literal["le", "ge"]
    limit: float
    unit: str


Condition = Below


class StageSpec(Frozen):
    """One stage of the ordered chain.

    ``when``: all conditions must hold at one step (``hold_steps`` consecutive steps when above 1).
    ``after``: ``state`` reads a condition; ``release`` is the end of an attachment, see ``AttachmentRule``.
    """

    name: Name
    meaning: str
    kind: Literal["state", "release"] = "state"
    when: tuple[Condition, ...]
    hold_steps: Annotated[int, Field(ge=1)] = 1
    needs_attachment: bool | None = None


class StageChain(Frozen):
    """The whole chain. ``attached`` is the column that is 1 while the object is held, else 0.

    ``gripper_command`` is the column of the executed gripper command; negative opens. A held object that is let
    go outside the release conditions loses every stage after ``restart_after``: credit needs one unbroken
    carry from grasp to release.
    """

    attached: str
    gripper_command: str
    restart_after: Name
    stages: tuple[StageSpec, ...]
    forbidden_at_start: tuple[Condition, ...] = ()
