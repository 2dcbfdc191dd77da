"""Run in ``.peers/openpi``: the client and the server of openpi, as their packages ship them.

``server PORT [RAISE]`` serves a policy; with RAISE it raises from the third call on. ``client PORT`` reads one JSON
list of a hand's position per line and answers each with a line: the actions, their dtype, or the text of the error.
"""

import json
import sys

import numpy as np
from openpi_client.base_policy import BasePolicy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from reaching import rows_for


class Reaching(BasePolicy):
    """Goes to the goal; nothing is kept between calls but their number."""

    def __init__(self, raises):
        self._raises, self._calls = raises, 0

    def infer(self, obs):
        """Return the rows, and how often it was asked."""
        self._calls += 1
        if self._raises and self._calls >= 3:
            raise RuntimeError("the gripper model has no weights")
        assert obs["observation/image"].shape == (64, 64, 3) and obs["prompt"]
        return {"actions": rows_for(obs["observation/state"]), "calls": self._calls}


def serve(port, raises):
    """Serve until the process is ended."""
    from openpi_server import WebsocketPolicyServer

    metadata = {"model": "reaching", "revision": 3}
    WebsocketPolicyServer(Reaching(raises), host="127.0.0.1", port=port, metadata=metadata).serve_forever()


def ask(port):
    """Ask for what each line says."""
    client = WebsocketClientPolicy("127.0.0.1", port)
    print(json.dumps({"metadata": client.get_server_metadata()}), flush=True)
    for line in sys.stdin:
        look = json.loads(line)
        image = np.full((64, 64, 3), 7, dtype=np.uint8)
        observation = {"observation/image": image, "observation/state": np.array(look), "prompt": "reach"}
        try:
            actions = client.infer(observation)["actions"]
            answer = {"dtype": actions.dtype.str, "bytes": actions.tobytes().hex(), "shape": actions.shape}
        except RuntimeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    mode, number, *rest = sys.argv[1:]
    serve(int(number), bool(rest)) if mode == "server" else ask(int(number))
