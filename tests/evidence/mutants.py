"""Every small change of a bundle, and somebody who recomputes the digests that follow from it.

A mutant is which files change: path -> new content, None where the file is gone. Three kinds of forger write
it out. ``raw`` recomputes nothing. ``rehashed`` recomputes manifest, ``bundle.json`` and the folder's name.
``rechained`` first rebuilds the campaign that holds the file: rows, chain, head, indexes.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sealed import UNLISTED, _members, sha256
from trialplate.canonical import canonical_json
from trialplate.store.chain import PREFIX

Files = Mapping[str, bytes]
Changes = Mapping[str, bytes | None]
SMALL_BYTES = 64 * 1024
SEEDED_BITS = 2000
_VARIES = re.compile(r"/\d{6}-\d+(?=/)")
_NUMBERS = re.compile(r"line [0-9]+ ?|/[0-9]+(?=/| |$)|-[0-9]+(?=.json)|byte [0-9]+")
_NAMED = ("harness_files", "distributions", "terminations", "digests", "profiles_sha256", "fault_table")
"""Objects whose members are of one kind."""
ONE = "\x7fone\x7f"
"""Stands for the text ``1.0``, which no canonical writer writes."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change. ``family``: the generator; ``name``: which file and what was done to it; ``make``: does it."""

    family: str
    name: str
    make: Callable[[], Changes]

    @property
    def changes(self) -> Changes:
        """Path -> new content, None where the file is gone."""
        return self.make()


def of(family: str, name: str, changes: Changes) -> Mutant:
    """Return the mutant of changes that are there already."""
    return Mutant(family, name, lambda: changes)


def is_text(path: str) -> bool:
    """Return whether a file holds JSON: one document, or one in each line."""
    return path.endswith((".json", ".jsonl"))


def bit_flips(files: Files, *, seed: int) -> Iterator[tuple[str, int]]:
    """Yield (path, bit): each of a small file, seeded ones of a larger."""
    for path, data in files.items():
        size = 8 * len(data)
        if len(data) < SMALL_BYTES:
            yield from ((path, bit) for bit in range(size))
        else:
            chosen = random.Random(f"{seed}/{path}").sample(range(size), SEEDED_BITS)
            yield from ((path, bit) for bit in sorted(chosen))


def flipped(data: bytes, bit: int) -> bytes:
    """Return data with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def bit_mutant(files: Files, path: str, bit: int) -> Mutant:
    """Return the mutant of one flipped bit."""
    return Mutant("bit", f"{path} bit {bit}", lambda: {path: flipped(files[path], bit)})


def bit_digests(data: bytes) -> Iterator[bytes]:
    """Yield the SHA-256 of a file with each of its bits flipped in turn; what stands before it is hashed once."""
    before = hashlib.sha256()
    for start in range(0, len(data), 64):
        block, rest = bytearray(data[start : start + 64]), data[start + 64 :]
        for bit in range(8 * len(block)):
            block[bit // 8] ^= 1 << bit % 8
            digest = before.copy()
            digest.update(block)
            digest.update(rest)
            yield digest.digest()
            block[bit // 8] ^= 1 << bit % 8
        before.update(block)


def sampled(files: Files, other: Files, *, seed: int, each: int) -> list[Mutant]:
    """Return ``each`` mutants of every family, among them one that lies in a control run."""
    draw = random.Random(seed)
    families: dict[str, list[Mutant]] = {}
    for mutant in drawn(every(files, other), draw, each=1):
        families.setdefault(mutant.family, []).append(mutant)
    flips = list(bit_flips(files, seed=seed))
    chosen = [bit_mutant(files, *draw.choice(flips)) for _ in range(each)]
    for _, listed in sorted(families.items()):
        draw.shuffle(listed)
        own = [mutant for mutant in listed if not mutant.name.startswith("qualification/")]
        chosen += [*own[: max(1, each - 1)], *[mutant for mutant in listed if mutant not in own][:1]][:each]
    return chosen


def drawn(mutants: Iterable[Mutant], draw: random.Random, *, each: int) -> list[Mutant]:
    """Return at most ``each`` mutants of every kind, all with the same chance; no more are held at a time."""
    kinds: dict[str, list[Mutant]] = {}
    seen: Counter[str] = Counter()
    for mutant in mutants:
        kind = kind_of(mutant)
        listed = kinds.setdefault(kind, [])
        seen[kind] += 1
        if len(listed) < each:
            listed.append(mutant)
        elif (place := draw.randrange(seen[kind])) < each:
            listed[place] = mutant
    return [mutant for listed in kinds.values() for mutant in listed]


def kind_of(mutant: Mutant) -> str:
    """Name what a mutant does and to what, without the numbers of attempts, lines, items and names that vary."""
    name = re.sub(r"qualification/[a-z]+(-\d)?/", "control ", _VARIES.sub("/*", mutant.name))
    name = re.sub(rf"({'|'.join(_NAMED)})/\S+", r"\1/*", name)
    return f"{mutant.family}: {_NUMBERS.sub('', name)}".rstrip()


def every(files: Files, other: Files) -> Iterator[Mutant]:
    """Yield every mutant but the single bits."""
    yield from cuts(files)
    yield from whole_files(files, other)
    yield from values(files)


def cuts(files: Files) -> Iterator[Mutant]:
    """Yield files cut at every class of lengths: ends, powers of two, pages, halves, around ends of lines."""
    for path, data in files.items():
        size = len(data)
        at = {0, 1, size // 2, size - 2, size - 1, size - size % 4096, *(2**n for n in range(size.bit_length()))}
        if path.endswith(".jsonl"):
            lines = [n for n, byte in enumerate(data) if byte == 10]
            at |= {n + step for n in lines for step in (0, 1, 2)}
        for n in sorted(at):
            if 0 <= n < size:
                yield Mutant("cut", f"{path} behind byte {n}", partial(_cut, path, data, n))


def _cut(path: str, data: bytes, size: int) -> Changes:
    return {path: data[:size]}


def whole_files(files: Files, other: Files) -> Iterator[Mutant]:
    """Yield a file deleted, one added, emptied, renamed, swapped, or replaced by that of another valid bundle."""
    names = sorted(files)
    for place, path in enumerate(names):
        data, folder = files[path], path.rpartition("/")[0]
        beside = f"{folder}/" if folder else ""
        yield of("delete", path, {path: None})
        yield of("add", f"beside {path}", {f"{beside}added-{place}.json": b"{}"})
        yield of("add", f"copy of {path}", {f"{path}.copy": data})
        yield of("empty", path, {path: b""})
        yield of("rename", path, {path: None, f"{beside}renamed-{path.rpartition('/')[2]}": data})
        yield of("double", path, {path: data + data})
        same = [name for name in names if name.rpartition("/")[2] == path.rpartition("/")[2] and name != path]
        for name in [*same[:2], names[(place + 1) % len(names)]]:
            if files[name] != data:
                yield of("swap", f"{path} with {name}", {path: files[name], name: data})
        if other.get(path, data) != data:
            yield of("replace", path, {path: other[path]})


def values(files: Files) -> Iterator[Mutant]:
    """Yield every leaf changed, deleted, made null or another type, or given a sibling; and every list disordered."""
    for path, data in files.items():
        if path.endswith(".json"):
            for family, name, text in edits(json.loads(data)):
                yield Mutant(family, f"{path} {name}", partial(_rewritten, path, [], 0, text))
        elif path.endswith(".jsonl"):
            lines = data.split(b"\n")
            for number, line in enumerate(lines[:-1]):
                for family, name, text in edits(json.loads(line)):
                    name = f"{path} line {number} {name}"
                    yield Mutant(family, name, partial(_rewritten, path, lines, number, text))
            for family, order in disordered(lines[:-1]):
                yield of(family, f"{path} lines", {path: b"".join(line + b"\n" for line in order)})


def _rewritten(path: str, lines: list[bytes], number: int, text: Callable[[], bytes]) -> Changes:
    """Return a file with one of its lines written anew, or the whole of it."""
    return {path: b"\n".join([*lines[:number], text(), *lines[number + 1 :]])}


def edits(document: Any) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield (family, place and what, what writes the stored text) for each edit of one document."""
    for place, holder, key in list(walk(document, "")):
        value = holder[key]
        if isinstance(value, (dict, list)) and value:
            if isinstance(value, list):
                for family, order in disordered(value):
                    yield family, place, partial(_with, document, holder, key, order)
            continue
        for what, new in altered(value):
            yield "leaf", f"{place} {what}", partial(_with, document, holder, key, new)
        yield "leaf", f"{place} deleted", partial(_without, document, holder, key)
        if isinstance(holder, dict):
            yield "leaf", f"{place} sibling", partial(_with, document, holder, f"{key}_too", value)


def altered(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (what, new value) for a leaf: another of its type, null, and its like in other types."""
    yield "changed", _other(value)
    if value is not None:
        yield "null", None
    if type(value) is not bool:
        yield "to true", True
    if type(value) is not str:
        yield "to text", "1" if value is None or isinstance(value, (dict, list)) else json.dumps(value)
    yield "to 1.0", ONE


def _other(value: Any) -> Any:
    if value is None or isinstance(value, (dict, list)):
        return 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.0000000000000002 or 1e-12
    last = value[-1:]
    return value[:-1] + ("0" if last != "0" else "1") if value else "x"


def disordered(items: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield (family, items) with one dropped, doubled, two swapped, all rotated."""
    yield "drop", items[:-1]
    yield "drop", items[1:]
    yield "duplicate", [*items[:1], *items]
    yield "duplicate", [*items, *items[-1:]]
    if len(items) > 1 and items[0] != items[-1]:
        yield "swap items", [items[-1], *items[1:-1], items[0]]
        yield "rotate", [*items[1:], items[0]]


def walk(value: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (JSON pointer, holder, key) of everything inside of a document."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield f"{place}/{key}", value, key
        yield from walk(inner, f"{place}/{key}")


def _with(document: Any, holder: Any, key: Any, new: Any) -> bytes:
    """Return the stored text with one member set; the document is as it was afterwards."""
    missing = object()
    old = holder.get(key, missing) if isinstance(holder, dict) else holder[key]
    holder[key] = new
    text = canonical_json(document).replace(json.dumps(ONE).encode(), b"1.0").replace(f'"{ONE}"'.encode(), b"1.0")
    if old is missing:
        del holder[key]
    else:
        holder[key] = old
    return text


def _without(document: Any, holder: Any, key: Any) -> bytes:
    old = holder[key]
    if isinstance(holder, dict):
        del holder[key]
    else:
        holder.pop(key)
    text = canonical_json(document)
    if isinstance(holder, dict):
        holder[key] = old
    else:
        holder.insert(key, old)
    return text


def rehashed(files: Files, changes: Changes) -> dict[str, bytes]:
    """Return all files after a change, with manifest and ``bundle.json`` as somebody without a key can make them.

    What was changed in one of these two itself stays as it is.
    """
    whole = {path: data for path, data in {**files, **changes}.items() if data is not None}
    if "MANIFEST.json" in whole and "MANIFEST.json" not in changes and "bundle.json" not in changes:
        entries = [
            {"path": path, "sha256": sha256(data), "size": len(data)}
            for path, data in sorted(whole.items())
            if path not in UNLISTED
        ]
        whole["MANIFEST.json"] = canonical_json({"schema": "trialplate.manifest/1", "files": entries})
    if "bundle.json" in whole and "bundle.json" not in changes:
        document = json.loads(files["bundle.json"])
        document["manifest_sha256"] = sha256(whole.get("MANIFEST.json", b""))
        if "MANIFEST.json" not in changes:
            document |= members_of(whole)
        whole["bundle.json"] = canonical_json(document)
    return whole


def members_of(files: Files) -> dict[str, Any]:
    """Return the members of ``bundle.json`` that follow, as far as the files can be read."""
    try:
        return _members(dict(files))
    except (ValueError, KeyError, TypeError, RecursionError):
        return _members({path: data for path, data in files.items() if path != "journal.jsonl"})


def campaign_of(path: str) -> str | None:
    """Return the prefix of the campaign that a file belongs to; None for what lies beside the campaigns."""
    parts = path.split("/")
    if parts[0] == "qualification":
        return f"qualification/{parts[1]}/" if len(parts) > 2 else None
    return None if parts[0] in ("models", "tools") or path in UNLISTED else ""


def rechained(files: Files, changes: Changes) -> dict[str, bytes] | None:
    """Return the change and what follows from it in the campaign around it: rows, chain, head, indexes.

    None where nothing of the kind follows, or the campaign can no longer be told.
    """
    whole = {path: data for path, data in {**files, **changes}.items() if data is not None}
    found = {campaign_of(path) for path in changes}
    for prefix in found - {None}:
        try:
            whole |= _rebuilt(whole, str(prefix), set(changes))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
    same = {path for path in whole if whole[path] == {**files, **changes}.get(path)}
    return None if same == set(whole) else whole


def _rebuilt(files: Files, prefix: str, changed: set[str]) -> dict[str, bytes]:
    records = [json.loads(line) for line in files[f"{prefix}journal.jsonl"].split(b"\n")[:-1]]
    done: dict[str, bytes] = {}
    ends = [record["data"] for record in records if record["type"] == "attempt.end"]
    for end in ends:
        name = f"{prefix}episodes/{end['trial_id']}-{end['attempt']}/row.json"
        if name not in files or f"{prefix}journal.jsonl" in changed:
            continue
        text = _referred(files, prefix, end, files[name], keep=name in changed)
        done[name], end["row_sha256"] = text, sha256(text)
        end["termination"] = json.loads(text)["termination"]
    previous, data = sha256(files[f"{prefix}lock.json"]), b""
    for record in records:
        record["prev_sha256"] = previous
        body = {name: value for name, value in record.items() if name != "sha256"}
        record["sha256"] = previous = sha256(PREFIX + canonical_json(body))
        data += canonical_json(record) + b"\n"
    head = {"count": len(records), "head_sha256": previous, "size": len(data)}
    done |= {f"{prefix}journal.jsonl": data, f"{prefix}head.json": canonical_json(head)}
    if f"{prefix}rows.jsonl" not in changed:
        ends.sort(key=lambda end: (end["trial_id"], end["attempt"]))
        rows = [f"{prefix}episodes/{end['trial_id']}-{end['attempt']}/row.json" for end in ends]
        done[f"{prefix}rows.jsonl"] = b"".join({**files, **done}.get(row, b"") + b"\n" for row in rows)
    if f"{prefix}completion.json" not in changed:
        completion = json.loads(files[f"{prefix}completion.json"])
        completion |= {"journal": head, "lock_sha256": sha256(files[f"{prefix}lock.json"])}
        ways = [end["termination"] for end in ends]
        completion |= {"attempts": len(ends), "terminations": {way: ways.count(way) for way in sorted(set(ways))}}
        done[f"{prefix}completion.json"] = canonical_json(completion)
    return done


def _referred(files: Files, prefix: str, end: dict[str, Any], text: bytes, *, keep: bool) -> bytes:
    """Return a row, and edit its end, so that both name the files of the attempt as they are."""
    row = json.loads(text)
    for artifact in end["artifacts"]:
        data = files.get(prefix + artifact["path"])
        if data is None or sha256(data) == artifact["sha256"]:
            continue
        artifact.update(sha256=sha256(data), size=len(data))
        for reference in (row.get("trace"), row.get("exchange")):
            if reference and reference["path"] == artifact["path"]:
                reference.update(file_sha256=artifact["sha256"], size_bytes=artifact["size"])
                keep = False
    return text if keep else canonical_json(row)
