"""A mailbox actor that knows nothing but its folder and the text it was given.

``serve`` is the whole protocol, with the standard library only: wait, read, decide, write, rename. Hand it your own
``decide``, or one that ``hosting`` makes of a policy in this process. Started as a program it stops at once: that
ends the episode and earns nothing.

    python mailbox_actor.py FOLDER
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Decide = Callable[[Mapping[str, Any], Path], Mapping[str, Any]]
"""Called with an observation and the folder of its pictures; returns ``{"chunk": ...}`` or ``{"stop": ...}``."""

COPIED = ("episode", "call_index", "observation_id", "registration")
UNMETERED = {"usage": None, "usage_reason": "not_metered", "latency_ms": None, "latency_ms_reason": "not_metered"}


def serve(mailbox: Path, decide: Decide, *, poll_s: float = 0.1, give_up_s: float = 600.0) -> str:
    """Answer observations until the episode has ended; return the reason that ``done.json`` gives.

    Raises TimeoutError when nothing happens for ``give_up_s``.
    """
    number = 0
    while True:
        name = f"{number:05d}.json"
        if not _wait(mailbox, mailbox / "obs" / name, poll_s=poll_s, give_up_s=give_up_s):
            reason: str = _read(mailbox / "done.json")["reason"]
            return reason
        observation = _read(mailbox / "obs" / name)
        _send(mailbox / "act" / name, answer(observation, decide(observation, mailbox / "obs")))
        number += 1


def answer(observation: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return a complete answer to an observation."""
    copied = {name: observation[name] for name in COPIED}
    return {"protocol": observation["protocol"], "type": "decision", **copied, **decision, **UNMETERED}


def stop(observation: Mapping[str, Any], pictures: Path) -> dict[str, Any]:
    """Decide to stop."""
    return {"stop": {"reason": "nothing was decided"}}


def _wait(mailbox: Path, path: Path, *, poll_s: float, give_up_s: float) -> bool:
    """Return True when the file is there, False when the episode has ended before."""
    until_s = time.monotonic() + give_up_s
    while not path.exists():
        if (mailbox / "done.json").exists():
            return False
        if time.monotonic() > until_s:
            raise TimeoutError(f"neither {path} nor done.json within {give_up_s} s")
        time.sleep(poll_s)
    return True


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _send(path: Path, message: Mapping[str, Any]) -> None:
    staged = path.with_name(f"{path.name}.tmp")
    staged.write_text(json.dumps(message), encoding="utf-8")
    staged.rename(path)  # whole or not at all


def hosting(policy: Any, mailbox: Path) -> Decide:
    """Return a ``decide`` that asks a policy in this process. Needs trialplate, numpy and pillow.

    A mailbox tells no seed: the policy is given 0.
    """
    import numpy as np
    from PIL import Image

    from trialplate.policies.messages import decision_message, parse_observation
    from trialplate.policies.wire import strict_json
    from trialplate.record import EpisodeInfo, PolicyDecision
    from trialplate.spec.channels import ObservationSpec

    terms = _read(mailbox / "spec.json")
    spec = ObservationSpec.model_validate_json(json.dumps(terms["observation_spec"]))
    layouts = {camera.name: camera.layout for camera in spec.cameras}

    def picture(camera: str, name: str | None, folder: Path) -> Any:
        if name is None:
            return None
        pixels = np.asarray(Image.open(folder / name))
        return np.ascontiguousarray(np.moveaxis(pixels, -1, 0)) if layouts[camera] == "chw" else pixels

    def decide(document: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        message = dict(document)
        message["images"] = {camera: picture(camera, name, folder) for camera, name in document["images"].items()}
        if document["history"] is not None:
            looks = {
                camera: [picture(camera, name, folder) for name in names]
                for camera, names in document["history"]["images"].items()
            }
            message["history"] = {**document["history"], "images": looks}
        observation = parse_observation(message, spec)
        if observation.call_index == 0:
            policy.reset(
                EpisodeInfo(
                    observation.episode,
                    observation.instruction or "",
                    terms["control_hz"],
                    terms["replan_interval"],
                    terms["limits"]["max_steps"],
                    0,
                )
            )
        made = policy.act(observation)
        whole = made if isinstance(made, PolicyDecision) else PolicyDecision(made)
        plain = json.loads(strict_json.dumps(decision_message(whole, observation)))
        return {key: plain[key] for key in ("chunk", "stop") if key in plain}

    return decide


if __name__ == "__main__":
    print(serve(Path(sys.argv[1]), stop))
