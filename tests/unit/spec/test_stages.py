from __future__ import annotations

import pytest
from pydantic import ValidationError

from trialplate.spec.stages import Condition, StageChain, StageSpec

NEAR = Condition(column="distance_m", op="le", limit=0.04, unit="m")
OPENING = Condition(column="command", op="lt", limit=0.0, unit="1")


def stage(name: str, attachment: str = "any") -> StageSpec:
    return StageSpec(name=name, meaning="m", attachment=attachment, when=(NEAR,))  # type: ignore[arg-type]


def test_a_chain_names_every_column_that_it_reads_and_survives_json() -> None:
    chain = StageChain(
        attached="attached", opening=OPENING, stages=(stage("a"), stage("b", "held"), stage("c", "released"))
    )
    assert chain.columns == ("attached", "command", "distance_m")
    assert chain.names == ("a", "b", "c")
    assert StageChain.model_validate_json(chain.model_dump_json()) == chain


@pytest.mark.parametrize("order", ["held any", "free", "released", "held free", "held released released", "any free"])
def test_stages_out_of_order_are_refused(order: str) -> None:
    stages = tuple(stage(f"s{n}", role) for n, role in enumerate(order.split()))
    with pytest.raises(ValidationError, match="in this order"):
        StageChain(attached="attached", opening=OPENING, stages=stages)


def test_a_held_stage_without_an_attachment_column_is_refused() -> None:
    with pytest.raises(ValidationError, match="'attached' and 'opening' are needed"):
        StageChain(stages=(stage("a", "held"),))


def test_an_attachment_column_that_no_stage_reads_is_refused() -> None:
    with pytest.raises(ValidationError, match="'attached' and 'opening' are needed"):
        StageChain(attached="attached", opening=OPENING, stages=(stage("a"),))


def test_repeated_stage_names_are_refused() -> None:
    with pytest.raises(ValidationError, match="stage names repeat"):
        StageChain(stages=(stage("a"), stage("a")))


def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(ValidationError):
        StageChain(stages=())


def test_a_stage_that_looks_at_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="looks at nothing"):
        StageSpec(name="a", meaning="m")


def test_a_release_over_several_steps_is_refused() -> None:
    with pytest.raises(ValidationError, match="one moment"):
        StageSpec(name="a", meaning="m", attachment="released", hold_steps=2)


def test_a_keep_rule_outside_the_release_is_refused() -> None:
    with pytest.raises(ValidationError, match="belongs to the released stage"):
        StageSpec(name="a", meaning="m", when=(NEAR,), keep=(NEAR,))


def test_a_limit_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValidationError):
        Condition(column="a", op="le", limit=float("nan"), unit="m")
