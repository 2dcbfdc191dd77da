"""The command line: the same verbs, one file per group of commands.

Exit codes, everywhere: 0 the answer is yes; 1 the answer is no (incomplete, an ERROR, not verified, not supported);
2 bad input, or refused before the first attempt; 3 (verify, judge, seal and promote) intact but blocked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from trialplate.cli import (
    campaign,
    compare,
    headings,
    interval,
    ledgers,
    machine,
    mailbox,
    output,
    plan,
    policy,
    probe,
    publish,
    reanalyse,
    run,
    seal,
    serve,
    skills,
    suites,
)
from trialplate.run.streams import print_lossily

app = App(
    name="trialplate",
    help="Numbers about robot policies that nobody can argue with.\n\n"
    "Exit codes: 0 yes; 1 no (incomplete, ERROR, not verified); 2 bad input; 3 intact but blocked. Every command"
    " takes --json, and tells its options with --help.",
    version=output.version,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    help_format="plaintext",
)
for group in (
    campaign,
    reanalyse,
    ledgers,
    run,
    seal,
    publish,
    compare,
    interval,
    plan,
    suites,
    skills,
    policy,
    serve,
    mailbox,
    probe,
    machine,
):
    group.register(app)
headings.arrange(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the ``trialplate`` command."""
    out = print_lossily()
    code = output.guarded(app, list(sys.argv[1:] if arguments is None else arguments))
    sys.stdout.flush()
    sys.exit(output.told(code, out.failure))
