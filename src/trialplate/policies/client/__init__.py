"""Policies on other machines: the actors behind ``ws://`` and ``openpi+ws://``."""
