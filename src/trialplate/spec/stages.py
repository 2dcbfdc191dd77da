"""A success chain as data: what a suite promises to look at, in order, before anything runs.

A stage names trace columns and bounds; ``trialplate.scoring.ladder`` interprets the chain over recordings.

The shape of a chain is ``any* (held+ (released free*)?)?``, read as the attribution rule:

* ``any`` stages are passed once and stay passed;
* ``held`` stages, the one ``released`` stage and the ``free`` stages after it belong to *one unbroken carry*. When
  the attachment ends without an opening command or outside the release conditions, when a new attachment begins,
  or when ``keep`` of the released stage is broken later, the carry is lost: only the ``any`` stages remain, and
  a new carry must earn the rest again. So an object that is pushed, thrown or blown into the goal earns nothing.

Example, a block that must be carried::

    StageChain(
        attached="attached",
        opening=Condition(column="gripper_command", op="lt", limit=0.0, unit="1"),
        start_forbidden=(Condition(column="goal_offset_m", op="le", limit=0.05, unit="m"),),
        stages=(
            StageSpec(name="reached", meaning="...", attachment="any", when=(...,)),
            StageSpec(name="grasped", meaning="...", attachment="held"),
            StageSpec(name="released", meaning="...", attachment="released", when=(...,), keep=(...,)),
            StageSpec(name="stable", meaning="...", attachment="free", when=(...,), hold_steps=10),
        ),
    )
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from trialplate.spec.channels import Frozen, Name

_SHAPE = re.compile(r"a*(?:h+(?:rf*)?)?")
_LETTER = {"any": "a", "held": "h", "released": "r", "free": "f"}


class Condition(Frozen):
    """Holds at a step where ``column[index]`` stands in the relation ``op`` to ``limit`` (in ``unit``)."""

    column: str
    index: Annotated[int, Field(ge=0)] = 0
    op: Literal["le", "ge", "lt", "gt"]
    limit: Annotated[float, Field(allow_inf_nan=False)]
    unit: str


class StageSpec(Frozen):
    """One stage of the ordered chain; it can be passed only at or after the step of the stage before it.

    ``when``: all must hold at one row of the trace, or at ``hold_steps`` consecutive rows; the stage is passed at
    the last of them. Row 0 is the world at rest after reset.

    ``attachment``:

    * ``any``: the attachment is not looked at;
    * ``held``: ``when`` is read at rows where the object is attached (an empty ``when``: attached, nothing else);
    * ``released``: passed at the first row at which the object is no longer attached, if the chain's ``opening``
      and ``when`` hold at that row;
    * ``free``: ``when`` is read at rows after the release, where the object is not attached.

    ``keep`` (released stage only): must hold at every row from the release on; at the first row where one does not,
    the carry is lost.
    """

    name: Name
    meaning: str
    attachment: Literal["any", "held", "released", "free"] = "any"
    when: tuple[Condition, ...] = ()
    hold_steps: Annotated[int, Field(ge=1)] = 1
    keep: tuple[Condition, ...] = ()

    @model_validator(mode="after")
    def _says_what_it_looks_at(self) -> StageSpec:
        if self.attachment == "any" and not self.when:
            raise ValueError(f"stage {self.name!r} looks at nothing: give it at least one condition in 'when'")
        if self.attachment == "released" and self.hold_steps != 1:
            raise ValueError(f"stage {self.name!r}: a release is one moment, so hold_steps must be 1")
        if self.keep and self.attachment != "released":
            raise ValueError(f"stage {self.name!r}: 'keep' belongs to the released stage only")
        return self


class StageChain(Frozen):
    """The whole chain.

    ``attached``: the column that is exactly 1 at a row where the object is held, else exactly 0.
    ``opening``: holds at a row when the action that led to it commanded the gripper open; never read at row 0.
    ``start_forbidden``: all of these holding at row 0, or an object attached there, make the scene invalid: success
    would have been there at reset.
    """

    stages: Annotated[tuple[StageSpec, ...], Field(min_length=1)]
    attached: str | None = None
    opening: Condition | None = None
    start_forbidden: tuple[Condition, ...] = ()

    @model_validator(mode="after")
    def _one_carry_in_order(self) -> StageChain:
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"stage names repeat: {names}")
        if not _SHAPE.fullmatch("".join(_LETTER[stage.attachment] for stage in self.stages)):
            order = ", ".join(f"{stage.name}={stage.attachment}" for stage in self.stages)
            raise ValueError(f"stages must be any..., held..., one released, free... in this order; got {order}")
        carries = any(stage.attachment != "any" for stage in self.stages)
        if carries != (self.attached is not None) or carries != (self.opening is not None):
            raise ValueError("'attached' and 'opening' are needed for a chain with held stages, and only there")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Stage names in order."""
        return tuple(stage.name for stage in self.stages)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every trace column that the chain reads, sorted."""
        read = {condition.column for stage in self.stages for condition in (*stage.when, *stage.keep)}
        read |= {condition.column for condition in self.start_forbidden}
        if self.attached is not None and self.opening is not None:
            read |= {self.attached, self.opening.column}
        return tuple(sorted(read))
