"""Acceptance rows 42 and 53: campaigns side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_campaigns import PROTOCOL, SCRIPTED, cli, counting

from trialplate import api
from trialplate.comparison import compare_campaigns, conditions_that_differ
from trialplate.store.view import read_campaign

MEMORY = counting(
    "trialplate.testing.toy", "ActionChunk([[0.0, -1.0]]) if self.episodes % 3 == 0 else super().act(observation)"
)


def test_row_42_a_policy_that_remembers_across_episodes_is_flagged(campaign: Callable[..., Path]) -> None:
    first = campaign("first", MEMORY)
    second = campaign("second", MEMORY, edits={"seed = 1": "seed = 2"})
    (found,) = api.compare(first, second)
    assert found.comparable and found.flags == ("order_dependent",)
    repeated = found.arms[0].repetition
    assert repeated is not None and repeated.pairs == 6 and not repeated.same_order
    assert repeated.differ > 0 and repeated.results_differ == repeated.differ
    done = cli("compare", first, second)
    assert done.returncode == 1 and "order_dependent: mine." in done.stdout
    assert json.loads(cli("compare", first, second, "--json").stdout)["flags"] == ["order_dependent"]


def test_row_42_a_policy_that_remembers_nothing_is_not(campaign: Callable[..., Path]) -> None:
    first = campaign("first", SCRIPTED)
    second = campaign("second", SCRIPTED, edits={"seed = 1": "seed = 2"})
    (found,) = api.compare(first, second)
    repeated = found.arms[0].repetition
    assert found.comparable and found.flags == () and repeated is not None
    assert (repeated.same, repeated.differ, repeated.same_order) == (6, 0, False)
    assert cli("compare", first, second).returncode == 0


def test_row_42_the_same_lock_run_twice_that_differs_is_not_reproduced(campaign: Callable[..., Path]) -> None:
    dice = MEMORY.replace("self.episodes % 3 == 0", "__import__('os').urandom(1)[0] % 2")
    first = campaign("first", dice)
    second = first.parent / "again"
    api.run(first / "lock.json", into=second)
    (found,) = api.compare(first, second)
    assert found.flags == ("not_reproduced",)


def edited(lock: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(lock))
    *parents, last = path.split("/")
    place: Any = document
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
    return document


@pytest.fixture(scope="module")
def toy_lock(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The lock of one toy arm."""
    folder = tmp_path_factory.mktemp("lock")
    (folder / "mine.py").write_text(SCRIPTED, encoding="utf-8")
    (folder / "protocol.toml").write_text(PROTOCOL, encoding="utf-8")
    return api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "lock.json").document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("suite/action/components/0/mode", "absolute"),
        ("suite/action/components/0/delta_base", "chunk_start"),
        ("suite/action/control_hz", 50),
        ("suite/version", "2"),
        ("suite/max_steps", 120),
        ("suite/fault_table/policy_exception", "EXCLUDED"),
        ("suite/errors_rule", "void"),
        ("suite/selected_sha256", "0" * 64),
        ("suite/profiles_sha256/standard", "0" * 64),
        ("protocol/budgets/invalid_action_handling", "feedback"),
        ("protocol/budgets/max_calls", 9),
        ("protocol/suite/plan", "fast"),
        ("protocol/analysis/denominator", "valid"),
        ("protocol/analysis/unit", "episode"),
        ("protocol/analysis/draws", 4000),
        ("protocol/analysis/seed", 3),
        ("protocol/analysis/quantile_rule", "linear"),
        ("protocol/analysis/multiplicity", "none"),
        ("protocol/analysis/confidence", 0.9),
        ("protocol/analysis/registered_effect", 0.2),
        ("simulator/name", "another"),
    ],
)
def test_row_53_whatever_changes_the_question_makes_another_protocol(
    toy_lock: Mapping[str, Any], path: str, value: Any
) -> None:
    (found,) = conditions_that_differ(toy_lock, edited(toy_lock, path, value))
    assert found.path.split(".")[-1].split("[")[0] in path and found.b == str(value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("protocol/name", "other"),
        ("protocol/question", "Another?"),
        ("protocol/schedule/seed", 9),
        ("protocol/claims", []),
        ("protocol/analysis/slices", []),
        ("protocol/analysis/comparisons", [["a", "b"]]),
        ("created_utc", "2020-01-01T00:00:00.000000Z"),
        ("arms", []),
        ("machine/processor", "another"),
    ],
)
def test_row_53_what_does_not_change_the_question_does_not(
    toy_lock: Mapping[str, Any], path: str, value: Any
) -> None:
    assert conditions_that_differ(toy_lock, edited(toy_lock, path, value)) == ()


def test_row_53_another_handling_is_refused_and_shown_side_by_side(campaign: Callable[..., Path]) -> None:
    first = campaign("first", SCRIPTED)
    edits = {"[schedule]": '[budgets]\ninvalid_action_handling = "feedback"\nmax_calls = 200\n\n[schedule]'}
    second = campaign("second", SCRIPTED, edits=edits)
    (found,) = api.compare(first, second)
    assert found.reason == "different protocol" and found.flags == ()
    assert {d.path for d in found.differences} == {"budgets.invalid_action_handling", "budgets.max_calls"}
    assert found.arms[0].repetition is None and found.arms[0].a is not None and found.arms[0].b is not None
    done = cli("compare", first, second)
    assert done.returncode == 1 and "NOT_COMPARABLE: different protocol" in done.stdout
    assert "terminal against feedback" in done.stdout and done.stdout.count("mine") >= 2


def test_row_53_two_checkpoints_under_one_name_are_never_one_arm(campaign: Callable[..., Path]) -> None:
    first = campaign("first", SCRIPTED)
    second = campaign("second", SCRIPTED + "\n\nTRAINED_LONGER = True\n")
    (found,) = api.compare(first, second)
    pair = found.arms[0]
    assert pair.repetition is None and "registration.policy_source.sha256" in {d.path for d in pair.identity}
    done = cli("compare", first, second)
    assert done.returncode == 0 and "not the same arm" in done.stdout


# -- trial by trial --------------------------------------------------------------------------------------------

STUMBLES = """
from trialplate import ActionChunk
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    def __init__(self):
        super().__init__()
        self.episodes = 0

    def reset(self, episode):
        super().reset(episode)
        self.episodes += 1

    def act(self, observation):
        return ActionChunk([[0.0, -1.0]]) if self.episodes in WHEN else super().act(observation)
"""
MANIFEST = {"seed = 1": 'order = "manifest"'}


def stumbling(*episodes: int) -> str:
    return STUMBLES.replace("WHEN", str(set(episodes)))


def test_the_trials_of_two_checkpoints_are_counted_in_pairs_and_a_verdict_on_them_is_exploratory(
    campaign: Callable[..., Path],
) -> None:
    old = campaign("old", stumbling(1, 2), edits=MANIFEST)
    new = campaign("new", stumbling(2, 3), edits=MANIFEST)
    (found,) = api.compare(old, new)
    (pair,) = found.paired
    assert (pair.a, pair.b, pair.pairs, pair.other_start, pair.unmatched) == ("mine", "mine", 6, 0, 0)
    assert (pair.both, pair.only_a, pair.only_b, pair.neither) == (3, 1, 1, 1)
    done = cli("compare", old, new)
    assert done.returncode == 0 and "Trial by trial" in done.stdout
    text = " ".join(done.stdout.split())
    assert "a verdict on them is exploratory" in text and "registered nowhere" in text
    (verdict,) = found.exploratory
    assert (verdict.a, verdict.b, verdict.verdict) == ("mine (A)", "mine (B)", "NOT_DISTINGUISHED")
    assert verdict.underpowered is True and verdict.not_better == ("few_families",)
    assert "NOT_DISTINGUISHED: these trials do not tell mine (A) from mine (B)." in text and "McNemar" not in text


def test_the_same_arm_twice_gets_no_verdict_on_itself(campaign: Callable[..., Path]) -> None:
    (found,) = api.compare(campaign("one", SCRIPTED), campaign("two", SCRIPTED, edits={"seed = 1": "seed = 2"}))
    assert len(found.paired) == 1 and found.exploratory == ()


def test_arms_that_see_other_things_are_not_comparable_across_campaigns(campaign: Callable[..., Path]) -> None:
    first, second = (read_campaign(campaign(name, code)) for name, code in (("one", SCRIPTED), ("two", stumbling(1))))
    other = edited(second.lock_document, "arms/0/profile", "wrist")
    ((found,),) = (pair.exploratory for pair in compare_campaigns(first, [replace(second, lock_document=other)]))
    assert found.verdict == "NOT_COMPARABLE" and found.differs == ("profile: standard against wrist",)
    assert found.difference is None


def test_arms_of_other_names_are_paired_where_each_stands_in_one_campaign_only(campaign: Callable[..., Path]) -> None:
    control = '[[arms]]\nname = "scripted"\npolicy = "control:scripted"\n\n[schedule]'
    renamed = {'name = "mine"': 'name = "other"', 'arm = "mine"': 'arm = "other"'}
    old = campaign("old", stumbling(1), edits=MANIFEST | {"[schedule]": control})
    new = campaign("new", SCRIPTED, edits=MANIFEST | renamed)
    (found,) = api.compare(old, new)
    pairs = {(pair.a, pair.b): (pair.both, pair.only_b) for pair in found.paired}
    assert pairs == {("mine", "other"): (5, 1), ("scripted", "other"): (6, 0)}
    assert cli("compare", old, new).stdout.count("stands in one campaign only") == 3


def test_a_campaign_is_held_against_each_of_several_others(campaign: Callable[..., Path]) -> None:
    first, same = campaign("first", SCRIPTED), campaign("same", SCRIPTED, edits={"seed = 1": "seed = 2"})
    handling = '[budgets]\ninvalid_action_handling = "feedback"\nmax_calls = 200\n\n[schedule]'
    other = campaign("other", SCRIPTED, edits={"[schedule]": handling})
    assert [pair.comparable for pair in api.compare(first, same, other)] == [True, False]
    done = cli("compare", first, same, other, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1 and not document["comparable"] and document["flags"] == []
    assert [Path(pair["folder_b"]).name for pair in document["campaigns"]] == ["same", "other"]
    assert [len(pair["paired"]) for pair in document["campaigns"]] == [1, 0]


def test_an_arm_that_was_halted_is_no_side_of_a_pair(campaign: Callable[..., Path]) -> None:
    raises = SCRIPTED.replace("    pass", "    def act(self, observation):\n        raise RuntimeError('no')")
    (found,) = api.compare(campaign("whole", SCRIPTED), campaign("halted", raises))
    assert found.comparable and found.paired == ()
    assert found.arms[0].b is not None and found.arms[0].b.rate.reason == "systematic_error"


def test_an_arm_that_was_run_as_another_is_not_the_same_arm(campaign: Callable[..., Path]) -> None:
    first, second = (read_campaign(campaign(name, SCRIPTED)) for name in ("first", "second"))
    opened = second.records[0]
    told = {**opened, "data": {**opened["data"], "registrations": {"mine": "ab" * 32}}}
    (found,) = compare_campaigns(first, [replace(second, records=(told, *second.records[1:]))])
    assert [(d.path, d.a, d.b) for d in found.arms[0].identity] == [("run_as", "none", "ab" * 32)]
    assert found.arms[0].repetition is None


def test_the_same_protocol_in_another_simulator_is_refused_by_that_name(campaign: Callable[..., Path]) -> None:
    first, second = (read_campaign(campaign(name, SCRIPTED)) for name in ("first", "second"))
    other = edited(second.lock_document, "simulator/version", "0.0.1")
    (found,) = compare_campaigns(first, [replace(second, lock_document=other)])
    assert found.reason == "different simulator" and [d.path for d in found.differences] == ["simulator.version"]


@pytest.mark.parametrize(("second", "told"), [("first", "against itself"), ("absent", "no campaign at")])
def test_what_cannot_be_compared_is_bad_input(campaign: Callable[..., Path], second: str, told: str) -> None:
    first = campaign("first", SCRIPTED)
    done = cli("compare", first, first.parent / second)
    assert done.returncode == 2 and told in done.stderr
