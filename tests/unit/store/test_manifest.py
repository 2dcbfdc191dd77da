"""The manifest and the rule for paths, against the shared vectors and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import EvidenceError
from trialplate.store.manifest import (
    MAX_MANIFEST_BYTES,
    Entry,
    Manifest,
    make_manifest,
    parse_manifest,
    path_allowed,
)

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "canonical.json").read_text(encoding="utf-8")
)
DIGEST = sha256_hex(b"")


def _listing(*paths: str) -> bytes:
    files = [{"path": path, "sha256": DIGEST, "size": 0} for path in paths]
    return canonical_json({"schema": "trialplate.manifest/1", "files": files})


def _code(data: bytes) -> str:
    with pytest.raises(EvidenceError) as caught:
        parse_manifest(data)
    return caught.value.code


@pytest.mark.parametrize("vector", VECTORS["path"], ids=lambda v: repr(v["path"][:20]))
def test_a_path_is_allowed_or_not_as_the_vectors_say(vector: dict[str, Any]) -> None:
    assert path_allowed(vector["path"]) is vector["ok"]


@pytest.mark.parametrize(
    "path", ["CON", "Aux.json", "lpt9.tar.gz", "com1", "a/nul/b", "-a", "a\n", "x" * 128, "a/.b", "a..", "ü"]
)
def test_a_path_that_some_system_reads_otherwise_is_not_allowed(path: str) -> None:
    assert not path_allowed(path)


@pytest.mark.parametrize("path", ["console.txt", "com10", "a..b", "x" * 127, "_", "a-b.c_d/0"])
def test_a_path_that_every_system_reads_alike_is_allowed(path: str) -> None:
    assert path_allowed(path)


@pytest.mark.parametrize("vector", VECTORS["manifest"])
def test_a_manifest_has_the_bytes_of_the_vectors_and_is_read_back(vector: dict[str, Any]) -> None:
    contents = {path: text.encode() for path, text in vector["files"].items()}
    made = make_manifest(Entry(path, sha256_hex(data), len(data)) for path, data in contents.items())
    assert made.stored() == vector["manifest"].encode()
    assert sha256_hex(made.stored()) == vector["manifest_sha256"]
    assert parse_manifest(made.stored()) == made
    assert sha256_hex(vector["bundle_json"].encode()) == vector["bundle_id"]


@pytest.mark.parametrize(
    "paths",
    [
        ("../x",), ("/etc/passwd",), ("a\\b",), ("con.txt",), ("A.json", "a.json"), ("a", "a"), ("A/x", "a/y"),
        ("a", "a/b"), ("A", "a/b"), ("a/b", "a/b/c"), ("x/../y",),
    ],
)  # fmt: skip
def test_paths_that_are_unsafe_or_one_when_case_is_ignored_are_refused(paths: tuple[str, ...]) -> None:
    assert _code(_listing(*paths)) == "path_unsafe"
    with pytest.raises(EvidenceError) as caught:
        make_manifest(Entry(path, DIGEST, 0) for path in paths)
    assert caught.value.code == "path_unsafe"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda d: d.update(more=1), "schema_mismatch"),
        (lambda d: d.pop("files"), "schema_mismatch"),
        (lambda d: d.update(files={}), "schema_mismatch"),
        (lambda d: d.update(schema="trialplate.manifest/2"), "version_unsupported"),
        (lambda d: d.update(schema="trialplate.bundle/1"), "schema_mismatch"),
        (lambda d: d["files"].reverse(), "schema_mismatch"),
        (lambda d: d["files"][0].update(size="0"), "schema_mismatch"),
        (lambda d: d["files"][0].update(size=True), "schema_mismatch"),
        (lambda d: d["files"][0].update(size=-1), "schema_mismatch"),
        (lambda d: d["files"][0].update(size=None), "schema_mismatch"),
        (lambda d: d["files"][0].update(sha256=DIGEST.upper()), "schema_mismatch"),
        (lambda d: d["files"][0].update(more=1), "schema_mismatch"),
        (lambda d: d["files"].append(d["files"][0]), "path_unsafe"),
        (lambda d: d["files"].append(None), "schema_mismatch"),
    ],
)
def test_a_manifest_with_other_members_is_refused(edit: Any, code: str) -> None:
    document = read_stored(_listing("a", "b"))
    edit(document)
    assert _code(canonical_json(document)) == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data.replace(b":0}", b":0.0}"), "malformed"),
        (lambda data: data.replace(b'{"path"', b'{ "path"'), "malformed"),
        (lambda data: data + b"\n", "malformed"),
        (lambda data: b"\xef\xbb\xbf" + data, "malformed"),
        (lambda data: data[:-1], "malformed"),
        (lambda data: data.replace(b'"size":0', b'"size":00'), "malformed"),
        (lambda data: data.replace(b'"size":0', b'"size":9007199254740993'), "malformed"),
        (lambda data: data.replace(b"},{", b"},,{"), "malformed"),
        (lambda data: b"[]", "schema_mismatch"),
        (lambda data: b"{}", "schema_mismatch"),
    ],
)
def test_bytes_that_are_not_the_canonical_form_of_a_manifest_are_refused(change: Any, code: str) -> None:
    assert _code(change(_listing("a", "b"))) == code


def test_an_empty_manifest_is_read_as_one() -> None:
    assert parse_manifest(_listing()) == Manifest(())


def test_a_manifest_of_a_hundred_thousand_files_is_read_though_it_is_longer_than_other_documents() -> None:
    listed = make_manifest(Entry(f"episodes/{n:06d}-0/exchange.parquet", DIGEST, n) for n in range(130_000))
    data = b'{"files":[' + b",".join(
        b'{"path":"%s","sha256":"%s","size":%d}' % (e.path.encode(), e.sha256.encode(), e.size) for e in listed.files
    ) + b'],"schema":"trialplate.manifest/1"}'  # fmt: skip
    assert len(data) > 16 * 1024**2
    assert parse_manifest(data) == listed
    assert _code(data.replace(b'"size":7}', b'"size": 7}')) == "size_limit"
    assert _code(b"x" * (MAX_MANIFEST_BYTES + 1)) == "size_limit"
