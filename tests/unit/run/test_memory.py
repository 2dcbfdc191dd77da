"""Freed memory stays in the process where the C library can keep it, and nothing breaks where it cannot."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from trialplate.run import memory

FAULTS = """
import resource, sys
from trialplate.run.memory import keep_freed_memory
kept = len(sys.argv) > 1 and keep_freed_memory()
def batch():
    return [bytes(196_608) for _ in range(40)]
batch(), batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*options: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, *options], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc is left as it is")
def test_batches_of_looks_ask_the_machine_for_hardly_any_pages_again() -> None:
    assert faults("kept") < faults() / 10


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory.__wrapped__() is False
