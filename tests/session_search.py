"""Search all that an actor could read for anything that tells it what it is part of. Knows nothing of the lint."""

from __future__ import annotations

import getpass
import json
import platform
import re
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from trialplate.canonical import env_seed, policy_seed
from trialplate.interfaces import Suite
from trialplate.lock import Lock
from trialplate.policies.mailbox.instructions import template_text
from trialplate.spec.channels import ActionComponent

VOCABULARY = {word for kind in get_args(ActionComponent.model_fields["kind"].annotation) for word in kind.split("_")}
"""Words of the contract, like ``ee_position``: they stand in the terms of every robot and tell none apart."""

PROTOCOL = "trialplate.policy/1"
"""The name of the contract, which the contract itself puts into every message: the only name that may be found."""

MONTHS = "january|february|march|april|june|july|august|september|october|november|december"
SHORT = "jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec"
PATTERNS = {
    "a date": r"(?<![\d.])(?:19|20)\d\d[-/._](?:0?[1-9]|1[0-2])[-/._][0-3]?\d(?!\d)"
    r"|(?<![0-9a-f.])20[23]\d[01]\d[0-3]\d(?!\d)"
    rf"|\b(?:{MONTHS})\b|\b\d{{1,2}}[ -]?(?:{SHORT})\b|\b(?:{SHORT})[ -]?\d{{1,4}}\b",
    "a time": r"\b[0-2]\d:[0-5]\d(?::[0-5]\d)?\b",
    "a word of the score": r"(?<![a-z])(?:scor(?:es?|ed|ing|ers?)|success\w*|succeed\w*|fail(?:s|ed|ing|ures?)?"
    r"|pass(?:e[sd]|ing)?|rewards?|benchmarks?|suites?|scenarios?|seeds?|trials?|evaluat\w+|verdicts?|campaigns?"
    r"|leaderboards?)(?![a-z])",
    "the project": r"trial ?plate(?!\.policy/1\b)",
}  # fmt: skip


def secrets_of(lock: Lock, suite: Suite) -> dict[str, tuple[str, str]]:
    """Return what must not be found: a pattern -> (what it is, how it was written)."""
    known = {*re.findall(r"[a-z]+", template_text().casefold()), *VOCABULARY}
    names: list[tuple[str, str]] = [("the suite", suite.name), ("the study", lock.protocol["name"])]
    names += [("an arm", arm["name"]) for arm in lock.document["arms"]]
    for item in suite.scenarios():
        names.append(("a task", item.id))
        names += [("a task", name) for name in (item.family, item.domain, item.variant) if name not in known]
    words = re.findall(r"\w+", lock.protocol["question"])
    names += [("the question", " ".join(words[n : n + 3])) for n in range(len(words) - 2)]
    names += [("the operator", str(Path.home())), ("the campaign", lock.sha256)]
    if platform.node() not in known | {"localhost"}:
        names.append(("the machine", platform.node()))
    names += [("the campaign", part) for part in lock.path.parent.parts[2:] if len(part) > 2]
    if (user := getpass.getuser()) != "root":
        names.append(("the operator", user))
    found = {_pattern(name): (what, name) for what, name in names}
    for number in _seeds(lock, suite):
        for text in (str(number), f"{number:x}", f"{number:08x}"):
            found[rf"(?<![0-9a-f.]){text}(?![0-9a-f])"] = ("a seed", text)
    return found


def _seeds(lock: Lock, suite: Suite) -> Iterator[int]:
    yield lock.protocol["schedule"]["seed"]
    for trial in lock.document["schedule"]:
        yield env_seed(lock.sha256, suite.name, scenario=trial["scenario"], repeat=trial["repeat"])
        yield policy_seed(lock.sha256, trial["ordinal"])


def _pattern(name: str) -> str:
    """Match a name however its parts are joined, as a word of its own."""
    parts = [re.escape(part) for part in re.findall(r"[a-z]+|\d+|[^\w\s]+", name.casefold().replace("_", " "))]
    parts = [part for part in parts if part.strip("\\-.")]
    return rf"(?<![a-z0-9]){'[-_. /]*'.join(parts)}(?![a-z0-9])"


def findings(texts: Mapping[str, bytes], secrets: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return a line for everything that tells something: where it stands, and what. ``texts``: where -> content."""
    found = []
    for where, data in texts.items():
        for part, text in _readable(where, data):
            lowered = text.casefold()
            for pattern, (what, name) in secrets.items():
                if re.search(pattern, lowered):
                    found.append(f"{part}: {what}, {name!r}")
            for what, pattern in PATTERNS.items():
                found += [f"{part}: {what}, {match.group()!r}" for match in re.finditer(pattern, lowered)]
            found += [f"{part}: the present time, {number}" for number in _moments(lowered)]
    return found


def _readable(where: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Give the name of a text and what can be read in it; of a picture everything but its pixels."""
    yield f"the name {where}", where
    if not data.startswith(b"\x89PNG"):
        yield where, data.decode("utf-8", errors="replace")  # a file that is being written may end in mid-letter
        return
    yield from _chunks(where, data, whole=".tmp" not in where)


def _chunks(where: str, data: bytes, *, whole: bool) -> Iterator[tuple[str, str]]:
    """Give what stands beside the pixels of a picture, and make sure that nothing else can stand there."""
    kinds, pixels, at = [], b"", 8
    while at + 12 <= len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if at + 12 + size > len(data):
            break
        kinds.append(kind)
        body = data[at + 8 : at + 8 + size]
        if kind == b"IDAT":
            pixels += body
        elif kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (size, depth, colour) == (13, 8, 2), "a picture is three bytes a pixel"
        else:
            yield f"chunk {kind.decode()} of {where}", body.decode("latin-1")
        at += size + 12
    assert set(kinds) <= {b"IHDR", b"IDAT", b"IEND"}, f"{where} has the chunks {kinds}"
    if not whole:
        return
    assert kinds[-1] == b"IEND" and at == len(data), f"{where} has the chunks {kinds} and something behind them"
    unpacked = zlib.decompressobj()
    assert len(unpacked.decompress(pixels)) == height * (1 + 3 * width), "rows of pixels and nothing else"
    assert unpacked.eof and not unpacked.unused_data, "nothing hides behind the pixels"


def _moments(text: str) -> Iterator[str]:
    """Give every whole number that is a second, a millisecond or a nanosecond of these days."""
    now_s = time.time()
    for number in re.findall(r"(?<![0-9a-f.])\d{10,19}(?![0-9a-f])", text):
        if any(abs(int(number) / unit - now_s) < 10 * 86_400 for unit in (1, 1e3, 1e6, 1e9)):
            yield number


def flat(told: object) -> bytes:
    """Return anything as text that can be searched."""
    return json.dumps(told, ensure_ascii=False).encode()
