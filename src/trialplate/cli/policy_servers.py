"""Commands on policy servers: serve a policy, probe one that is served."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, plain
from trialplate.errors import UsageError

Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Several = Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=False)]


def register(policy_app: App) -> None:
    """Add this group's commands to ``trialplate policy``."""
    policy_app.command(serve)
    policy_app.command(probe)


def serve(
    policy: str,
    /,
    *,
    bind: str = "127.0.0.1:8000",
    max_batch_size: int = 1,
    max_wait_ms: float = 0.0,
    option: Several = (),
    weights: Several = (),
    identity: Path | None = None,
    dialect: Literal["own", "openpi"] = "own",
    mapping: Several = (),
    max_message_bytes: int = 2**26,
    close_timeout_s: float = 10.0,
    allow_remote: Flag = False,
    json: Json = False,
) -> int:
    """Serve a policy to harnesses over a WebSocket, until Ctrl-C or SIGTERM.

    Parameters
    ----------
    policy
        The policy: module:attr or path/file.py:attr.
    bind
        Host and port to listen on; port 0 takes a free one.
    max_batch_size
        Requests that are decided together at most.
    max_wait_ms
        How long a batch waits for more after its first request.
    option
        An argument of the policy's factory, KEY=VALUE; repeat it for more. The value is read as TOML, else as text.
    weights
        A checkpoint file, hashed into the identity and handed to the factory; repeat it for more.
    identity
        A TOML file that says who the policy is, where source and weights do not.
    dialect
        own, or openpi for clients of openpi's websocket server.
    mapping
        With --dialect openpi: KEY=camera:NAME, KEY=proprio:NAME+proprio:NAME or KEY=instruction; repeat it for each.
    max_message_bytes
        The largest message that is taken in.
    close_timeout_s
        How long requests in progress may take to end when the server is stopped.
    allow_remote
        Let --bind name an address that other machines reach.
    json
        Print one JSON document when the server listens.
    """
    from trialplate.inputs import first_written, policy_marks
    from trialplate.policies.identity import read_identity, served_registration
    from trialplate.policies.in_process import load_policy
    from trialplate.policies.server.hosting import PolicyHost, serve_policy
    from trialplate.policies.server.server import ServeSettings

    host, port = read_bind(bind)
    settings = ServeSettings(
        host=host,
        port=port,
        max_batch_size=max_batch_size,
        max_wait_s=max_wait_ms / 1000,
        max_message_bytes=max_message_bytes,
        close_timeout_s=close_timeout_s,
        allow_remote=allow_remote,
    )
    table = read_mapping(mapping, dialect=dialect)
    options = read_options(option)
    told = None if identity is None else read_identity(identity)
    lying = partial(policy_marks, policy, weights=weights, base=Path.cwd())
    before = lying()
    registration = served_registration(policy, base=Path.cwd(), weights=weights, options=options, told=told)
    running = PolicyHost(lambda: load_policy(policy, base=Path.cwd(), weights=weights, options=options), settings)
    facts: dict[str, Any] = {
        "policy": policy,
        "dialect": dialect,
        "state": running.declared.state,
        "max_batch_size": running.max_batch_size,
        "registration_sha256": registration.sha256(),
    }

    def announce(found_port: int) -> None:
        scheme = {"own": "ws", "openpi": "openpi+ws"}[dialect]
        shown = f"[{host}]" if ":" in host else host
        document = {"uri": f"{scheme}://{shown}:{found_port}", **facts}
        emit(document, as_json=json, text=lambda: print("\n".join(_told(document, wanted=max_batch_size))))
        sys.stdout.flush()

    try:
        spoken = _dialect(
            running.declared, registration, table, settings.max_message_bytes,
            written=lambda: first_written(before, lying()),
        )  # fmt: skip
    except BaseException:
        running.close()
        raise
    serve_policy(running, spoken, announce=announce)
    return YES


def _told(document: dict[str, Any], *, wanted: int) -> list[str]:
    lines = [f"serving {document['policy']} on {document['uri']}", f"registration {document['registration_sha256']}"]
    if document["max_batch_size"] < wanted:
        lines.append("state 'instance': one client, and its requests are decided one at a time")
    return [*lines, "Ctrl-C ends it"]


def _dialect(
    declared: Any, registration: Any, table: dict[str, str | tuple[str, ...]], limit_bytes: int, *,
    written: Callable[[], str | None],
) -> Any:  # fmt: skip
    from trialplate.policies.messages.openpi_mapping import OpenpiMapping
    from trialplate.policies.server.openpi_dialect import OpenpiDialect
    from trialplate.policies.server.own_dialect import OwnDialect

    if not table:
        return OwnDialect(declared, registration, max_message_bytes=limit_bytes, written=written)
    mapping = OpenpiMapping(table, declared.expects)
    return OpenpiDialect(declared, registration, mapping=mapping, max_message_bytes=limit_bytes)


def read_bind(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[host]:port``. Raises UsageError."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"bind: expected HOST:PORT, got {text!r}")
    return host, int(port)


def read_options(lines: Sequence[str]) -> dict[str, bool | int | float | str]:
    """Return the arguments of a factory from KEY=VALUE lines. Raises UsageError."""
    found: dict[str, bool | int | float | str] = {}
    for line in lines:
        key, separator, text = line.partition("=")
        if not separator or not key.isidentifier():
            raise UsageError(f"option: expected KEY=VALUE, got {line!r}")
        if key in found:
            raise UsageError(f"option: {key!r} stands twice")
        found[key] = _value(text)
    return found


def _value(text: str) -> bool | int | float | str:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text
    return value if isinstance(value, bool | int | float | str) else text


def read_mapping(lines: Sequence[str], *, dialect: str) -> dict[str, str | tuple[str, ...]]:
    """Return the openpi table from KEY=SOURCE lines; sources joined by ``+`` are a list. Raises UsageError."""
    table: dict[str, str | tuple[str, ...]] = {}
    for line in lines:
        key, separator, source = line.partition("=")
        if not separator or not key or not source or key in table:
            raise UsageError(f"mapping: expected KEY=SOURCE, each key once, got {line!r}")
        table[key] = tuple(source.split("+")) if "+" in source else source
    if (dialect == "openpi") != bool(table):
        raise UsageError("--mapping and --dialect openpi go together: openpi has no default keys, ours needs none")
    return table


def probe(
    uri: str,
    /,
    *,
    batch: int = 1,
    calls: int = 20,
    connect_timeout_s: float = 30.0,
    call_timeout_s: float = 180.0,
    json: Json = False,
) -> int:
    """Try a policy server without a world: its declaration, its latency, and whether batches change its answers.

    Parameters
    ----------
    uri
        The server: ws://host:port or wss://host:port.
    batch
        Clients that ask at the same time, after one has asked alone.
    calls
        Questions; each is asked alone and, with --batch above 1, once more among others.
    connect_timeout_s
        How long to try to connect.
    call_timeout_s
        How long an answer may take.
    json
        Print one JSON document.
    """
    from trialplate.errors import ContractFault, HarnessFault, PolicyFault
    from trialplate.policies.client import server_probe
    from trialplate.spec.schemes import scheme_of

    try:
        if scheme_of(uri) != "ws":
            raise ValueError(f"expected ws:// or wss://, got {uri!r}: only our own dialect declares what it expects")
        found = server_probe.probe(
            uri, batch=batch, calls=calls, connect_timeout_s=connect_timeout_s, call_timeout_s=call_timeout_s
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    except (ContractFault, HarnessFault, PolicyFault) as fault:
        raise UsageError(f"{fault.code}: {fault.message}", code=fault.code) from None
    document = {"uri": uri, **found.document()}

    def text() -> None:
        print(f"{uri}: {plain(document['software'])}, registration {document['registration_sha256'][:12]}")
        for name in ("serial_ms", "batch_ms"):
            p50, p95 = document[name]["p50"], document[name]["p95"]
            if p50 is not None:
                print(f"{name.removesuffix('_ms'):>7}  p50 {p50:.2f} ms  p95 {p95:.2f} ms")
        if found.equal is not None:
            sizes = ", ".join(map(str, document["batch_sizes"])) or "not reported"
            print(f"batches of {sizes}: answers {'equal' if found.equal else 'DIFFER'}")
        for fault in found.faults:
            print(f"fault: {plain(fault)}")

    emit(document, as_json=json, text=text)
    return NO if found.faults or found.equal is False else YES
