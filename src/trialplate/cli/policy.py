"""The command group ``trialplate policy``."""

from __future__ import annotations

from cyclopts import App

from trialplate.cli import policy_servers

policy_app = App(name="policy", help="Serve, probe and check policies.")


def register(app: App) -> None:
    """Add this group's commands."""
    policy_servers.register(policy_app)
    app.command(policy_app)
