"""Counts that people type, without a campaign: golden numbers, refusals that name the argument, 80 columns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from trialplate.cli import main
from trialplate.cli.typed_counts import is_typed
from trialplate.stats import boschloo_detectable_difference, boschloo_power, mcnemar_detectable_difference

EXAMPLE = Path(__file__).parents[3] / "examples" / "pick_place" / "protocol.toml"
Capture = pytest.CaptureFixture[str]


def ask(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, told.out, told.err


def document(capsys: Capture, *arguments: str) -> dict[str, Any]:
    _, out, _ = ask(capsys, *arguments, "--json")
    found: dict[str, Any] = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} in a document"))
    return found


def ends(found: dict[str, Any], method: str, sides: str = "two-sided") -> list[float]:
    one = next(i for i in found["intervals"] if i["method"] == method and i["sides"] == sides)
    return [one["low"], one["high"]]


# -- numbers ---------------------------------------------------------------------------------------------------


def test_one_rate_has_the_published_intervals_each_with_its_name(capsys: Capture) -> None:
    found = document(capsys, "interval", "80/100")
    assert (found["k"], found["n"], found["rate"], found["schema"]) == (80, 100, 0.8, "trialplate.interval/1")
    assert ends(found, "Wilson") == pytest.approx([0.7111708344, 0.8666330667], abs=1e-10)
    assert ends(found, "confidence sequence") == pytest.approx([0.651792, 0.907231], abs=1e-6)
    assert [i["role"] for i in found["intervals"]] == ["headline", "gate", "gate", "beside", "live"]
    assert ends(found, "Clopper-Pearson", "lower")[1] == 1.0
    assert ends(found, "Clopper-Pearson", "lower")[0] > ends(found, "Clopper-Pearson")[0]


def test_two_independent_arms_have_the_published_interval_and_the_exact_test_decides(capsys: Capture) -> None:
    found = document(capsys, "compare", "56/70", "48/80")
    assert ends(found, "Miettinen-Nurminen") == pytest.approx([0.0528, 0.3382], abs=5e-5)
    assert found["verdict"] == "BETTER" and found["p_value"] <= 0.05
    assert document(capsys, "compare", "48/80", "56/70")["verdict"] == "WORSE"
    assert [i["role"] for i in found["intervals"]] == ["headline", "beside"]


def test_what_is_not_distinguished_is_told_with_what_could_have_been_found(capsys: Capture) -> None:
    _, out, _ = ask(capsys, "compare", "17/20", "14/20", "--effect", "0.15", "--power", "0.8")
    found = document(capsys, "compare", "17/20", "14/20", "--effect", "0.15", "--power", "0.8")
    assert out.startswith("NOT_DISTINGUISHED: A passed 17 of 20, B 14 of 20.") and "no sign that" in out
    assert (
        found["underpowered"] is True and found["power"]["value"] == boschloo_power(20, 0.575, n2=20, p2=0.425).value
    )
    assert found["needed"] == {"value": 176, "method": "Boschloo, exact power", "reason": None}
    assert found["detectable"]["value"] == boschloo_detectable_difference(20, 20).value
    assert document(capsys, "compare", "17/20", "14/20")["underpowered"] is None


def test_the_power_does_not_depend_on_what_was_observed(capsys: Capture) -> None:
    one = document(capsys, "compare", "17/20", "14/20", "--effect", "0.3", "--baseline", "0.5")
    other = document(capsys, "compare", "11/20", "11/20", "--effect", "0.3", "--baseline", "0.5")
    for key in ("power", "needed", "detectable"):
        assert one[key] == other[key]


def test_pairs_are_decided_by_the_exact_test_though_the_interval_says_otherwise(capsys: Capture) -> None:
    _, out, _ = ask(capsys, "compare", "--paired", "12,4,100")
    found = document(capsys, "compare", "--paired", "12,4,100")
    assert found["verdict"] == "NOT_DISTINGUISHED" and found["p_value"] == pytest.approx(0.0768, abs=5e-5)
    assert ends(found, "Tango")[0] > 0 and "The test decides." in out
    assert found["planning_discordance"] == 0.16
    assert document(capsys, "compare", "--paired", "12,2,100")["verdict"] == "BETTER"


def test_pairs_that_never_differ_leave_a_width_and_no_idea_of_what_could_be_found(capsys: Capture) -> None:
    _, out, _ = ask(capsys, "compare", "--paired", "0,0,100")
    assert "−3.7 to +3.7" in out and "give --discordance" in " ".join(out.split())
    found = document(capsys, "compare", "--paired", "0,0,100", "--discordance", "0.2", "--effect", "0.1")
    assert (
        found["needed"]["value"] == 168
        and found["detectable"]["value"] == mcnemar_detectable_difference(100, 0.2).value
    )


def test_clusters_are_read_from_the_line_and_from_a_file_alike(capsys: Capture, tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("cluster,k,n\nkitchen,8,10\nlab,9,10\n\nhall, 7 ,10\n", encoding="utf-8")
    typed = document(capsys, "interval", "--clusters", "8/10, 9/10,7/10")
    assert document(capsys, "interval", "--clusters", str(table)) == typed
    assert typed["flags"] == ["few_clusters"] and typed["clusters"] == 3
    assert typed["question"] == "clustered_rate"


def test_clusters_that_all_pass_count_as_the_episodes(capsys: Capture) -> None:
    found = document(capsys, "interval", "--clusters", ",".join(["10/10"] * 8))
    assert ends(found, "Wilson, effective n, t") == pytest.approx([0.5886054295, 1.0], abs=1e-10)
    assert found["reason"] == "no_between_cluster_variation" and found["deff"] is None


def test_a_single_cluster_has_no_interval_and_the_answer_is_no(capsys: Capture) -> None:
    code, out, _ = ask(capsys, "interval", "--clusters", "8/10")
    assert code == 1 and "no interval" in out and "single_cluster" in out


def test_incidents_have_garwoods_interval(capsys: Capture) -> None:
    found = document(capsys, "interval", "--events", "3", "--hours", "12.5")
    low, high = scipy.stats.chi2.ppf([0.025, 0.975], [6, 8]) / 25.0
    assert ends(found, "Garwood") == pytest.approx([low, high], abs=1e-12)
    assert found["per_hour"] == 0.24


def test_no_verdict_is_given_where_the_exact_test_is_not_computed(capsys: Capture) -> None:
    code, out, _ = ask(capsys, "compare", "6000/10000", "5000/10000")
    found = document(capsys, "compare", "6000/10000", "5000/10000")
    assert code == 0 and out.startswith("No verdict:")
    assert found["verdict"] is None and found["p_value"] is None and found["reason"] == "out_of_reach"


def test_looks_that_do_not_keep_their_error_rate_are_said_to_be_such(capsys: Capture) -> None:
    few = document(capsys, "plan", "--pairs", "0.05,0.95", "--looks", "5")
    many = document(capsys, "plan", "--pairs", "0.15,0.05", "--looks", "3")
    for found, over in ((few, True), (many, False)):
        assert any(rule["error"] is not None and rule["error"] > 0.05 for rule in found["rules"]) == over
        assert any("do not keep their error rate" in note for note in found["notes"]) == over


def test_a_protocol_is_told_what_each_of_its_claims_can_find(capsys: Capture) -> None:
    code, out, err = ask(capsys, "plan", str(EXAMPLE))
    found = document(capsys, "plan", str(EXAMPLE))
    assert code == 0 and err == "" and max(map(len, out.splitlines())) <= 80
    named = [claim["name"] for claim in found["claims"]]
    assert named == ["learned-long-half", "learned-short-half", "long-ahead-of-short"]
    assert found["question"] == "protocol" and found["episodes_each"] == 68


# -- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("interval", "17/0"), "PASSED: no episode in '17/0'"),
        (("interval", "0/0"), "PASSED: no episode"),
        (("interval", "21/20"), "PASSED: 21 passed of 20"),
        (("interval", "17 of 20"), "PASSED: expected passes/episodes"),
        (("interval", "-1/20"), "-1/20"),
        (("interval", "nan/20"), "PASSED: expected passes/episodes"),
        (("interval", "1.5/20"), "PASSED: expected passes/episodes"),
        (("interval", "17/20/30"), "PASSED: expected passes/episodes"),
        (("interval", "1/" + "9" * 30), "PASSED: expected 0 to 9007199254740991"),
        (("interval", "1/" + "9" * 300), "PASSED: expected passes/episodes"),
        (("interval", "٣/٤"), "PASSED: expected passes/episodes"),
        (("interval",), "interval: expected one of"),
        (("interval", "8/10", "--clusters", "8/10"), "more than one"),
        (("interval", "--events", "3"), "--events and --hours go together"),
        (("interval", "--events", "-3", "--hours", "2"), "--events: expected 0 to"),
        (("interval", "--events", "3", "--hours", "0"), "--hours: expected 1e-06 to 1e+12"),
        (("interval", "--events", "3", "--hours", "nan"), "--hours"),
        (("interval", "--events", "3", "--hours", "inf"), "--hours"),
        (("interval", "80/100", "--confidence", "95"), "between 0.5 and 1, got 95.0; write 0.95"),
        (("interval", "80/100", "--confidence", "nan"), "--confidence"),
        (("interval", "--clusters", "8/10,11/10"), "--clusters, cluster 2: 11 passed of 10"),
        (("interval", "--clusters", ""), "--clusters, cluster 1: expected passes/episodes"),
        (("interval", "--clusters", "nowhere.csv"), "--clusters: no file nowhere.csv"),
        (("compare",), "compare: expected two campaign folders or more, or two counts"),
        (("compare", "17/20"), "compare: expected two counts, got 1"),
        (("compare", "17/20", "1/2", "1/3"), "compare: expected two counts, got 3"),
        (("compare", "17/20", "elsewhere"), "do not mix; 'elsewhere' is no count"),
        (("compare", "17 of 20", "3/4"), "A: expected passes/episodes"),
        (("compare", "17/20", "15/14"), "B: 15 passed of 14"),
        (("compare", "17/20", "14/20", "--effect", "15"), "--effect: expected a share between 0 and 1, got 15"),
        (("compare", "17/20", "14/20", "--effect", "0.5", "--baseline", "0.7"), "--effect: 0.5 above a baseline"),
        (("compare", "17/20", "14/20", "--discordance", "0.5"), "--discordance goes with --paired"),
        (("compare", "17/20", "14/20", "--power", "nan"), "--power"),
        (("compare", "--paired", "12,4"), "--paired: expected B,C,N"),
        (("compare", "--paired", "60,50,100"), "--paired: 60 + 50 pairs differ"),
        (("compare", "--paired", "0,0,0"), "--paired: no pair"),
        (("compare", "--paired", "12,4,100", "--baseline", "0.5"), "--baseline goes with independent counts"),
        (("compare", "--paired", "12,4,100", "--effect", "0.3", "--discordance", "0.2"), "--discordance: expected"),
        (("compare", "1/2", "1/3", "--paired", "1,2,3"), "--paired stands alone"),
        (("compare", "one", "other", "--effect", "0.1"), "--effect is for counts"),
        (("plan",), "got none of them"),
        (("plan", "--rates", "0.8,0.7", "--pairs", "0.1,0.2"), "got --rates and --pairs"),
        (("plan", "--rates", "0.8"), "--rates: expected P1,P2"),
        (("plan", "--rates", "0.8,x"), "--rates: P2 is no number"),
        (("plan", "--rates", "0.8,nan"), "--rates, P2: expected a share from 0 to 1"),
        (("plan", "--rates", "80,70"), "--rates, P1: expected a share from 0 to 1, got 80.0; write 0.15"),
        (("plan", "--pairs", "0.8,0.7"), "--pairs: p10: p10 + p01"),
        (("plan", "--margin", "0.03"), "--discordance: missing"),
        (("plan", "--demonstrate", "1"), "--demonstrate: expected a share between 0 and 1"),
        (("plan", "--demonstrate", "0.9", "--looks", "3"), "--looks: it has no use with --demonstrate"),
        (("plan", "--families", "10"), "--with-success: expected 0 to 10"),
        (("plan", "--families", "0", "--with-success", "0"), "--families: expected at least 1"),
        (("plan", "--families", "10", "--with-success", "3", "--power", "0.9"), "--power: it has no use"),
        (("plan", "--episodes", "0"), "--episodes: expected 1 to"),
        (("plan", "--pairs", "0.2,0.1", "--episodes", "30000"), "--episodes: expected 1 to 20000"),
        (("plan", "--pairs", "0.2,0.1", "--looks", "0"), "--pairs: looks:"),
        (("plan", "--episodes", "70", "--deff", "0.5"), "--deff: expected a design effect"),
        (("plan", "--episodes", "70", "--baseline", "0.5", "--discordance", "0.2"), "--baseline is for"),
        (("plan", "--demonstrate", "0.9", "--episodes", "68", "--deff", "2"), "--demonstrate: deff:"),
        (("plan", "nowhere.toml"), "no protocol at nowhere.toml"),
        (("plan", "nowhere.toml", "--power", "0.9"), "--power: a protocol registers its own"),
    ],
    ids=lambda part: " ".join(part)[:60] if isinstance(part, tuple) else None,
)  # fmt: skip
def test_what_is_no_count_or_no_question_is_refused_by_name(
    arguments: tuple[str, ...], says: str, capsys: Capture
) -> None:
    code, out, err = ask(capsys, *arguments)
    assert code == 2 and out == "" and "Traceback" not in err
    assert says in err, err


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("k,n\n8,10\n12,10\n", "line 3 of"),
        ("passed,of\n8,10\n", "expected columns k and n"),
        ("cluster,k,n\na,8,10\na,9,10\n", "cluster 'a' stands twice"),
        ("k,n\n8\n", "expected columns k and n"),
        ("k,n\n", "no cluster in"),
        ("k,n\n8,x\n", "expected passes/episodes"),
    ],
)
def test_a_table_of_clusters_is_refused_at_its_line(table: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text(table, encoding="utf-8")
    code, _, err = ask(capsys, "interval", "--clusters", str(path))
    assert code == 2 and says in err


def test_a_folder_that_is_named_like_a_count_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_typed("17/20") and is_typed("21/20") and is_typed("nan/3") and not is_typed("campaigns/20")
    (tmp_path / "17" / "20").mkdir(parents=True)
    assert not is_typed("17/20")


def test_a_refusal_is_one_document_with_json(capsys: Capture) -> None:
    _, out, _ = ask(capsys, "interval", "21/20", "--json")
    assert json.loads(out)["error"] == "usage"


# -- what is printed -------------------------------------------------------------------------------------------

EVERY_QUESTION = (
    ("interval", "80/100"),
    ("interval", "--clusters", "8/10,9/10,7/10"),
    ("interval", "--events", "0", "--hours", "1000"),
    ("compare", "123456/654321", "654/98765"),
    ("compare", "17/20", "14/20", "--effect", "0.15", "--baseline", "0.7"),
    ("compare", "--paired", "120,40,10000", "--effect", "0.001"),
    ("plan", "--rates", "0.85,0.7", "--episodes", "100"),
    ("plan", "--rates", "0.5001,0.5"),
    ("plan", "--pairs", "0.15,0.05", "--looks", "3", "--episodes", "150", "--deff", "1.5"),
    ("plan", "--margin", "0.1", "--discordance", "0.1", "--episodes", "100"),
    ("plan", "--demonstrate", "0.9999"),
    ("plan", "--demonstrate", "0.95", "--episodes", "1000"),
    ("plan", "--episodes", "70"),
    ("plan", "--episodes", "1000000"),
    ("plan", "--families", "10", "--with-success", "10", "--draws", "10000"),
)


@pytest.mark.parametrize("arguments", EVERY_QUESTION, ids=" ".join)
def test_every_answer_fits_in_80_columns_and_begins_with_a_sentence(
    arguments: tuple[str, ...], capsys: Capture
) -> None:
    code, out, err = ask(capsys, *arguments)
    lines = out.splitlines()
    assert code in (0, 1) and err == ""
    assert max(map(len, lines)) <= 80
    assert out.split("\n\n")[0].rstrip().endswith(".")
    assert "  " in lines[lines.index("") + 1]


@pytest.mark.parametrize("arguments", EVERY_QUESTION, ids=" ".join)
def test_every_answer_is_a_document_without_nan(arguments: tuple[str, ...], capsys: Capture) -> None:
    found = document(capsys, *arguments)
    assert found["schema"].startswith("trialplate.") and found["sentence"] and found["notes"]
    for interval in found.get("intervals", []):
        assert interval["method"] and (interval["low"] is None) == (interval["reason"] is not None)


def test_scipy_stats_is_never_loaded_and_rich_is_not_needed() -> None:
    script = (
        "import sys\nfrom trialplate.cli import main\n"
        "for line in ('interval 80/100', 'compare 17/20 14/20', 'plan --demonstrate 0.95'):\n"
        "    try: main(line.split())\n    except SystemExit as end: assert not end.code\n"
        "print(*[name for name in ('scipy.stats', 'scipy.optimize', 'rich.table', 'pyarrow', 'mujoco')"
        " if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []
