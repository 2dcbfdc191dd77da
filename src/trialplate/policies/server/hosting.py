"""Load a policy and serve it until somebody asks to stop: in the foreground for the command, beside a test."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

from trialplate.errors import LockError, PolicyFault, UsageError
from trialplate.interfaces import BatchPolicy
from trialplate.policies.charging import charged
from trialplate.policies.server.batching import Batcher, Delivery
from trialplate.policies.server.own_dialect import OwnDialect
from trialplate.policies.server.server import PolicyServer, ServeSettings
from trialplate.policies.server.sessions import Dialect
from trialplate.spec.channels import PolicySpec
from trialplate.spec.registration import Registration


class PolicyHost:
    """A policy that lives in its own thread, ready to be served. ``make`` is called in that thread.

    Raises what ``make`` raises, LockError ``policy_spec`` for a declaration that is none, and UsageError for a batch
    larger than the policy declares. A policy of ``state: instance`` has one client, so its batches are of one.
    """

    def __init__(self, make: Callable[[], Any], settings: ServeSettings) -> None:
        self._server: PolicyServer | None = None
        self._settings = settings
        self.declared: PolicySpec
        self.max_batch_size = 1
        self._batcher = Batcher(partial(self._make, make), deliver=self._deliver, max_wait_s=settings.max_wait_s)
        self._batcher.limit(self.max_batch_size, alone_again=self.declared.state == "none")

    def server(self, dialect: Dialect) -> PolicyServer:
        """Return a server for the running loop."""
        self._server = PolicyServer(self._batcher, self.declared, dialect, self._settings)
        return self._server

    def close(self) -> bool:
        """Close the policy; False when it is still busy after ``close_timeout_s``."""
        return self._batcher.close(timeout_s=self._settings.close_timeout_s)

    def _make(self, make: Callable[[], Any]) -> Any:
        """Make the policy and hear what it declares; a policy that cannot be served is closed again."""
        policy = make()
        try:
            self.declared = _declared(policy)
            self.max_batch_size = _batch_size(policy, self.declared, self._settings.max_batch_size)
        except BaseException:
            with suppress(PolicyFault):
                charged(policy.close, doing="close")
            raise
        return policy

    def _deliver(self, deliveries: Sequence[Delivery]) -> None:
        if self._server is not None:
            self._server.deliver(deliveries)


def serve_policy(host: PolicyHost, dialect: Dialect, *, announce: Callable[[int], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` is called with the port. Raises Unavailable for a busy port."""

    async def live() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with host.server(dialect) as server:
            announce(server.port)
            await stop.wait()

    try:
        asyncio.run(live())
    finally:
        host.close()


@contextmanager
def serving(
    make: Callable[[], Any], *, registration: Registration | None = None, settings: ServeSettings | None = None,
    dialect: Callable[[PolicySpec], Dialect] | None = None,
) -> Iterator[str]:  # fmt: skip
    """Serve a policy in threads of this process; yield its ``ws://`` address.

    ``dialect``: makes another one than our own from the policy's declaration.
    """
    settings = settings or ServeSettings(port=0)
    host = PolicyHost(make, settings)
    spoken = (
        dialect(host.declared)
        if dialect
        else OwnDialect(host.declared, registration or Registration(), max_message_bytes=settings.max_message_bytes)
    )
    opened: SimpleQueue[Any] = SimpleQueue()

    async def live() -> None:
        stop = asyncio.Event()
        async with host.server(spoken) as server:
            opened.put((server.port, asyncio.get_running_loop(), stop))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:  # raised again where the server was asked for
            opened.put(error)

    thread = threading.Thread(target=run, name="trialplate-policy-server")
    thread.start()
    try:
        found = opened.get(timeout=60)
        if isinstance(found, BaseException):
            raise found
        port, loop, stop = found
        try:
            yield f"ws://{settings.host}:{port}"
        finally:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join()
        host.close()


def _declared(policy: Any) -> PolicySpec:
    """Return our own copy of what a policy declares."""
    try:
        return charged(
            lambda: PolicySpec.model_validate_json(json.dumps(policy.spec().model_dump(mode="json"))), doing="spec"
        )
    except PolicyFault as fault:
        raise LockError(fault.message, code="policy_spec") from None


def _batch_size(policy: Any, declared: PolicySpec, wanted: int) -> int:
    if declared.state == "instance":
        return 1
    if isinstance(policy, BatchPolicy) and wanted > declared.max_batch_size:
        raise UsageError(
            f"batches of {wanted} are asked for, the policy declares max_batch_size {declared.max_batch_size}"
        )
    return wanted
