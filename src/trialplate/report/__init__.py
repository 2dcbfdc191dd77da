"""The report of a campaign: one self-contained HTML file."""

from trialplate.report.data import Media, ReportData, SuiteFacts
from trialplate.report.page import build_report, render_report

__all__ = ["Media", "ReportData", "SuiteFacts", "build_report", "render_report"]
