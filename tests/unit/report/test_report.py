from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_campaign import ROLES, full_report_data, lock_document, outcome, outcomes, report_data, strip

from trialplate.claims import wording
from trialplate.claims.sentences import verdict_sentence
from trialplate.record import Outcome
from trialplate.report import Change, Media, Said, build_report, render_report
from trialplate.report.compared import HEADER, comparisons
from trialplate.spec.plan import CostClaim, LeadershipClaim, SuperiorityClaim, ThresholdClaim

VOID_TAGS = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Collects text, addresses and tag balance of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.policy = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.addresses += [str(values[name]) for name in ("src", "href", "poster", "xlink:href") if name in values]
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(values["content"])
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.words))


@cache
def full() -> str:
    return render_report(full_report_data())


@cache
def small() -> str:
    return render_report(report_data(roles={"vla-large": "arm"}, pictures=False))


def only(arm: str, **changes: object) -> tuple[Outcome, ...]:
    return tuple(replace(o, **changes) for o in outcomes() if o.arm == arm)  # type: ignore[arg-type]


def between(html: str, start: str, end: str) -> str:
    return html[html.index(start) : html.index(end, html.index(start))]


def test_the_page_is_well_formed_and_asks_for_nothing_outside_itself() -> None:
    page = Page(full())
    assert all(address.startswith(("data:image/jpeg;base64,", "#")) for address in page.addresses)
    assert not {"script", "link", "iframe", "object", "form"} & set(page.tags)
    assert page.policy.startswith("default-src 'none'")
    assert "url(" not in full() and "@import" not in full()


def test_every_internal_link_leads_somewhere() -> None:
    targets = {address[1:] for address in Page(full()).addresses if address.startswith("#")}
    assert targets and all(f'id="{target}"' in full() for target in targets)


def test_the_same_data_give_the_same_bytes(tmp_path: Path) -> None:
    data = report_data(roles={"vla-small": "arm", "null": "null"})
    first = build_report(data, to=tmp_path / "a.html").read_bytes()
    assert first == build_report(data, to=tmp_path / "b.html").read_bytes()


def test_drawings_take_every_colour_from_the_page() -> None:
    drawings = re.findall(r"<svg xmlns.*?</svg>", full(), re.DOTALL)
    forest, differences, funnels, curves, detectable = 2, 2, len(ROLES), len(ROLES) - 1, 2
    assert len(drawings) == forest + differences + funnels + curves + detectable
    for drawing in drawings:
        colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', drawing))
        assert colours <= {"none", "transparent"} | {c for c in colours if c.startswith("var(--chart-")}
        assert "var(--chart-" in drawing


def test_the_head_shows_counts_rate_and_interval_of_each_arm_under_test_only() -> None:
    arms = between(full(), '<ul class="arms">', "</ul>")
    assert re.findall(r'arm-name">([^<]*)<', arms) == ["vla-small", "vla-large", "diffusion-7"]
    data = full_report_data().analysis.arm("vla-large")
    assert f"{data.rate.k}<span" in arms and f"/{data.rate.n}</span>" in arms
    assert unescape(wording.percent(data.rate.rate or 0.0)) in unescape(arms)


def test_controls_stand_apart_with_what_is_expected_of_them() -> None:
    html = between(full(), '<div class="controls">', "</div>") + "</div>"
    assert re.findall(r'control-name">([^<]*)<', html) == ["null", "random", "oracle"]
    controls = Page(html).text
    assert "null 0/68 must pass none ✓ met" in controls
    assert "oracle 68/68 must pass all ✓ met · privileged" in controls
    assert wording.TEMPLATES["controls_apart"] in controls


def test_an_arm_with_an_errored_episode_shows_a_count_and_no_rate_anywhere() -> None:
    arms = between(full(), '<ul class="arms">', "</ul>")
    card = arms[arms.index("diffusion-7") :]
    assert "no rate" in card and "%" not in card and "3 errored" in card
    assert "diffusion-7 has no success rate" in full()
    row = between(full(), '<th scope="row">diffusion-7', "</tr>")
    assert ">ERROR<" in row and "%" not in row


def test_arms_on_different_profiles_are_warned_about_and_arms_on_one_are_not() -> None:
    assert "Arms do not see the same" in full()
    assert "Arms do not see the same" not in render_report(
        report_data(roles={"vla-small": "arm", "vla-large": "arm"})
    )


def test_a_null_control_that_passes_and_an_oracle_that_fails_are_warned_about() -> None:
    roles = {"null": "null", "oracle": "oracle"}
    lucky = [outcome("null", n, climbed=6 if n == 3 else 0, ordinal=n) for n in range(68)]
    failing = [outcome("oracle", n, climbed=2 if n == 9 else 6, ordinal=100 + n) for n in range(68)]
    html = render_report(report_data([*lucky, *failing], roles=roles, pictures=False))
    text = Page(html).text
    assert "The null control null passed 1 of 68 and must pass none" in text
    assert "The oracle control oracle passed 67 of 68 and must pass all" in text
    assert text.count("✗ not met") == 2


def test_a_development_run_says_that_it_can_support_nothing() -> None:
    data = report_data(roles={"vla-large": "arm"}, pictures=False)
    lock = lock_document({"vla-large": "arm"}, run_class="development")
    assert "registered as development" in render_report(replace(data, lock=lock))


def test_episodes_that_share_families_are_warned_about_with_the_other_interval() -> None:
    grouped = [replace(o, family=f"f-{n % 17:02d}") for n, o in enumerate(only("vla-small"))]
    html = render_report(report_data(grouped, roles={"vla-small": "arm"}, pictures=False))
    assert "Episodes share families" in html and re.search(r"\(Korn-Graubard\): vla-small .* \(17 families\)", html)


def test_every_claim_is_printed_in_its_only_permitted_sentence() -> None:
    text = Page(full()).text
    for claim in full_report_data().claims:
        assert re.sub(r"[ \n]+", " ", claim.sentence) in text
    assert "3 claims were registered: 1 supported, 1 not supported, 1 ineligible." in text


def test_every_comparison_is_printed_in_its_only_permitted_sentence_with_its_numbers_in_a_table() -> None:
    html = between(full(), '<section id="comparisons">', "</section>") + "</section>"
    pairs = full_report_data().analysis.comparisons
    for pair in pairs:
        assert re.sub(r"[ \n]+", " ", verdict_sentence(pair, unit="family")) in Page(html).text
    assert [pair.verdict for pair in pairs][1] == "NOT_COMPARABLE" and "state of diffusion-7: ERROR" in html
    for pair, row in zip(pairs, comparisons(full_report_data())["rows"], strict=True):
        assert len(row["numbers"]) == len(HEADER) and row["numbers"][1] == pair.verdict
        assert all(f"<td>{escape(cell)}</td>" in html for cell in row["numbers"][1:])


def test_a_claim_on_two_arms_shows_what_it_was_decided_by() -> None:
    rules = [
        SuperiorityClaim(name="ahead", kind="superiority", arm="vla-large", against="vla-small"),
        CostClaim(name="cheap", kind="cost_efficiency", arm="vla-large", against="vla-small"),
        LeadershipClaim(name="leads", kind="leadership", arm="vla-large", margin=0.1),
    ]
    data = report_data(rules=rules, comparisons=[("vla-large", "vla-small")], pictures=False)
    html = between(render_report(data), '<section id="claims">', "</section>")
    for label in ("against", "bootstrap, low", "t, high", "competitors", "not cleared", "draws without a ratio"):
        assert f"<dt>{label}</dt>" in html
    assert "registered rate of a claim" not in render_report(data)


def test_one_claim_is_the_verdict_of_the_page() -> None:
    rule = ThresholdClaim(name="x", kind="threshold_rate", arm="vla-large", rate=0.5)
    data = report_data(roles={"vla-large": "arm"}, rules=[rule], blockers=["not_qualified"], pictures=False)
    verdict = Page(between(render_report(data), '<p class="verdict', "</p>") + "</p>").text
    assert "○ ineligible" in verdict and "(not_qualified)" in verdict


def test_a_run_without_claims_says_so_and_leaves_unregistered_sections_out() -> None:
    text = Page(small()).text
    assert wording.TEMPLATES["no_claims"] in text and "Registered comparisons" not in text
    assert re.findall(r"<h2><span>(\d+)</span>", small()) == [str(n) for n in range(1, 12)]


def test_every_slice_cell_holds_its_counts_and_not_only_a_colour() -> None:
    table = between(full(), '<table class="heat">', "</table>")
    cells = re.findall(r'<td class="cell[^"]*"[^>]*>(.*?)</td>', table)
    assert len(cells) == (4 + 16) * len(ROLES)
    assert all(re.search(r">\d+/\d+<", cell) for cell in cells)


def test_failures_are_grouped_by_stage_with_pictures_or_the_reason_for_none() -> None:
    page = Page(full())
    missed = [o for o in outcomes() if o.status != "PASS"]
    pictures = [address for address in page.addresses if address.startswith("data:image/jpeg")]
    assert len(pictures) + page.text.count("No pictures: nothing was recorded.") == len(missed)
    gallery = between(full(), '<section id="failures">', "</section>")
    assert gallery.count('<figure class="card">') == len(missed)
    first = gallery[: gallery.index("vla-large")]
    titles = re.findall(r"at <b>(\w+)</b>", first)
    assert titles == ["reached", "grasped", "lifted", "transported", "released", "stable"]
    assert "policy_exception" in gallery and "shape (7,) expected, got (6,)" in gallery
    assert "<details open" not in gallery


def test_an_arm_that_passed_everything_says_so() -> None:
    assert "Every recorded attempt of oracle passed." in full()


def test_a_video_is_embedded_and_loaded_only_when_asked_for() -> None:
    made = only("vla-small")
    missed = next(o for o in made if o.status != "PASS")
    media = {missed.trial_id: Media(filmstrip_jpeg=strip(0), video_mp4=b"\x00\x00\x00\x18ftyp")}
    html = render_report(report_data(made, roles={"vla-small": "arm"}, media=media))
    assert '<video src="data:video/mp4;base64,AAAAGGZ0eXA=" controls preload="none"' in html


def test_hostile_names_and_notes_are_printed_and_never_run() -> None:
    attack = "<script>alert(1)</script>\"'&\u202egnp.exe\x1b[2J"
    made = only("vla-small", domain=attack, variant=attack, scenario=attack, notes=(attack,))
    made = tuple(replace(o, scenario=f"{attack}{n}", family=str(n)) for n, o in enumerate(made))
    data = report_data(made, roles={"vla-small": "arm"}, pictures=False)
    lock = lock_document({"vla-small": "arm"}, question=attack, name=attack)
    html = render_report(replace(data, lock=lock, identity={attack: attack}))
    page = Page(html)
    assert "script" not in page.tags and "\u202e" not in html and "\x1b" not in html
    assert escape("<script>alert(1)</script>") in html and "[U+202E]gnp.exe[U+001B]" in page.text


def test_a_hostile_arm_name_reaches_no_drawing_unescaped() -> None:
    name = "</text><script>x</script>"
    made = [replace(o, arm=name) for o in only("vla-small")]
    page = Page(render_report(report_data(made, roles={name: "arm"}, pictures=False)))
    assert "script" not in page.tags


def test_the_identity_and_the_limits_are_complete() -> None:
    text = Page(full()).text
    data = full_report_data()
    for digest in (data.lock_sha256, "c" * 64, "d" * 64, "f" * 64, "2" * 64, "cd" * 32, "1" * 64):
        assert digest in text
    assert all(limit in text for limit in wording.LIMITS)
    assert data.suite.scope_note in text and data.suite.instruction in text


def test_the_stages_are_printed_with_the_conditions_of_the_lock() -> None:
    text = Page(full()).text
    assert "finger_object_distance_m ≤ 0.04 m" in text
    assert "not held; goal_offset_m ≤ 0.05 m; object_speed_m_s ≤ 0.02 m/s; for 10 steps" in text
    assert "then kept: goal_offset_m ≤ 0.05 m" in text


def test_an_arm_without_any_episode_is_shown_without_a_rate() -> None:
    html = render_report(report_data([], roles={"vla-small": "arm"}))
    assert "0 initiated" in html and "incomplete_coverage" in html


def test_both_rates_and_the_bounds_stand_on_the_card_of_an_arm_with_errors() -> None:
    data = report_data(roles={"diffusion-7": "arm"}, errors_rule="bounds", pictures=False)
    arm = data.analysis.arms[0]
    assert (arm.counts.measured, arm.counts.valid, arm.counts.errored) == (68, 65, 3)
    card = Page(between(render_report(data), '<ul class="arms">', "</ul>") + "</ul>").text
    share, low, high = 100 * arm.counts.passed / 65, 100 * arm.counts.passed / 68, 100 * (arm.counts.passed + 3) / 68
    assert f"{arm.counts.passed} /68" in card and f"over valid ({arm.counts.passed} of 65)" in card
    assert f"{share:.3g}" in card and "with 3 errored" in card
    assert f"bounds {int(low * 10) / 10}" in card and f"to {-int(-high * 10 // 1) / 10}" in card


def test_the_passport_of_an_arm_tells_what_was_seen_from_what_was_told_and_what_nobody_knows() -> None:
    section = between(full(), '<section id="tested">', "</section>")
    small_arm = between(section, "<h3>vla-small", "</article>")
    assert re.search(r'class="verified"><dt>Checkpoint</dt><dd>vla-small/step-40000', small_arm)
    assert re.search(r'class="told"><dt>Model</dt><dd>example-vla · revision 2026-08', small_arm)
    assert re.search(r'class="unknown"><dt>Policy source</dt><dd>withheld', small_arm)
    assert re.search(r'class="unknown"><dt>Preprocessing</dt><dd>not reported', small_arm)
    assert "ws://127.0.0.1:8000" in small_arm and "<dd>camera:primary</dd>" in small_arm
    large_arm = between(section, "<h3>vla-large", "</article>")
    assert "Role: planner" in large_arm and "example-llm · memory episode" in large_arm
    assert "said by the operator" in large_arm and "said by the operator" not in small_arm


def test_a_conversion_that_is_made_twice_stands_there_twice() -> None:
    arm = between(between(full(), '<section id="tested">', "</section>"), "<h3>diffusion-7", "</article>")
    assert re.findall(r"<li><b>(\w+)</b>", arm) == ["quat_reorder", "quat_reorder", "gripper_affine"]
    assert wording.TEMPLATES["no_adapters"] in between(full(), "<h3>vla-small", "</article>")


def test_calls_rows_and_usage_are_printed_and_what_is_not_metered_is_never_a_zero() -> None:
    section = between(full(), "<h3>Calls and rows</h3>", "</section>")
    conduct = full_report_data().analysis.arm("vla-small").conduct
    assert conduct is not None
    tokens, calls = conduct.usage["input_tokens"].value, f"{conduct.calls:,}".replace(",", "\u202f")
    row = between(section[section.index("What it took") :], '<th scope="row">vla-small', "</tr>")
    assert f"<td>{calls}</td>" in between(section, '<th scope="row">vla-small', "</tr>")
    assert f"{tokens:,}".replace(",", "\u202f") in row and "not reported" in row and "the policy" in row
    other = between(section[section.index("What it took") :], '<th scope="row">vla-large', "</tr>")
    assert other.count("not metered") == 4 and "our client" in other and ">0<" not in other
    assert "38.2\u00a0ms" in row and "1.2\u00a0s" in row


def test_a_leak_and_an_exploratory_identity_are_said_at_the_top_and_at_the_arm() -> None:
    made = [replace(o, identity="exploratory") for o in only("vla-large")]
    made[:2] = [replace(o, blinding="compromised") for o in made[:2]]
    data = report_data(made, roles={"vla-large": "arm"}, pictures=False, exploratory={"vla-large": ["7" * 64]})
    html = render_report(data)
    head = between(html, '<ul class="warnings"', "</ul>")
    assert "disclosed on 2 of 68 attempts" in head and "run under another identity" in head
    assert "compromised on 2 of 68" in html and "7" * 64 in html
    assert "EXPLORATORY: another identity" in between(html, '<ul class="arms"', "</ul>")
    counts = between(html, '<section id="counts"', "</table>")
    assert ">EXPLORATORY<" in counts and "complete<" not in counts
    assert data.analysis.arms[0].counts.initiated == 68  # they stay counted
    assert "leak" not in between(full(), '<ul class="warnings"', "</ul>")


def test_a_number_that_never_changed_is_pointed_out_for_arms_under_test_only() -> None:
    head = between(full(), '<ul class="warnings"', "</ul>")
    assert "diffusion-7: these numbers never changed" in head and "null: these" not in head


def test_what_is_odd_about_several_arms_in_the_same_way_is_said_once() -> None:
    made = [replace(o, arm=arm) for arm in ("one", "two") for o in only("diffusion-7")]
    made = [replace(o, trial_id=f"{n:06d}", family=f"f-{n % 17:02d}") for n, o in enumerate(made)]
    data = report_data(made, roles={"one": "arm", "two": "arm"}, errors_rule="bounds", pictures=False)
    head = between(render_report(data), '<ul class="warnings"', "</ul>")
    assert head.count("share families") == head.count("never changed") == 1 and "one, two: these numbers" in head


def test_a_halted_arm_is_said_to_be_halted_with_the_fault_and_what_it_said() -> None:
    early = [
        replace(
            outcome("vla-large", n, climbed=0, ordinal=n), reason="policy_exception", termination="fault",
            control_steps=0, notes=("no layer <head>",),
        )
        for n in range(3)
    ]  # fmt: skip
    leaked = ("no layer <head>", "blinding: compromised; a label named the task")
    early[0] = replace(early[0], blinding="compromised", notes=leaked)
    html = render_report(report_data(early, roles={"vla-large": "arm"}, pictures=False))
    head = Page(between(html, '<ul class="warnings"', "</ul>") + "</ul>").text
    assert "vla-large was halted: its first three trials all ended with policy_exception before any control" in head
    assert "The first one said: no layer <head>" in head
    assert "by <b>policy_exception</b>" in html and "at <b>reached</b>" not in html


def test_a_leak_on_an_attempt_that_passed_is_told_with_what_could_be_read() -> None:
    made = list(only("vla-large"))
    passed = next(n for n, o in enumerate(made) if o.status == "PASS")
    note = "blinding: compromised; the task <name> stood in a label"
    made[passed] = replace(made[passed], blinding="compromised", notes=(note,))
    html = render_report(report_data(made, roles={"vla-large": "arm"}, pictures=False))
    assert f"<li>vla-large, trial {made[passed].trial_id}: the task &lt;name&gt; stood in a label</li>" in html
    assert "<h3>Leaks</h3>" in html and "<h3>Leaks</h3>" not in full()


def test_an_arm_that_was_asked_elsewhere_than_locked_says_where() -> None:
    data = report_data(roles={"vla-small": "arm"}, pictures=False)
    html = render_report(replace(data, addresses={"vla-small": ["ws://10.0.0.9:8000"]}))
    assert "In this run it was asked at ws://10.0.0.9:8000." in html


def test_a_change_of_practice_is_told_with_its_first_attempt() -> None:
    change = Change(first_attempt="000040-0", change="another lamp", at="2026-09-26T09:15:00.000000Z")
    html = render_report(report_data(roles={"vla-large": "arm"}, pictures=False, changes=(change,)))
    assert "From attempt 000040-0 on: another lamp (2026-09-26T09:15:00.000000Z)" in html


def test_every_amendment_is_printed_with_when_and_why_and_what_it_says_stays_in_quotation_marks() -> None:
    said = Said(
        n=1, kind="text_correction", at="2026-09-26T09:15:00.000000Z", attempts_seen=12, reason="a typing error.",
        text="<b>supported</b>",
    )  # fmt: skip
    html = render_report(report_data(roles={"vla-large": "arm"}, pictures=False, amendments=(said,)))
    expected = (
        "Amendment 1, text correction, written 2026-09-26 09:15:00 UTC after 12 attempts, because: a typing error."
        " It says: “&lt;b&gt;supported&lt;/b&gt;”"
    )
    assert expected in html and "No amendment changes a rule" in html
    assert "Amendment" not in render_report(report_data(roles={"vla-large": "arm"}, pictures=False))


def test_the_plan_is_named_unless_it_is_of_the_readers_own_making() -> None:
    data = report_data(roles={"vla-large": "arm"}, pictures=False)
    suite = data.lock["protocol"]["suite"]
    lock = lock_document({"vla-large": "arm"}, suite=suite | {"plan": "full"})
    assert "<dt>Plan</dt><dd>full</dd>" in render_report(replace(data, lock=lock))
    assert "<dt>Plan</dt>" not in full()


@pytest.mark.parametrize("word", ["best", "significant", "proves", "equal", "outperforms", "better", "winner"])
def test_no_label_of_a_template_says_what_no_number_licenses(word: str) -> None:
    folder = Path(sys.modules["trialplate.report"].__file__ or "").parent
    files = [*folder.glob("templates/*.html"), *folder.glob("*.py")]
    assert len(files) > 6
    assert [f.name for f in files if re.search(rf"\b{word}\b", f.read_text(encoding="utf-8"), re.IGNORECASE)] == []


def test_importing_the_report_loads_no_drawing_library_and_no_simulator() -> None:
    code = (
        "import sys, trialplate.report; heavy = {'altair', 'vl_convert', 'mujoco', 'mink'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
