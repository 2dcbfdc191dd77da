"""What happened: frozen records of decisions, observations, episodes and traces."""

from trialplate.record.decision import Ack, ActionChunk, Decision, EndReason, Issue, PolicyDecision, Stop, Usage
from trialplate.record.episode import (
    USAGE_MEMBERS,
    Conduct,
    Event,
    ExchangeRef,
    Outcome,
    Row,
    StageResult,
    Status,
    Timing,
    TraceRef,
)
from trialplate.record.exchange import Exchange
from trialplate.record.observation import EpisodeInfo, History, Measurement, Observation, Remaining
from trialplate.record.skills import SkillFacts, SkillPlan, StagePart, StageRecord
from trialplate.record.trace import Column, Trace

__all__ = [
    "USAGE_MEMBERS",
    "Ack",
    "ActionChunk",
    "Column",
    "Conduct",
    "Decision",
    "EndReason",
    "EpisodeInfo",
    "Event",
    "Exchange",
    "ExchangeRef",
    "History",
    "Issue",
    "Measurement",
    "Observation",
    "Outcome",
    "PolicyDecision",
    "Remaining",
    "Row",
    "SkillFacts",
    "SkillPlan",
    "StagePart",
    "StageRecord",
    "StageResult",
    "Status",
    "Stop",
    "Timing",
    "Trace",
    "TraceRef",
    "Usage",
]
