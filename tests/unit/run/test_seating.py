"""What a policy in this process declares is heard once, copied, and refused when it is no whole declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import trialplate as tp
from trialplate.errors import LockError
from trialplate.run.seating import declared_spec, seat_policy
from trialplate.testing.reach import REACH
from trialplate.testing.reach_channels import ACTION, PROPRIO

WHOLE = tp.PolicySpec(expects=tp.ObservationSpec(instruction=False, proprio=PROPRIO[:1]), emits=ACTION)


class Arm:
    def __init__(self, spec: Callable[[], Any]) -> None:
        self.spec = spec

    def reset(self, episode: tp.EpisodeInfo) -> None:
        """Nothing is remembered."""

    def act(self, observation: tp.Observation) -> tp.ActionChunk:
        return tp.ActionChunk([[0.0] * 7])

    def close(self) -> None:
        """Nothing is held."""


def _boom() -> Any:
    raise SystemExit("no GPU here")


def _half() -> Any:
    return tp.ProprioSpec(name="ee_pos", dim=3, unit="m")  # type: ignore[call-arg]


def test_a_whole_declaration_is_the_policys_word() -> None:
    said = declared_spec("arm", Arm(lambda: WHOLE.model_copy(update={"declared_by": "operator"})))
    assert said == WHOLE
    assert said.declared_by == "policy"


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        (_boom, "policy_spec", "policy raised in spec: SystemExit: no GPU here"),
        (_half, "contract_undeclared", "ProprioSpec.rotation: Field required"),
        (lambda: 3, "contract_undeclared", "it returned int, expected trialplate.PolicySpec"),
        (lambda: WHOLE.model_dump(), "contract_undeclared", "it returned dict, expected trialplate.PolicySpec"),
        (
            lambda: WHOLE.model_copy(update={"emits": ACTION.model_copy(update={"dim": 6})}),
            "contract_mismatch",
            "the components have 7 scalars, dim says 6",
        ),
    ],
    ids=["raises", "incomplete", "a number", "a map", "assembled around the checks"],
)
def test_what_is_no_declaration_is_refused_and_said_to_be_the_arms(
    spec: Callable[[], Any], code: str, message: str
) -> None:
    with pytest.raises(tp.TrialplateError) as caught:
        declared_spec("arm", Arm(spec))
    assert caught.value.code == code
    assert message in caught.value.message


def test_an_object_is_seated_without_a_lock_where_it_fits() -> None:
    seat = seat_policy(Arm(lambda: WHOLE), REACH, profile="state")
    assert (seat.cameras, seat.proprio) == ((), ("ee_pos",))
    other = WHOLE.model_copy(update={"emits": ACTION.model_copy(update={"control_hz": 50.0})})
    with pytest.raises(LockError, match="control_hz"):
        seat_policy(Arm(lambda: other), REACH, profile="state")
