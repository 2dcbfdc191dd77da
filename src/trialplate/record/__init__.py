"""What happened: frozen records of decisions, observations, episodes and traces."""

from trialplate.record.decision import ActionChunk, Decision, Stop
from trialplate.record.episode import Event, Outcome, Row, StageResult, Status, Timing, TraceRef
from trialplate.record.observation import EpisodeInfo, Measurement, Observation
from trialplate.record.trace import Column, Trace

__all__ = [
    "ActionChunk",
    "Column",
    "Decision",
    "EpisodeInfo",
    "Event",
    "Measurement",
    "Observation",
    "Outcome",
    "Row",
    "StageResult",
    "Status",
    "Stop",
    "Timing",
    "Trace",
    "TraceRef",
]
