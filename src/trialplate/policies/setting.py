"""What a transport must know of the run it serves, and nothing more: no suite, no scenario, no seed."""

from __future__ import annotations

from dataclasses import dataclass

from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import Budgets
from trialplate.spec.registration import Registration


@dataclass(frozen=True, slots=True)
class ActorSetting:
    """One arm and the locked terms it plays under.

    ``observation``, ``action``: as the policy sees them, behind its adapters. ``registration``: the policy's own
    identity, as it was locked; ``registration_sha256``: the digest that every observation carries and every
    decision echoes. ``max_steps``: control steps of an episode.
    """

    arm: str
    declared: PolicySpec
    observation: ObservationSpec
    action: ActionSpec
    registration: Registration
    registration_sha256: str
    replan_interval: int
    max_steps: int
    budgets: Budgets
