"""A verdict or a claim that was edited in a sealed bundle, every digest recomputed, is not reproduced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sealed import PROTOCOL, edit, make_campaign, reseal, write
from trialplate import exam, sealing
from trialplate.canonical import canonical_json

KINDS = {"superiority": "", "non_inferiority": "margin = 0.2\n", "cost_efficiency": "", "time_efficiency": ""}
PLAN = """
[analysis]
errors = "bounds"
comparisons = [["scripted", "mine"]]
registered_effect = 0.3
registered_discordance = 0.4
"""
CLAIM = """
[[claims]]
name = "{name}"
kind = "{kind}"
arm = "scripted"
against = "mine"
{more}"""
TABLES = PROTOCOL.replace('"confirmatory"', '"development"').replace("\n[fault_table]", f"{PLAN}\n[fault_table]")
COMPARED = TABLES + "".join(
    CLAIM.format(name=kind.replace("_", "-"), kind=kind, more=more) for kind, more in KINDS.items()
)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms compared over six families, four claims on them, sealed."""
    folder = tmp_path_factory.mktemp("compared")
    return sealing.seal(make_campaign(folder, protocol=COMPARED), folder / "bundles").path


@pytest.fixture
def bundle(sealed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sealed, tmp_path / sealed.name))


def codes(folder: Path) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in exam.verify(folder).findings if finding.exit_code != 3]


def read(bundle: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((bundle / name).read_bytes())
    return document


def test_the_sealed_analysis_holds_verdict_draws_and_what_could_have_been_found(sealed: Path) -> None:
    analysis = read(sealed, "analysis.json")
    (pair,) = analysis["comparisons"]
    assert (pair["verdict"], pair["underpowered"]) == ("NOT_DISTINGUISHED", True)
    assert set(pair["not_better"]) == {"few_families", "incomplete_coverage", "missing_data"}
    assert pair["families"]["p_value"] is not None and pair["detection"]["effect"] == 0.3
    assert analysis["resampling"]["families"] == 6 and len(analysis["resampling"]["sha256_int64_le"]) == 64
    claims = read(sealed, "claims.json")["claims"]
    assert [claim["verdict"] for claim in claims] == ["ineligible"] * 5
    assert [claim["kind"] for claim in claims[1:]] == list(KINDS)
    assert codes(sealed) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["comparisons"][0].update(verdict="BETTER"),
        lambda d: d["comparisons"][0].update(underpowered=False),
        lambda d: d["comparisons"][0].update(not_better=[]),
        lambda d: d["comparisons"][0]["families"].update(low=0.01),
        lambda d: d["comparisons"][0]["families"].update(p_value=0.01),
        lambda d: d["comparisons"][0]["families"].update(families=12),
        lambda d: d["comparisons"][0]["detection"].update(power=0.99),
        lambda d: d["comparisons"][0].update(unmatched=0, errored=0),
        lambda d: d["resampling"].update(seed=7),
        lambda d: d["resampling"].update(sha256_int64_le="ab" * 32),
        lambda d: d["plan"].update(draws=4000),
        lambda d: d.update(comparisons=[]),
    ],
    ids=["verdict", "flag", "reasons", "bound", "p", "families", "power", "pairs", "seed", "stream", "plan", "none"],
)
def test_an_edited_comparison_is_not_reproduced(bundle: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    edit(bundle / "analysis.json", lambda document: change(document) and None)
    assert ("analysis_not_reproduced", "analysis.json") in codes(reseal(bundle))


@pytest.mark.parametrize("claim", range(1, 5))
@pytest.mark.parametrize("member", ["verdict", "sentence", "reasons", "numbers"])
def test_an_edited_claim_is_not_reproduced(bundle: Path, claim: int, member: str) -> None:
    document = read(bundle, "claims.json")
    said = document["claims"][claim]
    if member == "verdict":
        said["verdict"] = "supported"
    elif member == "sentence":
        said["sentence"] = said["sentence"].replace("Ineligible: whether", "Supported:")
    elif member == "reasons":
        said["reasons"] = said["reasons"][1:]
    else:
        said["numbers"]["families"] = 60
    write(bundle / "claims.json", canonical_json(document))
    assert codes(reseal(bundle)) == [("claims_not_reproduced", "claims.json")]


def test_a_blocker_that_the_evidence_gives_cannot_be_left_out(bundle: Path) -> None:
    edit(bundle / "claims.json", lambda d: d["blockers"].remove("not_confirmatory"))
    assert codes(reseal(bundle)) == [("claims_not_reproduced", "claims.json")]
