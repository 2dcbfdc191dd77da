"""A protocol of one arm on the toy suite, and the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "rows"
question = "What does the evidence say?"
run_class = "confirmatory"

[suite]
name = "toy"
version = "1"

[[arms]]
name = "mine"
policy = "mine.py:Arm"

[schedule]
seed = 1

[[claims]]
name = "half"
kind = "threshold_rate"
arm = "mine"
rate = 0.5
"""
SCRIPTED = "from trialplate.testing.toy import Scripted\n\n\nclass Arm(Scripted):\n    pass\n"


def counting(suite_controls: str, act: str) -> str:
    """Return the source of an arm that knows its ``episodes``; ``act``: the expression that it answers with."""
    return f"""
from trialplate import ActionChunk, Stop
from {suite_controls} import Scripted


class Arm(Scripted):
    def __init__(self):
        super().__init__()
        self.episodes = 0

    def reset(self, episode):
        super().reset(episode)
        self.episodes += 1

    def act(self, observation):
        return {act}
"""


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trialplate.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
