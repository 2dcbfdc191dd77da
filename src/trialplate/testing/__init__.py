"""Fakes and a toy suite for people who write environments, policies and scorers."""
