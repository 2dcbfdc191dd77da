"""The endpoints of the wire page before a world that only adds up: what the drivers are tested against."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from trialplate.canonical import action_sha256
from trialplate.errors import TrialplateError
from trialplate.policies import messages as m
from trialplate.policies.validation import validate_chunk
from trialplate.policies.wire import strict_json
from trialplate.record import Ack, ActionChunk, EpisodeInfo, Observation, Remaining
from trialplate.spec.channels import ActionComponent, ActionSpec, CameraSpec, ObservationSpec, ProprioSpec
from trialplate.spec.protocol import Budgets

TOKEN = "ab" * 32
LIMIT = 2**26
SPEC = ObservationSpec(
    instruction=True,
    cameras=(
        CameraSpec(
            name="front", height=4, width=5, layout="hwc", color="rgb", orientation="upright", encoding="png"
        ),
    ),
    proprio=(ProprioSpec(name="q", dim=2, unit="1", frame=None, rotation=None, gripper=None),),
)  # fmt: skip
ACTION = ActionSpec(
    control_hz=20,
    dim=2,
    components=(
        ActionComponent(
            name="push", dim=2, kind="other", mode="absolute", delta_base=None, unit="1", frame=None, rotation=None,
            gripper=None, low=(-1.0, -1.0), high=(1.0, 1.0),
        ),
    ),
)  # fmt: skip


class World:
    """``episodes`` attempts of ``calls`` calls; every row is added to ``q``. ``digests``: of each chunk."""

    def __init__(self, *, episodes: int = 2, calls: int = 4) -> None:
        self._left, self._calls = episodes, calls
        self._registration: str | None = None
        self.digests: list[str] = []
        self.stops: list[str | None] = []
        self.faults: list[str] = []
        self.ended = ""
        self._episode = ""

    def manage(self, path: str, message: Any) -> tuple[int, dict[str, Any]]:
        """Answer a request of the driver."""
        if path == "/v1/hello":
            assert m.parse_hello(message).role == "driver"
            return 200, m.service_hello_message(self._terms(), encodings=["json"], max_message_bytes=LIMIT)
        if path == "/v1/register":
            self._registration = m.parse_register(message).registration.sha256()
            return 200, m.registered_message(self._registration, exploratory=False)
        assert path == "/v1/episodes"
        if self._registration is None:
            return 409, m.error_message("registration_missing", "register first")
        if self._left == 0:
            return 200, m.no_episode_message("complete")
        self._left -= 1
        self._episode, self.ended, self._call = f"{self._left:032x}", "", 0
        self._q = np.array([0.1, -0.0])
        return 201, m.episode_message(self._episode)

    def _terms(self) -> dict[str, Any]:
        return m.terms_part(SPEC, ACTION, replan_interval=2, budgets=Budgets(), max_steps=50)

    def _look(self) -> Observation:
        pixels = np.full((4, 5, 3), self._call, np.uint8)
        return Observation(
            self._episode, self._call, f"{self._call:032x}", self._registration or "", 2 * self._call, "add up",
            {"front": pixels}, {"q": self._q}, Remaining(50 - 2 * self._call, None),
        )  # fmt: skip

    def hold(self, path: str, message: Any) -> tuple[int, dict[str, Any]]:
        """Answer a request of the actor."""
        _, _, _, id_, what = path.split("/")
        if id_ != self._episode:
            return 404, m.error_message("unknown_episode", "nothing is there")
        if what == "spec":
            info = EpisodeInfo(self._episode, "add up", 20.0, 2, 50, 7)
            return 200, m.spec_message(info, self._registration or "", terms=self._terms())
        if what == "observe":
            if self.ended:
                return 200, m.episode_end_message(self._episode, self.ended)  # type: ignore[arg-type]
            return 200, m.observation_message(self._look(), spec=SPEC)
        assert what == "act"
        return self._act(message)

    def _act(self, message: Any) -> tuple[int, dict[str, Any]]:
        try:
            decision = m.parse_decision(message, expected=self._look()).decision
            if not isinstance(decision, ActionChunk):
                self.stops.append(decision.reason)
                self.ended = "policy_stop"
                return 200, m.ack_message(Ack(self._episode, self._call, True, 0, 0, 0, 0, None, "episode_end"))
            rows = validate_chunk(decision.vectors, ACTION, max_rows=8)
        except TrialplateError as fault:
            self.faults.append(f"{fault.code}: {fault.message}")
            self.ended = "error"
            return m.HTTP_STATUS[fault.code], m.error_message(fault.code, fault.message)
        self.digests.append(action_sha256(rows))
        self._q = self._q + rows.sum(axis=0)
        self._call += 1
        if self._call == self._calls:
            self.ended = "step_limit"
        next_ = "episode_end" if self.ended else "observation"
        return 200, m.ack_message(Ack(self._episode, self._call - 1, True, 1, 1, 0, 0, None, next_))  # type: ignore[arg-type]


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serve a world on loopback; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(*world.hold(self.path, None))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.count("/") > 2:
                assert self.headers["Authorization"] is None
                self._reply(*world.hold(self.path, strict_json.loads(body, max_bytes=LIMIT)))
            elif self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._reply(401, m.error_message("unauthorized", "no token"))
            else:
                self._reply(*world.manage(self.path, strict_json.loads(body, max_bytes=LIMIT)))

        def _reply(self, status: int, message: dict[str, Any]) -> None:
            body = strict_json.dumps(message)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
