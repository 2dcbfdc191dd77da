"""Who a policy is: its model, checkpoint, normalisation, adapters and source, each known or null with a reason.

Source: policy contract ``trialplate.policy/1``, section 2 (Registration).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trialplate.spec.channels import Frozen, Part

Reason = Literal["not_reported", "not_metered", "not_applicable", "withheld", "unavailable", "not_a_checkout"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, Field(min_length=1, max_length=512)]


class ModelIdentity(Frozen):
    """A model by name and revision. ``verified``: the harness saw it itself; otherwise it is somebody's word."""

    name: Text
    revision: Text | None = None
    revision_reason: Reason | None = None
    verified: bool = False

    @model_validator(mode="before")
    @classmethod
    def _unknown_revision(cls, raw: Any) -> Any:
        return _reasoned(raw, "revision")


class CheckpointIdentity(Part):
    """A checkpoint by reference and content."""

    ref: Text
    sha256: Digest | None = None
    sha256_reason: Reason | None = None
    verified: bool = False

    @model_validator(mode="before")
    @classmethod
    def _unknown_digest(cls, raw: Any) -> Any:
        return _reasoned(raw, "sha256")


class NormalizationIdentity(Frozen):
    """Statistics and mode by which actions and observations are normalised: both are part of who a policy is."""

    stats_sha256: Digest
    mode: Text
    verified: bool = False


class AdapterIdentity(Frozen):
    """An adapter between environment and policy, by its own content."""

    name: Text
    version: Text
    params: dict[str, Any] = Field(default_factory=dict)
    source_sha256: Digest


class SourceIdentity(Part):
    """The code of a policy. ``git_revision`` and ``dirty`` are null where it is no checkout.

    ``module``: ``module:attribute`` or a file and attribute. ``options``: what the factory was called with.
    """

    module: Text
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)
    version: Text | None = None
    sha256: Digest
    git_revision: str | None = None
    dirty: bool | None = None
    git_revision_reason: Reason | None = None
    verified: bool = False

    @model_validator(mode="before")
    @classmethod
    def _unknown_revision(cls, raw: Any) -> Any:
        return _reasoned(raw, "git_revision", reason="not_a_checkout")


class Role(Frozen):
    """One part of a composed method: a planner, a grasp model, a human, and what it remembers."""

    role: Text
    name: Text
    memory: Literal["none", "episode", "unknown"] = "unknown"
    verified: bool = False


class Registration(Frozen):
    """The whole identity. Every item that is unknown is null with a reason; its digest is echoed by each decision.

    ``server_metadata_sha256``: digest of what an openpi server sends first, which is all that it says of itself.
    """

    kind: Literal["model", "fixed_program", "diagnostic"] = "model"
    model: ModelIdentity | None = None
    model_reason: Reason | None = None
    checkpoint: CheckpointIdentity | None = None
    checkpoint_reason: Reason | None = None
    normalization: NormalizationIdentity | None = None
    normalization_reason: Reason | None = None
    adapters: Annotated[tuple[AdapterIdentity, ...], Field(strict=False)] = ()
    policy_source: SourceIdentity | None = None
    policy_source_reason: Reason | None = None
    preprocess_sha256: Digest | None = None
    preprocess_sha256_reason: Reason | None = None
    server_metadata_sha256: Digest | None = None
    server_metadata_sha256_reason: Reason | None = None
    roles: Annotated[tuple[Role, ...], Field(strict=False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _unknown_items(cls, raw: Any) -> Any:
        for key in ("model", "checkpoint", "normalization", "policy_source", "preprocess_sha256"):
            raw = _reasoned(raw, key)
        return _reasoned(raw, "server_metadata_sha256", reason="not_applicable")


def _reasoned(raw: Any, key: str, *, reason: str = "not_reported") -> Any:
    """Give an unknown item the reason that nobody reported it, unless another one stands there."""
    if isinstance(raw, dict) and raw.get(key) is None and raw.get(f"{key}_reason") is None:
        return {**raw, key: None, f"{key}_reason": reason}
    return raw
