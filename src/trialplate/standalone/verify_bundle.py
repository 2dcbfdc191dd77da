#!/usr/bin/env python3
"""Check a sealed trialplate bundle with nothing but the standard library of Python 3.9 or newer.

One file, to be read before it is believed. It shares no code with the package that made the bundle, writes nothing,
runs nothing of what it reads and needs no network. What it looks at, in this order:

1 container      plain files with safe names, within limits
2 integrity      the folder is named by the digest of bundle.json, that names MANIFEST.json, that names every file
4 documents      each JSON text is the one canonical text (RFC 8785) of what it says, with the members it must have
5 binding        bundle.json, amendments, runs and rows belong to the lock
6 journal, rows  records chained from the lock to the head; each attempt planned, started and ended once; its row the
                 one that its record names; the Merkle root (RFC 9162) over all rows
8 qualification  the control runs by the same rules; three different oracle runs with the same outcomes
9 counts         planned trials and attempts of each arm, counted again from schedule and rows

Not looked at: signatures, recordings (Parquet), grades, statistics, claims; `trialplate verify` does that.
The exit code is that of the first stage with a finding: 0 none, 1 changed, 2 malformed, 3 intact but blocked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import zip_longest
from typing import Any

CODES = """\
1 2 unreadable archive_refused path_unsafe not_regular_file size_limit
2 1 bundle_id_mismatch manifest_mismatch file_missing file_extra size_mismatch hash_mismatch expected_mismatch
4 2 malformed schema_mismatch version_unsupported
5 1 lock_digest_mismatch amendment_chain mixed_runs source_snapshot_mismatch
5 3 late_lock amendment_changes_rule
6 1 journal_broken rows_digest_mismatch rows_root_mismatch row_unplanned row_duplicated row_order
6 1 end_without_start clock_reversed attempts_overlap
6 3 coverage_incomplete attempt_repeated
8 3 qualification_failed qualification_copied qualification_binding
9 1 accounting_not_reproduced
10 3 stop_rule"""  # stage, exit code, findings
RANK = {code: (int(stage), int(by)) for stage, by, *codes in map(str.split, CODES.splitlines()) for code in codes}
NOT_CHECKED = ("signatures (Ed25519)", "recordings", "grades", "analysis", "claims")
LIMITS = "digests do not tell whether sensors, harness or operator were honest, nor what was tried elsewhere"
NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
DOCUMENT, LINE, JOURNAL, ANY_FILE, FILES = 1 << 24, 1 << 20, 1 << 30, 1 << 32, 1_000_000  # most bytes; most files
SEGMENT = re.compile(r"(?!(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$))[A-Za-z0-9_][A-Za-z0-9._-]{0,126}(?<!\.)")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
HEX, CLASS = re.compile("[0-9a-f]{64}"), re.compile("confirmatory|development|calibration|pilot")
UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")
WORDS, ESSAY = re.compile(r"(?s)(?=.*\S).{1,2000}"), re.compile(r"(?s)(?=.*\S).{1,20000}")
UNLISTED = {"bundle.json", "MANIFEST.json", "attestation.dsse.json"}
DERIVED = {"results.jsonl", "summary.json", "analysis.json", "claims.json", "report.html"}
SUMMARY, TOOL = "qualification/qualification.json", "tools/verify_bundle.py"
SEALED = re.compile(r"(bundle|MANIFEST|attestation\.dsse)\.json|tools/verify_bundle\.py|(models|qualification)/.*")
TEXTS = re.compile(
    r"(qualification/[^/]+/)?(results\.jsonl|(summary|analysis|claims|completion)\.json)|\w+/[^/]+\.json"
)
CONTROLS = ("null", "exploit", "random", "oracle-1", "oracle-2", "oracle-3")


def of(kind: Any, names: str, **more: Any) -> dict[str, Any]:
    """Return the shape of an object: these members of this kind, and more.

    A kind is a type (``object``: any), a pattern of a text, ``abs`` for a number from 0, a tuple for what may also be
    null, a list for items of one kind, a shape, or ``{"*": kind}``. A shape with ``...`` has room for other members;
    one that may be left out is named with a ``?`` before it.
    """
    return {**dict.fromkeys(names.split(), kind), **more}


OPEN = {"...": None}
HEAD = of(abs, "count size", head_sha256=HEX)
FILE = of(abs, "size", path=str, sha256=HEX)
MANIFEST = of(str, "schema", files=[FILE])
BUNDLE = of(
    HEX, "manifest_sha256 lock_sha256 verifier_sha256", **of(str, "schema run_id created_utc"), run_class=CLASS,
    assurance=re.compile("self_attested"), journal_head=HEAD, rows=of(abs, "n", root=HEX),
    qualification_sha256=(HEX,), tool=of(str, "version", name=re.compile("trialplate"), sha256=HEX),
    counts=of(abs, "planned attempts", arms={"*": of(abs, "planned attempts", terminations={"*": abs})}),
)  # fmt: skip
TRIAL = of(str, "trial_id arm scenario", **of(int, "ordinal repeat"))
SOURCES = of(abs, "files", sha256=HEX)
TEST = of(str, "column unit op", index=int, limit=float)
STAGE = of(str, "name meaning attachment", hold_steps=int, when=[TEST], keep=[TEST])
PART = {
    **of(str, "name kind mode unit"), "dim": int, **of((str,), "delta_base frame rotation ?bounds_reason"),
    **of([(float,)], "low high"), "gripper": (of(float, "closed open"),), "?scale": float, "?meaning": str,
}  # fmt: skip
COLUMN = of(str, "name unit", dim=abs)
SUITE = of(
    str, "name version body instruction errors_rule", **of(HEX, "manifest_sha256 selected_sha256 action_sha256"),
    sources=SOURCES, action=of(int, "version dim", control_hz=float, components=[PART]), settings={"*": object},
    chain={"stages": [STAGE], "attached": (str,), "opening": (TEST,), "start_forbidden": [TEST]},
    columns=[COLUMN], profiles_sha256={"*": HEX}, fault_table={"*": str},
    schedule_verified=(str,), **of(abs, "scenarios max_steps"),
)  # fmt: skip
SKILLS = {  # what a suite of skills has more, and the chain that it has not
    **of(str, "scorer"), "kind": re.compile("skill"), "settle_rows": abs,
    "ladders": [of(str, "skill", stages=[of(str, "name meaning")])], "chain": (SUITE["chain"],),
    "column_sets": [of(abs, "action_dim", columns=[COLUMN], scenarios=[str])],
}  # fmt: skip
PACK = of(str, "author registered_utc", pack_sha256=HEX, spent=(of(str, "purpose utc"),))
LOCK = of(
    {"*": object}, "protocol simulator", **of(str, "schema base"), created_utc=UTC, protocol_sha256=HEX,
    harness={**SOURCES, "version": str}, harness_files={"*": HEX}, suite=SUITE, machine={"*": str},
    arms=[{"*": object}], schedule=[TRIAL], distributions={"*": of(str, "version record_sha256")},
    holdouts=(of(str, "ledger", head_sha256=HEX, records=abs, packs=[PACK]),),
)  # fmt: skip
MODEL = of(object, "schema arm files registration_sha256 checkpoint checkpoint_reason")
ARM = of(HEX, "arm_sha256 registration_sha256", name=str, **OPEN)
RECORD = of(str, "type sha256", **of(int, "seq mono_us"), utc=UTC, prev_sha256=HEX, data={"*": object}, **OPEN)
AMENDMENT = {
    **of(abs, "n attempts_seen"),
    **of(WORDS, "kind reason"),
    "text": ESSAY,
    "schema": str,
    "created_utc": UTC,
}
DATA = {  # of the records that are looked into
    **dict.fromkeys(("run.open", "run.resume"), of({"*": str}, "?addresses ?registrations", run_id=str, **OPEN)),
    "attempt.start": of(str, "trial_id arm", **of(int, "ordinal attempt"), **OPEN),
    "attempt.end": of(str, "trial_id termination", attempt=int, row_sha256=HEX, artifacts=[{**FILE, **OPEN}], **OPEN),
    "inputs.checked": of({"*": object}, "digests", **OPEN),
    "run.close": of(bool, "complete", reason=(str,), **OPEN),
    "amendment.added": of({**AMENDMENT, "prev_sha256": HEX}, "amendment", **OPEN),
    "recovered": of(abs, "discarded_bytes", discarded_sha256=HEX, **OPEN),
}
OTHERS = ("event", "leak.disclosed", "cutover.recorded")
IN_RUN = ("attempt.start", "attempt.end", "inputs.checked", "event", "run.close")
KEPT = of(str, "path file_sha256", size_bytes=int)  # what a row says of a file
ROW = {
    **of(str, "schema trial_id arm scenario family domain variant termination scenario_sha256 registration_sha256"),
    **of((str,), "fault_code fault_message initial_state_sha256 applied_scene_sha256 actions_sha256 usage_reason"),
    **of(int, "ordinal attempt repeat env_seed control_steps calls calls_rejected short_chunks rows_proposed"),
    **of(int, "rows_executed rows_dropped rows_discarded"), **of((str,), "echo run_id"),
    "usage": (of((float,), "requests input_tokens output_tokens cost"),), "applied_scene": object,
    "events": [of(str, "kind detail", step=int)],
    "trace": (of(str, "content_sha256", steps=int, **KEPT),), "exchange": (KEPT,),
    "timing": (of(int, "wall_us policy_us reset_us", **of((int,), "call_p50_us call_p95_us")),),
}  # fmt: skip


class Wrong(Exception):
    """Something is wrong: code, path, place in it, what was expected, what was found."""


def sha256(data: bytes) -> str:
    """Return the digest as hex."""
    return hashlib.sha256(data).hexdigest()


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the RFC 9162 root over these leaves."""
    return tree([hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves])


def tree(hashes: list[bytes]) -> bytes:
    """Return the root over hashes of leaves: split at the largest power of two below, no node twice."""
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256(b"").digest()
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + tree(hashes[:split]) + tree(hashes[split:])).digest()


def number_text(x: float) -> str:
    """Write a number as ECMAScript does: the shortest digits that read back, as Python finds them."""
    _, listed, exponent = Decimal(repr(x)).normalize().as_tuple()
    digits, sign = "".join(map(str, listed)), "-" if x < 0 else ""
    point = len(digits) + int(exponent)  # how many digits stand before the decimal point
    if x == 0:
        return "0"
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1:+d}"


PLAIN = json.JSONEncoder(ensure_ascii=False).encode


def canonical(value: Any) -> str:
    """Write a value as RFC 8785 wants it: no blanks, keys sorted by UTF-16 code units."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: str(key).encode("utf-16-be"))
        return "{" + ",".join(f"{PLAIN(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return number_text(value) if isinstance(value, float) else PLAIN(value)


def refuse(why: Any) -> Any:
    """Refuse a text, or a folder that cannot be listed."""
    raise why if isinstance(why, OSError) else ValueError(why)


def parse(data: bytes) -> Any:
    """Read a stored document: JSON that is byte for byte its own canonical text. Raises ValueError."""
    if len(data) <= DOCUMENT and data.count(b",") > FILES:  # so many small values take much memory
        raise ValueError("size")
    text, depth = data.decode("utf-8"), 0
    for token in TOKEN.finditer(text) if text.count("[") + text.count("{") > 64 else ():
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token.group(), 0)
        if depth > 64:
            raise ValueError("depth")
    value = json.loads(
        text,
        object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else refuse("duplicate_key"),
        parse_int=lambda t: int(t) if len(t) < 18 and abs(int(t)) < 1 << 53 else refuse("number_range"),
        parse_float=lambda t: float(t) if abs(float(t)) < float("inf") else refuse("non_finite"),
        parse_constant=lambda t: refuse("non_finite"),
    )
    if canonical(value).encode("utf-8") != data:  # half of a surrogate pair has no UTF-8: ValueError as well
        raise ValueError("not_canonical")
    return refuse("nul_character") if re.search(r"(?<!\\)(?:\\\\)*\\u0000", text) else value


def document(data: bytes, path: str, kind: str = "") -> Any:
    """Read a stored document; ``kind``: what its schema must name."""
    try:
        value = parse(data)
    except ValueError as error:
        raise Wrong("malformed", path, "", "canonical JSON", error) from None
    schema = value.get("schema") if type(value) is dict else None
    if kind and schema != f"trialplate.{kind}/1":
        known = type(schema) is str and schema.startswith(f"trialplate.{kind}/")
        raise Wrong("version_unsupported" if known else "schema_mismatch", path, "/schema", kind, schema)
    return value


def fit(value: Any, kind: Any, path: str, place: str = "") -> Any:
    """Return a value of this kind; raise where it is not of it."""
    if type(kind) is tuple:
        return value if value is None else fit(value, kind[0], path, place)
    if type(kind) is dict and type(value) is dict:
        named = {n.lstrip("?"): kind[n] for n in kind if n != "..." and (n[0] != "?" or n[1:] in value)}
        wanted = dict.fromkeys(value, kind["*"]) if "*" in kind else named
        if wanted.keys() - value.keys() or (len(value) > len(wanted) and "..." not in kind):
            raise Wrong("schema_mismatch", path, place, f"members {sorted(wanted)}", sorted(value))
        for name, inner in wanted.items():
            fit(value[name], inner, path, f"{place}/{name}")
    elif type(kind) is list and type(value) is list:
        for n, item in enumerate(value):
            fit(item, kind[0], path, f"{place}/{n}")
    elif isinstance(kind, re.Pattern) and type(value) is str and kind.fullmatch(value):
        return value
    elif kind is not object and type(value) is not kind and not (type(value) is int and counts(value, kind)):
        raise Wrong("schema_mismatch", path, place, kind, value)
    return value


def counts(value: int, kind: Any) -> bool:
    """Return whether a whole number may stand where this kind of number is asked for."""
    return kind is float or (kind is abs and value >= 0)


class Bundle:
    """An open folder, its files, and what is wrong with them. No link is followed below it."""

    def __init__(self) -> None:
        self.found: set[tuple[str, ...]] = set()
        self.files: dict[str, os.stat_result] = {}
        self.folders: set[str] = set()
        self.odd: set[str] = set()
        self.known: dict[str, str] = {}

    def open(self, path: str) -> None:
        """List everything below a folder."""
        if not os.path.isdir(path):  # noqa: PTH112
            code = "archive_refused" if os.path.exists(path) else "unreadable"  # noqa: PTH110
            raise Wrong(code, path, "", "the folder of a bundle", "a file: unpack it first, or nothing")
        with told(path):
            self.handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            for above, folders, names, handle in os.fwalk(".", dir_fd=self.handle, onerror=refuse):
                for name in folders + names:
                    self._list(f"{above}/{name}"[2:], os.stat(name, dir_fd=handle, follow_symlinks=False))

    def _list(self, path: str, entry: os.stat_result) -> None:
        if stat.S_ISDIR(entry.st_mode):
            self.folders.add(path)
        elif stat.S_ISREG(entry.st_mode) and entry.st_nlink == 1:
            self.files[path] = entry
        else:
            self.odd.add(path)
            self.tell("not_regular_file", path, "", "a regular file with one name", stat.filemode(entry.st_mode))
        if path.count("/") > 8 or len(self.files) + len(self.folders) > FILES or entry.st_size > ANY_FILE:
            raise Wrong("size_limit", path, "", f"at most {FILES} files, each at most {ANY_FILE} bytes", "more")

    def tell(self, code: str, path: str, place: object = "", expected: object = "", found: object = "") -> None:
        """Keep a finding; what a terminal would act upon is escaped."""
        texts = (str(text)[:400] for text in (path, place, expected, found))
        self.found.add((code, *("".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) for text in texts)))

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep what goes wrong inside, and go on behind."""
        try:
            yield
        except Wrong as wrong:
            self.tell(*wrong.args)

    def pieces(self, path: str, most: int) -> Iterator[bytes]:
        """Yield a file in pieces: the one that was listed, whatever has been put in its place since."""
        with told(path), os.fdopen(os.open(path, NO_LINK, dir_fd=self.handle), "rb") as file:
            if path not in self.files or not os.path.samestat(os.fstat(file.fileno()), self.files[path]):
                raise Wrong("not_regular_file", path, "", "the regular file that was listed", "another")
            while piece := file.read(LINE):
                most -= len(piece)
                if most < 0:
                    raise Wrong("size_limit", path, "", "a smaller file", self.files[path].st_size)
                yield piece

    def read(self, path: str, most: int = DOCUMENT) -> bytes:
        """Return a file."""
        return b"".join(self.pieces(path, most))

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a file, each with its end; one that is too long in parts. One is held at a time."""
        rest = b""
        for piece in self.pieces(path, JOURNAL):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
            if len(rest) > LINE:
                yield rest
                rest = b""
        if rest:
            yield rest

    def digest(self, path: str) -> str:
        """Return the digest of a file."""
        if path not in self.known:
            digest = hashlib.sha256()
            for piece in self.pieces(path, ANY_FILE):
                digest.update(piece)
            self.known[path] = digest.hexdigest()
        return self.known[path]

    def check_paths(self, paths: Iterable[str]) -> None:
        """No odd characters, no devices, no two spellings of one name."""
        spelled: dict[str, tuple[str, bool]] = {}
        for path in paths:
            ways = [*((path[:n], False) for n, c in enumerate(path) if c == "/"), (path, True)]
            safe = len(path) <= 240 and all(SEGMENT.fullmatch(name) for name in path.split("/"))
            if not safe or any(spelled.setdefault(way[0].casefold(), way) != way for way in ways):
                self.tell("path_unsafe", path, "", "a name that every system reads alike", path)


@contextmanager
def told(path: str) -> Iterator[None]:
    """Turn what the system says into a finding."""
    try:
        yield
    except FileNotFoundError:
        raise Wrong("file_missing", path, "", "a file", "none") from None
    except OSError as error:
        raise Wrong("unreadable", path, "", "a readable file", error.strerror) from None


def whole_record(line: bytes) -> Any:
    """Return the record of a journal line whose own digest holds, else None."""
    try:
        record = fit(document(line, ""), RECORD, "")
    except Wrong:
        return None
    body = canonical({name: record[name] for name in record if name != "sha256"}).encode()
    return record if sha256(b"trialplate/1 journal\n" + body) == record["sha256"] and len(line) <= LINE else None


def place_of(key: tuple[str, int]) -> str:
    """Return the folder of an attempt."""
    return f"episodes/{key[0]}-{key[1]}"


class Campaign:
    """One campaign of a bundle: the sealed one, or below ``prefix`` a control run of its qualification.

    ``attempts``: (trial, number) -> data of its attempt.end, None while there is none. ``due``: arm -> its trials
    that were not started, the next one last. ``closed``: the last run.close, what had ended then, the head behind it.
    """

    def __init__(self, bundle: Bundle, prefix: str = "") -> None:
        self.bundle, self.prefix, self.at, self.believed = bundle, prefix, "", True
        self.sizes = {path[len(prefix) :]: e.st_size for path, e in bundle.files.items() if path.startswith(prefix)}
        data = self._read("lock.json")
        self.lock_sha256, first = sha256(data), whole_record(next(self._journal(), b"\n")[:-1])
        if first and first["seq"] == 0 and first["prev_sha256"] != self.lock_sha256:  # then it is not looked into
            raise Wrong("lock_digest_mismatch", f"{prefix}lock.json", "", first["prev_sha256"], self.lock_sha256)
        self.lock = self._lock(document(data, f"{prefix}lock.json", "lock"), f"{prefix}lock.json")
        self.trials = {trial["trial_id"]: trial for trial in self.lock["schedule"]}
        for n, trial in enumerate(self.lock["schedule"]):
            if (trial["ordinal"], trial["trial_id"]) != (n, f"{n:06d}"):
                raise Wrong("schema_mismatch", f"{prefix}lock.json", f"/schedule/{n}", f"trial {n:06d}", trial)
        rule = self.lock["protocol"].get("schedule")
        replaced = type(rule) is dict and rule.get("interrupted") == "replace"
        self.most_replaced = fit(rule.get("max_replacements", 1), int, f"{prefix}lock.json") if replaced else 0
        self.due: dict[str, list[int]] = {trial["arm"]: [] for trial in self.trials.values()}
        for trial in reversed(self.lock["schedule"]):
            self.due[trial["arm"]].append(trial["ordinal"])
        self.count, self.size, self.last, self.last_utc = 0, 0, self.lock_sha256, None  # of the records so far
        self.cuts: list[dict[str, Any]] = []  # what recoveries have cut off
        self.ways: Counter[tuple[str, str]] = Counter()  # (arm, termination) -> rows
        self.attempts: dict[tuple[str, int], Any] = {}
        self.in_hand, self.leaked, self.stopped = set[tuple[str, int]](), set[str](), False
        self.amended, self.amendments = [self.lock_sha256], dict[str, str]()  # digests in order; path -> digest
        self.first_start, self.clock, self.newest = "", -(1 << 60), -1
        self.run_id: Any = None
        self.workers: Any = None
        self.running: Any = False
        self.closed: Any = None
        self.durable = self.head()

    def _lock(self, lock: dict[str, Any], path: str) -> dict[str, Any]:
        """Return a lock of the right shape; a protocol or arm of which the digest is another is not looked into."""
        shape = {**LOCK, **({} if lock.get("holdouts") else {"holdouts_reason": re.compile("no_ledger")})}
        if type(lock.get("suite")) is dict and "kind" in lock["suite"]:
            shape["suite"] = {**SUITE, **SKILLS}
        fit(lock, shape, path)
        parts = [("/protocol_sha256", lock["protocol"], lock["protocol_sha256"])]
        parts.append(("/harness/sha256", {"trialplate": lock["harness_files"]}, lock["harness"]["sha256"]))
        for n, arm in enumerate(lock["arms"]):
            body = {name: arm[name] for name in arm if name != "arm_sha256"}
            parts.append((f"/arms/{n}/arm_sha256", body, arm.get("arm_sha256")))
            parts.append((f"/arms/{n}/registration_sha256", arm.get("registration"), arm.get("registration_sha256")))
        for place, part, digest in parts:
            if type(digest) is str and HEX.fullmatch(digest) and sha256(canonical(part).encode()) != digest:
                self.bundle.tell("lock_digest_mismatch", path, place, sha256(canonical(part).encode()), digest)
                self.believed = False
        return lock if not self.believed else fit(lock, {"arms": [ARM], **OPEN}, path)

    def _read(self, name: str, most: int = DOCUMENT) -> bytes:
        return self.bundle.read(self.prefix + name, most)

    def _journal(self) -> Iterator[bytes]:
        name = self.prefix + "journal.jsonl"
        return self.bundle.lines(name) if name in self.bundle.files else iter(())

    def _tell(self, code: str, name: str, expected: object, found: object) -> None:
        self.bundle.tell(code, self.prefix + name, "", expected, found)

    def _wrong(self, code: str, expected: object, found: object) -> Wrong:
        return Wrong(code, f"{self.prefix}journal.jsonl", self.at, expected, found)

    def head(self) -> dict[str, Any]:
        """Return the head behind the records so far."""
        return {"count": self.count, "head_sha256": self.last, "size": self.size}

    def _ended(self) -> list[tuple[str, int]]:
        return sorted((key for key, end in self.attempts.items() if end), key=lambda key: (int(key[0]), key[1]))

    def check(self) -> Campaign:
        """Take the journal, record by record, then compare every file with it."""
        whole = True
        for line in self._journal():
            record = whole_record(line[:-1]) if line.endswith(b"\n") else None
            if record is None or (record["seq"], record["prev_sha256"]) != (self.count, self.last):
                break
            self.count, self.size, self.last = self.count + 1, self.size + len(line), record["sha256"]
            self.last_utc = record["utc"]
            self.durable = self.durable if record["type"] in ("attempt.start", "event") else self.head()
            try:
                self.take(record)
            except Wrong as wrong:  # what a record without its shape accounts for cannot be told from what is extra
                self.bundle.tell(*wrong.args)
                whole = whole and RANK[wrong.args[0]][1] != 2
        clean = self.size == self.sizes.get("journal.jsonl", 0)
        whole = whole and clean
        if self.lock["created_utc"] > self.first_start > "":
            self._tell("late_lock", "lock.json", f"before {self.first_start}", self.lock["created_utc"])
        with self.bundle.keeping():
            found = fit(document(self._read("head.json"), f"{self.prefix}head.json"), HEAD, f"{self.prefix}head.json")
            if not clean or found != self.durable:
                self._tell("journal_broken", "journal.jsonl", f"a chain up to the head, {found}", self.durable)
        for key in self._ended():
            with self.bundle.keeping():
                self.check_attempt(key, self.attempts[key])
        if whole:
            self.check_names()
        with self.bundle.keeping():
            self.check_indexes()
        return self

    def take(self, record: dict[str, Any]) -> None:
        """Take the next record. One that breaks a rule is told; unless it is only not allowed, it is left out."""
        kind, data, self.at = record["type"], record["data"], f"line {record['seq']}"
        if record["mono_us"] < self.clock and kind in IN_RUN:
            self.bundle.tell(*self._wrong("clock_reversed", f"at least {self.clock} us", record["mono_us"]).args)
        self.clock = record["mono_us"]
        if kind not in (*DATA, *OTHERS):
            raise self._wrong("schema_mismatch", "a known type of record", kind)
        if kind in IN_RUN and not self.running:
            raise self._wrong("journal_broken", "run.open or run.resume before it", kind)
        if kind == "amendment.added":
            document(canonical(data.get("amendment")).encode(), f"{self.prefix}journal.jsonl", "amendment")
        fit(data, DATA.get(kind, object), f"{self.prefix}journal.jsonl", f"{self.at} /data")
        if kind in ("run.open", "run.resume"):
            self.take_open(kind, data)
        elif kind == "amendment.added":
            self.take_amendment(data["amendment"])
        elif kind == "attempt.start":
            self.take_start(data, (data["trial_id"], data["attempt"]), record["utc"])
        elif kind == "attempt.end":
            self.take_end(data, (data["trial_id"], data["attempt"]))
        elif kind == "recovered":
            self.cuts.append(data)
        elif kind == "leak.disclosed":
            self.leaked.add(str(data.get("attempt")).partition("-")[0])
        elif kind == "run.close":
            self.running, self.closed = False, (data, self._ended(), self.head())

    def take_open(self, kind: str, data: dict[str, Any]) -> None:
        """A journal is of one run, opened once."""
        if kind == "run.resume" and self.run_id is None:
            raise self._wrong("journal_broken", "run.open before it", kind)
        if self.run_id is not None and (kind == "run.open" or data["run_id"] != self.run_id):
            raise self._wrong("mixed_runs", f"one run, {self.run_id}", data["run_id"])
        self.run_id, self.running, self.newest = data["run_id"], True, -1
        self.workers = data.get("workers") if type(data.get("workers")) is int and "executor" in data else None
        self.in_hand.clear()

    def take_amendment(self, said: dict[str, Any]) -> None:
        """Each continues from the one before, the first from the lock; none changes a rule."""
        link = {"n": len(self.amended), "prev_sha256": self.amended[-1], "attempts_seen": len(self.attempts)}
        if any(said[name] != link[name] for name in link):
            raise self._wrong("amendment_chain", link, said)
        self.amended.append(sha256(canonical(said).encode()))
        self.amendments[f"amendments/{said['n']:04d}.json"] = self.amended[-1]
        if said["kind"] not in ("disclosure", "text_correction", "custody", "stop"):
            raise self._wrong("amendment_changes_rule", "a kind that changes no rule", said["kind"])
        if said["kind"] == "stop" and not self.lock["protocol"].get("stopping"):
            raise self._wrong("stop_rule", "a stop that the lock registers", "none")
        self.stopped = self.stopped or said["kind"] == "stop"

    def take_start(self, data: dict[str, Any], key: tuple[str, int], utc: str) -> None:
        """Trials of an arm start in their order, once; only what was interrupted may be replaced."""
        trial, others, before = self.trials.get(key[0]), len(self.in_hand), self.attempts.get((key[0], key[1] - 1))
        if self.stopped:  # it is told, and its rows and files are still accounted for
            self.bundle.tell(*self._wrong("stop_rule", "no attempt behind the stop", key).args)
        if trial is None or (data["arm"], data["ordinal"]) != (trial["arm"], trial["ordinal"]):
            raise self._wrong("row_unplanned", trial or "a planned trial", data)
        if key in self.attempts:
            raise self._wrong("row_duplicated", "an attempt that was not started", key)
        due, again = self.due[trial["arm"]], key[1] != 0
        in_order = again or (due[-1:] == [trial["ordinal"]] and trial["ordinal"] >= self.newest)
        self.attempts[key] = None
        self.in_hand.add(key)
        while due and due[-1] <= trial["ordinal"]:
            due.pop()
        self.newest = self.newest if again else max(self.newest, trial["ordinal"])
        self.first_start = self.first_start or utc
        allowed = before and before["termination"] == "interrupted" and key[1] <= self.most_replaced
        if again and (not allowed or key[0] in self.leaked):
            raise self._wrong("attempt_repeated", f"{self.most_replaced} replacements of what was interrupted", key)
        if not in_order:
            raise self._wrong("row_order", f"the trials of {trial['arm']} in their order", key)
        if self.workers is not None and others >= self.workers:
            raise self._wrong("attempts_overlap", f"{self.workers} at a time", sorted(self.in_hand))

    def take_end(self, data: dict[str, Any], key: tuple[str, int]) -> None:
        """What has started ends once, and leaves plain files in its folder."""
        paths = [artifact["path"] for artifact in data["artifacts"]]
        if key not in self.attempts:
            raise self._wrong("end_without_start", "attempt.start before it", key)
        if self.attempts[key] is not None:
            raise self._wrong("row_duplicated", "one attempt.end for each attempt", key)
        for above, _, name in (path.rpartition("/") for path in paths):
            if above != place_of(key) or not SEGMENT.fullmatch(name) or name == "row.json":
                raise self._wrong("path_unsafe", "plain names in the folder of the attempt", paths)
        if len(set(paths)) < len(paths):
            raise self._wrong("schema_mismatch", "every path once", paths)
        self.attempts[key] = data
        self.in_hand.discard(key)

    def check_names(self) -> None:
        """Every trial attempted, every attempt ended, the run closed; each file there, and no other."""
        left = [key for key, end in self.attempts.items() if end is None]
        missing = [] if self.stopped else sorted(self.trials.keys() - {key[0] for key in self.attempts})
        if left or missing or self.running or not self.closed or not self.closed[0]["complete"]:
            self._tell("coverage_incomplete", "journal.jsonl", "every trial ended, the run closed", (missing, left))
        wanted = {"lock.json", "journal.jsonl", "head.json", *self.amendments}
        wanted |= {"rows.jsonl", "completion.json"} if self.closed else set()
        wanted |= {"journal.partial"} if self.cuts else set()
        for key in self._ended():
            wanted |= {f"{place_of(key)}/row.json", *(a["path"] for a in self.attempts[key]["artifacts"])}
        unfinished = tuple(f"{place_of(key)}/" for key in left)
        for name in wanted - self.sizes.keys() - {path[len(self.prefix) :] for path in self.bundle.odd}:
            self._tell("amendment_chain" if name in self.amendments else "file_missing", name, "a file", "none")
        for name in self.sizes.keys() - wanted - DERIVED:
            code = "amendment_chain" if name.startswith("amendments/") else "file_extra"
            if not name.startswith(unfinished) and (self.prefix or not SEALED.fullmatch(name)):
                self._tell(code, name, "no such file", "one")
        for name, digest in self.amendments.items():
            if name in self.sizes and self.bundle.digest(self.prefix + name) != digest:
                self._tell("amendment_chain", name, digest, "another document")

    def check_attempt(self, key: tuple[str, int], end: dict[str, Any]) -> None:
        """The files of an attempt are those of its record; its row is that of the planned trial, and names them."""
        name, planned = f"{place_of(key)}/row.json", {**self.trials[key[0]], "attempt": key[1]}
        listed = {a["path"]: (a["sha256"], a["size"]) for a in end["artifacts"]}
        for path in listed.keys() & self.sizes.keys():
            if listed[path] != (self.bundle.digest(self.prefix + path), self.sizes[path]):
                self._tell("hash_mismatch", path, listed[path], "another file")
        data = self._read(name, LINE)
        if sha256(data) != end["row_sha256"]:
            raise Wrong("hash_mismatch", self.prefix + name, "", end["row_sha256"], sha256(data))
        row = fit(document(data, self.prefix + name, "row"), ROW, self.prefix + name)
        if row["run_id"] != self.run_id:
            self._tell("mixed_runs", name, self.run_id, row["run_id"])
        if any(row[member] != planned[member] for member in planned):
            raise Wrong("row_unplanned", self.prefix + name, "", planned, row)
        places = {f"{place_of(key)}/{what}.parquet": row[what] for what in ("trace", "exchange")}
        named = {path: (ref["path"], ref["file_sha256"], ref["size_bytes"]) for path, ref in places.items() if ref}
        wanted = {path: (path, *listed[path]) for path in places if path in listed}
        if (named, row["termination"]) != (wanted, end["termination"]):
            self._tell("rows_digest_mismatch", name, (wanted, end["termination"]), (named, row["termination"]))
        self.ways[row["arm"], row["termination"]] += 1

    def check_indexes(self) -> None:
        """What a crash had cut off is kept, as its record says; the rows stand once more in one file."""
        rest = self._read("journal.partial", JOURNAL) if "journal.partial" in self.sizes else b""
        for cut in self.cuts:
            piece, rest = rest[: cut["discarded_bytes"]], rest[cut["discarded_bytes"] :]
            if sha256(piece) != cut["discarded_sha256"]:
                self._tell("hash_mismatch", "journal.partial", cut["discarded_sha256"], sha256(piece))
        if rest:
            self._tell("size_mismatch", "journal.partial", "what was discarded", f"{len(rest)} bytes more")
        if "rows.jsonl" in self.sizes and self.closed:
            wanted = [self.attempts[key]["row_sha256"] for key in self.closed[1]]
            lines = self.bundle.lines(self.prefix + "rows.jsonl")
            there = (sha256(line[:-1]) if line.endswith(b"\n") else "" for line in lines)
            if any(found != expected for found, expected in zip_longest(there, wanted)):
                self._tell(
                    "rows_digest_mismatch", "rows.jsonl", f"{len(self.closed[1])} rows of the journal", "others"
                )
        if "completion.json" in self.sizes and self.closed:
            data, ended, head = self.closed
            ways = Counter(self.attempts[key]["termination"] for key in ended)
            told = {"complete": data["complete"], "reason": data["reason"], "terminations": ways, "journal": head}
            told.update(schema="trialplate.completion/1", lock_sha256=self.lock_sha256, planned=len(self.trials))
            if self._read("completion.json") != canonical({**told, "attempts": len(ended)}).encode():
                self._tell("accounting_not_reproduced", "completion.json", told, "something else")

    def counts(self) -> dict[str, Any]:
        """Return planned trials and recorded attempts, over all and by arm."""
        arms: dict[str, Any] = {}
        for arm, planned in Counter(trial["arm"] for trial in self.trials.values()).items():
            ways = {way: count for (of_arm, way), count in self.ways.items() if of_arm == arm}
            arms[arm] = {"planned": planned, "attempts": sum(ways.values()), "terminations": ways}
        return {"planned": len(self.trials), "attempts": sum(self.ways.values()), "arms": arms}

    def outcomes(self) -> str:
        """Return what must be the same between oracle runs: neither times nor files."""
        name = f"{self.prefix}results.jsonl"
        told = [fit(document(line[:-1], name), {"*": object}, name) for line in self.bundle.lines(name)]
        return canonical(
            [[one.get(name) for name in ("scenario", "repeat", "status", "reason", "stages")] for one in told]
        )


def check_container(bundle: Bundle, path: str) -> Any:
    """Compare names and digests, from the name of the folder down to every file; return bundle.json or None."""
    sealed: Any = None
    bundle.check_paths(bundle.files)
    with bundle.keeping():  # its signatures are looked at by nobody here, its size is
        _ = bundle.read("attestation.dsse.json") if "attestation.dsse.json" in bundle.files else b""
    with bundle.keeping():
        data, name = bundle.read("bundle.json"), os.path.basename(os.path.realpath(path))  # noqa: PTH119
        if name.replace(".staging-", "", 1) != sha256(data):
            bundle.tell("bundle_id_mismatch", "bundle.json", "", f"{name}, the name of the folder", sha256(data))
        value = document(data, "bundle.json", "bundle")
        reason = {} if value.get("qualification_sha256") else {"qualification_sha256_reason": re.compile("not_given")}
        sealed = fit(value, {**BUNDLE, **reason}, "bundle.json")
    with bundle.keeping():
        data = bundle.read("MANIFEST.json", 12 * DOCUMENT)
        if sealed and sha256(data) != sealed["manifest_sha256"]:  # then it is not looked into
            raise Wrong("manifest_mismatch", "MANIFEST.json", "", sealed["manifest_sha256"], sha256(data))
        if len(data) > DOCUMENT and (data.count(b"[") > 1 or data.count(b"{") > FILES):
            raise Wrong("size_limit", "MANIFEST.json", "", f"a flat list of at most {FILES} files", len(data))
        check_files(bundle, fit(document(data, "MANIFEST.json", "manifest"), MANIFEST, "MANIFEST.json")["files"])
    return sealed


def check_files(bundle: Bundle, entries: list[Any]) -> None:
    """Nothing may be missing or changed, nothing may lie there unlisted; derived documents must be canonical.

    A list in another order is no manifest, and then not compared with the files.
    """
    listed = {entry["path"]: entry for entry in entries}
    bundle.check_paths(listed)
    if [entry["path"] for entry in entries] != sorted(listed):
        raise Wrong("schema_mismatch", "MANIFEST.json", "/files", "each file once, sorted", "another order")
    for path, entry in listed.items():
        with bundle.keeping():
            if path in UNLISTED:
                bundle.tell("manifest_mismatch", "MANIFEST.json", "", f"no entry for {path}", "one")
            elif path not in bundle.files and path not in bundle.odd:
                bundle.tell("file_missing", path, "", "a file", "none")
            elif path in bundle.files and bundle.files[path].st_size != entry["size"]:
                bundle.tell("size_mismatch", path, "", entry["size"], bundle.files[path].st_size)
            elif path in bundle.files and bundle.digest(path) != entry["sha256"]:
                bundle.tell("hash_mismatch", path, "", entry["sha256"], bundle.digest(path))
        with bundle.keeping():
            if TEXTS.fullmatch(path) and path in bundle.files:
                lines = bundle.lines(path) if path.endswith("l") else [bundle.read(path) + b"\n"]
                for line in lines:
                    document(line[:-1] if line.endswith(b"\n") else b"", path)  # without its end it is none
    holding = {path[:n] for path in listed for n, c in enumerate(path) if c == "/"}
    for path in (bundle.files.keys() - listed.keys() - UNLISTED) | (bundle.folders - holding):
        bundle.tell("file_extra", path, "", "nothing that is not listed", "a file or folder")


def check_bundle(bundle: Bundle, sealed: dict[str, Any], campaign: Campaign) -> None:
    """Everything that bundle.json says follows from the other files."""
    lock = campaign.lock
    rows = [hashlib.sha256(b"\x00" + line[:-1]).digest() for line in bundle.lines("rows.jsonl")]
    spent = lock["holdouts"] and any(pack["spent"] for pack in lock["holdouts"]["packs"])
    tool = {"name": "trialplate", "version": lock["harness"].get("version"), "sha256": lock["harness"].get("sha256")}
    summary = bundle.digest(SUMMARY) if SUMMARY in bundle.files else None
    for code, name, expected in (
        ("lock_digest_mismatch", "lock_sha256", campaign.lock_sha256),
        ("lock_digest_mismatch", "run_class", "development" if spent else lock["protocol"].get("run_class")),
        ("source_snapshot_mismatch", "verifier_sha256", bundle.digest(TOOL)),
        ("source_snapshot_mismatch", "verifier_sha256", lock["harness_files"].get("standalone/verify_bundle.py")),
        ("source_snapshot_mismatch", "tool", tool),
        ("mixed_runs", "run_id", campaign.run_id),
        ("mixed_runs", "journal_head", campaign.head()),
        ("mixed_runs", "created_utc", campaign.last_utc),
        ("rows_root_mismatch", "rows", {"n": len(rows), "root": tree(rows).hex()}),
        ("accounting_not_reproduced", "counts", campaign.counts()),
        ("qualification_binding", "qualification_sha256", summary),
    ):
        if sealed[name] != expected:
            bundle.tell(code, "bundle.json", f"/{name}", expected, sealed[name])
    models = {f"models/{arm.get('name')}.json": arm.get("source") for arm in lock["arms"]}
    for path in {*models, *DERIVED} - bundle.files.keys():
        bundle.tell("file_missing", path, "", "a file", "none")
    for path in models.keys() & bundle.files.keys():
        with bundle.keeping():
            shape = MODEL if models[path] else {**MODEL, "files_reason": object}
            fit(document(bundle.read(path), path, "model"), shape, path)
    for path in {path for path in bundle.files if path.startswith("models/")} - models.keys():
        bundle.tell("file_extra", path, "", "one document for each arm", "another")


def check_controls(bundle: Bundle) -> dict[str, Campaign]:
    """Look at the control runs as at the campaign, and compare the oracle runs with each other."""
    runs: dict[str, Campaign] = {}
    listed = [path for path in bundle.files if path.startswith("qualification/") and path != SUMMARY]
    below = {path: path.split("/")[1] for path in listed}
    for path in (path for path, run in below.items() if run not in CONTROLS):
        bundle.tell("file_extra", path, "", f"one of {CONTROLS}", "another")
    for run in CONTROLS if below or SUMMARY in bundle.files else ():
        with bundle.keeping():
            if run in below.values():
                runs[run] = Campaign(bundle, f"qualification/{run}/").check()
                next(bundle.lines(f"qualification/{run}/results.jsonl"), b"")
            elif run not in ("exploit", "random"):
                bundle.tell("qualification_failed", f"qualification/{run}/", "", "a control run", "none")
    oracle = [runs[run] for run in CONTROLS if run in runs and run.startswith("oracle")]
    with bundle.keeping():
        if len({run.outcomes() for run in oracle}) > 1:
            bundle.tell("qualification_failed", SUMMARY, "", "three oracle runs with the same outcomes", "others")
    if len({run.run_id for run in oracle}) < len(oracle):
        bundle.tell("qualification_copied", SUMMARY, "", "three runs", "the same run again")
    return runs


def verify(path: str, expect_lock: str | None = None, expect_root: str | None = None) -> dict[str, Any]:
    """Check a bundle and return what was found, as --json prints it. Writes nothing."""
    bundle, sealed, campaign, runs = Bundle(), None, None, {}
    with bundle.keeping():
        bundle.open(path)
        sealed = check_container(bundle, path)
        with bundle.keeping():
            campaign = Campaign(bundle).check()
            if sealed:
                check_bundle(bundle, sealed, campaign)
        runs = check_controls(bundle)
        lock = bundle.digest("lock.json") if "lock.json" in bundle.files else None
        root = sealed and sealed["rows"]["root"]
        for option, wanted, found in (("lock", expect_lock, lock), ("root", expect_root, root)):
            if wanted not in (None, found):
                bundle.tell("expected_mismatch", "bundle.json", f"--expect-{option}", wanted, found)
    ranks = [RANK[item[0]] for item in bundle.found]
    names = ("code", "path", "pointer", "expected", "found")
    listed = sorted(bundle.found, key=lambda item: (RANK[item[0]], item))
    return {
        # the first stage with a finding decides; inside it 2 comes before 1 before 3
        "exit_code": min((by for stage, by in ranks if stage == min(ranks)[0]), key=(2, 1, 3).index, default=0),
        "findings": [dict(zip(names, item)) for item in listed],  # noqa: B905 (Python 3.9)
        "lock_sha256": campaign and campaign.lock_sha256,
        "root": sealed and sealed["rows"]["root"],
        "counts": campaign and campaign.counts(),
        "controls": {run: of_run.counts() for run, of_run in runs.items()},
        "not_checked": NOT_CHECKED,
    }


def main(arguments: list[str] | None = None) -> int:
    """Check the bundle that the command line names, print what was found, return the exit code."""
    parser = argparse.ArgumentParser(description="Check a sealed bundle with the standard library alone.")
    parser.add_argument("path", help="folder of the bundle")
    parser.add_argument("--expect-lock", metavar="SHA256", help="digest of the lock that you kept")
    parser.add_argument("--expect-root", metavar="SHA256", help="root over the rows that you kept")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    expected = [digest for digest in (given.expect_lock, given.expect_root) if digest is not None]
    if not all(map(HEX.fullmatch, expected)):
        parser.error("a digest has 64 lower-case hex digits")
    said = verify(given.path, given.expect_lock, given.expect_root)
    code, findings = said["exit_code"], said["findings"]
    lines = [
        f"{f['code']}: {f['path']} {f['pointer']}: expected {f['expected']}, found {f['found']}" for f in findings
    ]
    lines.append(
        f"INTEGRITY {('verified', 'FAILED', 'MALFORMED', 'intact, but blocked')[code]}: {len(findings)} findings"
    )
    arms = said["counts"]["arms"] if said["counts"] else {}
    lines += [f"COUNTS {arm!a}: {arms[arm]}" for arm in arms]
    lines.append(f"QUALIFICATION control runs: {', '.join(said['controls']) or 'none in this bundle'}")
    lines.append(f"NOT CHECKED {', '.join(NOT_CHECKED)}")
    lines.append(f"ASSURANCE {'matches an expected digest' if expected and code in (0, 3) else 'self-attested'}")
    lines.append(f"LIMITS {LIMITS}")
    try:
        print(json.dumps(said, sort_keys=True) if given.json else "\n".join(lines), flush=True)
    except OSError:  # nobody reads it: the exit code still tells, and what is no yes stays none
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(code) or 1
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
