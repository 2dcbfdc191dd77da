"""Signatures over a bundle: an in-toto statement in a DSSE envelope, Ed25519.

Keys and threshold come from whoever verifies, never from the bundle. A signature is checked over the stored bytes
before they are parsed. ``cryptography`` is loaded only when something is signed or checked.
Source: evidence specification, section 9.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trialplate.canonical import canonical_json, read_stored, sha256_hex
from trialplate.errors import CanonicalError, Unavailable, UsageError
from trialplate.store.bundle import ATTESTATION, BUNDLE, BundleDocument
from trialplate.store.findings import EvidenceProblem, Finding, finding, problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:trialplate:bundle:1"
MAX_SIGNATURES = 64
_PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Trust:
    """What a verifier believes in: raw 32-byte Ed25519 public keys, and how many of them must have signed."""

    keys: tuple[bytes, ...]
    threshold: int = 1

    def __post_init__(self) -> None:
        if self.threshold < 1:
            raise UsageError(f"a threshold of {self.threshold}: expected at least one signature")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A DSSE envelope as it is stored: the payload's bytes, and (key id, signature) pairs. A key id is a hint."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    def stored(self) -> bytes:
        """Return the stored form."""
        return canonical_json(
            {
                "payload": base64.b64encode(self.payload).decode("ascii"),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [
                    {"keyid": key, "sig": base64.b64encode(made).decode("ascii")} for key, made in self.signatures
                ],
            }
        )


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that are signed: the pre-authentication encoding of DSSE version 1, lengths in bytes."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def statement(document: BundleDocument) -> bytes:
    """Return the canonical in-toto statement about a bundle: its id, and lock, root and run class."""
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": BUNDLE, "digest": {"sha256": document.bundle_id}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "lock_sha256": document.lock_sha256,
                "root": document.rows.root,
                "run_class": document.run_class,
            },
        }
    )


def key_id(public: bytes) -> str:
    """Return the id that our signatures name a raw public key by: its SHA-256."""
    return sha256_hex(public)


def sign(document: BundleDocument, private_pem: bytes, *, beside: Envelope | None = None) -> Envelope:
    """Return an envelope with one signature more. Raises UsageError for a key that is not Ed25519, or signed before.

    ``private_pem``: PKCS 8 in PEM, as ``openssl genpkey -algorithm ed25519`` writes it, without a password.
    """
    payload = statement(document)
    if beside is not None and beside.payload != payload:
        raise UsageError("the signatures that are there are about something else: move them away, then sign")
    key = _private_key(private_pem)
    name = key_id(key.public_key().public_bytes_raw())
    present = beside.signatures if beside is not None else ()
    if name in (known for known, _ in present):
        raise UsageError(f"key {name} has signed this bundle already; one key counts once", code="signed_already")
    return Envelope(payload, (*present, (name, key.sign(pae(PAYLOAD_TYPE, payload)))))


def read_keys(pem: bytes) -> tuple[bytes, ...]:
    """Return the raw public keys of a file of PEM blocks. Raises UsageError when it holds anything but Ed25519."""
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    blocks = [found.group() for found in _PEM.finditer(pem)]
    if not blocks:
        raise UsageError(
            "the key file holds no PEM block: expected public keys, as `openssl pkey -pubout` writes them"
        )
    keys = []
    for block in blocks:
        try:
            key = load_pem_public_key(block)
        except (ValueError, TypeError):
            raise UsageError(f"a PEM block of the key file is no public key: {block[:40]!r}") from None
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError(f"a key of the key file is {type(key).__name__}: expected Ed25519")
        keys.append(key.public_bytes_raw())
    return tuple(keys)


def parse_envelope(data: bytes) -> Envelope:
    """Read a stored envelope, and nothing inside its payload. Raises EvidenceError ``envelope_malformed``."""
    try:
        value = read_stored(data)
    except CanonicalError as error:
        raise _malformed("", "canonical JSON", error.message) from None
    if not isinstance(value, dict) or set(value) != {"payload", "payloadType", "signatures"}:
        raise _malformed("", "exactly payload, payloadType, signatures", str(value)[:120])
    if value["payloadType"] != PAYLOAD_TYPE:
        raise _malformed("/payloadType", PAYLOAD_TYPE, str(value["payloadType"])[:120])
    listed = value["signatures"]
    if not isinstance(listed, list) or len(listed) > MAX_SIGNATURES:
        raise _malformed("/signatures", f"a list of at most {MAX_SIGNATURES}", str(listed)[:120])
    signatures = []
    for number, item in enumerate(listed):
        pointer = f"/signatures/{number}"
        if not isinstance(item, dict) or set(item) != {"keyid", "sig"} or not isinstance(item["keyid"], str):
            raise _malformed(pointer, "exactly keyid and sig", str(item)[:120])
        signatures.append((item["keyid"], _decoded(item["sig"], f"{pointer}/sig")))
    return Envelope(_decoded(value["payload"], "/payload"), tuple(signatures))


def check_envelope(data: bytes | None, document: BundleDocument, *, trust: Trust | None) -> list[Finding]:
    """Return what is wrong with the signatures of a bundle. ``data``: the stored envelope, None when there is none.

    Without ``trust`` only the form of an envelope is checked, and that it is about this bundle: nobody is believed.
    """
    if data is None:
        return [] if trust is None else [_found("signature_missing", "", "an envelope with signatures", "no file")]
    try:
        envelope = parse_envelope(data)
    except EvidenceProblem as error:
        return [error.finding]
    if trust is not None:
        wrong = _check_signatures(envelope, trust)
        if wrong:
            return wrong
    return _check_statement(envelope, document)


def signers(data: bytes, trust: Trust) -> tuple[str, ...]:
    """Return the ids of the trusted keys that signed a stored envelope, each once, sorted."""
    envelope = parse_envelope(data)
    signed = pae(PAYLOAD_TYPE, envelope.payload)
    made = [signature for _, signature in envelope.signatures]
    return tuple(sorted({key_id(key) for key in trust.keys if any(_verifies(key, item, signed) for item in made)}))


def _check_signatures(envelope: Envelope, trust: Trust) -> list[Finding]:
    if not envelope.signatures:
        return [_found("signature_missing", "/signatures", "at least one signature", "none")]
    signed = pae(PAYLOAD_TYPE, envelope.payload)
    trusted = {key_id(key): key for key in trust.keys}
    good: set[bytes] = set()
    found = []
    for number, (name, made) in enumerate(envelope.signatures):
        matching = [key for key in trust.keys if _verifies(key, made, signed)]
        good.update(matching)
        if not matching and name in trusted:
            pointer = f"/signatures/{number}"
            found.append(
                _found("signature_invalid", pointer, f"a signature by key {name}", "one that does not verify")
            )
    if found:
        return found
    if not good:
        named = ", ".join(name for name, _ in envelope.signatures)[:200]
        return [_found("key_unknown", "/signatures", "a signature by a given key", f"signatures by {named}")]
    if len(good) < trust.threshold:
        wanted = f"signatures by {trust.threshold} of the given keys"
        return [_found("threshold_not_met", "/signatures", wanted, f"by {len(good)}")]
    return []


def _check_statement(envelope: Envelope, document: BundleDocument) -> list[Finding]:
    """Compare the statement with the bundle beside it, after its signatures were checked."""
    wanted = statement(document)
    if envelope.payload == wanted:
        return []
    try:
        said = read_stored(envelope.payload)
    except CanonicalError as error:
        return [_found("envelope_malformed", "/payload", "a canonical statement", error.message)]
    if not isinstance(said, dict) or said.keys() != read_stored(wanted).keys():
        return [_found("envelope_malformed", "/payload", "an in-toto statement", str(said)[:120])]
    return [
        _found("signature_invalid", "/payload", f"a statement about bundle {document.bundle_id}", str(said)[:200])
    ]


def _verifies(key: bytes, signature: bytes, signed: bytes) -> bool:
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _private_key(pem: bytes) -> Ed25519PrivateKey:
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise UsageError(
            "the key file is no private key without a password in PEM: make one with "
            "`openssl genpkey -algorithm ed25519 -out key.pem`"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key is {type(key).__name__}: expected Ed25519")
    return key


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise Unavailable(
            "signatures need the package cryptography, which is not installed: pip install 'trialplate[sign]'",
            code="cryptography_missing",
        ) from None


def _decoded(text: Any, pointer: str) -> bytes:
    """Decode base64 that is written in exactly one way."""
    try:
        data = base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        data = None
    if data is None or base64.b64encode(data).decode("ascii") != text:
        raise _malformed(pointer, "standard base64 with padding", str(text)[:120])
    return data


def _found(code: str, pointer: str, expected: str, found: str) -> Finding:
    return finding(code, ATTESTATION, pointer=pointer, expected=expected, found=found)


def _malformed(pointer: str, expected: str, found: str) -> EvidenceProblem:
    return problem("envelope_malformed", ATTESTATION, pointer=pointer, expected=expected, found=found)
