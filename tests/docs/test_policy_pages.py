"""The pages about policies and adapters: what they show is what happens."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import DOCS, ROOT, blocks, first_words, protocols, rows, text

from trialplate import api
from trialplate.cli import app, output
from trialplate.policies.adapters import rotations
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.adapters.conversions import CONVERSIONS
from trialplate.registry import load_suite
from trialplate.spec.channels import CameraSpec, GripperRange, ObservationSpec, ProprioSpec
from trialplate.spec.protocol import AdapterChoice
from trialplate.spec.schemes import scheme_of
from trialplate.store.view import read_campaign
from trialplate.testing.reach_channels import ACTION

PRINTED = 5e-5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the policy of the page and a protocol that takes it through one short episode."""
    (policy,) = blocks(DOCS / "policies.md", "python")
    (tmp_path / "still.py").write_text(policy, encoding="utf-8")
    body = protocols("policies.md")[0].replace('version = "1"\n', 'version = "1"\nscenarios = ["pp-001"]\n', 1)
    (tmp_path / "protocol.toml").write_text(body + "\n[budgets]\nmax_steps = 3\n", encoding="utf-8")
    return tmp_path


def test_the_policy_of_the_page_fits_as_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = output.guarded(app, ["policy", "check", str(folder / "protocol.toml"), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.out + printed.err
    assert json.loads(printed.out)["arms"]["still"]["differences"] == []


def test_the_policy_of_the_page_runs(folder: Path) -> None:
    lock = api.lock(api.load_protocol(folder / "protocol.toml"), into=folder / "campaign")
    api.run(lock, workers=1, executor="serial")
    (row,) = read_campaign(folder / "campaign").rows
    assert (row.fault_code, row.control_steps) == (None, 3)


@pytest.mark.parametrize(
    "words",
    [
        [word for row in rows("policies.md", "Five ways") for word in re.findall(r'`"([^"`]+)"`', row[1])],
        re.findall(r'\| `policy = "([^"]+)"` \|', text(ROOT / "README.md")),
    ],
    ids=["policies.md", "README.md"],
)
def test_the_five_ways_have_the_words_that_the_protocol_takes(words: list[str]) -> None:
    ways = {scheme_of(word.replace("host:port", "127.0.0.1:1")) for word in words}
    assert ways == {"python", "served", "ws", "openpi", "mailbox"}


def test_every_adapter_is_documented_with_its_parameters() -> None:
    expected = {name: {*shipped.required, *shipped.optional} for name, shipped in CONVERSIONS.items()}
    expected |= {"rename": {"to"}, "libero-state-8d": {"position", "rotation", "fingers", "to"}, "module:attr": set()}
    shown = {
        row[0].strip("`"): set(re.findall(r"`([\w-]+)`", re.sub(r":[^;]*", "", row[2])))
        for row in rows("adapters.md", "The adapters")
    }
    assert shown == expected


def test_every_adapter_is_documented_with_the_words_that_it_takes_and_what_it_is_for() -> None:
    by_name = {row[0].strip("`"): row for row in rows("adapters.md", "The adapters")}
    for name, shipped in CONVERSIONS.items():
        assert set(re.findall(r"\w+", by_name[name][1])) == shipped.targets
        words = {word for rule in shipped.required.values() if isinstance(rule, tuple) for word in rule}
        if words - set(rotations.DIMS) and name != "unit_convert":
            assert words <= set(re.findall(r"`([\w-]+)`", by_name[name][2])), name


def test_every_rotation_is_documented_with_its_numbers() -> None:
    assert first_words("adapters.md", "Rotations") == set(rotations.DIMS)
    for row in rows("adapters.md", "Rotations"):
        for word in re.findall(r"`(\w+)`", row[0]):
            assert rotations.DIMS[word] == int(row[1])


def _channel(name: str, params: dict[str, Any]) -> CameraSpec | ProprioSpec:
    """Return a channel that the environment sends and the adapter can be applied to."""
    if "camera" in CONVERSIONS[name].targets:
        return CameraSpec(name="it", height=2, width=2, layout="hwc", color="rgb", orientation="upright")
    rotation = params["from"] if params.get("from") in rotations.DIMS else None
    gripper = GripperRange(closed=params["from_closed"], open=params["from_open"]) if "from_open" in params else None
    flat = {"rotation": rotation, "gripper": gripper, "frame": None, "name": "it"}
    dim = rotations.DIMS[rotation] if rotation else 1
    unit = params["from"] if name == "unit_convert" else "rad" if dim == 3 else "1"
    return ProprioSpec.model_validate({**flat, "dim": dim, "unit": unit})


@pytest.mark.parametrize("row", rows("adapters.md", "What each makes"), ids=lambda row: f"{row[0]} {row[1]}")
def test_every_adapter_makes_the_numbers_of_the_page(row: list[str]) -> None:
    name, written, before, behind = (cell.strip("`") for cell in row)
    params = tomllib.loads(f"params = {written}")["params"]
    channel = _channel(name, params)
    camera = isinstance(channel, CameraSpec)
    spec = ObservationSpec(**{"cameras" if camera else "proprio": (channel,)})
    target = f"{'camera' if camera else 'proprio'}:it"
    chain = AdapterChain([AdapterChoice(name=name, target=target, params=params)], spec, ACTION)
    given, wanted = np.array(json.loads(before)), np.array(json.loads(behind))
    if camera:
        images, _ = chain.observe({"it": np.repeat(given[..., None], 3, axis=2).astype(np.uint8)}, {})
        np.testing.assert_array_equal(images["it"], np.repeat(wanted[..., None], 3, axis=2))
    else:
        _, proprio = chain.observe({}, {"it": given.astype(np.float64)})
        np.testing.assert_allclose(proprio["it"], wanted, atol=PRINTED)


def test_the_numbers_of_the_page_cover_every_adapter_that_makes_some() -> None:
    only_axes = {"color_swap", "layout_swap"}
    assert first_words("adapters.md", "What each makes") >= set(CONVERSIONS) - only_axes


def test_the_adapter_of_its_own_on_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (body,) = blocks(DOCS / "adapters.md", "python")
    (tmp_path / "own_adapter_of_the_page.py").write_text(body, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    suite = load_suite("pick-place")
    choice = AdapterChoice(name="own_adapter_of_the_page:Millimetres", target="proprio:ee_pos")
    chain = AdapterChain([choice], suite.profiles["standard"], suite.action)
    made = {channel.name: channel for channel in chain.observation.proprio}["ee_pos"]
    assert made.unit == "mm"
    _, proprio = chain.observe({}, {"ee_pos": np.array([0.1234, 0.5, -0.25])})
    assert proprio["ee_pos"].tolist() == [123.0, 500.0, -250.0]
