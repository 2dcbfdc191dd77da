"""Run in ``.peers/vla-eval``: a model server as that package makes one. ``PORT [RAISE]``."""

import sys

import numpy as np
from reaching import rows_for
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve
from vla_eval.protocol.numpy_codec import set_image_format


class Reaching(PredictModelServer):
    """Goes to the goal; with RAISE it raises from the third call on."""

    calls = 0

    def predict(self, obs, ctx):
        """Return the first row, as this kind of server does."""
        type(self).calls += 1
        if sys.argv[2:] and self.calls >= 3:
            raise RuntimeError("the gripper model has no weights")
        assert np.asarray(obs["images"]["front"]).shape == (64, 64, 3) and obs["task_description"]
        return {"actions": rows_for(np.asarray(obs["state"]))[0]}

    def get_action_spec(self):
        """Declare nothing."""
        return {}

    def get_observation_spec(self):
        """Declare nothing."""
        return {}


if __name__ == "__main__":
    set_image_format("raw")
    serve(Reaching(), host="127.0.0.1", port=int(sys.argv[1]))
