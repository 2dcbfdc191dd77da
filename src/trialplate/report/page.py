"""Put the page together: one self-contained HTML file, no script, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from trialplate.claims import wording as say
from trialplate.report.data import ReportData
from trialplate.report.evidence import gallery, identity
from trialplate.report.headline import headline
from trialplate.report.results import results
from trialplate.report.text import visible
from trialplate.report.wire import wire

_TEMPLATES = Path(__file__).parent / "templates"
_SECTIONS = {
    "counts": "Counts",
    "rates": "Success rates",
    "comparisons": "Registered comparisons",
    "claims": "Claims",
    "stages": "Where attempts end",
    "times": "Time to success",
    "costs": "Cost and time of a success",
    "slices": "Domains and variants",
    "skills": "Skills",
    "tested": "Who was tested, and over which wire",
    "failures": "Attempts that did not pass",
    "identity": "Identity",
    "limits": "What this does not show",
}
_VERDICT_WORDS = {
    "supported": "✓ supported",
    "not_supported": "✗ not supported",
    "ineligible": "○ ineligible",
    "mixed": "◐ mixed",
    "none": "descriptive",
}


def build_report(data: ReportData, *, to: Path) -> Path:
    """Write the report of ``data`` to ``to`` and return that path."""
    to.write_text(render_report(data), encoding="utf-8")
    return to


def render_report(data: ReportData) -> str:
    """Return the report as HTML. The same data gives the same text."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    shown = results(data)
    sections = {
        anchor: title
        for anchor, title in _SECTIONS.items()
        if (anchor not in ("slices", "comparisons", "skills") or shown[anchor]["rows"])
        and (anchor != "costs" or shown["costs"])
    }
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    return environment.get_template("page.html").render(
        style=Markup(style),
        data=data,
        head=headline(data),
        results=shown,
        sections=sections,
        numbers={anchor: number for number, anchor in enumerate(sections, 1)},
        verdict_words=_VERDICT_WORDS,
        max_steps=data.lock["suite"]["max_steps"],
        wire=wire(data),
        gallery=gallery(data),
        identity=identity(data),
        limits=say.LIMITS,
        say=say.sentence,
    )


def _finalize(value: Any) -> Any:
    """Spell out invisible characters of every printed text; drawings and style are ours and stay as they are."""
    return visible(value) if type(value) is str else value
