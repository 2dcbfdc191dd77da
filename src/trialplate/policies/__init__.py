"""Policies: how an arm is loaded, matched against a suite, and how its decisions are validated."""
