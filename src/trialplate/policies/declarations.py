"""What a policy says of itself, as it comes over a wire or from an operator, read without filling anything in.

Source: policy contract ``trialplate.policy/1``, sections 2, 3 (step 2) and 12 (point 5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from trialplate.errors import ContractFault, LockError, nearest
from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import AsTheSuite

_MAY_BE_NULL = frozenset({"frame", "rotation", "gripper", "delta_base"})
_CAMERA = ("name", "height", "width", "channels", "dtype", "layout", "color", "orientation")
_PROPRIO = ("name", "dim", "unit", "frame", "rotation", "gripper")
_COMPONENT = (
    "name", "dim", "kind", "mode", "delta_base", "unit", "frame", "rotation", "gripper", "low", "high",
)  # fmt: skip


_MOST_ITEMS = 2**15
"""Items in all maps and lists of a declaration: far above any policy, and read in a blink if all are wrong."""

_MOST_LINES = 40


def parse_declaration(document: Any, *, declared_by: Literal["policy", "operator"] = "policy") -> PolicySpec:
    """Return a declaration from its plain form; ``declared_by`` says whose word it is, whatever stands there.

    Raises ContractFault: ``contract_undeclared`` when a field that gives numbers their meaning is missing, naming
    the path of each; ``contract_mismatch`` for everything else that is wrong with it.
    """
    if not isinstance(document, Mapping):
        raise ContractFault(f"a declaration is a map, got {type(document).__name__}", code="contract_mismatch")
    if _is_vast(document):
        raise ContractFault(f"a declaration of more than {_MOST_ITEMS} items", code="contract_mismatch")
    undeclared = list(_undeclared(document))
    wrong: list[str] = []
    spec = None
    try:
        spec = PolicySpec.model_validate_json(json.dumps(dict(document), allow_nan=False))
    except ValidationError as error:
        wrong = [line for path, line in map(_line, error.errors(include_url=False)) if path not in undeclared]
    except (TypeError, ValueError) as error:
        wrong = [f"a value has no place in a declaration: {error}"]
    if undeclared:
        missing = [f"{path}: missing; it has no default because a wrong one would change what the numbers mean"
                   for path in undeclared]  # fmt: skip
        raise ContractFault(_listed("undeclared", missing + wrong), code="contract_undeclared")
    if spec is None:
        raise ContractFault(_listed("not a declaration", wrong), code="contract_mismatch")
    return spec.model_copy(update={"declared_by": declared_by})


def as_suite(choice: AsTheSuite, observation: ObservationSpec, action: ActionSpec) -> PolicySpec:
    """Write out an operator's word that a policy takes these channels as sent and sends these actions.

    Raises LockError (``contract_mismatch``) for a channel that is not sent.
    """
    for name in choice.channels:
        if name not in observation.names:
            hint = nearest(name, observation.names)
            raise LockError(f"as_suite: channel {name!r} is not sent{hint}", code="contract_mismatch")
    return PolicySpec(
        expects=observation.only(*choice.channels, instruction=choice.instruction),
        emits=action,
        chunk_length=choice.chunk_length,
        state=choice.state,
        max_batch_size=choice.max_batch_size,
        declared_by="operator",
    )


def _undeclared(document: Mapping[str, Any]) -> Iterable[str]:
    expects, emits = document.get("expects"), document.get("emits")
    yield from _missing(document, ("expects", "emits"), place="")
    yield from _missing(expects, ("instruction",), place="expects.")
    yield from _in_each(expects, "cameras", _CAMERA, place="expects.")
    yield from _in_each(expects, "proprio", _PROPRIO, place="expects.")
    yield from _missing(emits, ("control_hz", "dim", "components"), place="emits.")
    yield from _in_each(emits, "components", _COMPONENT, place="emits.")


def _in_each(owner: Any, key: str, fields: Iterable[str], *, place: str) -> Iterable[str]:
    items = owner.get(key) if isinstance(owner, Mapping) else None
    for index, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        yield from _missing(item, fields, place=f"{place}{key}[{index}].")
        gripper = item.get("gripper") if isinstance(item, Mapping) else None
        yield from _missing(gripper, ("closed", "open"), place=f"{place}{key}[{index}].gripper.")


def _missing(owner: Any, fields: Iterable[str], *, place: str) -> Iterable[str]:
    """Name the fields that a map lacks, and those that are null though something must stand there."""
    if isinstance(owner, Mapping):
        for field in fields:
            if field not in owner or (owner[field] is None and field not in _MAY_BE_NULL):
                yield f"{place}{field}"


def _line(error: Any) -> tuple[str, str]:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    message = "unknown name" if error["type"] == "extra_forbidden" else error["msg"]
    return path, f"{path}: {message}" if path else message


def _is_vast(document: Mapping[str, Any]) -> bool:
    """Return whether a document has more items than a declaration may have, counting no further than that."""
    count = 0
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        count += len(value)
        if count > _MOST_ITEMS:
            return True
        items = value.values() if isinstance(value, Mapping) else value
        waiting += [item for item in items if isinstance(item, Mapping | list | tuple)]
    return False


def _listed(what: str, lines: list[str]) -> str:
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return f"the policy's declaration is {what}:\n  " + "\n  ".join([*lines[:_MOST_LINES], *more])
