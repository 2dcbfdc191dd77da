"""``python -m trialplate.cli`` is the ``trialplate`` command."""

from trialplate.cli import main

main()
