"""Under which heading a command stands in ``trialplate --help``, and in which order."""

from __future__ import annotations

from collections.abc import Mapping

from cyclopts import App, Group

HEADINGS: Mapping[str, str] = {
    "The main path, in this order": "validate lock run score analyse judge report",
    "Look at evidence": "verify show compare render reanalyse",
    "Hand evidence on": "seal sign pack unpack promote publish current",
    "Say something beside a lock": "amend disclose cutover holdout",
    "Before a campaign": "demo doctor suites suite qualify calibrate assets plan interval",
    "Attach policies": "policy probe serve mailbox actor",
}
"""Heading -> names of commands."""


def arrange(app: App) -> None:
    """Put every command under its heading; one that has none stays where the library puts it."""
    for number, (heading, names) in enumerate(HEADINGS.items()):
        group = Group(heading, sort_key=number)
        for place, name in enumerate(names.split()):
            app[name].group = (group,)
            app[name].sort_key = place
    options = Group("Options", sort_key=len(HEADINGS))
    for name in ("--help", "--version"):
        app[name].group = (options,)
