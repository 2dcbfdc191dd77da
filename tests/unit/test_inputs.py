"""Code and checkpoints as they lie: every file hashed, links refused, and what was put back is not forgotten."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trialplate import api, fingerprint
from trialplate.errors import LockError
from trialplate.inputs import changed_arms, first_written, look
from trialplate.lock import Lock, locked_inputs
from trialplate.policies.identity import served_registration

ARM = """
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def __init__(self, *, weights):
        super().__init__()
"""


@pytest.fixture
def locked(toy_protocol: Path, tmp_path: Path) -> Callable[..., Lock]:
    """Lock a protocol whose arm ``mine`` has a folder of two shards and a file as weights."""
    study = toy_protocol.parent
    (study / "code").mkdir()
    (study / "code" / "mine.py").write_text(ARM, encoding="utf-8")
    (study / "ckpt" / "deep").mkdir(parents=True)
    for name, data in (("ckpt/model-1.bin", b"one"), ("ckpt/deep/model-2.bin", b"two"), ("stats.json", b"{}")):
        (study / name).write_bytes(data)

    def make(weights: str = '["ckpt", "stats.json"]') -> Lock:
        arm = f'[[arms]]\nname = "mine"\npolicy = "code/mine.py:Arm"\nweights = {weights}\n\n[schedule]'
        text = toy_protocol.read_text(encoding="utf-8").replace("[schedule]", arm)
        toy_protocol.write_text(text, encoding="utf-8")
        return api.lock(api.load_protocol(toy_protocol), into=tmp_path / "lock.json")

    return make


def _changed(lock: Lock, *, since: object = None) -> set[str]:
    return set(changed_arms(lock.document, look(lock, since=since).document()))  # type: ignore[arg-type]


def test_every_file_of_a_folder_of_weights_stands_in_the_lock(locked: Callable[..., Lock]) -> None:
    lock = locked()
    (arm,) = (arm for arm in lock.document["arms"] if arm["name"] == "mine")
    assert [(w["path"], w["size_bytes"]) for w in arm["weights"]] == [
        ("ckpt/deep/model-2.bin", 3), ("ckpt/model-1.bin", 3), ("stats.json", 2),
    ]  # fmt: skip
    assert look(lock).digests == locked_inputs(lock.document)
    assert _changed(lock) == set()


@pytest.mark.parametrize("what", ["swapped", "added", "removed", "edited", "a link", "code"])
def test_a_shard_that_is_not_the_locked_one_is_a_change_of_its_arm_alone(
    locked: Callable[..., Lock], tmp_path: Path, what: str
) -> None:
    lock = locked()
    one, two = lock.base / "ckpt/model-1.bin", lock.base / "ckpt/deep/model-2.bin"
    match what:
        case "swapped":
            one.write_bytes(b"two"), two.write_bytes(b"one")
        case "added":
            (lock.base / "ckpt/model-3.bin").write_bytes(b"three")
        case "removed":
            two.unlink()
        case "edited":
            (lock.base / "stats.json").write_bytes(b"[]")
        case "a link":
            one.rename(tmp_path / "elsewhere")
            one.symlink_to(tmp_path / "elsewhere")
        case "code":
            (lock.base / "code/more.py").write_text("X = 1\n", encoding="utf-8")
    assert _changed(lock) == {"mine"}
    said = look(lock).digests["mine"]
    assert ("not_regular_file" in said) == (what == "a link")


@pytest.mark.parametrize("place", ["ckpt/model-1.bin", "code/mine.py"])
def test_what_was_changed_and_put_back_during_a_run_is_named_though_its_digest_is_the_locked_one(
    locked: Callable[..., Lock], place: str
) -> None:
    lock = locked()
    first = look(lock)
    assert _changed(lock, since=first) == set()
    path = lock.base / place
    data, stamp = path.read_bytes(), path.stat()
    time.sleep(0.02)  # file systems count time in steps
    path.write_bytes(b"something else")
    path.write_bytes(data)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert _changed(lock) == set()
    assert _changed(lock, since=first) == {"mine"}
    assert "was written during the run" in look(lock, since=first).digests["mine"]
    assert Path(place).name in look(lock, since=first).digests["mine"]


@pytest.mark.parametrize("place", ["ckpt/model-1.bin", "code/mine.py"])
def test_what_was_changed_during_a_run_is_named_beside_its_new_digest(
    locked: Callable[..., Lock], place: str
) -> None:
    lock = locked()
    first = look(lock)
    time.sleep(0.02)
    (lock.base / place).write_bytes(b"something else")
    bare, said = look(lock).digests["mine"], look(lock, since=first).digests["mine"]
    assert said.startswith(f"{bare}, and ") and f"{Path(place).name} was written during the run" in said


def test_a_file_that_only_got_another_name_was_not_written(locked: Callable[..., Lock], tmp_path: Path) -> None:
    lock = locked()
    first = look(lock)
    time.sleep(0.02)
    os.link(lock.base / "ckpt/model-1.bin", tmp_path / "cache")
    assert _changed(lock, since=first) == set()


def test_a_file_replaced_by_an_equal_copy_was_written(locked: Callable[..., Lock]) -> None:
    lock = locked()
    first = look(lock)
    path = lock.base / "ckpt/model-1.bin"
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)
    assert _changed(lock, since=first) == {"mine"}


def test_marks_name_the_first_file_that_differs() -> None:
    mark = (1, 2, 3, 4, 1)
    assert first_written({"a": mark, "b": mark}, {"a": mark, "b": mark}) is None
    assert first_written({"a": mark}, {"a": mark, "b": mark}) == "b"
    assert first_written({"a": mark, "b": mark}, {"b": mark}) == "a"
    assert first_written({"a": mark}, {"a": (1, 2, 3, 5, 1)}) == "a"
    assert first_written({"a": mark}, {"a": (1, 2, 3, 5, 2)}) is None


def test_a_harness_or_suite_that_is_not_the_locked_one_is_a_change_of_every_arm(locked: Callable[..., Lock]) -> None:
    lock = locked()
    seen = look(lock).document()
    assert changed_arms(lock.document, seen) == frozenset()
    for name in ("suite_sha256", "harness_sha256"):
        assert changed_arms(lock.document, {**seen, name: "0" * 64}) == {"null", "scripted", "oracle", "mine"}
        assert changed_arms(lock.document, {k: v for k, v in seen.items() if k != name})
    digests = {name: digest for name, digest in seen["digests"].items() if name != "null"}
    assert changed_arms(lock.document, {**seen, "digests": digests}) == {"null"}


def test_links_among_the_weights_are_refused_wherever_they_stand(locked: Callable[..., Lock], tmp_path: Path) -> None:
    study = tmp_path / "study"
    (study / "elsewhere").mkdir()
    (study / "elsewhere/w.bin").write_bytes(b"w")
    (study / "linked").symlink_to(study / "elsewhere")
    (study / "link.bin").symlink_to(study / "elsewhere/w.bin")
    (study / "ckpt/inner").symlink_to(study / "elsewhere")
    os.mkfifo(study / "pipe")
    for name in ("linked", "linked/w.bin", "link.bin", "ckpt", "pipe"):
        with pytest.raises(LockError) as caught:
            fingerprint.checkpoint([name], base=study)
        assert caught.value.code == "not_regular_file", name
    with pytest.raises(LockError) as caught:
        locked('["link.bin"]')
    assert caught.value.code == "not_regular_file"


@pytest.mark.parametrize("name", ["none.bin", "empty"])
def test_weights_that_are_not_there_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LockError) as caught:
        fingerprint.checkpoint([name], base=tmp_path)
    assert caught.value.code == "weights"


def test_an_index_that_names_a_shard_that_nobody_listed_is_refused(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "model-1.bin", "b": "model-2.bin"}}
    (tmp_path / "model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    for name in ("model-1.bin", "model-2.bin"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(LockError, match=r"names the shard 'model-2\.bin', which is not listed"):
        fingerprint.checkpoint(["model.bin.index.json", "model-1.bin"], base=tmp_path)
    assert len(fingerprint.checkpoint(["."], base=tmp_path)) == 3
    (tmp_path / "model.bin.index.json").write_bytes(b"\xff no JSON")
    assert len(fingerprint.checkpoint(["model.bin.index.json"], base=tmp_path)) == 1


def test_a_served_checkpoint_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    found = []
    for place in ("here", "there/deeper"):
        (tmp_path / place / "ckpt/a").mkdir(parents=True)
        (tmp_path / place / "ckpt/a/w.bin").write_bytes(b"w")
        (tmp_path / place / "stats.bin").write_bytes(b"s")
        weights = [f"{place}/ckpt", f"{place}/stats.bin"]
        reference = "trialplate.testing.toy:Scripted"
        found.append(served_registration(reference, base=tmp_path, weights=weights).checkpoint)
    assert found[0] == found[1] and found[0] is not None and found[0].ref == "ckpt/a/w.bin, stats.bin"
