"""Fakes and a toy suite for people who write environments, policies and scorers; a disk that fails on demand."""

from trialplate.testing.faulty_disk import FaultyDisk

__all__ = ["FaultyDisk"]
