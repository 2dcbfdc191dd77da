"""The outside of a bundle: safe names, plain files, and the digest of every one of them.

Reads only; never raises for what it finds. Trust comes from the reader: keys are an argument, never read from
the bundle. Source: evidence specification, section 10, stages 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trialplate.canonical import MAX_DOCUMENT_BYTES, sha256_hex
from trialplate.store.bundle import ATTESTATION, BUNDLE, BundleDocument, parse_bundle
from trialplate.store.findings import Collector, Finding
from trialplate.store.folder import Caps, Contents, Folder
from trialplate.store.manifest import MANIFEST, MAX_MANIFEST_BYTES, Manifest, parse_manifest, unsafe_paths
from trialplate.store.placing import STAGING_PREFIX
from trialplate.store.signing import Trust, check_envelope, signers

UNLISTED = frozenset({BUNDLE, MANIFEST, ATTESTATION})
"""Files of a bundle that its manifest does not list."""


@dataclass(frozen=True, slots=True)
class Container:
    """What the outside of a bundle says.

    ``bundle_id``: SHA-256 of ``bundle.json``, None when it cannot be read. ``document`` and ``manifest`` are None
    when they are malformed; ``manifest`` also when it is not the one that ``document`` names. ``digests``: path ->
    SHA-256 of every listed file as it was found, also where it is the wrong one. ``signed_by``: ids of the given keys
    whose signature holds.
    """

    findings: tuple[Finding, ...]
    bundle_id: str | None
    document: BundleDocument | None
    manifest: Manifest | None
    digests: Mapping[str, str]
    signed_by: tuple[str, ...] = ()


def is_bundle(path: Path) -> bool:
    """Return whether a folder is a bundle, or the rest of one, and no open campaign."""
    return path.is_dir() and any((path / name).is_symlink() or (path / name).exists() for name in (BUNDLE, MANIFEST))


def check_container(path: Path, *, trust: Trust | None = None, caps: Caps | None = None) -> Container:
    """Check names, files, digests and signatures of a bundle folder.

    ``trust``: keys that the reader brings; without them nobody's signature counts. ``caps``: what is read at most.
    """
    found, caps = Collector(), caps or Caps()
    bundle_id, document, manifest = None, None, None
    digests: dict[str, str] = {}
    signed_by: tuple[str, ...] = ()
    with found.keeping(), Folder(path) as folder:
        contents = folder.contents(caps=caps)
        found.take(contents.findings)
        found.take(wrong.finding for wrong in unsafe_paths(contents.files))
        with found.keeping():
            data = folder.read(BUNDLE, limit_bytes=caps.document_bytes)
            bundle_id = sha256_hex(data)
            _check_name(path, bundle_id, found)
            document = parse_bundle(data)
        with found.keeping():
            manifest = _read_manifest(folder, document, found)
        if manifest is not None:
            digests = _check_files(folder, contents, manifest, found)
        if document is not None:
            with found.keeping():
                signed_by = _check_signatures(folder, contents, document, trust, found)
    return Container(found.listed(), bundle_id, document, manifest, digests, signed_by)


def _read_manifest(folder: Folder, document: BundleDocument | None, found: Collector) -> Manifest | None:
    """A manifest that is not the named one is not looked into: whatever it says, somebody changed it."""
    data = folder.read(MANIFEST, limit_bytes=MAX_MANIFEST_BYTES)
    digest = sha256_hex(data)
    if document is not None and digest != document.manifest_sha256:
        found.add("manifest_mismatch", MANIFEST, expected=document.manifest_sha256, found=digest)
        return None
    return parse_manifest(data)


def _check_signatures(
    folder: Folder, contents: Contents, document: BundleDocument, trust: Trust | None, found: Collector
) -> tuple[str, ...]:
    there = ATTESTATION in contents.files
    data = folder.read(ATTESTATION, limit_bytes=MAX_DOCUMENT_BYTES) if there else None
    wrong = check_envelope(data, document, trust=trust)
    found.take(wrong)
    return signers(data, trust) if data is not None and trust is not None and not wrong else ()


def _check_name(path: Path, bundle_id: str, found: Collector) -> None:
    name = path.resolve().name
    if name.removeprefix(STAGING_PREFIX) != bundle_id:
        found.add("bundle_id_mismatch", BUNDLE, expected=f"{name}, the name of the folder", found=bundle_id)


def _check_files(folder: Folder, contents: Contents, manifest: Manifest, found: Collector) -> dict[str, str]:
    """Compare every file with its entry; nothing may be missing, and nothing may lie there that nobody listed."""
    refused = {item.path for item in contents.findings}  # no regular file, or too large: said already
    listed = manifest.by_path()
    digests: dict[str, str] = {}
    for name, entry in listed.items():
        if name in UNLISTED:
            found.add("manifest_mismatch", MANIFEST, expected=f"no entry for {name}", found="one")
        size = contents.files.get(name)
        if size is None:
            if name not in refused:
                found.add("file_missing", name, expected="a file", found="none")
        elif name in refused:
            continue
        elif size != entry.size:
            found.add("size_mismatch", name, expected=f"{entry.size} bytes", found=f"{size} bytes")
        else:
            with found.keeping():
                digests[name] = folder.sha256(name)
                if digests[name] != entry.sha256:
                    found.add("hash_mismatch", name, expected=entry.sha256, found=digests[name])
    for name in sorted(contents.files.keys() - listed.keys() - UNLISTED):
        found.add("file_extra", name, expected="no such file", found=f"{contents.files[name]} bytes")
    holding = {parent for name in listed for parent in _parents(name)}
    for name in sorted(contents.folders - holding):
        found.add("file_extra", f"{name}/", expected="no such folder", found="a folder")
    return digests


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
