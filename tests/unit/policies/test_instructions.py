"""The actor's text: complete, the same for everybody, with examples that the parser takes, and telling nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mailbox_bench import INFO, setting
from trialplate.canonical import sha256_hex
from trialplate.errors import UsageError
from trialplate.policies.mailbox.files import spec_document
from trialplate.policies.mailbox.instructions import (
    check_examples,
    example_chunk,
    examples_in,
    render_instructions,
    template_text,
)
from trialplate.policies.mailbox.lint import actor_leaks, identifying_names, lint_actor, lint_name
from trialplate.policies.validation import validate_chunk
from trialplate.spec.channels import ActionComponent, ActionSpec
from trialplate.suites.pick_place import SUITE as PICK_PLACE
from trialplate.testing.toy import ACTION, TOY

OPAQUE = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
MAILBOX = f"/var/tmp/qhzk/{OPAQUE}"


def _component(**changes: Any) -> ActionComponent:
    said: dict[str, Any] = {
        "name": "turn", "dim": 4, "kind": "ee_rotation", "mode": "absolute", "delta_base": None, "unit": "1",
        "frame": "base", "rotation": "quat_wxyz", "gripper": None, "low": (-1.0,) * 4, "high": (1.0,) * 4,
    }  # fmt: skip
    return ActionComponent(**{**said, **changes})


# -- the text ------------------------------------------------------------------------------------------------------


def test_the_template_takes_exactly_two_substitutions() -> None:
    template = template_text()
    assert sorted(re.findall(r"\{\w+\}", template)) == ["{host}", "{mailbox}"]


def test_nothing_but_host_and_mailbox_differs_between_two_actors_of_a_run() -> None:
    one = render_instructions(ACTION, host="host-a", mailbox="/a/" + "1" * 32)
    two = render_instructions(ACTION, host="host-b", mailbox="/b/" + "2" * 32)
    assert one.text.replace("host-a", "host-b").replace("/a/" + "1" * 32, "/b/" + "2" * 32) == two.text
    assert one.template_sha256 == two.template_sha256 == sha256_hex(template_text().encode())
    assert one.rendered_sha256 == sha256_hex(one.text.encode()) != two.rendered_sha256


def test_a_substitution_is_not_substituted_again() -> None:
    text = render_instructions(ACTION, host="{mailbox}", mailbox="{host}").text
    assert "on the machine {mailbox}" in text
    assert "\n    {host}\n" in text


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a\x1b[2Jb", "x" * 1025, "a\u202eb"])
@pytest.mark.parametrize("which", ["host", "mailbox"])
def test_what_is_not_one_plain_line_is_not_put_into_the_text(which: str, value: str) -> None:
    values = {"host": "localhost", "mailbox": MAILBOX, which: value}
    with pytest.raises(UsageError) as caught:
        render_instructions(ACTION, **values)
    assert caught.value.code == "actor_instructions"


def test_the_text_names_every_file_and_every_member_that_an_actor_meets() -> None:
    text = template_text()
    for name in ("spec.json", "obs/00000.json", "act/00000.json", "done.json", ".tmp", ".png"):
        assert name in text
    members = (
        "episode call_index observation_id registration step_index instruction images proprio history meta issue"
    )
    for name in [*members.split(), "remaining", "chunk.vectors", "stop", "terminal", "feedback", "rename"]:
        assert name in text


def test_every_name_of_the_terms_that_the_text_uses_is_there() -> None:
    terms = spec_document(setting(), INFO)
    for name in re.findall(r"limits\.(\w+)", template_text()):
        assert name in terms["limits"]
    for name in ("replan_interval", "invalid_action_handling", "control_hz", "observation_spec", "action_spec"):
        assert name in terms
        assert name in template_text()


# -- the examples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [ACTION, PICK_PLACE.action], ids=["toy", "pick-place"])
def test_the_examples_are_legal_answers_of_the_run(action: ActionSpec) -> None:
    text = render_instructions(action, host="localhost", mailbox=MAILBOX).text
    chunk, stop = (json.loads(block) for block in examples_in(text))
    assert validate_chunk(chunk["chunk"]["vectors"], action, max_rows=1).shape == (1, action.dim)
    assert stop["stop"] == {"reason": None}
    assert chunk == example_chunk(action)


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        (_component(), [1, 0, 0, 0]),
        (_component(rotation="quat_xyzw"), [0, 0, 0, 1]),
        (_component(rotation="rot6d_columns", dim=6, low=(-1.0,) * 6, high=(1.0,) * 6), [1, 0, 0, 0, 1, 0]),
        (_component(rotation="rot6d_interleaved", dim=6, low=(-1.0,) * 6, high=(1.0,) * 6), [1, 0, 0, 1, 0, 0]),
        (_component(mode="delta", delta_base="step", low=(0.1,) * 4, high=(0.2,) * 4), [0.1] * 4),
        (_component(low=(None,) * 4, high=(None,) * 4, bounds_reason="unlimited"), [1, 0, 0, 0]),
        (_component(low=(-1.0,) * 4, high=(-0.5,) * 4), [-0.5] * 4),
    ],
)
def test_an_example_row_is_the_plainest_that_the_bounds_allow(
    component: ActionComponent, expected: list[float]
) -> None:
    action = ActionSpec(control_hz=20.0, dim=component.dim, components=(component,))
    assert example_chunk(action)["chunk"]["vectors"] == [expected]
    render_instructions(action, host="localhost", mailbox=MAILBOX)


@pytest.mark.parametrize(
    ("found", "put"),
    [
        ('"vectors"', '"action"'),
        ('"chunk"', '"actions"'),
        ('"observation_id"', '"observation"'),
        ('"usage": null,\n', ""),
        ("[[0.0, -1.0]]", "[0.0, -1.0]"),
        ("[[0.0, -1.0]]", "[[0.0, -1.5]]"),
        ("[[0.0, -1.0]]", "[[0.0]]"),
        ('"call_index": 0', '"call_index": 1'),
        ('"reason": null', '"reason": null,'),
    ],
)
def test_a_text_with_an_example_that_the_parser_would_refuse_is_not_sent(found: str, put: str) -> None:
    text = render_instructions(ACTION, host="localhost", mailbox=MAILBOX).text
    assert found in text
    with pytest.raises(UsageError) as caught:
        check_examples(text.replace(found, put), ACTION)
    assert caught.value.code == "actor_example_refused"


def test_a_text_without_an_example_is_not_sent() -> None:
    text = render_instructions(ACTION, host="localhost", mailbox=MAILBOX).text
    without = text.replace(examples_in(text)[1], "")
    with pytest.raises(UsageError, match="one chunk and one stop"):
        check_examples(without, ACTION)


def test_an_example_of_another_robot_is_not_sent() -> None:
    text = render_instructions(ACTION, host="localhost", mailbox=MAILBOX).text
    with pytest.raises(UsageError, match="invalid_action"):
        check_examples(text, PICK_PLACE.action)


# -- the lint --------------------------------------------------------------------------------------------------------


def test_the_template_itself_tells_nothing() -> None:
    assert actor_leaks(template_text(), forbidden=["pick-place", "toy", "toy-001", "quiet-arm"]) == ()


def test_a_rendered_text_with_opaque_names_tells_nothing() -> None:
    for suite in (TOY, PICK_PLACE):
        names = {name for item in suite.scenarios() for name in (item.id, item.family, item.variant)} | {suite.name}
        text = render_instructions(suite.action, host="localhost", mailbox=MAILBOX).text
        assert actor_leaks(text, forbidden=names, known=template_text()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-29", "run_2026_11_29", "20261129", "20261129T0930", "20261129093000", "2026.11.29", "29.11.2026",
        "29-11-2026", "11/29/2026", "29/11/26", "29112026", "11292026", "nov29", "Nov 29", "29 November",
        "november-2026", "29nov", "29th-Nov",
        "29th of November", "29-of-nov", "2026", "data2026b", "2026-11", "2026W48", "2026-333", "1795910400",
        "t1795910400123", "２０２６-１１-２９",
    ],
)  # fmt: skip
def test_a_date_in_any_common_form_is_found(text: str) -> None:
    assert any("date or time" in line for line in actor_leaks(text))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "10.0.0.12", "localhost", "gpu-node-7", "/srv/data/q", "1.2.3", "v3", "12", "rev 1048576",
        "marker", "decoder", "a/b", "5 of 7", OPAQUE, OPAQUE[::-1], "20261129" + "ab" * 12, "ff" * 32, "2048",
        "1999999",
    ],
)  # fmt: skip
def test_what_is_no_date_is_left_alone(text: str) -> None:
    assert actor_leaks(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "toy", "TOY", "Toy-3", "toy3", "/data/toy/x", "ｔｏｙ", "my_toy_run", "toy-001", "TOY001", "x-toy001-y",
        "pick-place", "PickPlace", "pickplace2", "pick_place", "PICK PLACE", "pick.place", "quiet arm",
        "quietArm", "QUIETARM",
    ],
)  # fmt: skip
def test_an_identifier_is_found_however_it_is_written(text: str) -> None:
    assert actor_leaks(text, forbidden=["toy", "toy-001", "pick-place", "quiet-arm"])


@pytest.mark.parametrize("text", ["toyota", "stoyan", "place", "armchair", "quietly"])
def test_a_part_of_a_word_is_no_identifier(text: str) -> None:
    assert actor_leaks(text, forbidden=["toy", "toy-001", "pick-place", "quiet-arm"]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "pass", "passed", "FAIL", "failures", "score", "scorer", "success", "successful", "seed", "seed42", "seeds",
        "benchmark", "suite", "scenario", "eval", "evaluation", "task-07", "trial 3", "episode_12", "attempt2",
        "reward",
    ],
)  # fmt: skip
def test_a_word_that_gives_the_game_away_is_found(text: str) -> None:
    assert actor_leaks(text)


@pytest.mark.parametrize(
    "text", ["compass", "bypassing", "failsafe", "underscore", "medieval", "multitask", "seedling"]
)
def test_a_word_that_only_contains_one_is_left_alone(text: str) -> None:
    assert actor_leaks(text) == ()


def test_a_word_that_every_actor_reads_anyway_identifies_nothing() -> None:
    assert "mailbox" in template_text()
    assert actor_leaks("/q/mailbox", forbidden=["mailbox"])
    assert actor_leaks("/q/mailbox", forbidden=["mailbox"], known=template_text()) == ()


def test_a_refusal_names_what_was_found_and_what_to_do() -> None:
    with pytest.raises(UsageError) as caught:
        lint_actor("toy-2026-11-29", what="the root", forbidden=["toy"])
    assert caught.value.code == "actor_label_leak"
    for part in ("the root", "identifier 'toy'", "2026-11-29", "32 random hex digits"):
        assert part in caught.value.message


@pytest.mark.parametrize(
    "name", ["worker", "0" * 31, "20261129" + "0" * 24, "G" * 32, OPAQUE.upper(), OPAQUE + "\n", "toy-agent", ""]
)
def test_a_name_that_is_not_opaque_is_refused(name: str) -> None:
    lint_name(OPAQUE, forbidden=["toy"])
    with pytest.raises(UsageError) as caught:
        lint_name(name, forbidden=["toy"])
    assert caught.value.code == "actor_label_leak"


def test_everything_that_identifies_a_run_is_known_to_the_lint() -> None:
    lock = {
        "protocol": {
            "name": "study-x",
            "arms": [{"name": "quiet-arm", "policy": "mailbox"}, {"name": "b", "policy": "my_pkg.policy:Policy"}],
            "schedule": {"seed": 240926},
        },
        "arms": [{"name": "quiet-arm"}, {"name": "b"}],
        "schedule": [{"ordinal": 0, "scenario": "toy-001", "repeat": 0}],
    }
    names = identifying_names(lock, "00" * 32, TOY)
    assert {"study-x", "toy", "quiet-arm", "toy-001", "near_block", "240926", "my_pkg.policy:Policy"} <= names
    assert "100921260" in names  # the policy's seed: golden number of the contract
    assert "mailbox" not in names
