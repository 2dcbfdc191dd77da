"""Does a policy fit the suite? Asked before anything runs; nothing is zero-filled or guessed."""

from __future__ import annotations

from trialplate.errors import LockError, nearest
from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec


def mismatches(
    declared: PolicySpec, observation: ObservationSpec, *, action: ActionSpec, replan_interval: int
) -> list[str]:
    """Return one line for each thing the policy expects or sends that the suite does not have."""
    lines = []
    cameras = [camera.name for camera in observation.cameras]
    proprio = [channel.name for channel in observation.proprio]
    for kind, wanted, offered in (("camera", declared.cameras, cameras), ("proprio", declared.proprio, proprio)):
        for name in wanted:
            if name not in offered:
                lines.append(
                    f"{kind} {name!r}: expected by the policy, not sent under this profile{nearest(name, offered)}"
                )
        if len(set(wanted)) != len(wanted):
            lines.append(f"{kind}: the policy lists a channel twice: {list(wanted)}")
    if declared.action_dim != action.dim:
        lines.append(
            f"action dim: the suite takes {action.dim} numbers a row, the policy sends {declared.action_dim}"
        )
    if declared.control_hz != action.control_hz:
        lines.append(
            f"control_hz: the suite runs at {action.control_hz}, the policy was made for {declared.control_hz}"
        )
    if declared.chunk_length is not None and replan_interval > declared.chunk_length:
        lines.append(
            f"replan_exceeds_chunk: replan_interval {replan_interval} is above the policy's chunk_length "
            f"{declared.chunk_length}"
        )
    return lines


def refuse_mismatch(
    arm: str, declared: PolicySpec, observation: ObservationSpec, *, action: ActionSpec, replan_interval: int
) -> None:
    """Raise LockError (``contract_mismatch``) listing every mismatch of an arm, if there is any."""
    lines = mismatches(declared, observation, action=action, replan_interval=replan_interval)
    if lines:
        listed = "\n  ".join(lines)
        raise LockError(f"arm {arm!r} does not fit the suite:\n  {listed}", code="contract_mismatch")
