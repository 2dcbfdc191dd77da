"""trialplate: a number about a robot policy that nobody can argue with.

The main path is seven verbs::

    import trialplate as tp

    protocol = tp.load_protocol("examples/pick_place/protocol.toml")
    lock     = tp.lock(protocol, into="campaigns/pick-place-01")
    campaign = tp.run(lock)
    outcomes = tp.score(campaign)
    analysis = tp.analyse(outcomes, lock)
    claims   = tp.judge(analysis, lock)
    tp.report(campaign, claims, to="report.html")

Nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trialplate.api import Campaign, analyse, judge, load_protocol, lock, report, run, score, verify
    from trialplate.errors import (
        ContractFault,
        EvidenceError,
        HarnessFault,
        LockError,
        PlanningFailed,
        PolicyFault,
        ProtocolError,
        TrialplateError,
        UsageError,
    )
    from trialplate.record import (
        ActionChunk,
        EpisodeInfo,
        Observation,
        Outcome,
        PolicyDecision,
        SkillPlan,
        Stop,
        Usage,
    )
    from trialplate.spec.channels import (
        ActionComponent,
        ActionSpec,
        CameraSpec,
        GripperRange,
        ObservationSpec,
        PolicySpec,
        ProprioSpec,
    )
    from trialplate.spec.skills import SkillCase

_HOME = {
    **dict.fromkeys(
        ("Campaign", "analyse", "judge", "load_protocol", "lock", "report", "run", "score", "verify"),
        "trialplate.api",
    ),
    **dict.fromkeys(
        (
            "ContractFault",
            "EvidenceError",
            "HarnessFault",
            "LockError",
            "PlanningFailed",
            "PolicyFault",
            "ProtocolError",
            "TrialplateError",
            "UsageError",
        ),
        "trialplate.errors",
    ),
    **dict.fromkeys(
        ("ActionChunk", "EpisodeInfo", "Observation", "Outcome", "PolicyDecision", "SkillPlan", "Stop", "Usage"),
        "trialplate.record",
    ),
    **dict.fromkeys(
        (
            "ActionComponent",
            "ActionSpec",
            "CameraSpec",
            "GripperRange",
            "ObservationSpec",
            "PolicySpec",
            "ProprioSpec",
        ),
        "trialplate.spec.channels",
    ),
    "SkillCase": "trialplate.spec.skills",
}

__all__ = [
    "ActionChunk",
    "ActionComponent",
    "ActionSpec",
    "CameraSpec",
    "Campaign",
    "ContractFault",
    "EpisodeInfo",
    "EvidenceError",
    "GripperRange",
    "HarnessFault",
    "LockError",
    "Observation",
    "ObservationSpec",
    "Outcome",
    "PlanningFailed",
    "PolicyDecision",
    "PolicyFault",
    "PolicySpec",
    "ProprioSpec",
    "ProtocolError",
    "SkillCase",
    "SkillPlan",
    "Stop",
    "TrialplateError",
    "Usage",
    "UsageError",
    "analyse",
    "judge",
    "load_protocol",
    "lock",
    "report",
    "run",
    "score",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'trialplate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


class _Surface(ModuleType):
    """Keeps ``tp.lock``, ``tp.run`` and ``tp.report`` the verbs: importing a room of that name would replace them."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Surface
