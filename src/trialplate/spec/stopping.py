"""A registered stopping rule: after which pairs it may be looked, and what ends a run early.

Source: statistics specification, section 8. Without one a run has a fixed number of trials and one analysis.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from trialplate.spec.channels import Frozen

MAX_GROUP_LOOKS = 20
Pairs = Annotated[int, Field(ge=1, le=1_000_000)]


class StoppingPlan(Frozen):
    """When a run may end before its last planned trial.

    ``arms``: whose pairs are looked at, (A, B), one of ``analysis.comparisons``. ``looks``: after how many blocks,
    increasing, or ``each``; a block is one scenario and repeat under every arm. ``e_process`` stops when the e-value
    of the discordant pairs reaches 1/``alpha``, valid at any look; ``group_sequential`` when (b - c)/sqrt(b + c)
    reaches its Lan-DeMets bound, two-sided, with the last look behind the last block. ``alternative``: of the
    e-process; ``greater`` is A above B. ``spending``: of group-sequential looks. ``futility``: ``out_of_reach`` also
    ends a run when no outcome of the blocks that are left could make the rule reject.
    """

    kind: Literal["e_process", "group_sequential"]
    arms: tuple[str, str]
    looks: Literal["each"] | Annotated[tuple[Pairs, ...], Field(min_length=1)]
    alpha: Annotated[float, Field(gt=0.0, lt=0.5)] = 0.05
    alternative: Literal["two-sided", "greater"] | None = None
    spending: Literal["obrien-fleming", "pocock"] | None = None
    futility: Literal["none", "out_of_reach"] = "none"

    @model_validator(mode="after")
    def _says_what_its_kind_needs(self) -> StoppingPlan:
        wanted, other = ("alternative", "spending") if self.kind == "e_process" else ("spending", "alternative")
        if getattr(self, wanted) is None:
            raise ValueError(f"{wanted}: kind '{self.kind}' needs it")
        if getattr(self, other) is not None:
            raise ValueError(f"{other}: has no use with kind '{self.kind}'")
        if self.kind == "group_sequential" and not (self.looks != "each" and len(self.looks) <= MAX_GROUP_LOOKS):
            raise ValueError(f"looks: kind 'group_sequential' needs a list of at most {MAX_GROUP_LOOKS}")
        if self.looks != "each" and any(later <= earlier for earlier, later in pairwise(self.looks)):
            raise ValueError(f"looks: expected increasing numbers, got {list(self.looks)}")
        return self

    def looks_within(self, blocks: int) -> tuple[int, ...]:
        """Return after how many blocks the rule is applied, of so many planned ones."""
        return tuple(range(1, blocks + 1)) if self.looks == "each" else self.looks
