"""What stands in the files of a mailbox: the public terms of an episode, and one look with its pictures beside it.

The same members as on every other wire, but pictures are PNG files that the document names, and no seed is told.
Source: policy contract, sections 2 and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trialplate.policies.messages import PROTOCOL, observation_message
from trialplate.policies.setting import ActorSetting
from trialplate.policies.wire.strict_json import png_of
from trialplate.record import EpisodeInfo, Observation
from trialplate.spec.channels import CameraSpec, ObservationSpec


def spec_document(setting: ActorSetting, episode: EpisodeInfo) -> dict[str, Any]:
    """Return ``spec.json``: specifications, limits, replan interval; it names nothing but channels, and no seed."""
    budgets = setting.budgets
    limits: dict[str, Any] = {
        "max_steps": setting.max_steps,
        "max_calls": budgets.max_calls,
        "max_chunk_length": budgets.max_chunk_length,
        "policy_time_limit_s": budgets.policy_time_limit_s,
        "call_timeout_s": budgets.call_timeout_s,
        "first_call_timeout_s": budgets.first_call_timeout_s,
    }
    for name in ("max_calls", "policy_time_limit_s"):
        if limits[name] is None:
            limits[f"{name}_reason"] = "unlimited"
    return {
        "protocol": PROTOCOL,
        "type": "spec",
        "episode": episode.episode,
        "registration": setting.registration_sha256,
        "control_hz": setting.action.control_hz,
        "observation_spec": setting.observation.model_dump(mode="json"),
        "observation_spec_sha256": setting.observation.sha256(),
        "action_spec": setting.action.model_dump(mode="json"),
        "action_spec_sha256": setting.action.sha256(),
        "replan_interval": setting.replan_interval,
        "invalid_action_handling": budgets.invalid_action_handling,
        "limits": limits,
        "max_message_bytes": budgets.max_message_bytes,
    }


def observation_files(observation: Observation, spec: ObservationSpec) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the document of one look, and the PNG files that it names (name -> bytes).

    A picture is stored as rows of pixels whatever its layout is on other wires: (H, W, 3), channels in the declared
    order. Numbers read back to the same bits, pictures to the same pixels.
    """
    cameras: Mapping[str, CameraSpec] = {camera.name: camera for camera in spec.cameras}
    files: dict[str, bytes] = {}

    def stored(camera: str, pixels: NDArray[np.uint8] | None, *, mark: str = "") -> str | None:
        if pixels is None:
            return None
        name = f"{observation.call_index:05d}.{camera}{mark}.png"
        chw = camera in cameras and cameras[camera].layout == "chw"
        files[name] = png_of(np.moveaxis(pixels, 0, -1) if chw else pixels)
        return name

    document = observation_message(observation)
    document["images"] = {name: stored(name, pixels) for name, pixels in observation.images.items()}
    if observation.history is not None:  # '~' is in no camera's name, so no file can be named twice
        document["history"]["images"] = {
            name: [stored(name, look, mark=f"~{number}") for number, look in enumerate(looks)]
            for name, looks in observation.history.images.items()
        }
    return document, files
