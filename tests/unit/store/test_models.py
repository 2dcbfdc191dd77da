"""Checkpoint manifests: what the lock has of every shard, and what lies there now."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.store.models import model_documents, model_findings, weight_findings

SHARDS = {"ckpt/model-1.bin": b"one", "ckpt/model-2.bin": b"two!", "stats.json": b"{}"}


def _arm(name: str, *, here: bool = True, **changes: Any) -> dict[str, Any]:
    weights = [{"path": p, "size_bytes": len(d), "sha256": sha256_hex(d)} for p, d in SHARDS.items()]
    return {
        "name": name, "source": {"module": "mine.py"} if here else None, "weights": weights if here else [],
        "choice": {"weights": ["ckpt", "stats.json"] if here else []}, "registration_sha256": "a" * 64,
        "registration": {"checkpoint": None, "checkpoint_reason": "not_reported"}, **changes,
    }  # fmt: skip


LOCK = {"arms": [_arm("mine"), _arm("far", here=False)]}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The weights as they were locked."""
    for name, data in SHARDS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def _weights(base: Path) -> list[tuple[str, int, str]]:
    return [(item.code, item.exit_code, item.path) for item in weight_findings(LOCK, base=base)]


def test_a_manifest_names_every_shard_and_says_of_a_policy_elsewhere_that_none_is_known() -> None:
    found = {path: read_stored(data) for path, data in model_documents(LOCK).items()}
    mine, far = found["models/mine.json"], found["models/far.json"]
    assert mine["schema"] == "trialplate.model/1" and mine["arm"] == "mine"
    assert mine["files"] == [{"path": p, "sha256": sha256_hex(d), "size": len(d)} for p, d in SHARDS.items()]
    assert (far["files"], far["files_reason"]) == (None, "not_here")
    assert (far["checkpoint"], far["checkpoint_reason"]) == (None, "not_reported")
    assert model_findings(model_documents(LOCK), LOCK) == []


def _edit(change: Callable[[dict[str, Any]], Any]) -> bytes:
    document = read_stored(model_documents(LOCK)["models/mine.json"])
    change(document)
    return canonical_json(document)


def _swap(document: dict[str, Any]) -> None:
    first, second = document["files"][:2]
    first["sha256"], second["sha256"] = second["sha256"], first["sha256"]


@pytest.mark.parametrize(
    ("data", "code", "exit_code"),
    [
        (_edit(_swap), "model_digest_mismatch", 1),
        (_edit(lambda d: d["files"].pop()), "model_digest_mismatch", 1),
        (_edit(lambda d: d["files"].append(d["files"][0])), "model_digest_mismatch", 1),
        (_edit(lambda d: d["files"].reverse()), "model_digest_mismatch", 1),
        (_edit(lambda d: d["files"][0].update(size=4)), "model_digest_mismatch", 1),
        (_edit(lambda d: d["files"][0].update(size=True)), "model_digest_mismatch", 1),
        (_edit(lambda d: d.update(files=None)), "model_digest_mismatch", 1),
        (_edit(lambda d: d.update(arm="far")), "model_digest_mismatch", 1),
        (_edit(lambda d: d.update(note="x")), "schema_mismatch", 2),
        (_edit(lambda d: d.pop("files")), "schema_mismatch", 2),
        (_edit(lambda d: d.update(schema="trialplate.model/2")), "version_unsupported", 2),
        (_edit(lambda d: d.update(schema=1)), "schema_mismatch", 2),
        (b"[]", "schema_mismatch", 2),
        (b'{"a": 1}', "malformed", 2),
    ],
)
def test_a_manifest_that_is_not_what_the_lock_says_is_found(data: bytes, code: str, exit_code: int) -> None:
    (found,) = model_findings({**model_documents(LOCK), "models/mine.json": data}, LOCK)
    assert (found.code, found.exit_code, found.path) == (code, exit_code, "models/mine.json")


def test_a_manifest_that_is_missing_or_of_no_arm_is_found() -> None:
    stored = model_documents(LOCK)
    moved = {"models/other.json": stored.pop("models/far.json"), **stored}
    assert [(item.code, item.path) for item in model_findings(moved, LOCK)] == [
        ("model_digest_mismatch", "models/far.json"), ("model_digest_mismatch", "models/other.json"),
    ]  # fmt: skip


def test_weights_that_lie_as_they_were_locked_are_the_measured_ones(base: Path) -> None:
    assert _weights(base) == []


def test_row_08_a_shard_swapped_added_removed_or_edited_is_a_mismatch(base: Path) -> None:
    one, two = base / "ckpt/model-1.bin", base / "ckpt/model-2.bin"
    one.write_bytes(b"two!"), two.write_bytes(b"one")
    assert _weights(base) == [("model_digest_mismatch", 1, f"ckpt/model-{n}.bin") for n in (1, 2)]
    one.write_bytes(b"one"), two.unlink()
    assert _weights(base) == [("model_digest_mismatch", 1, "ckpt/model-2.bin")]
    two.write_bytes(b"two!")
    (base / "ckpt/deeper").mkdir()
    (base / "ckpt/deeper/model-3.bin").write_bytes(b"three")
    assert _weights(base) == [("model_digest_mismatch", 1, "ckpt/deeper/model-3.bin")]


@pytest.mark.parametrize("where", ["ckpt/model-1.bin", "stats.json", "ckpt"])
def test_row_08_a_link_in_the_place_of_a_shard_is_no_regular_file_and_is_not_followed(base: Path, where: str) -> None:
    (base / where).rename(base / "elsewhere")
    (base / where).symlink_to(base / "elsewhere")
    found = _weights(base)
    assert ("not_regular_file", 2, where) in found
    missing = [path for code, _, path in found if code == "model_digest_mismatch"]
    assert missing == (["ckpt/model-1.bin", "ckpt/model-2.bin"] if where == "ckpt" else [])


def test_a_pipe_in_the_place_of_a_shard_is_not_opened(base: Path) -> None:
    (base / "stats.json").unlink()
    os.mkfifo(base / "stats.json")
    assert _weights(base) == [("not_regular_file", 2, "stats.json")]
