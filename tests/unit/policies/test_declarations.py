"""A declaration of absurd size is refused as one, however it is wrong, and its refusal can be read."""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from served_policies import DECLARED
from trialplate.errors import ContractFault
from trialplate.policies.declarations import parse_declaration

VAST = 2**20


def declaration(**expects: Any) -> dict[str, Any]:
    document = DECLARED.model_dump(mode="json")
    document["expects"] |= expects
    return document


@pytest.mark.parametrize(
    "cameras",
    [list(range(VAST)), [[0] * 1024] * 1024, [{"name": ["x"] * VAST}]],
    ids=["numbers", "lists of numbers", "a list where a name belongs"],
)
def test_a_declaration_with_a_million_items_is_refused_at_once_in_one_line(cameras: list[Any]) -> None:
    start_s = thread_time()  # of our own work, however busy the machine is
    with pytest.raises(ContractFault, match="more than 32768 items") as refused:
        parse_declaration(declaration(cameras=cameras))
    assert thread_time() - start_s < 0.12  # 0.37 to 8 s for who reads all of it
    assert (refused.value.code, len(refused.value.message) < 100) == ("contract_mismatch", True)


def test_of_a_thousand_mistakes_forty_are_listed_and_the_others_counted() -> None:
    with pytest.raises(ContractFault) as refused:
        parse_declaration(declaration(cameras=[1] * 1000))
    lines = refused.value.message.splitlines()
    assert len(lines) == 42
    assert lines[-1].strip() == "and 960 more"


def test_forty_mistakes_are_listed_without_a_count() -> None:
    with pytest.raises(ContractFault) as refused:
        parse_declaration(declaration(cameras=[1] * 40))
    assert "more" not in refused.value.message
    assert len(refused.value.message.splitlines()) == 41


def test_a_policy_of_many_channels_is_none_of_that_size() -> None:
    (front,) = DECLARED.model_dump(mode="json")["expects"]["cameras"]
    many = declaration(cameras=[{**front, "name": f"camera_{number}"} for number in range(256)])
    assert len(parse_declaration(many).expects.cameras) == 256
