"""Put other bytes in the place of each file of a bundle, and see what both verifiers make of it, in one process.

Run as a program: `any_bytes.py BUNDLE FOLDER SEED` prints one JSON document with what went wrong, the longest time of
one verifier on one bundle, and the most memory that the process held at any time.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from time import perf_counter

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from mutants import flipped, rechained, rehashed  # noqa: E402
from mutation import Said, Workbench, ask_package, ask_second, remembering  # noqa: E402

from sealed import sha256  # noqa: E402

MIB = 1024**2
NAMES = (
    *("lock.json", "journal.jsonl", "head.json", "rows.jsonl", "completion.json", "results.jsonl", "summary.json"),
    *("analysis.json", "claims.json", "report.html", "MANIFEST.json", "bundle.json", "tools/verify_bundle.py"),
    *("attestation.dsse.json", "models/mine.json", "episodes/000000-0/row.json", "episodes/000000-0/trace.parquet"),
    *("episodes/000000-0/exchange.parquet", "amendments/0001.json", "journal.partial"),
)
"""One file of every kind that a bundle can hold."""


def contents(draw: random.Random, own: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (what, bytes): noise, giants, texts that other readers trip over, and parts of the file itself."""
    yield "nothing", b""
    yield "zeros", bytes(MIB)
    yield "noise", draw.randbytes(5000)
    yield "17 MiB of text", b'"' + b"a" * (17 * MIB) + b'"'
    yield "lists in lists", b"[" * 100_000 + b"]" * 100_000
    yield "objects in objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    yield "a long number", b"9" * MIB
    yield "a number beyond floats", b'{"n":1e999999999}'
    yield "half a character", b'"\xed\xa0\x80"'
    yield "an escaped half", b'{"a":"\\ud800"}'
    yield "a name twice", b'{"a":1,"a":2}'
    yield "a text", b'"text"'
    yield "null", b"null"
    yield "a list", b"[[],{}]"
    yield "lines of other kinds", b"1\nnull\n[]\n{}\n"
    yield "a million lines", b"{}\n" * MIB
    yield "Parquet without a middle", b"PAR1" + own[-12:]
    yield "its first half", own[: len(own) // 2]
    yield "itself twice", own + own
    for _ in range(6):
        noisy = bytearray(own or b"{}")
        for _ in range(draw.randint(1, 8)):
            noisy[draw.randrange(len(noisy))] = draw.randrange(256)
        yield "a few other bytes", bytes(noisy)


def giants() -> Iterator[tuple[str, bytes]]:
    """Yield documents of the largest size that is read, made of as many values as fit."""
    for what, item in (("lists", b"[],"), ("numbers", b"0,"), ("texts", b'"",')):
        yield f"16 MiB of {what}", b"[" + item * ((16 * MIB - 8) // len(item)) + item[:-1] + b"]"


def bundles(files: Mapping[str, bytes], draw: random.Random) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Yield (what, files of a bundle whose digests follow from the change)."""
    for name in NAMES:
        more = list(giants()) if name in ("lock.json", "summary.json", "bundle.json") else []
        for what, data in [*contents(draw, files.get(name, b"")), *more]:
            changes = {name: data}
            yield f"{name}: {what}", rehashed(files, changes)
            rebuilt = rechained(files, changes) if len(data) < MIB else None
            if rebuilt is not None:
                yield f"{name}: {what}, chained", rehashed(rebuilt, {})
    for name in ("episodes/000000-0/trace.parquet", "episodes/000000-0/exchange.parquet"):
        for bit in draw.sample(range(8 * len(files[name])), 60):
            rebuilt = rechained(files, {name: flipped(files[name], bit)})
            if rebuilt is not None:
                yield f"{name}: bit {bit}, chained", rehashed(rebuilt, {})


def main(bundle: str, folder: str, seed: str) -> None:
    """Ask both verifiers about all of them. They live in a process of their own, whose memory is measured."""
    bench = Workbench(Path(bundle), Path(folder))
    wrong: list[str] = []
    slowest_s, slowest, asked, most_mib = 0.0, "", 0, 0.0
    command = [sys.executable, str(Path(__file__)), "--ask"]
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as asker:
        assert asker.stdin is not None and asker.stdout is not None
        for what, files in bundles(dict(bench.files), random.Random(int(seed))):
            print(bench.put(files, name=sha256(files.get("bundle.json", b""))), file=asker.stdin, flush=True)
            said = json.loads(asker.stdout.readline())
            asked, most_mib = asked + 1, said["most_mib"]
            print(f"{asked}: {what}: {said['exit_code']}, {most_mib:.0f} MiB", file=sys.stderr, flush=True)
            if said["slowest_s"] > slowest_s:
                slowest_s, slowest = said["slowest_s"], what
            wrong += [f"{what}: {line}" for line in said["wrong"]]
        asker.stdin.close()
    shutil.rmtree(bench.path)
    told = {"wrong": wrong, "asked": asked, "slowest_s": slowest_s, "slowest": slowest, "most_mib": most_mib}
    print(json.dumps(told))


def answer() -> None:
    """Read paths of bundles, one a line; write what both verifiers make of each, one document a line."""
    with remembering():
        for line in sys.stdin:
            said: dict[str, Said] = {}
            times_s = []
            for who, ask in (("package", ask_package), ("second", ask_second)):
                start_s = perf_counter()
                said[who] = ask(Path(line.rstrip("\n")))
                times_s.append(perf_counter() - start_s)
            wrong = [f"{who}: {one.crash}" for who, one in said.items() if one.crash]
            if said["package"].shared != said["second"].shared:
                wrong.append(
                    f"they disagree: { ({who: (one.exit_code, one.codes[:3]) for who, one in said.items()}) }"
                )
            most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            told = {"wrong": wrong, "slowest_s": max(times_s), "most_mib": most_mib}
            print(json.dumps({**told, "exit_code": said["package"].exit_code}), flush=True)


if __name__ == "__main__":
    answer() if sys.argv[1:] == ["--ask"] else main(*sys.argv[1:])
