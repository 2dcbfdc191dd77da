"""An arm that a driver plays from outside, as the run sees it.

Source: policy contract, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable

from trialplate.interfaces import Scenario
from trialplate.policies.service.rendezvous import Rendezvous
from trialplate.policies.setting import ActorSetting
from trialplate.record import Ack, EndReason, EpisodeInfo, Measurement, Observation, PolicyDecision


class ServedActor:
    """The arm's side of a rollout when a driver plays it from outside (:class:`trialplate.interfaces.Actor`)."""

    def __init__(self, rendezvous: Rendezvous, setting: ActorSetting) -> None:
        self._rendezvous, self._setting = rendezvous, setting

    def reset(self, episode: EpisodeInfo, scenario: Scenario) -> None:
        """Announce the episode; the scenario is shown to nobody."""
        self._rendezvous.open(episode, arm=self._setting.arm)

    def ask(self, observation: Observation, measure: Callable[[], Measurement]) -> PolicyDecision:
        """Return the decision that a driver sends. Raises PolicyFault, ContractFault or HarnessFault."""
        budgets = self._setting.budgets
        limit_s = budgets.call_timeout_s if observation.call_index else budgets.first_call_timeout_s
        return self._rendezvous.decide(observation, limit_s=limit_s)

    def acknowledge(self, ack: Ack) -> None:
        """Reply to the request that brought the decision."""
        self._rendezvous.settle(ack)

    def end(self, reason: EndReason) -> None:
        """Tell whoever looks that the episode has ended."""
        self._rendezvous.finish(reason)

    def close(self) -> None:
        """Nothing is held: the table belongs to the service."""
