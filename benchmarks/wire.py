"""Recorded steps a second over ws://, beside programs that do less: openpi-client, and vla-eval with its saving.

Every contender has its client and its server in processes of their own on loopback; the policy answers at once. A
step is one call with two 256x256x3 pictures and eight numbers. Ours is a whole campaign: observation, checks, ws://,
validation, execution, digests, trace, journal, and every exchange with its pictures in a file. openpi-client asks its
bare server and keeps nothing. vla-eval runs its own episodes with raw pictures on the wire and saves what it saves by
default, without pictures. They take turns, and the median over the rounds of the ratio within a round counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from statistics import median

from figures import Figure, main
from wire_contenders import Ours, Peer, Round, peer_python, save_pictures, suite_installed

STEPS, ROUNDS = 300, 7
QUICK_STEPS, QUICK_ROUNDS = 20, 1
OPENPI_LATENCY_MS = 1.10
LATENCY_MS = 1.2
"""What a call may take where openpi-client's takes ``OPENPI_LATENCY_MS``: two cores, Linux."""

Contender = Ours | Peer


def rounds_of(contenders: Mapping[str, Contender], *, steps: int, rounds: int) -> Mapping[str, list[Round]]:
    """Let everybody take a turn in each round, each time with another first, after one round that does not count."""
    names, found = list(contenders), {name: [] for name in contenders}
    for name in names:
        contenders[name].turn(min(steps, QUICK_STEPS))
    for n in range(rounds):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            found[name].append(contenders[name].turn(steps))
    return found


def ratio(found: Mapping[str, Sequence[Round]], peer: str, of: Callable[[Round], float]) -> float | None:
    """Return the median over the rounds of our value over the peer's, None where the peer is not installed."""
    if peer not in found:
        return None
    return median(of(ours) / of(theirs) for ours, theirs in zip(found["ours"], found[peer], strict=True))


def speed(found: Mapping[str, Sequence[Round]], name: str) -> str:
    """Return the median speed of a contender for people."""
    if name not in found:
        return f"{name} is not installed: make peers"
    return f"{median(r.steps_per_s for r in found[name]):.0f} steps/s"


def measure(quick: bool) -> list[Figure]:
    """Let all contenders take turns."""
    steps, rounds = (QUICK_STEPS, QUICK_ROUNDS) if quick else (STEPS, ROUNDS)
    with ExitStack() as stack:
        folder = stack.enter_context(suite_installed())
        path = save_pictures(folder)
        contenders: dict[str, Contender] = {"ours": Ours(stack, folder)}
        for name, script in (("openpi", "openpi_turns.py"), ("vla-eval", "vla_eval_turns.py")):
            if peer_python(name) is not None:
                contenders[name] = Peer(stack, name, script, pictures=path)
        found = rounds_of(contenders, steps=steps, rounds=rounds)
        kept = contenders["ours"].kept_bytes_per_step
    latency_ms = {name: median(r.latency_ms for r in turns) for name, turns in found.items()}
    ours = f"{speed(found, 'ours')} recorded in full ({kept / 1000:.0f} kB a step on disk)"
    latencies = ", ".join(f"{name} {value:.2f} ms" for name, value in latency_ms.items())
    openpi, vla_eval = f"openpi-client unrecorded: {speed(found, 'openpi')}", f"vla-eval: {speed(found, 'vla-eval')}"
    return [
        Figure(
            "recorded steps/s over openpi-client's",
            ratio(found, "openpi", _speed),
            ">=",
            1.0,
            "",
            f"{ours}; {openpi}",
        ),
        Figure(
            "recorded steps/s over vla-eval's with saving",
            ratio(found, "vla-eval", _speed),
            ">=",
            1.5,
            "",
            f"{ours}; {vla_eval}",
        ),
        Figure("median latency of a call", latency_ms["ours"], "<=", LATENCY_MS, "ms", latencies),
        Figure(
            "median latency over openpi-client's",
            ratio(found, "openpi", _latency),
            "<=",
            LATENCY_MS / OPENPI_LATENCY_MS,
            "",
            latencies,
        ),
    ]


def _speed(turn: Round) -> float:
    return turn.steps_per_s


def _latency(turn: Round) -> float:
    return turn.latency_ms


if __name__ == "__main__":
    main(measure, __doc__ or "")
