"""The schedule is dense, paired, shuffled once and the same everywhere."""

from __future__ import annotations

from pathlib import Path

from trialplate.admission import admit
from trialplate.run.schedule import make_schedule
from trialplate.testing.toy import TOY


def _schedule(path: Path, extra: str = "") -> list[dict[str, object]]:
    text = path.read_text(encoding="utf-8").replace('interrupted = "replace"', 'interrupted = "replace"\n' + extra)
    return make_schedule(admit(text, source="test", base=path.parent), TOY.scenarios())


def test_every_arm_meets_every_scenario_and_repeat_once(toy_protocol: Path) -> None:
    trials = _schedule(toy_protocol)
    assert len(trials) == 3 * 6 * 2
    assert len({(trial["arm"], trial["scenario"], trial["repeat"]) for trial in trials}) == len(trials)
    assert [trial["ordinal"] for trial in trials] == list(range(36))
    assert trials[35]["trial_id"] == "000035"


def test_the_order_is_shuffled_and_depends_on_the_seed_alone(toy_protocol: Path) -> None:
    first, again, other = _schedule(toy_protocol), _schedule(toy_protocol), _schedule(toy_protocol, "seed = 5")
    assert first == again
    assert first != other
    assert first != _schedule(toy_protocol, 'order = "manifest"')


def test_the_first_trials_of_the_default_shuffle_are_pinned(toy_protocol: Path) -> None:
    first = [(trial["arm"], trial["scenario"], trial["repeat"]) for trial in _schedule(toy_protocol)[:3]]
    assert first == [("null", "toy-002", 1), ("null", "toy-004", 1), ("oracle", "toy-002", 1)]


def test_blocks_keep_the_arms_of_a_scenario_and_repeat_together_in_an_order_of_their_own(toy_protocol: Path) -> None:
    trials = _schedule(toy_protocol, 'order = "blocks"')
    blocks = [trials[first : first + 3] for first in range(0, len(trials), 3)]
    assert all(len({(trial["scenario"], trial["repeat"]) for trial in block}) == 1 for block in blocks)
    assert len({(block[0]["scenario"], block[0]["repeat"]) for block in blocks}) == 12
    assert len({tuple(trial["arm"] for trial in block) for block in blocks}) > 1
    assert blocks != sorted(blocks, key=lambda block: (block[0]["repeat"], block[0]["scenario"]))
    assert trials == _schedule(toy_protocol, 'order = "blocks"')
    assert trials != _schedule(toy_protocol, 'order = "blocks"\nseed = 5')


def test_the_first_block_of_the_default_seed_is_pinned(toy_protocol: Path) -> None:
    first = _schedule(toy_protocol, 'order = "blocks"')[:3]
    assert [(trial["arm"], trial["scenario"], trial["repeat"]) for trial in first] == [
        ("scripted", "toy-004", 1),
        ("null", "toy-004", 1),
        ("oracle", "toy-004", 1),
    ]
