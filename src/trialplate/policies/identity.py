"""Who a served policy is: found out from its source and weights, and told by its operator where nobody can see it.

Source: policy contract, section 2 (Registration).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trialplate import fingerprint
from trialplate.canonical import document_sha256
from trialplate.errors import UsageError
from trialplate.spec.registration import Registration


def read_identity(path: Path) -> Registration:
    """Return the identity that an operator wrote down (TOML). Raises UsageError that names the mistake."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"identity {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"identity {path}: not TOML: {error}") from None
    try:
        return Registration.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        items = error.errors(include_url=False)
        lines = [f"  {'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in items]
        raise UsageError(f"identity {path}:\n" + "\n".join(lines)) from None
    except TypeError as error:
        raise UsageError(f"identity {path}: a value has no place in it: {error}") from None


def served_registration(
    reference: str, *, base: Path, weights: Sequence[str] = (), options: Mapping[str, Any] | None = None,
    told: Registration | None = None,
) -> Registration:  # fmt: skip
    """Return the registration of a policy that is served: source and weights hashed here, the rest as ``told``.

    The folders of policy file and weights are left out, so that one policy served from two places is one policy.

    Raises LockError for code or weights that are not there, UsageError where ``told`` contradicts the weights.
    """
    plain: dict[str, Any] = (told or Registration(kind="model" if weights else "fixed_program")).model_dump(
        mode="json"
    )
    if plain["policy_source"] is None:
        source = fingerprint.policy_source(reference, base=base)
        plain["policy_source_reason"] = None
        plain["policy_source"] = {
            "module": f"{Path(source['module']).name}:{source['attribute']}",
            "options": dict(options or {}),
            "sha256": source["source_sha256"],
            "git_revision": source["git_revision"],
            "dirty": source["dirty"],
        }
    if weights:
        shards = [shard for name in weights for shard in _shards(name, base=base)]
        found = document_sha256(shards)
        named = plain["checkpoint"] or {"ref": ", ".join(shard["path"] for shard in shards)[:512]}
        if named.get("sha256") not in (None, found, shards[0]["sha256"] if len(shards) == 1 else found):
            raise UsageError(f"identity: checkpoint.sha256 is {named['sha256']}, the weights have {found}")
        plain["checkpoint_reason"] = None
        plain["checkpoint"] = {"ref": named["ref"], "sha256": named.get("sha256") or found}
    return Registration.model_validate_json(json.dumps(plain))


def _shards(name: str, *, base: Path) -> list[dict[str, Any]]:
    """Return the files of one named checkpoint, file or folder, by their paths from its own name on."""
    found = fingerprint.checkpoint([name], base=base)
    return [
        {**shard, "path": (Path(Path(name).name) / Path(shard["path"]).relative_to(Path(name))).as_posix()}
        for shard in found
    ]
