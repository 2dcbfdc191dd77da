"""A probe asks a server without a world: what it declares, how long it takes, whether a batch changes its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from served_policies import DECLARED, Batching, Instance, Stub, camera, setting
from trialplate.errors import HarnessFault, UsageError
from trialplate.policies.client import server_probe
from trialplate.policies.client.server_probe import MAX_CALLS, rank, synthetic
from trialplate.policies.server.hosting import serving
from trialplate.policies.server.server import ServeSettings
from trialplate.record import ActionChunk
from trialplate.spec.channels import HistorySpec, ObservationSpec, ProprioSpec


def probed(policy: Any, *, batch: int = 1, calls: int = 6, **settings: Any) -> server_probe.Probe:
    with serving(policy, settings=ServeSettings(port=0, **settings)) as uri:
        return server_probe.probe(uri, batch=batch, calls=calls, connect_timeout_s=20.0, call_timeout_s=20.0)


def test_a_sound_server_has_equal_answers_and_no_fault() -> None:
    found = probed(Batching, batch=3, max_batch_size=3, max_wait_s=0.2)
    assert (found.equal, found.faults) == (True, ())
    assert len(found.serial_ms) == len(found.batch_ms) == 6
    assert max(size or 0 for size in found.batch_sizes) > 1  # whether all three met is the machine's choice
    document = found.document()
    assert document["calls"] == 12
    assert document["serial_ms"]["p50"] <= document["serial_ms"]["p95"]
    assert document["registration_sha256"] == found.hello.registration.sha256()


def test_without_a_batch_nothing_is_said_of_equality() -> None:
    found = probed(Stub, calls=3)
    assert (found.equal, found.batch_ms, found.document()["batch_ms"]) == (None, (), {"p50": None, "p95": None})


def test_a_policy_whose_answers_depend_on_the_batch_is_found_out() -> None:
    class Averaging(Batching):
        def act_batch(self, observations: Sequence[Any]) -> list[Any]:
            return [ActionChunk([[float(len(observations)), 0.5]]) for _ in observations]

    found = probed(Averaging, batch=3, max_batch_size=3, max_wait_s=0.2)
    assert found.equal is False


def test_actions_out_of_bounds_and_exceptions_are_faults_told_once_each() -> None:
    class Wild(Stub):
        def act(self, observation: Any) -> Any:
            if "3" in observation.instruction:
                raise ValueError("no plan")
            return ActionChunk([[11.0, 0.5]])

    found = probed(Wild, calls=5)
    assert len(found.faults) == 2
    assert any("expected in [-10.0, 10.0], got 11.0" in fault for fault in found.faults)
    assert any("no plan" in fault for fault in found.faults)


def test_a_policy_with_a_state_of_its_own_has_no_batch_to_probe() -> None:
    with pytest.raises(UsageError, match="one client at a time"):
        probed(Instance, batch=2)
    assert probed(Instance, calls=2).faults == ()


@pytest.mark.parametrize(("batch", "calls"), [(0, 1), (257, 1), (1, 0), (1, MAX_CALLS + 1)])
def test_a_batch_or_a_number_of_calls_that_is_none_is_refused(batch: int, calls: int) -> None:
    with pytest.raises(UsageError, match=f"got {batch} and {calls}"):
        server_probe.probe("ws://127.0.0.1:1", batch=batch, calls=calls)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="connect_timeout_s"):
        server_probe.probe("ws://127.0.0.1:1", batch=1, connect_timeout_s=timeout_s)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(HarnessFault) as gone:
        server_probe.probe("ws://127.0.0.1:1", batch=1, connect_timeout_s=0.2)
    assert gone.value.code == "connect_failed"


def test_a_synthetic_observation_is_repeatable_within_its_ranges_and_has_every_channel() -> None:
    expects = ObservationSpec(
        instruction=True, cameras=(camera("a", 4, 6),), meta=("step_index", "control_hz", "remaining_calls"),
        proprio=(ProprioSpec(name="q", dim=2, unit="rad", frame="joint", rotation=None, gripper=None, low=(1.0, -3.0),
                             high=(2.0, -2.0)),), history=HistorySpec(frames=2, actions=3),
    )  # fmt: skip
    declared = DECLARED.model_copy(update={"expects": expects})
    one, same, other = (synthetic(expects, setting(declared), number) for number in (5, 5, 6))
    assert one.episode == same.episode != other.episode
    assert np.array_equal(one.images["a"], same.images["a"])
    assert not np.array_equal(one.images["a"], other.images["a"])
    assert np.all((one.proprio["q"] >= [1.0, -3.0]) & (one.proprio["q"] <= [2.0, -2.0]))
    assert set(one.meta) == {"step_index", "control_hz", "remaining_calls"}
    assert one.history is not None and len(one.history.actions) == 3 and len(one.history.images["a"]) == 2


@pytest.mark.parametrize(
    ("values", "q", "found"), [((), 0.5, None), ((3.0,), 0.95, 3.0), ((4.0, 1.0, 3.0, 2.0), 0.5, 2.0),
                               (tuple(map(float, range(1, 101))), 0.95, 95.0)]
)  # fmt: skip
def test_a_quantile_is_the_nearest_rank(values: tuple[float, ...], q: float, found: float | None) -> None:
    assert rank(values, q) == found
