"""Both verifiers on every mutant: who finds it, with what, and do they agree where both look."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mutants import Files, Mutant, kind_of, rechained, rehashed

from sealed import sha256
from trialplate import exam, fingerprint
from trialplate.cli.output import _exit_code
from trialplate.errors import TrialplateError
from trialplate.store import traces
from trialplate.store.findings import STAGE_NAMES, finding
from trialplate.store.signing import Trust, sign
from trialplate.store.witness import read_witness
from trialplate.verification import campaign as campaign_check
from trialplate.verification import qualification as control_check

SCRIPT = Path(__file__).parents[2] / "tools" / "verify_bundle.py"
STRENGTHS = ("raw", "rehashed", "rechained", "signed")
SHARED_STAGES = (1, 2, 4, 5, 6)
"""Stages, as the specification counts them, that both verifiers look at in the same files."""

BENIGN: Mapping[str, str] = {
    "report.html": "derived text for people, with pictures; only its digest is kept, and that was recomputed",
}
"""Files of which a rehashed mutant may pass, and why."""

KEPT = ("lock", "root", "head", "bundle id")
"""What somebody may have kept of the bundle as it was, from the weakest to the strongest."""


def keys() -> tuple[bytes, bytes]:
    """Return a public key that counts (32 bytes), and the private key (PEM) of somebody else."""
    right, wrong = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    return right.public_key().public_bytes_raw(), wrong.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def load_second() -> ModuleType:
    """Load the second verifier from its file."""
    spec = importlib.util.spec_from_file_location("second_verifier", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SECOND = load_second()


@dataclass(frozen=True, slots=True)
class Said:
    """What one verifier said: exit code, codes, and the exit code over the stages that both have."""

    exit_code: int
    codes: tuple[str, ...]
    shared: int
    crash: str = ""


def shared_exit(codes: Iterator[str]) -> int:
    """Return the exit code that follows from the findings of the shared stages alone."""
    ranks = [SECOND.RANK[code] for code in codes if code in SECOND.RANK and SECOND.RANK[code][0] in SHARED_STAGES]
    return min((by for stage, by in ranks if stage == min(ranks)[0]), key=(2, 1, 3).index, default=0)


def ask_second(path: Path) -> Said:
    """Run the second verifier in this process."""
    try:
        said = SECOND.verify(str(path))
    except Exception:
        return Said(-1, (), -1, traceback.format_exc(limit=-3))
    codes = tuple(item["code"] for item in said["findings"])
    return Said(said["exit_code"], codes, shared_exit(iter(codes)))


def told_by(path: Path, kept: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of the kept digests a whole bundle contradicts; the verifiers are asked about each by itself."""
    said = []
    for name in ("lock", "root"):
        package = exam.verify(path, expected=exam.Expected(**{name: kept[name]})).exit_code
        second = SECOND.verify(str(path), **{f"expect_{name}": kept[name]})["exit_code"]
        assert package == second, f"--expect-{name}: package {package}, second {second}"
        said += [name] if package == 1 else []
    if exam.verify(path, expected=exam.Expected(heads=(read_witness(kept["head"]),))).exit_code == 1:
        said.append("head")
    return (*said, *(["bundle id"] if path.name != kept["bundle id"] else []))


def ask_package(path: Path, *, trust: Trust | None = None) -> Said:
    """Run the package's verifier in this process, with the exit codes of its command."""
    aside: list[Any] = []
    try:
        with _coherence_aside(aside):
            verdict = exam.verify(path, expected=exam.Expected(trust=trust) if trust else None)
    except TrialplateError as error:
        return Said(_exit_code(error), (error.code,), shared_exit(iter((error.code,))))
    except Exception:
        return Said(-1, (), -1, traceback.format_exc(limit=-4))
    findings = verdict.findings
    for item in findings:
        assert finding(item.code, item.path).stage < len(STAGE_NAMES), item.code
    beyond = {(item.code, item.pointer) for item in aside}
    codes = [item.code for item in findings if (item.code, item.pointer) not in beyond and not _of_recording(item)]
    return Said(verdict.exit_code, tuple(item.code for item in findings), shared_exit(iter(codes)))


def _of_recording(item: Any) -> bool:
    return item.pointer.endswith("content_sha256")


@contextmanager
def _coherence_aside(found: list[Any]) -> Iterator[None]:
    """Note what was found by comparison with the installed suite, which the second verifier does not have."""
    inner = campaign_check.coherence_findings

    def noting(*view: Any) -> Any:
        listed = inner(*view)
        found.extend(listed)
        return listed

    with mock.patch.object(campaign_check, "coherence_findings", noting):
        yield


@contextmanager
def remembering() -> Iterator[None]:
    """Let both verifiers look once only at control runs and sources whose bytes are the same as before."""
    runs: dict[Any, Any] = {}
    inner = control_check._examined

    def examined(folder: Path, suite: Any, name: str, control: str) -> Any:
        key = (name, _content(folder / name))
        if key not in runs:
            runs[key] = inner(folder, suite, name, control)
        return runs[key]

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(control_check, "_examined", examined))
        for name in ("harness", "harness_files", "sources"):
            stack.enter_context(mock.patch.object(fingerprint, name, _memo(getattr(fingerprint, name))))
        stack.enter_context(mock.patch.object(traces, "read_trace", lru_cache(500)(traces.read_trace)))
        stack.enter_context(mock.patch.object(SECOND, "parse", lru_cache(5000)(SECOND.parse)))
        yield


def _memo(inner: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[str, Any] = {}

    def remembered(*arguments: Any) -> Any:
        key = repr(arguments)
        if key not in known:
            known[key] = inner(*arguments)
        return known[key]

    return remembered


def _content(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        entry = path.lstat()
        digest.update(f"{path}\0{entry.st_mode}\0{entry.st_nlink}\0".encode())
        if path.is_file():
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


class Workbench:
    """A folder that holds one mutant at a time."""

    def __init__(self, golden: Path, folder: Path) -> None:
        self.files = read(golden)
        self.path = Path(shutil.copytree(golden, folder / golden.name))
        for path in self.path.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self._name = golden.name
        self._now = dict(self.files)

    def put(self, whole: Files, *, name: str) -> Path:
        """Write these files, and nothing else, under this name."""
        for path in self._now.keys() - whole.keys():
            (self.path / path).unlink()
            for parent in (self.path / path).parents:
                if parent == self.path or any(parent.iterdir()):
                    break
                parent.rmdir()
        for path, data in whole.items():
            if self._now.get(path) != data:
                (self.path / path).parent.mkdir(parents=True, exist_ok=True)
                (self.path / path).write_bytes(data)
        self._now = dict(whole)
        if self.path.name != name:
            self.path = self.path.rename(self.path.with_name(name))
        return self.path

    def stamps(self) -> dict[str, tuple[int, int, int]]:
        """Return what would tell that something was written."""
        found = {}
        for path in (self.path, *self.path.rglob("*")):
            entry = path.lstat()
            found[str(path)] = (entry.st_size, entry.st_mtime_ns, entry.st_mode)
        return found


def read(folder: Path) -> dict[str, bytes]:
    """Return every file of a bundle."""
    listed = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in listed}


@dataclass(slots=True)
class Tally:
    """What came of the mutants. ``missed``, ``disagreed``, ``broken``: one line each."""

    tried: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    benign: Counter[str] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    slowest_s: float = 0.0
    missed: list[str] = field(default_factory=list)
    disagreed: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing was missed, nobody disagreed and nobody broke down."""
        return not (self.missed or self.disagreed or self.broken)

    def lines(self) -> Iterator[str]:
        """Yield the result, for people."""
        for strength in STRENGTHS:
            if self.tried[strength]:
                benign = sum(self.benign.values()) if strength == "rehashed" else 0
                kept = sum(self.kept.values()) if strength == "rechained" else 0
                more = f"{kept:6} with a kept digest only {benign:6} benign"
                yield f"{strength:10} {self.tried[strength]:8} tried {self.caught[strength]:8} caught {more}"
        for name, count in sorted(self.benign.items()):
            yield f"benign     {count:8} rehashed mutants of {name}: {BENIGN[name]}"
        for (name, which), count in sorted(self.kept.items()):
            yield f"kept       {count:8} caught only with a kept digest ({which}): {name}"
        yield f"slowest    {self.slowest_s:8.2f} s for both verifiers together"
        for what, listed in (("MISSED", self.missed), ("DISAGREED", self.disagreed), ("BROKEN", self.broken)):
            yield f"{what.lower():10} {len(listed):8}"
            yield from (f"{what} {line}" for line in listed[:200])


class Trial:
    """Makes mutants, asks both verifiers about each, and keeps the tally."""

    def __init__(self, golden: Path, folder: Path, *, right: bytes, wrong: bytes) -> None:
        """``right``: the public key (32 bytes) that counts; ``wrong``: another private key, in PEM."""
        self.bench = Workbench(golden, folder)
        self.files = self.bench.files
        self.golden_id = golden.name
        self.tally = Tally()
        self._trust, self._wrong = Trust((right,)), wrong
        sealed, head = json.loads(self.files["bundle.json"]), json.loads(self.files["head.json"])
        witness = f"{head['count']}:{head['head_sha256']}"
        self._kept = {"lock": sealed["lock_sha256"], "root": sealed["rows"]["root"], "head": witness}
        self._kept["bundle id"] = self.golden_id

    def untouched(self) -> tuple[int, int]:
        """Return what both say about the bundle as it was sealed."""
        path = self.bench.put(self.files, name=self.golden_id)
        return ask_package(path).exit_code, ask_second(path).exit_code

    def try_mutant(self, mutant: Mutant, strength: str) -> None:
        """Write a mutant with this strength and ask both about it."""
        whole = self._made(mutant, strength)
        if whole is None or whole == self.files:
            return  # nobody could write it, or what follows from the change is the bundle itself
        name = self.golden_id if strength == "raw" else sha256(whole.get("bundle.json", b""))
        path = self.bench.put(whole, name=name)
        before = self.bench.stamps()
        trust = self._trust if strength == "signed" else None
        start_s = perf_counter()
        package, second = ask_package(path, trust=trust), ask_second(path)
        self.tally.slowest_s = max(self.tally.slowest_s, perf_counter() - start_s)
        label = f"{strength} {mutant.family}: {mutant.name}"
        self.tally.tried[strength] += 1
        if self.bench.stamps() != before:
            self.tally.broken.append(f"{label}: something was written")
        for who, said in (("package", package), ("second", second)):
            if said.crash:
                self.tally.broken.append(f"{label}: {who}: {said.crash}")
        if package.crash or second.crash:
            return
        self._count(mutant, strength, label, package, path=path)
        alarm = second.exit_code != 0 and package.exit_code == 0
        if package.shared != second.shared or alarm:
            said = f"package {package.exit_code} {package.codes[:4]}, second {second.exit_code} {second.codes[:4]}"
            self.tally.disagreed.append(f"{label}: {said}")

    def _count(self, mutant: Mutant, strength: str, label: str, package: Said, *, path: Path) -> None:
        if package.exit_code != 0:
            self.tally.caught[strength] += 1
            self.tally.codes[package.codes[0]] += 1
        elif strength == "rehashed" and (paths := mutant.changes.keys()) <= BENIGN.keys():
            self.tally.benign[next(iter(paths))] += 1
        elif strength == "rechained" and (told := told_by(path, self._kept)):
            self.tally.kept[kind_of(mutant), " ".join(told)] += 1
        else:
            self.tally.missed.append(label)

    def _made(self, mutant: Mutant, strength: str) -> Files | None:
        changes = mutant.changes
        if strength == "raw":
            return {path: data for path, data in {**self.files, **changes}.items() if data is not None}
        if strength == "rechained":
            rebuilt = rechained(self.files, changes)
            return None if rebuilt is None else rehashed(rebuilt, {})
        whole = rehashed(self.files, changes)
        if strength == "signed":
            try:
                document = exam_document(whole["bundle.json"])
                whole["attestation.dsse.json"] = sign(document, self._wrong).stored()
            except (KeyError, TrialplateError):
                return None  # there is nothing that could be signed
        return whole


def exam_document(data: bytes) -> Any:
    """Return what a stored ``bundle.json`` says."""
    from trialplate.store.bundle import parse_bundle

    return parse_bundle(data)
