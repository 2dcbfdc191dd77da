"""Load a policy that is a Python object in this process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trialplate.errors import LockError, TrialplateError, UsageError, nearest
from trialplate.registry import load_attribute


def load_policy(
    reference: str, *, base: Path, weights: tuple[str, ...] = (), options: Mapping[str, Any] | None = None
) -> Any:
    """Return a fresh policy from ``module:attr`` or ``path/file.py:attr`` (relative to ``base``).

    The attribute is a class or factory. It is called with ``options`` as keyword arguments, and with
    ``weights`` (a tuple of paths) when the protocol lists any. Raises LockError that names the arm's fault.
    """
    module, _, attribute = reference.partition(":")
    factory = _file_attribute(base / module, attribute) if module.endswith(".py") else _attribute(reference)
    keywords: dict[str, Any] = dict(options or {})
    if weights:
        keywords["weights"] = tuple(base / name for name in weights)
    try:
        policy = factory(**keywords)
    except TrialplateError:
        raise
    except (Exception, SystemExit) as error:
        raise LockError(
            f"policy {reference!r} could not be made with {sorted(keywords) or 'no arguments'}: "
            f"{type(error).__name__}: {error}",
            code="policy_load",
        ) from error
    missing = [name for name in ("spec", "reset", "act", "close") if not callable(getattr(policy, name, None))]
    if missing:
        raise LockError(
            f"policy {reference!r} has no {', '.join(missing)}; a policy has spec, reset, act and close "
            "(trialplate.interfaces.Policy)",
            code="policy_interface",
        )
    return policy


def _attribute(reference: str) -> Any:
    try:
        return load_attribute(reference)
    except UsageError as error:
        raise LockError(f"policy {error.message}", code="policy_missing") from error


def _file_attribute(path: Path, attribute: str) -> Any:
    if not path.is_file():
        raise LockError(f"policy file {path} does not exist", code="policy_missing")
    name = f"trialplate_policy_{abs(hash(str(path.resolve())))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LockError(f"policy file {path} cannot be imported", code="policy_missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LockError(
            f"policy file {path} fails at import: {type(error).__name__}: {error}", code="policy_load"
        ) from error
    if not hasattr(module, attribute):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise LockError(f"policy file {path} has no {attribute!r}{nearest(attribute, public)}", code="policy_missing")
    return getattr(module, attribute)
