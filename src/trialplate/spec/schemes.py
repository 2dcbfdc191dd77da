"""By which way a policy is attached, read off the ``policy`` of an arm.

control:NAME                        a control of the suite
module:attr, path/file.py:attr      a Python object in this process
ws://host:port, wss://host:port     a policy server that speaks our own dialect
openpi+ws://host:port               a policy server that speaks openpi's
served                              a driver attaches to ``trialplate serve``
mailbox                             a code agent reads and writes files
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

Scheme = Literal["control", "python", "ws", "openpi", "served", "mailbox"]
CONTROL_PREFIX = "control:"
REMOTE: frozenset[Scheme] = frozenset({"ws", "openpi"})
ATTACHED: frozenset[Scheme] = frozenset({"served", "mailbox"})
"""Schemes whose arm comes to the run, instead of being called by it."""

_RESERVED = ("lerobot+grpc", "gr00t+zmq")
_URI = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_SCHEMES: dict[str, Scheme] = {"ws": "ws", "wss": "ws", "openpi+ws": "openpi"}
_FORMS = "control:NAME, module:attr, file.py:attr, ws://, wss://, openpi+ws://, served or mailbox"


def scheme_of(policy: str) -> Scheme:
    """Return how a policy is attached. Raises ValueError that says what was expected (``unsupported_scheme``)."""
    if policy in ATTACHED:
        return "served" if policy == "served" else "mailbox"
    if policy.startswith(CONTROL_PREFIX):
        return "control"
    found = _URI.fullmatch(policy)
    if found is not None:
        return _uri_scheme(policy, found.group(1).lower())
    module, separator, attribute = policy.partition(":")
    if not separator or not module or not attribute:
        raise ValueError(f"expected {_FORMS}, got {policy!r}")
    return "python"


def _uri_scheme(policy: str, scheme: str) -> Scheme:
    if scheme in _RESERVED:
        raise ValueError(f"unsupported_scheme: {scheme}:// is reserved and not spoken here; serve it over ws://")
    if scheme not in _SCHEMES:
        raise ValueError(f"unsupported_scheme: {scheme}://; expected {_FORMS}")
    address = urlsplit(policy)
    try:
        port = address.port
    except ValueError:
        port = None
    if not address.hostname or port is None:
        raise ValueError(f"expected {scheme}://host:port, got {policy!r}")
    if address.username or address.password or address.query or address.fragment:
        raise ValueError(f"expected {scheme}://host:port without credentials or query: it is stored in the lock")
    return _SCHEMES[scheme]


def address_of(policy: str) -> str:
    """Return the WebSocket address of a remote policy."""
    return policy.removeprefix("openpi+")
