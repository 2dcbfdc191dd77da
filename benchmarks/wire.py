"""Recorded steps a second over ws://, beside programs that record less: openpi-client and vla-eval.

Every contender has its client and its server in processes of their own on loopback; the policy answers at once. A
step is one call with two 256x256x3 pictures and eight numbers. Ours is a whole campaign: observation, checks, ws://,
validation, execution, digests, trace, journal, and every exchange with its pictures in a file, bit for bit.
openpi-client asks its bare server and keeps nothing. vla-eval runs its own episodes with raw pictures on the wire,
and saves: in one contender what it saves by default, numbers without pictures; in the other one pictures too, in the
one way it knows, a video of one camera. What saves no pictures is held against ours with recording = minimal, which
keeps all that a score needs: rows, acks, and digests of every state and every picture.

They take turns, each turn with new processes, because how a process happens to get its memory makes a third of the
speed of some. The median over the rounds of the ratio within a round counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from figures import Figure, main
from wire_contenders import PICTURES, Ours, Peer, Round, peer_python, save_pictures, suite_installed

STEPS, ROUNDS, WARM_UP_STEPS = 300, 9, 50
QUICK_STEPS, QUICK_ROUNDS = 20, 1
OPENPI_LATENCY_MS = 1.10
LATENCY_MS = 1.2
"""What a call may take where openpi-client's takes ``OPENPI_LATENCY_MS``: two cores, Linux."""

OURS, OPENPI = "ours", "openpi-client, nothing saved"
SCORED = "ours, no pictures saved"
NUMBERS, VIDEO = "vla-eval, numbers saved", "vla-eval, pictures saved"
PEERS = {
    OPENPI: ("openpi", "openpi_turns.py"),
    NUMBERS: ("vla-eval", "vla_eval_turns.py"),
    VIDEO: ("vla-eval", "vla_eval_turns.py", "video"),
}
Found = Mapping[str, Sequence[Round]]


def turn(name: str, folder: Path, *, steps: int) -> Round:
    """Let one contender take its turn with new processes, after a few steps that do not count."""
    with ExitStack() as stack:
        contender: Ours | Peer
        if name in (OURS, SCORED):
            contender = Ours(stack, folder, recording="detailed" if name == OURS else "minimal")
        else:
            peer, script, *options = PEERS[name]
            contender = Peer(stack, peer, script, *options, pictures=folder / PICTURES)
        contender.turn(min(steps, WARM_UP_STEPS))
        return contender.turn(steps)


def rounds_of(folder: Path, *, steps: int, rounds: int) -> Found:
    """Let everybody who is installed take a turn in each round, each time with another first."""
    names = [OURS, SCORED, *(name for name in PEERS if peer_python(PEERS[name][0]) is not None)]
    found: dict[str, list[Round]] = {name: [] for name in names}
    for n in range(rounds):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            found[name].append(turn(name, folder, steps=steps))
    return found


def ratio(found: Found, peer: str, of: Callable[[Round], float], *, ours: str = OURS) -> float | None:
    """Return the median over the rounds of our value over the peer's, None where the peer is not installed."""
    if peer not in found:
        return None
    return median(of(mine) / of(theirs) for mine, theirs in zip(found[ours], found[peer], strict=True))


def speeds(found: Found, *names: str, ours: str = OURS) -> str:
    """Return the median speeds of contenders for people."""
    kept = median(r.kept_bytes / r.steps for r in found[ours])
    told = [f"{median(r.steps_per_s for r in found[ours]):.0f} steps/s with {kept / 1000:.1f} kB a step kept"]
    for name in names:
        rates = [r.steps_per_s for r in found.get(name, ())]
        told.append(f"{name}: {median(rates):.0f}" if rates else f"{name}: not installed, make peers")
    return "; ".join(told)


def measure(quick: bool) -> list[Figure]:
    """Let all contenders take turns."""
    steps, rounds = (QUICK_STEPS, QUICK_ROUNDS) if quick else (STEPS, ROUNDS)
    with suite_installed() as folder:
        save_pictures(folder / PICTURES)
        found = rounds_of(folder, steps=steps, rounds=rounds)
    latency_ms = {name: median(r.latency_ms for r in turns) for name, turns in found.items()}
    latencies = "; ".join(f"{name} {value:.2f} ms" for name, value in latency_ms.items())
    return [
        Figure(f"steps/s over {OPENPI}", ratio(found, OPENPI, _speed), ">=", 1.0, "", speeds(found, OPENPI)),
        Figure(
            f"steps/s over {VIDEO}",
            ratio(found, VIDEO, _speed),
            ">=",
            1.5,
            "",
            speeds(found, VIDEO),
        ),
        Figure(
            f"steps/s over {OPENPI}, recording = minimal",
            ratio(found, OPENPI, _speed, ours=SCORED),
            ">=",
            1.0,
            "",
            speeds(found, OPENPI, ours=SCORED),
        ),
        Figure(
            f"steps/s over {NUMBERS}, recording = minimal",
            ratio(found, NUMBERS, _speed, ours=SCORED),
            ">=",
            1.5,
            "",
            speeds(found, NUMBERS, ours=SCORED),
        ),
        Figure("median latency of a call", latency_ms[OURS], "<=", LATENCY_MS, "ms", latencies),
        Figure(
            "median latency over openpi-client's", ratio(found, OPENPI, _latency), "<=",
            LATENCY_MS / OPENPI_LATENCY_MS, "", latencies,
        ),
    ]  # fmt: skip


def _speed(found: Round) -> float:
    return found.steps_per_s


def _latency(found: Round) -> float:
    return found.latency_ms


if __name__ == "__main__":
    main(measure, __doc__ or "")
