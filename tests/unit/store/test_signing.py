"""Signatures: the bytes that are signed, whose signature counts, and what is refused."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from trialplate.canonical import canonical_json, read_stored
from trialplate.errors import Unavailable, UsageError
from trialplate.store.bundle import BundleDocument
from trialplate.store.signing import (
    PAYLOAD_TYPE,
    Envelope,
    Trust,
    check_envelope,
    key_id,
    pae,
    read_keys,
    sign,
    signers,
    statement,
)

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "canonical.json").read_text(encoding="utf-8")
)
DIGEST = "ab" * 32


def _key(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def _private(key: Any) -> bytes:
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return data


def _public(key: Any) -> bytes:
    data: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return data


def _raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _document(**changes: Any) -> BundleDocument:
    return BundleDocument.model_validate_json(
        canonical_json(
            {
                "schema": "trialplate.bundle/1", "manifest_sha256": DIGEST, "lock_sha256": DIGEST, "run_id": "5f",
                "journal_head": {"count": 1, "head_sha256": DIGEST, "size": 9}, "rows": {"n": 1, "root": DIGEST},
                "counts": {"planned": 1, "attempts": 1, "arms": {}}, "run_class": "confirmatory",
                "qualification_sha256": DIGEST, "verifier_sha256": DIGEST, "assurance": "self_attested",
                "tool": {"name": "trialplate", "version": "1", "sha256": DIGEST}, "created_utc": "now", **changes,
            }
        )
    )  # fmt: skip


ALICE, BOB, MALLORY = _key(1), _key(2), _key(3)
DOCUMENT = _document()
SIGNED = sign(DOCUMENT, _private(ALICE))


def _codes(envelope: Envelope | bytes | None, *keys: Ed25519PrivateKey, threshold: int = 1) -> list[tuple[str, int]]:
    data = envelope.stored() if isinstance(envelope, Envelope) else envelope
    trust = Trust(tuple(_raw(key) for key in keys), threshold) if keys else None
    return [(item.code, item.exit_code) for item in check_envelope(data, DOCUMENT, trust=trust)]


def _signed(payload: bytes, *keys: Ed25519PrivateKey, kind: str = PAYLOAD_TYPE) -> Envelope:
    return Envelope(payload, tuple((key_id(_raw(key)), key.sign(pae(kind, payload))) for key in keys))


@pytest.mark.parametrize("vector", VECTORS["dsse"], ids=lambda v: v["payload_type"][-8:])
def test_what_is_signed_and_the_signature_have_the_bytes_of_the_vectors(vector: dict[str, Any]) -> None:
    encoded = pae(vector["payload_type"], vector["payload_utf8"].encode())
    assert encoded.hex() == vector["pae_hex"]
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["private_seed"]))
    assert _raw(key).hex() == vector["public_key"]
    assert key.sign(encoded).hex() == vector["signature"]


def test_lengths_are_counted_in_bytes() -> None:
    assert pae("ü", "€".encode()) == b"DSSEv1 2 \xc3\xbc 3 \xe2\x82\xac"


def test_a_statement_names_the_bundle_its_lock_its_root_and_its_class() -> None:
    said = read_stored(statement(DOCUMENT))
    assert said["subject"] == [{"name": "bundle.json", "digest": {"sha256": DOCUMENT.bundle_id}}]
    assert said["predicateType"] == "urn:trialplate:bundle:1"
    assert said["predicate"] == {"lock_sha256": DIGEST, "root": DIGEST, "run_class": "confirmatory"}


def test_a_signature_by_a_given_key_counts_and_the_key_is_named() -> None:
    assert _codes(SIGNED, ALICE) == []
    assert signers(SIGNED.stored(), Trust((_raw(BOB), _raw(ALICE)))) == (key_id(_raw(ALICE)),)


def test_two_people_sign_one_after_the_other() -> None:
    both = sign(DOCUMENT, _private(BOB), beside=SIGNED)
    assert _codes(both, ALICE, BOB, threshold=2) == []
    assert len(signers(both.stored(), Trust((_raw(ALICE), _raw(BOB)), 2))) == 2


def test_nobody_signs_twice_and_nobody_signs_beside_another_statement() -> None:
    with pytest.raises(UsageError, match="already"):
        sign(DOCUMENT, _private(ALICE), beside=SIGNED)
    with pytest.raises(UsageError, match="something else"):
        sign(_document(run_id="other"), _private(BOB), beside=SIGNED)


def test_without_keys_a_signature_is_neither_asked_for_nor_believed() -> None:
    assert _codes(None) == []
    assert _codes(_signed(statement(DOCUMENT), MALLORY)) == []


def test_a_missing_signature_is_told_when_one_is_asked_for() -> None:
    assert _codes(None, ALICE) == [("signature_missing", 3)]
    assert _codes(Envelope(statement(DOCUMENT), ()), ALICE) == [("signature_missing", 3)]


def test_a_key_that_the_verifier_does_not_have_counts_for_nothing() -> None:
    assert _codes(_signed(statement(DOCUMENT), MALLORY), ALICE) == [("key_unknown", 3)]


def test_a_stranger_beside_enough_known_signatures_does_no_harm() -> None:
    assert _codes(_signed(statement(DOCUMENT), MALLORY, ALICE), ALICE) == []


def test_one_key_twice_counts_once() -> None:
    twice = Envelope(SIGNED.payload, SIGNED.signatures * 2)
    assert _codes(twice, ALICE, BOB, threshold=2) == [("threshold_not_met", 3)]
    assert _codes(twice, ALICE, ALICE, threshold=2) == [("threshold_not_met", 3)]


def test_a_key_id_is_only_a_hint() -> None:
    renamed = Envelope(SIGNED.payload, (("somebody", SIGNED.signatures[0][1]),))
    assert _codes(renamed, ALICE) == []


@pytest.mark.parametrize("place", [0, 31, 32, 63])
def test_a_changed_signature_of_a_known_key_is_invalid(place: int) -> None:
    name, made = SIGNED.signatures[0]
    changed = made[:place] + bytes([made[place] ^ 1]) + made[place + 1 :]
    assert _codes(Envelope(SIGNED.payload, ((name, changed),)), ALICE) == [("signature_invalid", 1)]
    assert _codes(Envelope(SIGNED.payload, ((name, made[:-1]),)), ALICE) == [("signature_invalid", 1)]


def test_a_signature_over_other_bytes_is_invalid() -> None:
    other = _signed(statement(_document(run_id="other")), ALICE)
    assert _codes(Envelope(SIGNED.payload, other.signatures), ALICE) == [("signature_invalid", 1)]
    assert _codes(other, ALICE) == [("signature_invalid", 1)]
    assert _codes(other) == [("signature_invalid", 1)]
    assert _codes(_signed(SIGNED.payload, ALICE, kind="text/plain"), ALICE) == [("signature_invalid", 1)]


def test_a_payload_that_is_no_statement_is_malformed_after_its_signature_held() -> None:
    assert _codes(_signed(b"not json", ALICE), ALICE) == [("envelope_malformed", 2)]
    assert _codes(_signed(b"[]", ALICE), ALICE) == [("envelope_malformed", 2)]
    assert _codes(_signed(b"not json", MALLORY), ALICE) == [("key_unknown", 3)]


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d.update(payloadType="application/json"),
        lambda d: d.update(payloadType=None),
        lambda d: d.update(payload=1),
        lambda d: d.update(payload=d["payload"] + "\n"),
        lambda d: d.update(payload=d["payload"].replace("=", "") + "A"),
        lambda d: d.update(keys=[]),
        lambda d: d.pop("signatures"),
        lambda d: d.update(signatures={}),
        lambda d: d.update(signatures=d["signatures"] * 65),
        lambda d: d["signatures"][0].update(key="x"),
        lambda d: d["signatures"][0].update(sig=None),
        lambda d: d["signatures"][0].update(keyid=1),
        lambda d: d["signatures"].append("x"),
    ],
)
def test_an_envelope_of_another_form_is_malformed(edit: Any) -> None:
    document = read_stored(SIGNED.stored())
    edit(document)
    assert _codes(canonical_json(document), ALICE) == [("envelope_malformed", 2)]
    assert _codes(canonical_json(document)) == [("envelope_malformed", 2)]


def test_base64_that_can_be_written_in_two_ways_is_malformed() -> None:
    text = base64.b64encode(b"ab").decode()  # "YWI=": the last two bits of I are not used
    document = read_stored(SIGNED.stored()) | {"payload": text.replace("I=", "J=")}
    assert _codes(canonical_json(document)) == [("envelope_malformed", 2)]


def test_a_key_file_holds_any_number_of_public_keys_and_nothing_else() -> None:
    assert read_keys(b"# Alice\n" + _public(ALICE) + b"# Bob\n" + _public(BOB)) == (_raw(ALICE), _raw(BOB))
    curve = generate_private_key(SECP256R1())
    for wrong, match in (
        (b"", "no PEM block"),
        (_public(curve), "expected Ed25519"),
        (_private(ALICE), "no public key"),
        (_public(ALICE)[:60] + b"\n-----END PUBLIC KEY-----\n", "no public key"),
    ):
        with pytest.raises(UsageError, match=match):
            read_keys(wrong)


def test_only_an_ed25519_key_signs() -> None:
    with pytest.raises(UsageError, match="expected Ed25519"):
        sign(DOCUMENT, _private(generate_private_key(SECP256R1())))
    with pytest.raises(UsageError, match="openssl genpkey"):
        sign(DOCUMENT, _public(ALICE))


def test_what_is_missing_is_named_where_signatures_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for call in (lambda: sign(DOCUMENT, b""), lambda: read_keys(b""), lambda: _codes(SIGNED, ALICE)):
        with pytest.raises(Unavailable, match=r"trialplate\[sign\]"):
            call()


def test_a_threshold_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Trust((_raw(ALICE),), 0)
