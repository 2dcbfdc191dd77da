"""Digests of everything below the protocol that can change a number: code, packages, machine, checkpoints."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from trialplate.canonical import document_sha256, file_sha256, sha256_hex
from trialplate.errors import LockError

_IGNORED_PARTS = {"__pycache__"}
_IGNORED_SUFFIXES = {".pyc", ".pyo"}
_CODE_SUFFIXES = {".py", ".so", ".pyd"}
_INDEX_SUFFIX = ".index.json"
"""Ending of a file that says which shard holds which tensor (``weight_map``)."""

_VECTOR_EXTENSIONS = (
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "avx512f",
    "avx512dq",
    "avx512bw",
    "avx512vl",
    "asimd",
    "sve",
)
RUNTIME_ROOT = "trialplate"


def tree(root: Path) -> dict[str, str]:
    """Return path -> SHA-256 of every regular file below ``root`` (or of the file itself), sorted by path.

    Links are refused: what they point to could change without the digest changing place.
    """
    return {name: file_sha256(path) for name, path in tree_files(root).items()}


def tree_files(root: Path) -> dict[str, Path]:
    """Return path -> place of what :func:`tree` hashes. Raises LockError ``not_regular_file`` for anything else."""
    if root.is_symlink():
        raise LockError(f"{root} is a symbolic link; name the file itself", code="not_regular_file")
    if root.is_file():
        return {root.name: root}
    found: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        if _IGNORED_PARTS & set(path.parts) or path.suffix in _IGNORED_SUFFIXES or path.is_dir():
            continue
        if path.is_symlink() or not path.is_file():
            raise LockError(f"{path} is not a regular file", code="not_regular_file")
        found[path.relative_to(root).as_posix()] = path
    return found


def sources(roots: Iterable[Path]) -> dict[str, Any]:
    """Return the content identity of several trees: file count and one digest over all paths and digests."""
    listing = {root.name: tree(root) for root in roots}
    return {"files": sum(len(files) for files in listing.values()), "sha256": document_sha256(listing)}


def harness() -> dict[str, Any]:
    """Return the identity of this installed package by content, not by version or commit alone."""
    listing = harness_files()
    return {"version": metadata.version(RUNTIME_ROOT), "files": len(listing), "sha256": harness_sha256(listing)}


def harness_files() -> dict[str, str]:
    """Return path -> SHA-256 of every file of this installed package, sorted by path."""
    return tree(Path(__file__).resolve().parent)


def harness_sha256(listing: Mapping[str, str]) -> str:
    """Return the one digest over all paths and digests of the files of a package, as :func:`harness` has it."""
    return document_sha256({RUNTIME_ROOT: dict(listing)})


def changed_files(locked: Mapping[str, str], now: Mapping[str, str], *, most: int = 3) -> str:
    """Say which files of two listings differ, in words, at most ``most`` of them by name; empty where none does."""
    kinds = {
        "changed": sorted(path for path in locked.keys() & now.keys() if locked[path] != now[path]),
        "added": sorted(now.keys() - locked.keys()),
        "removed": sorted(locked.keys() - now.keys()),
    }
    told, left = [], most
    for kind, paths in kinds.items():
        if paths[:left]:
            told.append(f"{kind} {', '.join(paths[:left])}")
        left = max(0, left - len(paths))
    more = sum(map(len, kinds.values())) - most
    return "; ".join([*told, f"{more} more"] if more > 0 else told)


def distributions() -> dict[str, dict[str, str]]:
    """Return name -> version and RECORD digest of every distribution this package needs, transitively."""
    found: dict[str, dict[str, str]] = {}
    waiting = [RUNTIME_ROOT]
    seen = {RUNTIME_ROOT}
    while waiting:
        for requirement in metadata.requires(waiting.pop()) or ():
            name = _requirement_name(requirement)
            if name is None or name in seen:
                continue
            seen.add(name)
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue  # needed elsewhere only (another platform, an extra)
            record = distribution.read_text("RECORD")
            digest = sha256_hex(record.encode()) if record is not None else "no RECORD"
            found[name] = {"version": distribution.version, "record_sha256": digest}
            waiting.append(name)
    return dict(sorted(found.items()))


def _requirement_name(requirement: str) -> str | None:
    text, _, marker = requirement.partition(";")
    if "extra ==" in marker or "extra==" in marker:
        return None
    name = text.strip()
    for index, character in enumerate(name):
        if not (character.isalnum() or character in "-_."):
            name = name[:index]
            break
    return name.lower().replace("_", "-").replace(".", "-")


def machine() -> dict[str, Any]:
    """Return what of this machine can change bits: processor, system, C library, Python.

    ``cpu_family`` names the design of the processor, ``vector_extensions`` which wide instructions it offers:
    numerical libraries choose their code by both, so that other ones give other last digits.
    """
    cpu = _cpu()
    return {
        "processor": _processor(),
        "cpu_family": _cpu_family(cpu),
        "vector_extensions": " ".join(name for name in _VECTOR_EXTENSIONS if name in _cpu_flags(cpu)) or "unknown",
        "architecture": platform.machine(),
        "system": platform.system(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "byteorder": sys.byteorder,
    }


def _processor() -> str:
    return _cpu().get("model name") or platform.processor() or "unknown processor"


@cache
def _cpu() -> Mapping[str, str]:
    """Return what the kernel says about the first processor; empty where it says nothing."""
    info = Path("/proc/cpuinfo")
    if not info.is_file():
        return {}
    first = info.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _cpu_family(cpu: Mapping[str, str]) -> str:
    """Return vendor, family and model as on x86, implementer and part as on ARM, or what Python knows."""
    if "vendor_id" in cpu:
        return f"{cpu['vendor_id']} family {cpu.get('cpu family', '?')} model {cpu.get('model', '?')}"
    if "CPU implementer" in cpu:
        return f"implementer {cpu['CPU implementer']} part {cpu.get('CPU part', '?')}"
    return platform.processor() or "unknown"


def _cpu_flags(cpu: Mapping[str, str]) -> frozenset[str]:
    return frozenset((cpu.get("flags") or cpu.get("Features") or "").split())


def checkpoint(paths: Sequence[str], *, base: Path) -> list[dict[str, Any]]:
    """Return path, size and SHA-256 of every checkpoint file, those of a named folder included.

    Raises what :func:`checkpoint_files` raises.
    """
    return [
        {"path": name, "size_bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for name, path in checkpoint_files(paths, base=base).items()
    ]


def checkpoint_files(paths: Sequence[str], *, base: Path) -> dict[str, Path]:
    """Return name -> place of every checkpoint file; of a folder, every file below it.

    Raises LockError: ``weights`` for a missing file and for a shard that an index names and nobody listed,
    ``not_regular_file`` for a link, on the way as well, and for anything else that is no plain file: what it leads to
    could be another thing the next time.
    """
    found: dict[str, Path] = {}
    for name in paths:
        place, relative = base / name, Path(name)
        above = () if relative.is_absolute() else place.parents[: len(relative.parts) - 1]
        for step in (place, *above):
            if step.is_symlink():
                raise LockError(
                    f"weights {name!r}: {step} is a link, not a regular file; name the file itself",
                    code="not_regular_file",
                )
        inside = sorted(place.rglob("*")) if place.is_dir() else [place]
        files = [path for path in inside if path.is_symlink() or not path.is_dir()]
        for path in files:
            if not os.path.lexists(path):
                raise LockError(f"weights {name!r}: expected a file at {path}, found none", code="weights")
            if path.is_symlink() or not path.is_file():
                raise LockError(f"weights {name!r}: {path} is not a regular file", code="not_regular_file")
        if not files:
            raise LockError(f"weights {name!r}: expected files in {place}, found none", code="weights")
        found |= {(relative / path.relative_to(place)).as_posix(): path for path in files}
    _refuse_unlisted(found)
    return found


def _refuse_unlisted(found: Mapping[str, Path]) -> None:
    """Refuse a checkpoint whose index names shards that are not among its files."""
    for name, path in found.items():
        if not name.endswith(_INDEX_SUFFIX):
            continue
        try:
            named = set(json.loads(path.read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # an index of another kind: it is hashed like any other file
        beside = {file.name for file in found.values() if file.parent == path.parent}
        if missing := sorted(shard for shard in map(str, named) if shard not in beside):
            raise LockError(f"weights {name!r} names the shard {missing[0]!r}, which is not listed", code="weights")


def policy_source(reference: str, *, base: Path) -> dict[str, Any]:
    """Return the identity of the code behind ``module:attr`` or ``path/file.py:attr``.

    A file is hashed with all code in its folder and below; a module with its whole top-level package. Data that
    the code reads must be named as ``weights``. ``git_revision`` is None with a reason when the source is no
    checkout.
    """
    module, _, attribute = reference.partition(":")
    path, files = policy_files(reference, base=base)
    return {
        "module": module,
        "attribute": attribute,
        "module_sha256": file_sha256(path),
        "source_files": len(files),
        "source_sha256": source_sha256(files),
        **_git(path.parent),
    }


def policy_files(reference: str, *, base: Path) -> tuple[Path, dict[str, Path]]:
    """Return the file that a policy is loaded from, and name -> place of all code that counts as its source."""
    module = reference.partition(":")[0]
    if module.endswith(".py"):
        path = (base / module).resolve()
        return path, _code_beside(path)
    return _module_path(module), tree_files(policy_root(reference, base=base))


def source_sha256(files: Mapping[str, Path]) -> str:
    """Return one digest over the names and contents of source files."""
    return document_sha256({name: file_sha256(path) for name, path in files.items()})


def _code_beside(path: Path) -> dict[str, Path]:
    """Return a policy file and all code in its folder and below, hidden folders left out."""
    if not path.is_file():
        raise LockError(f"policy file {path} does not exist", code="policy_missing")
    return {
        file.relative_to(path.parent).as_posix(): file
        for file in sorted(path.parent.rglob("*"))
        if file.suffix in _CODE_SUFFIXES and is_source(file, path.parent) and file.is_file()
    }


def policy_root(reference: str, *, base: Path) -> Path:
    """Return the folder below which all code counts as the source of a policy, or the one file that is."""
    module = reference.partition(":")[0]
    if module.endswith(".py"):
        return (base / module).resolve().parent
    path = _module_path(module)
    return path.parent if path.name == "__init__.py" else path


def is_source(file: Path, root: Path) -> bool:
    """Return whether a file counts as source below ``root``: hidden folders and caches do not."""
    if file == root:
        return True
    if root not in file.parents:
        return False
    return not any(part.startswith(".") or part in _IGNORED_PARTS for part in file.relative_to(root).parts)


def _module_path(module: str) -> Path:
    top = module.partition(".")[0]
    found = util.find_spec(top)
    if found is None or found.origin is None:
        raise LockError(f"policy module {module!r} cannot be found; is it installed?", code="policy_missing")
    return Path(found.origin).resolve()


def _git(folder: Path) -> dict[str, Any]:
    revision = _git_output(folder, "rev-parse", "HEAD")
    if revision is None:
        return {"git_revision": None, "git_revision_reason": "not_a_checkout", "dirty": None}
    changed = _git_output(folder, "status", "--porcelain", "--", ".")
    return {"git_revision": revision, "git_revision_reason": None, "dirty": bool(changed)}


def _git_output(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
