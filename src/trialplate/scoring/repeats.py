"""Did the same arm do the same again? One arm, the same trials, two runs: episode by episode.

A difference is a flag and no verdict: it says that something other than trial and arm decided. Source: policy
contract, section 10, row 42; the digests are those of the recorded traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trialplate.record import Outcome, Status

Flag = Literal["order_dependent", "not_reproduced"]
Key = tuple[str, int]
_MEASURED = (Status.PASS, Status.FAIL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Two runs of one arm over the same (scenario, repeat).

    ``pairs``: measured in both runs and begun in the same state; ``same`` of them have the same recorded actions,
    measurements and states, ``differ`` have not, and ``results_differ`` of those ended with another status.
    ``other_start``: pairs whose worlds began differently, so nothing is said about the arm. ``unpaired``: trials that
    were not measured in both. ``same_order``: whether both runs had the trials in the same order.
    """

    arm: str
    pairs: int
    same: int
    differ: int
    results_differ: int
    other_start: int
    unpaired: int
    same_order: bool
    flag: Flag | None


def repetition(first: Sequence[Outcome], second: Sequence[Outcome], *, arm: str) -> Repetition:
    """Return how two runs of one arm agree. Outcomes come in the order in which the trials were run.

    ``order_dependent``: some episode went another way and the order was another one: the arm remembers across
    episodes, or draws from what the order changes. ``not_reproduced``: it did so in the same order.
    """
    runs = [{(outcome.scenario, outcome.repeat): outcome for outcome in run} for run in (first, second)]
    shared = [key for key in runs[0] if key in runs[1]]
    measured = [key for key in shared if all(run[key].status in _MEASURED for run in runs)]
    begun = [key for key in measured if runs[0][key].initial_state_sha256 == runs[1][key].initial_state_sha256]
    differ = [key for key in begun if runs[0][key].trace_content_sha256 != runs[1][key].trace_content_sha256]
    same_order = shared == [key for key in runs[1] if key in runs[0]]
    flag: Flag | None = None
    if differ:
        flag = "not_reproduced" if same_order else "order_dependent"
    return Repetition(
        arm=arm,
        pairs=len(begun),
        same=len(begun) - len(differ),
        differ=len(differ),
        results_differ=sum(runs[0][key].status is not runs[1][key].status for key in differ),
        other_start=len(measured) - len(begun),
        unpaired=len(runs[0].keys() | runs[1].keys()) - len(measured),
        same_order=same_order,
        flag=flag,
    )
