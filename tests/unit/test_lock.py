"""The lock holds every digest that can change a number, is written once, and refuses what is not locked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import trialplate
from trialplate import api, fingerprint
from trialplate.canonical import canonical_json, sha256_hex
from trialplate.errors import LockError
from trialplate.inputs import look
from trialplate.lock import (
    HARNESS_FILES,
    IDENTITY_KEYS,
    differences,
    harness_listing,
    locked_inputs,
    other_harness,
    read_lock,
    refuse_if_changed,
)

PACKAGE = Path(trialplate.__file__).parent


def test_a_lock_is_canonical_read_only_and_named_by_its_digest(toy_protocol: Path, tmp_path: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    assert lock.path == tmp_path / "c" / "lock.json"
    assert lock.path.read_bytes() == canonical_json(dict(lock.document))
    assert stat.S_IMODE(lock.path.stat().st_mode) == 0o444
    assert read_lock(lock.path).sha256 == lock.sha256


def test_a_lock_names_everything_that_can_change_a_number(toy_protocol: Path, tmp_path: Path) -> None:
    document = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c").document
    assert {"protocol", "harness", "suite", "distributions", "machine", "simulator", "arms", "schedule"} <= set(
        document
    )
    assert {"mujoco", "mink", "numpy", "scipy", "pyarrow"} <= set(document["distributions"])
    assert all(len(arm["source"]["source_sha256"]) == 64 for arm in document["arms"])
    assert len({arm["registration_sha256"] for arm in document["arms"]}) == 3


def test_a_lock_is_written_once(toy_protocol: Path, tmp_path: Path) -> None:
    loaded = api.load_protocol(toy_protocol)
    api.lock(loaded, into=tmp_path / "c")
    with pytest.raises(LockError, match="written once"):
        api.lock(loaded, into=tmp_path / "c")


def test_a_changed_policy_file_is_another_identity(toy_protocol: Path, tmp_path: Path) -> None:
    source = toy_protocol.parent / "mine.py"
    source.write_text("from trialplate.testing.toy import Scripted as Arm\n", encoding="utf-8")
    text = toy_protocol.read_text(encoding="utf-8").replace('policy = "control:scripted"', 'policy = "mine.py:Arm"')
    toy_protocol.write_text(text, encoding="utf-8")
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    assert look(lock).digests == locked_inputs(lock.document)
    source.write_text("from trialplate.testing.toy import Scripted as Arm  # edited\n", encoding="utf-8")
    changed = look(lock).digests
    assert [name for name in changed if changed[name] != locked_inputs(lock.document)[name]] == ["scripted"]
    with pytest.raises(LockError, match="source_sha256"):
        api.run(lock)


def test_differences_name_each_leaf() -> None:
    before = {"a": {"b": 1, "c": [1, 2]}, "d": "x"}
    after = {"a": {"b": 2, "c": [1, 3]}, "e": "y"}
    assert differences(before, after) == [
        "/a/b: locked 1, now 2",
        "/a/c/1: locked 2, now 3",
        "/d: locked x, now absent",
        "/e: locked absent, now y",
    ]


def test_files_that_differ_are_told_by_name_as_many_as_can_be_read() -> None:
    locked = {"a.py": "1", "b.py": "1", "c.py": "1"}
    assert fingerprint.changed_files(locked, dict(locked)) == ""
    assert fingerprint.changed_files(locked, {**locked, "b.py": "2"}) == "changed b.py"
    assert fingerprint.changed_files(locked, {"a.py": "2", "b.py": "1", "d.py": "1"}) == (
        "changed a.py; added d.py; removed c.py"
    )
    assert fingerprint.changed_files(locked, {}) == "removed a.py, b.py, c.py"
    assert fingerprint.changed_files({}, locked, most=2) == "added a.py, b.py; 1 more"


def test_a_lock_lists_the_files_of_the_package_whose_digest_it_holds(toy_protocol: Path, tmp_path: Path) -> None:
    document = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c").document
    listing = harness_listing(document)
    assert listing["scoring/ladder.py"] == sha256_hex((PACKAGE / "scoring/ladder.py").read_bytes())
    assert fingerprint.harness_sha256(listing) == document["harness"]["sha256"] == fingerprint.harness()["sha256"]
    assert document["harness"]["files"] == len(listing)
    assert other_harness(document) == ""
    assert other_harness({**document, HARNESS_FILES: {**listing, "api.py": "0" * 64}}) == " (changed api.py)"


def test_a_run_under_another_package_is_refused_by_the_name_of_the_file(toy_protocol: Path, tmp_path: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    now = {key: lock.document[key] for key in IDENTITY_KEYS}
    refuse_if_changed(lock, now)
    changed = {**harness_listing(lock.document), "scoring/ladder.py": "0" * 64}
    with pytest.raises(LockError, match=r"/harness_files: changed scoring/ladder\.py"):
        refuse_if_changed(lock, {**now, HARNESS_FILES: changed})


def test_weights_that_are_a_link_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real.npz").write_bytes(b"weights")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    assert fingerprint.checkpoint(["real.npz"], base=tmp_path)[0]["size_bytes"] == 7
    with pytest.raises(LockError, match="regular file"):
        fingerprint.checkpoint(["link.npz"], base=tmp_path)


def test_a_tree_with_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\n", encoding="utf-8")
    (tmp_path / "b.py").symlink_to(tmp_path / "a.py")
    with pytest.raises(LockError, match="not a regular file"):
        fingerprint.tree(tmp_path)


def test_a_lock_that_is_not_canonical_is_refused(toy_protocol: Path, tmp_path: Path) -> None:
    lock = api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
    spaced = tmp_path / "spaced.json"
    spaced.write_bytes(lock.path.read_bytes().replace(b'":', b'": ', 1))
    with pytest.raises(LockError, match="not_canonical"):
        read_lock(spaced)
    with pytest.raises(LockError, match="no lock"):
        read_lock(tmp_path / "none.json")


def test_a_policy_that_cannot_be_loaded_is_named_before_anything_runs(toy_protocol: Path, tmp_path: Path) -> None:
    source = toy_protocol.parent / "mine.py"
    text = toy_protocol.read_text(encoding="utf-8").replace('policy = "control:scripted"', 'policy = "mine.py:Arm"')
    toy_protocol.write_text(text, encoding="utf-8")
    for content, expected in (
        ("raise RuntimeError('no gpu')\n", "no gpu"),
        ("class Amr: pass\n", "'Amr'"),
        ("class Arm: pass\n", "spec, reset, act, close"),
        ("class Arm:\n    def __init__(self, size): pass\n", "size"),
    ):
        source.write_text(content, encoding="utf-8")
        with pytest.raises(LockError, match=expected):
            api.lock(api.load_protocol(toy_protocol), into=tmp_path / "c")
