"""Rows 1, 2, 10 to 12, 29, 31, 32 and 35 to 38 of the evidence specification, section 13: a bundle under attack."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import stat
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from forger import Forger
from sealed import Golden, edit, listed_files, make_campaign, rename, reseal, sha256, write
from trialplate import exam, sealing
from trialplate.canonical import canonical_json
from trialplate.cli import main
from trialplate.errors import EvidenceError, UsageError
from trialplate.record import Status
from trialplate.standalone import verify_bundle
from trialplate.store import merkle
from trialplate.store.archive import ArchiveCaps, pack, unpack
from trialplate.store.attesting import attest
from trialplate.store.chain import system_clock
from trialplate.store.container import Container, check_container
from trialplate.store.expected import Expected
from trialplate.store.folder import Caps, Folder
from trialplate.store.signing import PAYLOAD_TYPE, Envelope, Trust, key_id, pae, parse_envelope, statement
from trialplate.verification import qualification as controls

RUN = "qualification/oracle-2"


def found(container: Container) -> list[tuple[int, str, str]]:
    return [(item.exit_code, item.code, item.path) for item in container.findings]


def codes(path: Path, **options: Any) -> tuple[int, list[str]]:
    verdict = exam.verify(path, **options)
    return verdict.exit_code, list(dict.fromkeys(item.code for item in verdict.findings))


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


# -- rows 1 and 2: raw changes ---------------------------------------------------------------------------------


def test_the_golden_bundle_verifies_and_its_outside_holds(golden: Golden) -> None:
    assert codes(golden.bundle) == (0, [])
    container = check_container(golden.bundle)
    assert container.findings == () and container.bundle_id == golden.bundle.name
    assert set(container.digests) == set(listed_files(golden.bundle))


def test_row_01_any_bit_of_any_file_is_found_and_the_file_is_named(bundle: Path) -> None:
    draw = random.Random(1)
    special = {"bundle.json": "bundle_id_mismatch", "MANIFEST.json": "manifest_mismatch"}
    for path in sorted(path for path in bundle.rglob("*") if path.is_file()):
        name, data = path.relative_to(bundle).as_posix(), path.read_bytes()
        path.chmod(0o644)
        for place in sorted(
            {0, len(data) - 1, *(draw.randrange(len(data)) for _ in range(2 if len(name) > 20 else 9))}
        ):
            path.write_bytes(flipped(data, place, draw.randrange(8)))
            wrong = found(check_container(bundle))
            assert wrong[0] == (1, special.get(name, "hash_mismatch"), name), (name, place, wrong)
        path.write_bytes(data)
    assert check_container(bundle).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bundle.json", "MANIFEST.json", "head.json", "models/mine.json"])
def test_row_01_every_bit_of_a_small_file_ends_with_exit_code_1(lean: Path, name: str) -> None:
    path, draw = lean / name, random.Random(2)
    path.chmod(0o644)
    data = path.read_bytes()
    flips = [(place, bit) for place in range(len(data)) for bit in range(8)]
    for place, bit in flips if len(data) < 2048 else draw.sample(flips, 2000):
        path.write_bytes(flipped(data, place, bit))
        assert found(check_container(lean))[0][0] == 1, (place, bit)


@pytest.mark.parametrize(
    "name",
    ["bundle.json", "MANIFEST.json", "lock.json", "report.html", f"{RUN}/rows.jsonl", "tools/verify_bundle.py"],
)
def test_row_01_the_whole_check_ends_with_exit_code_1_for_a_changed_bit(bundle: Path, name: str) -> None:
    path = bundle / name
    data = path.read_bytes()
    write(path, flipped(data, len(data) // 2, 4))
    assert codes(bundle)[0] == 1


@pytest.mark.parametrize("name", ["lock.json", "rows.jsonl", "claims.json", f"{RUN}/head.json", "models/mine.json"])
def test_row_02_a_file_removed_added_emptied_or_renamed_is_found(bundle: Path, name: str) -> None:
    path, data = bundle / name, (bundle / name).read_bytes()
    path.unlink()
    assert (1, "file_missing", name) in found(check_container(bundle))
    write(path, b"")
    assert (1, "size_mismatch", name) in found(check_container(bundle))
    write(path, data)
    other = f"{name}.old"
    path.rename(bundle / other)
    wrong = found(check_container(bundle))
    assert (1, "file_missing", name) in wrong and (1, "file_extra", other) in wrong
    (bundle / other).rename(path)
    write(bundle / "episodes/more.json", b"{}")
    assert found(check_container(bundle)) == [(1, "file_extra", "episodes/more.json")]


@pytest.mark.parametrize("name", ["lock.json", "journal.jsonl", "rows.jsonl", "claims.json", "models/mine.json"])
def test_row_02_the_whole_check_of_a_bundle_without_one_of_its_files_ends_with_exit_code_1(
    lean: Path, name: str
) -> None:
    (lean / name).unlink()
    exit_code, wrong = codes(lean)
    assert exit_code == 1 and wrong[0] == "file_missing"
    write(lean / "episodes/more.json", b"{}")
    assert "file_extra" in codes(lean)[1]


@pytest.mark.parametrize("name", ["bundle.json", "MANIFEST.json"])
def test_row_02_the_two_files_that_name_the_others_are_missed_too(lean: Path, name: str) -> None:
    (lean / name).unlink()
    assert (1, "file_missing", name) in found(check_container(lean))
    assert codes(lean)[0] == 1


def test_row_02_an_empty_folder_is_found(bundle: Path) -> None:
    (bundle / "episodes/empty").mkdir()
    assert found(check_container(bundle)) == [(1, "file_extra", "episodes/empty/")]


def test_row_02_files_of_another_bundle_in_its_place_are_found(bundle: Path) -> None:
    data = (bundle / "qualification/null/lock.json").read_bytes()
    write(bundle / "lock.json", data)
    assert found(check_container(bundle))[0][0] == 1


def test_a_folder_of_another_name_is_not_the_bundle_of_that_id(lean: Path) -> None:
    moved = lean.rename(lean.with_name("results-of-monday"))
    assert found(check_container(moved)) == [(1, "bundle_id_mismatch", "bundle.json")]


# -- bundle.json: every member follows from the other files ------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "exit_code", "code"),
    [
        (lambda d: d.update(created_utc="2026-01-01T00:00:00.000000Z"), 1, "mixed_runs"),
        (lambda d: d.update(run_id="5f" * 16), 1, "mixed_runs"),
        (lambda d: d["journal_head"].update(count=d["journal_head"]["count"] - 1), 1, "mixed_runs"),
        (lambda d: d.update(lock_sha256="ab" * 32), 1, "lock_digest_mismatch"),
        (lambda d: d.update(run_class="development"), 1, "lock_digest_mismatch"),
        (lambda d: d["rows"].update(root="ab" * 32), 1, "rows_root_mismatch"),
        (lambda d: d["rows"].update(n=11), 1, "rows_root_mismatch"),
        (lambda d: d["counts"].update(attempts=11), 1, "accounting_not_reproduced"),
        (lambda d: d["counts"]["arms"]["mine"].update(planned=7), 1, "accounting_not_reproduced"),
        (lambda d: d["tool"].update(version="0.0.9"), 1, "source_snapshot_mismatch"),
        (lambda d: d["tool"].update(sha256="ab" * 32), 1, "source_snapshot_mismatch"),
        (lambda d: d.update(verifier_sha256="ab" * 32), 1, "source_snapshot_mismatch"),
        (
            lambda d: [d.update(qualification_sha256="ab" * 32), d.pop("qualification_sha256_reason")],
            3,
            "qualification_binding",
        ),
        (lambda d: d.pop("qualification_sha256_reason"), 2, "schema_mismatch"),
        (lambda d: d.update(assurance="signed"), 2, "schema_mismatch"),
        (lambda d: d.update(manifest_sha256="ab" * 32), 1, "manifest_mismatch"),
        (lambda d: d.update(more=1), 2, "schema_mismatch"),
        (lambda d: d["rows"].update(n=True), 2, "schema_mismatch"),
        (lambda d: d["rows"].update(n="12"), 2, "schema_mismatch"),
        (lambda d: d.update(qualification_sha256="ab" * 32), 2, "schema_mismatch"),
        (lambda d: d.update(schema="trialplate.bundle/2"), 2, "version_unsupported"),
        (lambda d: d.pop("counts"), 2, "schema_mismatch"),
    ],
)
def test_a_member_of_bundle_json_that_contradicts_the_files_is_found_under_any_id(
    lean: Path, change: Callable[[dict[str, Any]], Any], exit_code: int, code: str
) -> None:
    document = json.loads((lean / "bundle.json").read_bytes())
    change(document)
    forged = rename(lean, canonical_json(document))
    got, wrong = codes(forged)
    assert (got, code in wrong) == (exit_code, True), wrong


def _pretend_qualified(document: dict[str, Any]) -> None:
    del document["qualification_sha256_reason"]
    document["qualification_sha256"] = "ab" * 32


# -- rows 10 to 12: the qualification ------------------------------------------------------------------------


def test_row_10_a_qualification_of_another_harness_is_no_qualification(golden: Golden, tmp_path: Path) -> None:
    campaign = Path(shutil.copytree(golden.campaign, tmp_path / "c"))
    lock = json.loads((campaign / "lock.json").read_bytes())
    for section, change in (
        ("harness", {"sha256": "ab" * 32}),
        ("simulator", {"name": "another image"}),
        ("machine", {"processor": "another"}),
    ):
        other = lock | {section: lock[section] | change}
        wrong = controls.qualification_findings(golden.qualification, other)
        assert {(item.exit_code, item.code) for item in wrong} == {(3, "qualification_binding")}, section
    suite = lock["suite"] | {"sources": {"files": 1, "sha256": "ab" * 32}}
    (only,) = controls.qualification_findings(golden.qualification, lock | {"suite": suite})
    assert (only.code, only.pointer) == ("qualification_binding", "/bound/suite/sources/sha256")


def test_row_11_two_oracle_runs_are_too_few(bundle: Path) -> None:
    shutil.rmtree(bundle / "qualification/oracle-3")
    assert codes(reseal(bundle)) == (3, ["qualification_failed"])


def test_row_11_three_copies_of_one_run_are_one_run(bundle: Path) -> None:
    for name in ("oracle-2", "oracle-3"):
        shutil.rmtree(bundle / f"qualification/{name}")
        shutil.copytree(bundle / "qualification/oracle-1", bundle / f"qualification/{name}")
    exit_code, wrong = codes(reseal(bundle))
    assert exit_code == 3 and "qualification_copied" in wrong


def test_row_11_a_copy_that_was_given_a_run_id_of_its_own_is_still_a_copy(bundle: Path) -> None:
    for number in (2, 3):
        folder, run_id = bundle / f"qualification/oracle-{number}", f"{number}f" * 16
        shutil.rmtree(folder)
        shutil.copytree(bundle / "qualification/oracle-1", folder)
        forger = _unlocked(folder)
        forger.records[0]["data"]["run_id"] = run_id
        for row in sorted((folder / "episodes").iterdir()):
            forger.edit_row(row.name, lambda document, run_id=run_id: document.update(run_id=run_id))
        forger.seal()
    exit_code, wrong = codes(reseal(bundle))
    assert (exit_code, "qualification_copied" in wrong) == (3, True), wrong


def test_row_11_one_control_in_the_place_of_another_is_told(bundle: Path) -> None:
    shutil.rmtree(bundle / "qualification/null")
    shutil.copytree(bundle / "qualification/exploit", bundle / "qualification/null")
    exit_code, wrong = codes(reseal(bundle))
    assert exit_code == 3 and "qualification_copied" in wrong


@pytest.mark.parametrize(("run", "status"), [("oracle-1", "FAIL"), ("null", "PASS")])
def test_row_11_an_oracle_that_misses_one_and_a_null_that_passes_one_do_not_qualify(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, run: str, status: str
) -> None:
    """The raw runs are whole; one outcome is another one, as of a harness that fails its exam."""
    score = vars(controls)["score_view"]

    def worse(view: Any) -> Any:
        outcomes = score(view)
        if view.folder.name != run:
            return outcomes
        return (replace(outcomes[0], status=Status(status)), *outcomes[1:])

    monkeypatch.setattr(controls, "score_view", worse)
    lock = json.loads((golden.campaign / "lock.json").read_bytes())
    wrong = controls.qualification_findings(golden.qualification, lock)
    assert {(item.exit_code, item.code) for item in wrong} == {(3, "qualification_failed")}
    assert any(run.partition("-")[0] in item.pointer for item in wrong)


def test_row_12_a_raw_control_row_that_was_edited_is_found_under_its_folder(bundle: Path) -> None:
    folder = bundle / "qualification/null"
    results = (folder / "results.jsonl").read_bytes().replace(b'"status":"FAIL"', b'"status":"PASS"')
    write(folder / "results.jsonl", results)
    verdict = exam.verify(reseal(bundle))
    assert verdict.exit_code == 1
    assert [(item.code, item.path) for item in verdict.findings] == [
        ("grades_not_reproduced", "qualification/null/results.jsonl")
    ]


def _unlocked(folder: Path) -> Forger:
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return Forger(folder, clock=system_clock)


# -- row 29: witnesses --------------------------------------------------------------------------------------


def test_row_29_a_witness_of_another_root_over_as_many_rows_proves_that_rows_were_replaced(lean: Path) -> None:
    lines = (lean / "rows.jsonl").read_bytes().split(b"\n")[:-1]
    seen, root = merkle.root(lines[:7]), merkle.root(lines)
    assert merkle.check_consistency(7, 12, root1=seen, root2=root, proof=merkle.consistency_proof(lines, 7))
    other = [*lines[:3], lines[3].replace(b'"attempt":0', b'"attempt":1'), *lines[4:]]
    forged = merkle.root(other)
    assert other != lines
    for told in (lines, other):
        proof = merkle.consistency_proof(told, 7)
        assert not merkle.check_consistency(7, 12, root1=seen, root2=forged, proof=proof)
    assert codes(lean, expected=Expected(root=forged)) == (1, ["expected_mismatch"])
    assert codes(lean, expected=Expected(root=root)) == (0, [])


# -- row 31: a coherent rewrite -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rewritten(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run of the same protocol, sealed: coherent in itself, under an id of its own."""
    folder = tmp_path_factory.mktemp("rewritten")
    campaign = make_campaign(folder)
    return sealing.seal(campaign, folder / "bundles", qualification=golden.qualification).path


def test_row_31_a_coherent_rewrite_verifies_alone_and_says_what_that_does_not_prove(rewritten: Path) -> None:
    verdict = exam.verify(rewritten)
    assert verdict.exit_code == 0
    assert any(line.startswith("LIMITS") and "expected digest" in line for line in verdict.lines())


def test_row_31_a_coherent_rewrite_contradicts_an_expected_digest(golden: Golden, rewritten: Path) -> None:
    kept = json.loads((golden.bundle / "bundle.json").read_bytes())
    assert codes(rewritten, expected=Expected(root=kept["rows"]["root"])) == (1, ["expected_mismatch"])
    assert codes(rewritten, expected=Expected(lock=kept["lock_sha256"])) == (1, ["expected_mismatch"])
    assert codes(golden.bundle, expected=Expected(root=kept["rows"]["root"], lock=kept["lock_sha256"])) == (0, [])


def test_row_31_a_coherent_rewrite_has_no_signature_of_a_known_key(rewritten: Path) -> None:
    assert codes(rewritten, expected=Expected(trust=Trust((raw(ALICE),)))) == (3, ["signature_missing"])


# -- row 32: signatures -------------------------------------------------------------------------------------

ALICE, BOB, MALLORY = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (1, 2, 3))


def raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def key_file(folder: Path, key: Ed25519PrivateKey) -> Path:
    path = folder / f"{key_id(raw(key))[:8]}.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def put(bundle: Path, payload: bytes, *keys: Ed25519PrivateKey, kind: str = PAYLOAD_TYPE) -> None:
    signatures = tuple((key_id(raw(key)), key.sign(pae(kind, payload))) for key in keys)
    write(bundle / "attestation.dsse.json", Envelope(payload, signatures).stored())


def test_row_32_a_signed_bundle_verifies_with_the_keys_of_the_reader(lean: Path, tmp_path: Path) -> None:
    assert attest(lean, key_file(tmp_path, ALICE)) == (key_id(raw(ALICE)), 1)
    assert attest(lean, key_file(tmp_path, BOB)) == (key_id(raw(BOB)), 2)
    both = Trust((raw(ALICE), raw(BOB)), 2)
    assert codes(lean, expected=Expected(trust=both)) == (0, [])
    assert check_container(lean, trust=both).signed_by == tuple(sorted(key_id(raw(key)) for key in (ALICE, BOB)))
    assert codes(lean) == (0, [])


def test_row_32_a_bundle_whose_digests_do_not_hold_is_not_signed(bundle: Path, tmp_path: Path) -> None:
    write(bundle / "claims.json", b"{}")
    with pytest.raises(EvidenceError, match=r"claims\.json"):
        attest(bundle, key_file(tmp_path, ALICE))
    assert not (bundle / "attestation.dsse.json").exists()


def test_row_32_every_bad_envelope_has_its_code(lean: Path) -> None:
    document = check_container(lean).document
    assert document is not None
    payload = statement(document)
    alice, both = Trust((raw(ALICE),)), Trust((raw(ALICE), raw(BOB)), 2)
    put(lean, payload, ALICE)
    edit(lean / "attestation.dsse.json", lambda d: d.update(payloadType="text/plain"))
    assert codes(lean, expected=Expected(trust=alice)) == (2, ["envelope_malformed"])
    put(lean, payload, ALICE, kind="text/plain")
    assert codes(lean, expected=Expected(trust=alice)) == (1, ["signature_invalid"])
    put(lean, payload.replace(b"confirmatory", b"development"), ALICE)
    assert codes(lean, expected=Expected(trust=alice)) == (1, ["signature_invalid"])
    put(lean, payload, MALLORY)
    assert codes(lean, expected=Expected(trust=alice)) == (3, ["key_unknown"])
    put(lean, payload, ALICE, ALICE)
    assert codes(lean, expected=Expected(trust=both)) == (3, ["threshold_not_met"])
    put(lean, payload)
    assert codes(lean, expected=Expected(trust=alice)) == (3, ["signature_missing"])


def test_row_32_a_key_that_lies_in_the_bundle_is_believed_by_nobody(bundle: Path) -> None:
    write(bundle / "models/keys.pem", raw(MALLORY))
    forged = reseal(bundle)
    document = check_container(forged).document
    assert document is not None
    put(forged, statement(document), MALLORY)
    assert check_container(forged, trust=Trust((raw(ALICE),))).findings[0].code == "key_unknown"


def test_row_32_a_bit_of_a_signature_is_found_by_who_brings_keys(bundle: Path, tmp_path: Path) -> None:
    attest(bundle, key_file(tmp_path, ALICE))
    path, draw = bundle / "attestation.dsse.json", random.Random(4)
    data = path.read_bytes()
    name = data.index(b'"keyid":"') + 9  # the name of a key is only a hint: another one changes nothing
    places = [place for place in range(len(data)) if not name <= place < name + 64]
    for place in draw.sample(places, 60):
        write(path, flipped(data, place, draw.randrange(8)))
        assert check_container(bundle, trust=Trust((raw(ALICE),))).findings, place
    assert parse_envelope(data).signatures[0][0] == key_id(raw(ALICE))


# -- rows 35 and 36: names and kinds -----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a\\b", "con.txt", "LOCK.json", "lock.json/x", "a/../b"])
def test_row_35_an_unsafe_path_in_the_manifest_is_refused(lean: Path, path: str) -> None:
    files = json.loads((lean / "MANIFEST.json").read_bytes())["files"]
    forged = _listing(lean, sorted([*files, {"path": path, "sha256": "ab" * 32, "size": 1}], key=_path))
    assert codes(forged)[0] == 2
    assert "path_unsafe" in [item.code for item in check_container(forged).findings]


def test_a_manifest_in_another_order_is_malformed_and_not_compared_with_the_files_by_either_verifier(
    lean: Path,
) -> None:
    files = json.loads((lean / "MANIFEST.json").read_bytes())["files"]
    moved = next(entry for entry in files if entry["path"].startswith("episodes/"))
    moved["path"] = moved["path"].replace("episodes", "epis/des")  # missing, and now before its neighbours
    forged = _listing(lean, [entry for entry in files if entry is not moved] + [moved])
    assert codes(forged) == (2, ["schema_mismatch"])
    told = verify_bundle.verify(str(forged))
    assert told["exit_code"] == 2
    assert not {"file_missing", "file_extra"} & {item["code"] for item in told["findings"]}


def _listing(bundle: Path, files: list[dict[str, Any]]) -> Path:
    """Give a bundle another list of files, and the digests that follow."""
    manifest = json.loads((bundle / "MANIFEST.json").read_bytes())
    write(bundle / "MANIFEST.json", canonical_json({**manifest, "files": files}))
    document = json.loads((bundle / "bundle.json").read_bytes())
    document["manifest_sha256"] = sha256((bundle / "MANIFEST.json").read_bytes())
    return rename(bundle, canonical_json(document))


def _path(entry: dict[str, Any]) -> str:
    return str(entry["path"])


@pytest.mark.parametrize("name", ["con.txt", "a\\b", "Lock.json", ".hidden", "é", "x "])
def test_row_35_an_unsafe_name_in_the_folder_is_refused(lean: Path, name: str) -> None:
    (lean / name).write_bytes(b"")
    assert found(check_container(lean))[0][:2] == (2, "path_unsafe")
    assert codes(lean)[0] == 2


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "socket", "folder"])
def test_row_36_what_is_no_regular_file_is_refused_and_not_waited_for(
    lean: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lean / "models/mine.json"
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    if kind == "link":
        path.symlink_to(outside)
    elif kind == "hard link":
        path.hardlink_to(outside)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(path.parent)  # the name of a socket may not be long
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(path.name)
    else:
        path.mkdir()
    wrong = found(check_container(lean))
    expected = (1, "file_missing") if kind == "folder" else (2, "not_regular_file")
    assert (*expected, "models/mine.json") in wrong
    assert codes(lean)[0] == expected[0]


@pytest.mark.skipif(not hasattr(os, "mknod") or os.geteuid() != 0, reason="needs the right to make a device")
def test_row_36_a_device_is_refused(bundle: Path) -> None:
    try:
        os.mknod(bundle / "episodes/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container may not make devices")
    assert (2, "not_regular_file", "episodes/null") in found(check_container(bundle))


@pytest.mark.parametrize("swapped", ["models", "models/mine.json"])
def test_row_36_a_folder_or_file_swapped_for_a_link_between_look_and_open_is_refused(
    bundle: Path, tmp_path: Path, swapped: str
) -> None:
    aside = tmp_path / "aside"
    with Folder(bundle) as folder:
        assert "models/mine.json" in folder.contents().files
        (bundle / swapped).rename(aside)
        (bundle / swapped).symlink_to(aside)
        for use in (folder.sha256, lambda path: folder.read(path, limit_bytes=10_000)):
            with pytest.raises(EvidenceError) as caught:
                use("models/mine.json")
            assert caught.value.code == "not_regular_file"


# -- row 37: archives --------------------------------------------------------------------------------------


def test_row_37_an_archive_is_no_folder(bundle: Path, tmp_path: Path) -> None:
    archive = pack(bundle, tmp_path / "bundle.zip")
    assert found(check_container(archive))[0][:2] == (2, "archive_refused")


def test_row_37_what_was_packed_unpacks_to_the_same_folder(bundle: Path, tmp_path: Path) -> None:
    archive = pack(bundle, tmp_path / "bundle.zip")
    assert pack(bundle, tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    there = unpack(archive, tmp_path / "there")
    assert there.name == bundle.name
    assert listed_files(there) == listed_files(bundle)
    assert check_container(there).findings == ()
    with pytest.raises(Exception, match="there already"):
        unpack(archive, tmp_path / "there")


def zipped(path: Path, entries: dict[str, bytes], *, top: str = "ab" * 32, mode: int = 0o100444) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(f"{top}/{name}" if top else name)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def hostile_archives(folder: Path) -> Iterator[tuple[str, Path, ArchiveCaps]]:
    caps, good = ArchiveCaps(), {"bundle.json": b"{}"}
    yield "path_unsafe", zipped(folder / "up", {**good, "../../x": b""}), caps
    yield "path_unsafe", zipped(folder / "absolute", {**good, "/etc/x": b""}), caps
    yield "path_unsafe", zipped(folder / "device", {**good, "con.txt": b""}), caps
    yield "path_unsafe", zipped(folder / "case", {**good, "a": b"", "A": b""}), caps
    yield "path_unsafe", zipped(folder / "back", {**good, "a\\b": b""}), caps
    yield "not_regular_file", zipped(folder / "link", good, mode=stat.S_IFLNK | 0o777), caps
    yield "archive_refused", zipped(folder / "flat", good, top=""), caps
    yield "archive_refused", zipped(folder / "other", {"x.json": b"{}"}), caps
    yield "archive_refused", zipped(folder / "digest", good), caps
    yield "size_limit", zipped(folder / "many", {**good, "a": b"", "b": b""}), ArchiveCaps(files=2)
    yield "size_limit", zipped(folder / "large", {**good, "a": bytes(5000)}), ArchiveCaps(file_bytes=4999)
    yield "size_limit", zipped(folder / "total", {**good, "a": bytes(5000)}), ArchiveCaps(total_bytes=4999)
    yield "size_limit", zipped(folder / "ratio", {**good, "a": bytes(20_000_000)}), caps
    text = folder / "text"
    text.write_bytes(b"this is no archive at all")
    yield "archive_refused", text, caps
    cut = folder / "cut"
    cut.write_bytes(zipped(folder / "whole", {**good, "a": random.Random(1).randbytes(9000)}).read_bytes()[:-30])
    yield "archive_refused", cut, caps


def test_row_37_a_hostile_archive_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "archives").mkdir()
    for code, path, caps in hostile_archives(tmp_path / "archives"):
        into = tmp_path / "into" / path.name
        with pytest.raises(EvidenceError) as caught:
            unpack(path, into, caps=caps)
        assert (caught.value.code, path.name) == (code, path.name)
        assert [item for item in into.rglob("*") if item.name != ".building.lock"] == []
    assert not (tmp_path / "x").exists()


def test_row_37_an_archive_that_lies_about_sizes_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    top = sha256(b"{}")
    path = zipped(tmp_path / "lie", {"bundle.json": b"{}", "a": bytes(1_000_000)}, top=top)
    data = bytearray(path.read_bytes())
    size = (1_000_000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(bytes(data.replace(size, (1000).to_bytes(4, "little"))))
    with pytest.raises(EvidenceError) as caught:
        unpack(path, tmp_path / "into")
    assert caught.value.code == "archive_refused"
    assert [item.name for item in (tmp_path / "into").iterdir()] == [".building.lock"]


def test_row_37_entries_that_overlap_are_refused(tmp_path: Path) -> None:
    """Many names for the same compressed bytes, as in a bomb that is small and lists terabytes."""
    path = zipped(tmp_path / "overlap", {"bundle.json": b"{}", "a": random.Random(1).randbytes(50_000)})
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(f"{'ab' * 32}/a")
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(9):
            other = zipfile.ZipInfo(f"{'ab' * 32}/b{number}")
            other.header_offset, other.compress_size = entry.header_offset, entry.compress_size
            other.file_size, other.CRC = entry.file_size, entry.CRC
            archive.filelist.append(other)
            archive.NameToInfo[other.filename] = other
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(EvidenceError) as caught:
        unpack(path, tmp_path / "into")
    assert caught.value.code == "archive_refused" and "overlap" in str(caught.value)


# -- row 38: sizes ------------------------------------------------------------------------------------------


def measured(check: Callable[[], Container]) -> tuple[Container, float]:
    tracemalloc.start()
    try:
        return check(), tracemalloc.get_traced_memory()[1] / 1024**2
    finally:
        tracemalloc.stop()


def test_row_38_a_document_of_17_mib_is_not_read(lean: Path) -> None:
    document = json.loads((lean / "bundle.json").read_bytes())
    forged = rename(lean, canonical_json(document | {"more": "x" * (17 * 1024**2)}))
    container, peak_mib = measured(lambda: check_container(forged))
    assert found(container)[0] == (2, "size_limit", "bundle.json")
    assert peak_mib < 20
    assert codes(forged)[0] == 2


def test_row_38_a_manifest_of_17_mib_that_lists_no_files_is_not_read(bundle: Path) -> None:
    manifest = json.loads((bundle / "MANIFEST.json").read_bytes()) | {"more": "x" * (17 * 1024**2)}
    write(bundle / "MANIFEST.json", canonical_json(manifest))
    document = json.loads((bundle / "bundle.json").read_bytes())
    document["manifest_sha256"] = sha256((bundle / "MANIFEST.json").read_bytes())
    assert found(check_container(rename(bundle, canonical_json(document))))[0] == (2, "size_limit", "MANIFEST.json")


def test_row_38_a_lock_of_17_mib_is_not_read(lean: Path) -> None:
    edit(lean / "lock.json", lambda d: d.update(more="x" * (17 * 1024**2)))
    assert codes(reseal(lean))[0] == 2


def test_row_38_a_sparse_file_of_8_tib_is_not_read(bundle: Path) -> None:
    path = bundle / "episodes/000000-0/trace.parquet"
    path.chmod(0o644)
    size = 8 * 1024**4
    try:
        os.truncate(path, size)
    except OSError:
        size = 5 * 1024**3
        os.truncate(path, size)
    manifest = json.loads((bundle / "MANIFEST.json").read_bytes())
    next(entry for entry in manifest["files"] if entry["path"].endswith("000000-0/trace.parquet"))["size"] = size
    write(bundle / "MANIFEST.json", canonical_json(manifest))
    document = json.loads((bundle / "bundle.json").read_bytes())
    document["manifest_sha256"] = sha256((bundle / "MANIFEST.json").read_bytes())
    forged = rename(bundle, canonical_json(document))
    container, peak_mib = measured(lambda: check_container(forged))
    assert found(container)[0][:2] == (2, "size_limit")
    assert peak_mib < 20


def test_row_38_too_many_files_are_not_counted_to_the_end(bundle: Path) -> None:
    container = check_container(bundle, caps=Caps(files=50))
    assert found(container) == [(2, "size_limit", bundle.name)]


# -- the same from the command line ---------------------------------------------------------------------------


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(str(ended.value.code)), " ".join("".join(capsys.readouterr()).split())  # lines are folded


def test_rows_29_31_and_32_hold_on_the_command_line(
    lean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((lean / "bundle.json").read_bytes())
    root, lock, head = document["rows"]["root"], document["lock_sha256"], document["journal_head"]
    exit_code, said = told(capsys, "verify", lean)
    assert exit_code == 0 and "ASSURANCE self-attested" in said
    seen = f"{head['count']}:{head['head_sha256']}"
    kept = ("--expect-root", root, "--expect-lock", lock, "--expect-head", seen)
    exit_code, said = told(capsys, "verify", lean, *kept)
    assert exit_code == 0 and "ASSURANCE matches an expected digest of the lock and" in said
    for option, other in (("root", "ab" * 32), ("lock", "ab" * 32), ("head", f"3:{'ab' * 32}")):
        exit_code, said = told(capsys, "verify", lean, f"--expect-{option}", other)
        assert exit_code == 1 and "expected_mismatch" in said and "matches an expected digest" not in said
    for option, text in (("root", "x"), ("lock", "AB" * 32), ("head", "ab" * 32)):
        assert told(capsys, "verify", lean, f"--expect-{option}", text)[0] == 2
    keys = tmp_path / "keys.pem"
    keys.write_bytes(ALICE.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    exit_code, said = told(capsys, "verify", lean, "--keys", keys)
    assert exit_code == 3 and "signature_missing" in said
    assert told(capsys, "sign", lean, "--key", key_file(tmp_path, ALICE))[0] == 0
    exit_code, said = told(capsys, "verify", lean, "--keys", keys)
    assert exit_code == 0 and f"ASSURANCE signed by {key_id(raw(ALICE))}" in said
    exit_code, said = told(capsys, "verify", lean, "--keys", keys, "--threshold", 2)
    assert exit_code == 3 and "threshold_not_met" in said
    assert told(capsys, "verify", lean, "--threshold", 2)[0] == 2
    assert told(capsys, "verify", lean, "--keys", tmp_path / "none.pem")[0] == 2


def test_an_unsealed_campaign_is_held_against_digests_too_and_cannot_be_signed(golden: Golden, lean: Path) -> None:
    root = json.loads((lean / "bundle.json").read_bytes())["rows"]["root"]
    assert codes(golden.campaign, expected=Expected(root=root)) == (0, [])
    assert codes(golden.campaign, expected=Expected(root="ab" * 32)) == (1, ["expected_mismatch"])
    with pytest.raises(UsageError, match="no bundle"):
        exam.verify(golden.campaign, expected=Expected(trust=Trust((raw(ALICE),))))


@pytest.mark.parametrize(
    ("change", "exit_code", "code"),
    [
        (lambda d: d["files"][0].update(sha256="ab" * 32), 1, "model_digest_mismatch"),
        (lambda d: d["files"][0].update(size=1), 1, "model_digest_mismatch"),
        (lambda d: d["files"].append(dict(d["files"][0], path="more.bin")), 1, "model_digest_mismatch"),
        (lambda d: d["files"].clear(), 1, "model_digest_mismatch"),
        (lambda d: d.update(arm="scripted"), 1, "model_digest_mismatch"),
        (lambda d: d.update(more=1), 2, "schema_mismatch"),
        (lambda d: d.update(schema="trialplate.model/2"), 2, "version_unsupported"),
    ],
)
def test_row_08_a_checkpoint_manifest_that_is_not_that_of_the_lock_is_found_under_any_id(
    lean: Path, change: Callable[[dict[str, Any]], Any], exit_code: int, code: str
) -> None:
    edit(lean / "models/mine.json", lambda document: change(document) and None)
    got, wrong = codes(reseal(lean))
    assert (got, code in wrong) == (exit_code, True), wrong


def test_row_08_a_checkpoint_manifest_too_many_or_too_few_is_found(lean: Path) -> None:
    shutil.copy(lean / "models/mine.json", lean / "models/other.json")
    forged = reseal(lean)
    assert codes(forged) == (1, ["file_extra"])
    (forged / "models/other.json").unlink()
    (forged / "models/mine.json").unlink()
    assert codes(reseal(forged)) == (1, ["file_missing"])
