"""Put one more signature beside a bundle."""

from __future__ import annotations

from pathlib import Path

from trialplate.canonical import MAX_DOCUMENT_BYTES
from trialplate.errors import UsageError
from trialplate.store.bundle import ATTESTATION
from trialplate.store.container import check_container
from trialplate.store.findings import EvidenceProblem, problem
from trialplate.store.folder import Folder
from trialplate.store.fsio import Disk, Storage
from trialplate.store.placing import READ_ONLY
from trialplate.store.signing import parse_envelope, sign

MAX_KEY_BYTES = 65_536


def attest(bundle: Path, key: Path, *, disk: Storage | None = None) -> tuple[str, int]:
    """Sign a bundle, and return the id of the key and how many signatures there are now.

    ``key``: file of a private Ed25519 key in PEM. Raises EvidenceError with the first finding when names, digests or
    the envelope of the bundle do not hold; UsageError for a key that cannot sign, or has signed already.
    """
    disk = disk or Disk()
    try:
        private = key.read_bytes()[:MAX_KEY_BYTES]
    except OSError as error:
        raise UsageError(f"the key file {key} cannot be read: {error.strerror}") from None
    container = check_container(bundle)
    for wrong in container.findings:
        raise EvidenceProblem(wrong)
    if container.document is None:
        raise problem("bundle_id_mismatch", bundle.name, expected="a bundle", found="none")
    there = ATTESTATION in disk.entries(bundle)
    beside = None
    if there:
        with Folder(bundle) as folder:
            beside = parse_envelope(folder.read(ATTESTATION, limit_bytes=MAX_DOCUMENT_BYTES))
    envelope = sign(container.document, private, beside=beside)
    disk.replace(bundle / ATTESTATION, envelope.stored(), mode=READ_ONLY)
    return envelope.signatures[-1][0], len(envelope.signatures)
