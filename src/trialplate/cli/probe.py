"""The command group ``trialplate probe``: hold what a world sends against what it declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from trialplate.cli.output import NO, YES, emit, plain, table
from trialplate.errors import HarnessFault, TrialplateError, UsageError, nearest

if TYPE_CHECKING:
    from trialplate.interfaces import Suite
    from trialplate.policies.probing import Finding
    from trialplate.spec.protocol import Protocol

Json = Annotated[bool, Parameter(name="--json", negative="")]


def register(app: App) -> None:
    """Add this group's commands."""
    group = App(name="probe", help="Hold what a world sends against what it declares.")
    group.command(env)
    app.command(group)


def env(protocol: Path, /, *, profile: str | None = None, scenario: str | None = None, json: Json = False) -> int:
    """Put the world of a protocol into known states: a hand pose, an open and a closed gripper, a colour card.

    Exits with 1 when a channel contradicts its declaration, and when one with a convention could not be probed.

    Parameters
    ----------
    protocol
        The protocol file (TOML).
    profile
        Only this observation profile; by default every profile that an arm uses.
    scenario
        The scenario whose world is probed; by default the first of the protocol.
    json
        Print one JSON document.
    """
    from trialplate import api
    from trialplate.registry import load_suite

    checked = api.load_protocol(protocol).protocol
    suite = load_suite(checked.suite.name)
    found = {
        name: _probed(checked, suite, profile=name, scenario=scenario) for name in _profiles(checked, suite, profile)
    }
    good = all(finding.verdict == "agrees" for findings in found.values() for finding in findings)

    def text() -> None:
        for name, findings in found.items():
            rows = [(f.channel, f.probe, f.declared, f.verdict, f.detail) for f in findings]
            table(f"{suite.name}, profile {name}", ("channel", "probe", "declared", "verdict", "seen"), rows)
        for line in _verdicts(found):
            print(plain(line))

    profiles = {name: [finding.document() for finding in findings] for name, findings in found.items()}
    emit({"suite": suite.name, "agrees": good, "profiles": profiles}, as_json=json, text=text)
    return YES if good else NO


def _verdicts(found: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """Say what the findings mean, and what to do about those that are not as they should be."""
    every = [finding for findings in found.values() for finding in findings]
    wrong = dict.fromkeys(finding.channel for finding in every if finding.verdict == "contradicts")
    open_ = dict.fromkeys(finding.channel for finding in every if finding.verdict == "not probed")
    if wrong:
        yield (
            f"NOT AS DECLARED: {', '.join(wrong)}. Every policy would be told wrongly what these numbers mean, and "
            "no adapter can know it: correct the declaration in the suite's profile, or what the world sends, and "
            "raise the suite's version."
        )
    if open_:
        yield f"NOT PROBED: {', '.join(open_)}. Nothing is known about these; they may be right or wrong."
    if not wrong and not open_:
        yield "what is sent is what is declared"


def _profiles(protocol: Protocol, suite: Suite, profile: str | None) -> list[str]:
    from trialplate.lock import arm_place

    if profile is None:
        return list(dict.fromkeys(arm_place(arm, suite)[1] for arm in protocol.arms))
    if profile not in suite.profiles:
        raise UsageError(f"suite {suite.name} has no profile {profile!r}{nearest(profile, suite.profiles)}")
    return [profile]


def _probed(protocol: Protocol, suite: Suite, *, profile: str, scenario: str | None) -> list[Finding]:
    from trialplate.admission import select_scenarios
    from trialplate.policies.probing import probe_environment
    from trialplate.registry import load_attribute

    selected = {item.id: item for item in select_scenarios(protocol, suite)}
    name = next(iter(selected)) if scenario is None else scenario
    if name not in selected:
        raise UsageError(f"the protocol has no scenario {name!r}{nearest(name, selected)}", code="unknown_scenario")
    world = load_attribute(suite.environment)(body=protocol.suite.body, profile=profile)
    try:
        world.reset(selected[name], seed=0)
        return probe_environment(world, suite.profiles[profile])
    except TrialplateError:
        raise
    except Exception as error:  # the world's own: it is told, with its name, as the run would record it
        message = f"the world of {name!r} failed while it was probed: {type(error).__name__}: {error}"
        raise HarnessFault(message, code="simulator_crash") from error
    finally:
        world.close()
