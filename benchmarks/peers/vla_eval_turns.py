"""Run in ``.peers/vla-eval``: its own episode runner, raw pictures on the wire, its own recording of every step.

``server PORT`` serves a dummy model server. ``client PORT PICTURES.npz`` reads a number of steps from each line of
stdin, runs one recorded episode of so many, and answers with one line of JSON: seconds, and the milliseconds of
every call. What it records is what it records by default: reward, done, success, action and state of every step in
SQLite, no pictures. ``client PORT PICTURES.npz video`` has it keep pictures in the one way it knows: its option
``record_video``, which gives the frames of one camera to an encoder in a process of its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import anyio
import numpy as np
from vla_eval.benchmarks.base import StepBenchmark, StepResult
from vla_eval.connection import Connection
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve as serve_model
from vla_eval.protocol.numpy_codec import set_image_format
from vla_eval.recording import EpisodeRecorder, RecordingStore, db_path_for_eval
from vla_eval.runners.sync_runner import SyncEpisodeRunner

ROW = np.zeros(7, dtype=np.float32)


class Dummy(PredictModelServer):
    """Answers at once."""

    def predict(self, obs: dict, ctx: object) -> dict:
        """Return one row of zeros."""
        return {"actions": ROW}

    def get_action_spec(self) -> dict:
        """Declare nothing."""
        return {}

    def get_observation_spec(self) -> dict:
        """Declare nothing."""
        return {}


class Pictures(StepBenchmark):
    """Shows the pictures in turn; nothing is simulated."""

    def __init__(self, path: str, *, video: bool) -> None:
        super().__init__()
        self._video = video
        loaded = np.load(path)
        self._front, self._wrist = loaded["front"], loaded["wrist"]
        self._state, self._step = np.zeros(8), 0

    def get_tasks(self) -> list:
        """Return the one task."""
        return [{"name": "bench"}]

    def reset(self, task: dict) -> dict:
        """Begin."""
        self._step = 0
        return {}

    def step(self, action: dict) -> StepResult:
        """Take the action and record the step as its own benchmarks do."""
        self._step += 1
        sent = np.asarray(action["actions"], dtype=np.float32)
        if self._video:
            self._recorder.record_video(self._front[self._step % len(self._front)])
        self._recorder.record_step(
            reward=0.0, done=False, success=False, action=sent, state=self._state.astype(np.float32)
        )
        return StepResult(obs={}, reward=0.0, done=False, info={})

    def make_obs(self, raw_obs: dict, task: dict) -> dict:
        """Return two pictures, eight numbers and the task."""
        number = self._step % len(self._front)
        images = {"front": self._front[number], "wrist": self._wrist[number]}
        return {"images": images, "state": self._state, "task_description": "put the block on the disc"}

    def get_step_result(self, step_result: StepResult) -> dict:
        """Return no success."""
        return {"success": False}


class Timed(Connection):
    """Takes the time of every call."""

    latencies_ms: list

    async def act(self, obs: dict) -> dict:
        """Ask as the connection does."""
        before_s = perf_counter()
        answer = await super().act(obs)
        self.latencies_ms.append(1000.0 * (perf_counter() - before_s))
        return answer


async def run(port: int, path: str, video: bool) -> None:
    """Run one recorded episode for each line of stdin."""
    set_image_format("raw")
    benchmark, runner = Pictures(path, video=video), SyncEpisodeRunner()
    with tempfile.TemporaryDirectory(prefix="trialplate-bench-") as folder:
        store = RecordingStore(db_path_for_eval(Path(folder), "bench"))
        async with Timed(f"ws://127.0.0.1:{port}") as connection:
            print("ready", flush=True)
            for episode, line in enumerate(sys.stdin):
                connection.latencies_ms = []
                start_s = perf_counter()
                recorder = EpisodeRecorder(
                    store=store, sid="bench", eid=str(episode), eval_id="bench", output_dir=folder,
                    filename_stem="ep{episode_id}_{status}", context={}, filename_context={"episode_id": episode},
                    record_video=video,
                )  # fmt: skip
                done = await runner.run_episode(
                    benchmark, {"name": "bench"}, connection, max_steps=int(line), recorder=recorder
                )
                recorder.close(status="fail", metrics=done["metrics"], episode_id=episode, steps=done["steps"])
                wall_s = perf_counter() - start_s
                print(json.dumps({"wall_s": wall_s, "latencies_ms": connection.latencies_ms}), flush=True)
        store.close()


if __name__ == "__main__":
    mode, number, *rest = sys.argv[1:]
    if mode == "server":
        set_image_format("raw")
        serve_model(Dummy(), host="127.0.0.1", port=int(number))
    else:
        anyio.run(run, int(number), rest[0], rest[1:] == ["video"])
