"""Change a sealed bundle in every small way, ask both verifiers about each mutant, and print the count.

Takes hours as a whole: `--share 3/50` takes every fiftieth mutant, from the third on. Single bits are drawn
(`--bits N` of each file); that every single bit changes the digest of its file is computed for all (`--digests`).
Exit code 1 when a mutant is missed, the verifiers disagree, or one of them breaks down; each is named.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "evidence"))

from mutants import SMALL_BYTES, bit_digests, bit_flips, bit_mutant, drawn, every  # noqa: E402
from mutation import STRENGTHS, Trial, keys, read, remembering  # noqa: E402

from sealed import make_campaign, make_golden  # noqa: E402
from trialplate import sealing  # noqa: E402


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", default="0/1", metavar="K/N", help="every N-th mutant, from the K-th on")
    parser.add_argument("--strength", action="append", choices=STRENGTHS, help="only this one (repeat for more)")
    parser.add_argument("--family", action="append", help="only mutants of this family (repeat for more)")
    parser.add_argument("--each", type=int, metavar="N", help="at most N of every kind; without it all")
    parser.add_argument("--only", metavar="TEXT", help="only mutants whose name holds this text")
    parser.add_argument("--bits", type=int, default=10, metavar="N", help="single bits of each file")
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that time")
    parser.add_argument("--digests", action="store_true", help="compute the digest of every single-bit mutant")
    given = parser.parse_args()
    first, step = map(int, given.share.split("/"))
    start_s = perf_counter()
    with TemporaryDirectory() as scratch:
        golden = make_golden(Path(scratch) / "golden")
        other = read(sealing.seal(make_campaign(Path(scratch) / "other"), Path(scratch) / "others").path)
        right, wrong = keys()
        trial = Trial(golden.bundle, Path(scratch), right=right, wrong=wrong)
        draw = random.Random(given.seed)
        bits: dict[str, list[int]] = {}
        for path, bit in bit_flips(trial.files, seed=given.seed):
            bits.setdefault(path, []).append(bit)
        mutants = [
            bit_mutant(trial.files, path, bit)
            for path, listed in bits.items()
            for bit in draw.sample(listed, min(given.bits, len(listed)))
        ]
        others = every(trial.files, other)
        mutants += drawn(others, draw, each=given.each) if given.each else others
        mutants = [mutant for mutant in mutants if mutant.family in (given.family or [mutant.family])]
        mutants = [mutant for mutant in mutants if not given.only or given.only in mutant.name]
        draw.shuffle(mutants)
        chosen = list(islice(mutants, first, None, step))
        print(f"{len(trial.files)} files, {len(mutants)} mutants, {len(chosen)} chosen", flush=True)
        with remembering():
            for mutant in chosen:
                if perf_counter() - start_s > 60 * given.minutes:
                    print("stopped: out of time")
                    break
                for strength in given.strength or STRENGTHS:
                    trial.try_mutant(mutant, strength)
        print("\n".join(trial.tally.lines()))
        for code, count in trial.tally.codes.most_common():
            print(f"{count:8}  first finding {code}")
        same = 0
        if given.digests:
            small = {path: data for path, data in trial.files.items() if len(data) < SMALL_BYTES}
            for data in small.values():
                listed = hashlib.sha256(data).digest()
                same += sum(digest == listed for digest in bit_digests(data))
            print(
                f"{sum(8 * len(data) for data in small.values()):8}  single bits, {same} with the digest of the file"
            )
        print(f"{perf_counter() - start_s:8.0f}  seconds")
    return 0 if trial.tally.holds and not same else 1


if __name__ == "__main__":
    sys.exit(main())
