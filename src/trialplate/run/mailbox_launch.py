"""Launch a run whose actors are reached through mailboxes: nothing starts while anything they can read would tell.

Source: policy contract, sections 4.4 and 7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trialplate.errors import HarnessFault, LockError, UsageError, nearest
from trialplate.interfaces import Actor, Suite
from trialplate.lock import Lock
from trialplate.policies.adapters.chain import AdapterChain
from trialplate.policies.mailbox.actor import MailboxActor
from trialplate.policies.mailbox.folder import OPAQUE
from trialplate.policies.mailbox.instructions import Instructions, render_instructions, template_text
from trialplate.policies.mailbox.lint import identifying_names, lint_actor, lint_name
from trialplate.policies.mailbox.orphans import end_orphans
from trialplate.policies.setting import ActorSetting
from trialplate.registry import load_suite
from trialplate.run.attempt import Recording
from trialplate.run.campaign import Attachment, Note, RunReport, run_campaign
from trialplate.spec.channels import ActionSpec, ObservationSpec, PolicySpec
from trialplate.spec.protocol import ArmChoice
from trialplate.spec.schemes import scheme_of
from trialplate.store.disclosing import MAILBOX_EVENT


@dataclass(frozen=True, slots=True)
class Opened:
    """A mailbox that waits for its actor, and the text that this actor is to be given, word by word."""

    folder: Path
    instructions: Instructions


def run_mailboxes(
    lock: Lock,
    folder: Path,
    *,
    root: Path,
    name: str,
    host: str = "localhost",
    arms: Collection[str] = (),
    resume: bool = False,
    recording: Recording = "detailed",
    opened: Callable[[Opened], None] = lambda _: None,
    broke: Callable[[HarnessFault], None] = lambda _: None,
) -> RunReport:
    """Run the arms of a lock that come through mailboxes; ``opened`` is told of each mailbox when it is ready.

    ``arms``: only these, all by default. ``broke`` is told why the run stopped when no further mailbox can be
    expected to work: the attempt in hand has ended with that fault, and no other was started for it.

    Before anything runs it raises UsageError: ``actor_label_leak``, ``actor_example_refused``, ``no_such_arm``, or
    ``mailbox_root_used`` for a root that holds anything else; then what ``run_campaign`` raises.
    """
    place = root.absolute()
    actions = actor_actions(lock)
    for wanted in arms:
        if wanted not in actions:
            raise UsageError(f"no mailbox arm {wanted!r}{nearest(wanted, actions)}", code="no_such_arm")
    refuse_leaks(lock, root=place, name=name, host=host)
    _refuse_beside(place, folder)
    _refuse_used(place, resume=resume)
    if resume:
        end_orphans(place)
    seats: list[MailboxActor] = []
    notes: list[Note] = []

    def seat(setting: ActorSetting) -> Actor:
        def announce(mailbox: Path) -> Mapping[str, str]:
            text = render_instructions(actions[setting.arm], host=host, mailbox=str(mailbox))
            told = {"name": name, **{key: value for key, value in text.document().items() if key != "mailbox"}}
            for note in notes:  # a run that is killed leaves no row that could name it
                note(MAILBOX_EVENT, {"mailbox": mailbox.name, **told})
            opened(Opened(mailbox, text))
            return told

        seats.append(MailboxActor(place, setting, announce=announce))
        return seats[-1]

    def broken() -> HarnessFault | None:
        return next((actor.broken for actor in seats if actor.broken is not None), None)

    chosen = frozenset(arms) or None
    attachment = Attachment({"mailbox": seat}, gate=lambda trial: broken() is None, arms=chosen, begun=notes.append)
    report = run_campaign(lock, folder, resume=resume, recording=recording, attachment=attachment)
    if (fault := broken()) is not None:
        broke(fault)
    return report


def actor_actions(lock: Lock) -> dict[str, ActionSpec]:
    """Return the action specification of every mailbox arm, as its actor sees it. Raises LockError without any."""
    suite = load_suite(lock.document["suite"]["name"])
    found = {arm["name"]: _action(arm, suite) for arm in _mailbox_arms(lock)}
    if not found:
        raise LockError(
            'no arm of this lock is attached as a mailbox: expected an arm with policy = "mailbox"',
            code="no_such_arm",
        )
    return found


def actor_text(lock: Lock, *, host: str, mailbox: str, arm: str | None = None) -> Instructions:
    """Return the text for the actor of a mailbox arm, linted. ``arm`` may be left out where all read the same."""
    actions = actor_actions(lock)
    if arm is not None and arm not in actions:
        raise UsageError(f"no mailbox arm {arm!r}{nearest(arm, actions)}")
    if arm is None and len({action.sha256() for action in actions.values()}) > 1:
        raise UsageError(f"the mailbox arms take different actions: name one of {', '.join(sorted(actions))}")
    text = render_instructions(actions[arm or min(actions)], host=host, mailbox=mailbox)
    forbidden = _forbidden(lock)
    for what, said in (("the host", host), ("the mailbox", mailbox), ("the actor's text", text.text)):
        lint_actor(said, what=what, forbidden=forbidden, known=template_text())
    return text


def refuse_leaks(lock: Lock, *, root: Path, name: str, host: str) -> None:
    """Refuse a launch that would tell an actor what it is part of (``actor_label_leak``)."""
    forbidden, known = _forbidden(lock), template_text()
    lint_name(name, forbidden=forbidden)
    lint_actor(host, what="the host", forbidden=forbidden, known=known)
    for place in dict.fromkeys((str(root), str(root.resolve()))):
        lint_actor(place, what="the root of the mailboxes", forbidden=forbidden, known=known)
    for arm in _mailbox_arms(lock):
        actor_text(lock, host=host, mailbox=str(root / ("0" * 32)), arm=arm["name"])
        declared = PolicySpec.model_validate_json(json.dumps(arm["declares"]))
        for channel, meaning in _meanings(declared.expects, actor_actions(lock)[arm["name"]]).items():
            lint_actor(meaning, what=f"the meaning of {channel!r}", forbidden=forbidden, known=known)


def _mailbox_arms(lock: Lock) -> list[Mapping[str, Any]]:
    return [arm for arm in lock.document["arms"] if scheme_of(arm["policy"]) == "mailbox"]


def _action(arm: Mapping[str, Any], suite: Suite) -> ActionSpec:
    choice = ArmChoice.model_validate_json(json.dumps(arm["choice"]))
    return AdapterChain(choice.adapters, suite.profiles[arm["profile"]], suite.action).action


def _forbidden(lock: Lock) -> frozenset[str]:
    return identifying_names(lock.document, lock.sha256, load_suite(lock.document["suite"]["name"]))


def _meanings(observation: ObservationSpec, action: ActionSpec) -> dict[str, str]:
    """Return the free words of the specifications that an actor reads: channel or component -> its meaning."""
    said = [(channel.name, channel.meaning) for channel in observation.proprio]
    said += [(component.name, component.meaning) for component in action.components]
    return {name: meaning for name, meaning in said if meaning}


def _refuse_beside(root: Path, campaign: Path) -> None:
    """An actor may look around in its root and above: no evidence lies there, and no mailbox lies in the evidence."""
    one, other = root.resolve(), campaign.resolve()
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise UsageError(
            f"the root {root} and the campaign {campaign} lie one in the other: an actor could read there. Choose a "
            "root elsewhere",
            code="mailbox_root_used",
        )


def _refuse_used(root: Path, *, resume: bool) -> None:
    """A root holds mailboxes and nothing else; a new run begins with an empty one."""
    if not root.is_dir():
        return
    names = sorted(path.name for path in root.iterdir())
    foreign = [name for name in names if OPAQUE.fullmatch(name) is None]
    if foreign or (names and not resume):
        raise UsageError(
            f"the root {root} is not empty, it holds {(foreign or names)[0]!r}: an actor could read there. Choose an "
            "empty folder" + ("" if foreign else ", or continue a run with --resume"),
            code="mailbox_root_used",
        )
