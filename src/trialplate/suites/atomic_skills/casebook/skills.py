"""Where each skill takes place, how many nominal cases it has, and which axes vary it.

Segments and stages stand in ``ladders``. Source: atomic-skills specification, sections 5, 10 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trialplate.suites.atomic_skills.world_spec import Scene


@dataclass(frozen=True, slots=True)
class Staging:
    """``coverage``, ``full``: nominal cases of the larger profiles. ``commanded_amount``: angle or travel."""

    scene: Scene
    coverage: int
    full: int
    grasp_endpoint: bool = True
    commanded_amount: bool = False

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What a planner must declare."""
        arms = "dual_arm" if self.scene == "dual_table" else "single_arm"
        return (arms, "parallel_gripper") if self.grasp_endpoint else (arms,)


STAGINGS: Mapping[str, Staging] = {
    "move_joints": Staging("free_space", 3, 12, grasp_endpoint=False),
    "move_end_effector": Staging("free_space", 4, 24, grasp_endpoint=False),
    "pick_up": Staging("table", 24, 48),
    "axis_align": Staging("table", 2, 8),
    "move_held_object": Staging("table", 12, 48),
    "place": Staging("table", 12, 48),
    "pour": Staging("table", 3, 9, commanded_amount=True),
    "push_object": Staging("table", 4, 16),
    "press": Staging("button", 3, 9, commanded_amount=True),
    "slide": Staging("drawer", 3, 9, commanded_amount=True),
    "open_door": Staging("door", 3, 9, commanded_amount=True),
    "twist": Staging("knob", 3, 9, commanded_amount=True),
    "coordinated_pickment": Staging("dual_table", 2, 6),
    "coordinated_placement": Staging("dual_table", 2, 6),
    "hand_over": Staging("dual_table", 2, 6),
}
"""In the order of the specification."""
