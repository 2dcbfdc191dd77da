"""A small sealed campaign of the toy suite, and somebody who edits a bundle and recomputes every digest in it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate import api, exam, sealing
from trialplate.canonical import canonical_json
from trialplate.store import merkle

PROTOCOL = """
schema = "trialplate.protocol/1"
name = "golden"
question = "Does either arm carry the block?"
run_class = "confirmatory"

[suite]
name = "toy"
version = "1"

[[arms]]
name = "mine"
policy = "mine.py:Arm"
weights = ["mine.bin"]

[[arms]]
name = "scripted"
policy = "control:scripted"

[schedule]
seed = 1

[fault_table]
invalid_action = "ERROR"
policy_exception = "EXCLUDED"

[[claims]]
name = "half"
kind = "threshold_rate"
arm = "mine"
rate = 0.5
"""
ARM = """
from trialplate import ActionChunk
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def __init__(self, *, weights):
        super().__init__()

    def act(self, observation):
        block_m = round(float(observation.proprio["block"][0]), 3)
        if block_m == 0.5:
            return ActionChunk([[7.0, 7.0]])
        if block_m == 0.6:
            raise RuntimeError("no answer today")
        return super().act(observation)
"""
UNLISTED = ("bundle.json", "MANIFEST.json", "attestation.dsse.json")


@dataclass(frozen=True, slots=True)
class Golden:
    """A campaign of two arms and twelve trials, one ERROR and one EXCLUDED; its raw controls; and both sealed.

    ``lean``: the campaign sealed without the controls, which is checked faster.
    """

    campaign: Path
    qualification: Path
    bundle: Path
    lean: Path


def make_campaign(folder: Path, *, protocol: str = PROTOCOL) -> Path:
    """Lock and run the golden protocol in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(ARM, encoding="utf-8")
    (folder / "mine.bin").write_bytes(b"weights of an arm that needs none")
    path = folder / "protocol.toml"
    path.write_text(protocol, encoding="utf-8")
    campaign = folder / "campaign"
    api.run(api.lock(api.load_protocol(path), into=campaign))
    return campaign


def make_golden(folder: Path) -> Golden:
    """Run, qualify and seal."""
    campaign = make_campaign(folder)
    exam.qualify("toy", into=folder / "controls")
    bundle = sealing.seal(campaign, folder / "bundles", qualification=folder / "controls")
    assert bundle.verdict.exit_code == 0, bundle.verdict.document
    lean = sealing.seal(campaign, folder / "lean")
    return Golden(campaign, folder / "controls", bundle.path, lean.path)


def sha256(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def listed_files(bundle: Path) -> dict[str, bytes]:
    """Every file that the manifest has to list."""
    found = {path.relative_to(bundle).as_posix(): path for path in bundle.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if name not in UNLISTED}


def write(path: Path, data: bytes) -> None:
    """Write into a sealed folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.chmod(0o644)
    path.write_bytes(data)


def edit(path: Path, change: Any) -> None:
    """Change a stored JSON document and write its canonical form. ``change``: edits in place, or returns another."""
    document = json.loads(path.read_bytes())
    changed = change(document)
    write(path, canonical_json(document if changed is None else changed))


def reseal(bundle: Path, *, keep_bundle_document: bool = False) -> Path:
    """Recompute every digest of an edited bundle, as somebody without a key can, and give it the name of its new id.

    ``keep_bundle_document``: of ``bundle.json`` only ``manifest_sha256`` follows.
    """
    files = listed_files(bundle)
    listed = [{"path": name, "sha256": sha256(data), "size": len(data)} for name, data in files.items()]
    write(bundle / "MANIFEST.json", canonical_json({"schema": "trialplate.manifest/1", "files": listed}))
    document = json.loads((bundle / "bundle.json").read_bytes())
    document["manifest_sha256"] = sha256((bundle / "MANIFEST.json").read_bytes())
    if not keep_bundle_document:
        document |= _members(files)
    return rename(bundle, canonical_json(document))


def rename(bundle: Path, document: bytes) -> Path:
    """Put a ``bundle.json`` in place and give the folder the name of its digest."""
    write(bundle / "bundle.json", document)
    target = bundle.with_name(sha256(document))
    if target != bundle:
        bundle.rename(target)
    return target


def _members(files: dict[str, bytes]) -> dict[str, Any]:
    """Return what somebody would write into ``bundle.json`` for these files."""
    found: dict[str, Any] = {}
    for name, path in (
        ("lock_sha256", "lock.json"),
        ("verifier_sha256", "tools/verify_bundle.py"),
        ("qualification_sha256", "qualification/qualification.json"),
    ):
        if path in files:
            found[name] = sha256(files[path])
    lines = files.get("rows.jsonl", b"").split(b"\n")[:-1]
    found["rows"] = {"n": len(lines), "root": merkle.root(lines)}
    records = [json.loads(line) for line in files.get("journal.jsonl", b"").split(b"\n")[:-1]]
    if records:
        size = len(files["journal.jsonl"])
        found["journal_head"] = {"count": len(records), "head_sha256": records[-1]["sha256"], "size": size}
        found["created_utc"] = records[-1]["utc"]
    return found
