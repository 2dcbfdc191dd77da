"""Run in ``.peers/openpi``: openpi-client against its server class, a dummy policy, nothing recorded.

``server PORT`` serves. ``client PORT PICTURES.npz`` reads a number of steps from each line of stdin, asks so often,
and answers with one line of JSON: seconds, and the milliseconds of every call.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

import numpy as np
from openpi_client.base_policy import BasePolicy
from openpi_client.websocket_client_policy import WebsocketClientPolicy

ROWS = np.zeros((1, 7), dtype=np.float32)


class Dummy(BasePolicy):
    """Answers at once."""

    def infer(self, obs: dict) -> dict:
        """Return one row of zeros."""
        return {"actions": ROWS}


def serve(port: int) -> None:
    """Serve the dummy until the process is ended."""
    from openpi_server import WebsocketPolicyServer

    WebsocketPolicyServer(Dummy(), host="127.0.0.1", port=port, metadata={}).serve_forever()


def ask(port: int, path: str) -> None:
    """Ask as often as each line of stdin says."""
    pictures = np.load(path)
    front, wrist = pictures["front"], pictures["wrist"]
    state = np.zeros(8, dtype=np.float64)
    client = WebsocketClientPolicy("127.0.0.1", port)
    print("ready", flush=True)
    for line in sys.stdin:
        latencies_ms = []
        start_s = perf_counter()
        for step in range(int(line)):
            before_s = perf_counter()
            answer = client.infer(
                {
                    "observation/image": front[step % len(front)],
                    "observation/wrist_image": wrist[step % len(wrist)],
                    "observation/state": state,
                    "prompt": "put the block on the disc",
                }
            )
            latencies_ms.append(1000.0 * (perf_counter() - before_s))
            assert answer["actions"].shape == (1, 7)
        print(json.dumps({"wall_s": perf_counter() - start_s, "latencies_ms": latencies_ms}), flush=True)


if __name__ == "__main__":
    mode, number, *rest = sys.argv[1:]
    serve(int(number)) if mode == "server" else ask(int(number), rest[0])
