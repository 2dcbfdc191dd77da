"""Carry a bundle as one zip file, and unpack one from a stranger: names and sizes are judged first.

The archive is for transport only; a verifier reads folders. Source: evidence specification, section 7.
"""

from __future__ import annotations

import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trialplate.canonical import file_sha256
from trialplate.errors import UsageError
from trialplate.store.bundle import BUNDLE
from trialplate.store.container import check_container
from trialplate.store.findings import EvidenceProblem, problem
from trialplate.store.folder import MAX_FILE_BYTES, MAX_FILES, Folder
from trialplate.store.fsio import Disk, Storage, staging_path
from trialplate.store.manifest import unsafe_paths
from trialplate.store.placing import READ_ONLY, STAGING_PREFIX, building, place

MAX_UNPACKED_BYTES = 64 * 1024**3
MAX_RATIO = 200
MAX_DIRECTORY_BYTES = 256 * 1024**2
_SLACK_BYTES = _PIECE_BYTES = 1024 * 1024
_EPOCH = (1980, 1, 1, 0, 0, 0)
_READ_AS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x06"
_TAIL_BYTES = 22 + 65_535 + 20 + 56


@dataclass(frozen=True, slots=True)
class ArchiveCaps:
    """Limits of what is unpacked: number of files, bytes of one, bytes of all, and bytes out per byte in."""

    files: int = MAX_FILES
    file_bytes: int = MAX_FILE_BYTES
    total_bytes: int = MAX_UNPACKED_BYTES
    ratio: int = MAX_RATIO

    def __post_init__(self) -> None:
        most = (("files", MAX_FILES), ("file_bytes", MAX_FILE_BYTES))
        for name, limit in most:
            if not 1 <= getattr(self, name) <= limit:
                raise UsageError(f"a cap of {getattr(self, name)} {name}: expected 1 to {limit}; caps only go down")


def pack(bundle: Path, to: Path) -> Path:
    """Write a bundle as one zip file that must not exist. The same bundle gives the same bytes.

    Raises EvidenceError with the first finding when names or digests of the bundle do not hold.
    """
    container = check_container(bundle)
    for wrong in container.findings:
        raise EvidenceProblem(wrong)
    staged = staging_path(to)
    with Folder(bundle) as folder:
        files = sorted(folder.contents().files)
        with staged.open("xb") as out, zipfile.ZipFile(out, "w") as archive:
            for path in files:
                entry = zipfile.ZipInfo(f"{container.bundle_id}/{path}", date_time=_EPOCH)
                entry.create_system, entry.external_attr = 3, (stat.S_IFREG | READ_ONLY) << 16
                entry.compress_type = zipfile.ZIP_STORED if path.endswith(".parquet") else zipfile.ZIP_DEFLATED
                archive.writestr(entry, folder.read(path, limit_bytes=MAX_FILE_BYTES))
    Disk().rename_noreplace(staged, to)
    return to


def unpack(archive: Path, into: Path, *, caps: ArchiveCaps | None = None, disk: Storage | None = None) -> Path:
    """Unpack a bundle into ``into``/<id> and return that folder. It is not verified: do that next.

    Raises EvidenceError ``archive_refused``, ``path_unsafe``, ``not_regular_file`` or ``size_limit`` before anything
    is written, ``archive_refused`` also when the content is not what the archive says; nothing is left then.
    """
    caps, disk = caps or ArchiveCaps(), disk or Disk()
    with _opened(archive, caps) as opened:
        bundle_id, entries = _judged(opened, archive, caps)
        _refuse_more_than_fits(into, sum(entry.file_size for entry in entries.values()))
        with building(disk, into):
            staging = into / f"{STAGING_PREFIX}{bundle_id}"
            try:
                _extract(opened, entries, staging, disk)
                if file_sha256(staging / BUNDLE) != bundle_id:
                    raise _refused(archive.name, f"a {BUNDLE} with digest {bundle_id}", "another one")
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, EvidenceProblem) as error:
                shutil.rmtree(staging)
                if isinstance(error, EvidenceProblem):
                    raise
                raise _refused(archive.name, "the content that it lists", str(error)[:200]) from None
            place(disk, staging, target=into / bundle_id)
    return into / bundle_id


@contextmanager
def _opened(path: Path, caps: ArchiveCaps) -> Iterator[zipfile.ZipFile]:
    if not path.is_file():
        raise UsageError(f"no archive at {path}: expected a zip file", code="no_archive")
    with path.open("rb") as handle:
        _judge_directory(handle, path.name, caps)
        try:
            opened = zipfile.ZipFile(handle)
        except (zipfile.BadZipFile, RuntimeError, ValueError, struct.error) as error:
            raise _refused(path.name, "a zip file", str(error)[:200]) from None
        with opened:
            yield opened


def _judge_directory(handle: BinaryIO, name: str, caps: ArchiveCaps) -> None:
    """Look at the end of the archive only: how many entries it lists, and how long that list is."""
    size = handle.seek(0, 2)
    handle.seek(max(0, size - _TAIL_BYTES))
    tail = handle.read(_TAIL_BYTES)
    place = tail.rfind(_END)
    if place < 0 or len(tail) < place + 22:
        raise _refused(name, "a zip file", "no list of entries at its end")
    count, length = struct.unpack_from("<HL", tail, place + 10)
    wide = tail.rfind(_END_64, 0, place)
    if wide >= 0 and (count == 0xFFFF or length == 0xFFFFFFFF):
        count, length = struct.unpack_from("<QQ", tail, wide + 32)
    if count > caps.files:
        raise problem("size_limit", name, expected=f"at most {caps.files} files", found=f"{count} entries")
    if length > min(MAX_DIRECTORY_BYTES, size):
        raise problem("size_limit", name, expected=f"a list of at most {MAX_DIRECTORY_BYTES} bytes", found=length)


def _judged(opened: zipfile.ZipFile, archive: Path, caps: ArchiveCaps) -> tuple[str, dict[str, zipfile.ZipInfo]]:
    """Return the id that everything lies under, and path -> entry of each file."""
    listed = opened.infolist()
    if len(listed) > caps.files:
        raise problem("size_limit", archive.name, expected=f"at most {caps.files} files", found=len(listed))
    tops = {entry.filename.partition("/")[0] for entry in listed}
    if len(tops) != 1 or not _is_id(top := next(iter(tops))):
        shown = ", ".join(sorted(tops)[:3])
        raise _refused(archive.name, "one folder, named by the id of the bundle", shown or "nothing")
    paths = [(entry.filename.partition("/")[2], entry) for entry in listed]
    for wrong in unsafe_paths(path for path, entry in paths if not entry.is_dir()):
        raise wrong
    for path, entry in paths:
        _judge_entry(path, entry, caps)
    files = {path: entry for path, entry in paths if not entry.is_dir()}
    if BUNDLE not in files:
        raise _refused(archive.name, f"a {BUNDLE}", "none")
    _judge_sizes(files, archive, caps)
    return top, files


def _judge_entry(path: str, entry: zipfile.ZipInfo, caps: ArchiveCaps) -> None:
    mode = entry.external_attr >> 16
    if entry.is_dir() and path:
        for wrong in unsafe_paths([path.removesuffix("/")]):
            raise wrong
    elif mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise problem("not_regular_file", path, expected="a regular file", found=stat.filemode(mode))
    if entry.orig_filename != entry.filename or entry.flag_bits & 0x1 or entry.compress_type not in _READ_AS:
        found = f"flags {entry.flag_bits:#x}, compression {entry.compress_type}, name {entry.orig_filename!r}"
        raise _refused(path, "a plain name, no encryption, stored or deflated", found)
    if entry.file_size > caps.file_bytes:
        size = f"{entry.file_size} bytes"
        raise problem("size_limit", path, expected=f"at most {caps.file_bytes} bytes", found=size)


def _judge_sizes(files: dict[str, zipfile.ZipInfo], archive: Path, caps: ArchiveCaps) -> None:
    """Compare with the size of the archive what its entries take in it (overlaps), and what they unpack to."""
    size = archive.stat().st_size
    packed, total = (sum(getattr(e, name) for e in files.values()) for name in ("compress_size", "file_size"))
    if packed > size:
        raise _refused(archive.name, f"entries within its {size} bytes", f"{packed} bytes of entries; they overlap")
    limit = min(caps.total_bytes, caps.ratio * size + _SLACK_BYTES)
    if total > limit:
        raise problem("size_limit", archive.name, expected=f"at most {limit} bytes unpacked", found=f"{total} bytes")


def _refuse_more_than_fits(into: Path, total: int) -> None:
    there = next(folder for folder in (into, *into.resolve().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if total > free:
        raise problem("size_limit", into.name, expected=f"at most the {free} bytes that are free", found=total)


def _extract(opened: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo], staging: Path, disk: Storage) -> None:
    disk.make_folder(staging)
    for path, entry in sorted(entries.items()):
        disk.make_folder((staging / path).parent)
        _extract_one(opened, entry, staging / path, disk)
    for folder in sorted({(staging / path).parent for path in entries}, key=lambda p: len(p.parts), reverse=True):
        disk.fsync_dir(folder)


def _extract_one(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, disk: Storage) -> None:
    """Write one file in pieces, never more than its entry says."""
    descriptor = disk.open_new(target, mode=READ_ONLY)
    written = 0
    try:
        with opened.open(entry) as source:
            while written <= entry.file_size and (piece := source.read(_PIECE_BYTES)):
                written += len(piece)
                disk.write_all(descriptor, piece)
        disk.fsync(descriptor)
    finally:
        disk.close(descriptor)
    if written != entry.file_size:
        raise _refused(target.name, f"{entry.file_size} bytes", f"{written}")


def _is_id(name: str) -> bool:
    return len(name) == 64 and set(name) <= set("0123456789abcdef")


def _refused(path: str, expected: str, found: str) -> EvidenceProblem:
    return problem("archive_refused", path, expected=expected, found=found)
