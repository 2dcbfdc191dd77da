"""Write the JSON Schema of every message of the policy contract from the types that read them.

Run it after a change of ``trialplate.policies.messages.types`` or ``handshake_types``; a test compares.
"""

from __future__ import annotations

import json
from pathlib import Path

from trialplate.policies.messages.handshake_types import schema_documents

FOLDER = Path(__file__).parents[1] / "src" / "trialplate" / "policies" / "messages" / "schemas"


def text_of(document: object) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every file, and remove those of messages that are no more."""
    FOLDER.mkdir(exist_ok=True)
    documents = schema_documents()
    for stale in {path.stem for path in FOLDER.glob("*.json")} - documents.keys():
        (FOLDER / f"{stale}.json").unlink()
    for name, document in documents.items():
        (FOLDER / f"{name}.json").write_text(text_of(document), encoding="utf-8")


if __name__ == "__main__":
    main()
