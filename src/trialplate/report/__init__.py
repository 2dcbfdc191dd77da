"""The report of a campaign: one self-contained HTML file."""

from trialplate.report.data import Change, Latency, Media, ReportData, Said, SuiteFacts
from trialplate.report.page import build_report, render_report

__all__ = ["Change", "Latency", "Media", "ReportData", "Said", "SuiteFacts", "build_report", "render_report"]
