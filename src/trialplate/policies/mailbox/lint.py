"""Does a text tell an actor what it is part of? Refuse a launch whose name, label, path or message does.

An actor is anonymous: it may not read which benchmark, task, policy or seed this is, when it runs, or that anybody
counts successes. Source: policy contract, section 7.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from trialplate.canonical import env_seed, policy_seed
from trialplate.errors import UsageError
from trialplate.interfaces import Suite

CODE = "actor_label_leak"
ADVICE = "Use names of 32 random hex digits, and a root that says nothing, like one made by `mktemp -d`."

_OPAQUE = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{32})(?![0-9a-f])")
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_LOADED = re.compile(
    r"pass(?:e[sd]|ing)?|fail(?:s|ed|ing|ures?)?|scor(?:es?|ed|ing|ers?)|success(?:es|ful|fully)?|succeed(?:s|ed|ing)?"
    r"|rewards?|grad(?:es?|ed|ers?|ing)|(?:un)?solved|benchmarks?|leaderboards?|suites?|scenarios?|seed(?:s|ed|ing)?"
    r"|eval(?:s|uat(?:e[sd]?|ing|ions?|ors?))?"
)
_NUMBERED = re.compile(r"(?:task|trial|episode|attempt|rep(?:eat)?|arm|variant|case|rollout) ([0-9]+)")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_YEAR, _MM, _DD = r"(?:19[89]\d|20[0-3]\d)", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_DATES = (
    rf"(?<!\d){_YEAR}(?:[-_./ ]?(?:{_MM}(?:[-_./ ]?{_DD}(?:[t_ -]?\d{{2,6}})?)?|w\d\d|[0-3]\d\d))?(?!\d)",
    rf"(?<![\d.])(?:{_DD}|[1-9])[-_./ ](?:{_MM}|[1-9])[-_./ ](?:{_YEAR}|\d\d)(?![\d.])",
    rf"(?<![\d.])(?:{_MM}|[1-9])[-_./ ](?:{_DD}|[1-9])[-_./ ](?:{_YEAR}|\d\d)(?![\d.])",
    rf"(?<!\d){_DD}{_MM}{_YEAR}(?!\d)|(?<!\d){_MM}{_DD}{_YEAR}(?!\d)",
    rf"(?<![a-z]){_MONTH}[-_., ]*\d{{1,4}}(?!\d)",
    rf"(?<!\d)\d{{1,2}}(?:st|nd|rd|th)?[-_., ]*(?:of)?[-_., ]*{_MONTH}(?![a-z])",
    r"(?<!\d)1[4-9]\d{8}(?:\d{3}|\d{6}|\d{9})?(?!\d)",
)
_DATE = re.compile("|".join(_DATES))


def actor_leaks(text: str, *, forbidden: Iterable[str] = (), known: str = "") -> tuple[str, ...]:
    """Return what a text tells, one line for each finding, none when it tells nothing.

    ``forbidden``: identifiers of this run (see :func:`identifying_names`). ``known``: a text that every actor is
    given, whatever the run is: an identifier that happens to be a word of it identifies nothing. Opaque names (32 or
    64 hex digits) are left out before looking. Case, separators, camel case and wide letters hide no word.
    """
    plain = _OPAQUE.sub(" ", unicodedata.normalize("NFKC", text))
    spaced, chunks = _spaced(plain), [_squashed(chunk) for chunk in plain.split()]
    given = _spaced(known)
    found = [f"the word {word!r}" for word in sorted({w for w in spaced.split() if _LOADED.fullmatch(w)})]
    found += [f"a numbered item, {match.group()!r}" for match in _NUMBERED.finditer(spaced)]
    found += [f"a date or time, {match.group().strip()!r}" for match in _DATE.finditer(plain.casefold())]
    for name in sorted(set(forbidden)):
        wanted, short = _spaced(name), _squashed(name)
        if not wanted.strip() or (short.isdigit() and len(short) < 4) or wanted in given:
            continue
        if wanted in spaced or (len(short) >= 5 and any(short in chunk for chunk in chunks)):
            found.append(f"the identifier {name!r}")
    return tuple(found)


def lint_actor(text: str, *, what: str, forbidden: Iterable[str] = (), known: str = "") -> None:
    """Raise UsageError ``actor_label_leak`` when a name, label, path or message tells what the actor may not know.

    ``what``: what the text is, for the message. The rest as in :func:`actor_leaks`.
    """
    found = actor_leaks(text, forbidden=forbidden, known=known)
    if found:
        shown = text if len(text) <= 120 else f"{text[:117]}..."
        raise UsageError(f"{what} {shown!r} would tell the actor {'; '.join(found)}. {ADVICE}", code=CODE)


def lint_name(name: str, *, forbidden: Iterable[str] = ()) -> None:
    """Raise UsageError ``actor_label_leak`` unless a name is 32 hex digits that nobody chose for their meaning."""
    lint_actor(name, what="the actor's name", forbidden=forbidden)
    if re.fullmatch(r"[0-9a-f]{32}", name) is None or name.isdecimal():  # digits alone are a date with zeros behind
        raise UsageError(f"the actor's name is {name!r}: expected 32 random hex digits. {ADVICE}", code=CODE)


def identifying_names(lock: Mapping[str, Any], lock_sha256: str, suite: Suite) -> frozenset[str]:
    """Return every identifier of a lock that no actor may read: benchmark, tasks, policies, seeds.

    Families and variants that are one plain word (``left``) are left out: they are words first.
    """
    names = {lock["protocol"]["name"], suite.name, *(arm["name"] for arm in lock["arms"])}
    names |= {arm.get("policy", "") for arm in lock["protocol"]["arms"]} - {"mailbox", "served", ""}
    scenarios = suite.scenarios()
    names |= {item.id for item in scenarios}
    names |= {name for item in scenarios for name in (item.family, item.variant) if not name.isalpha()}
    seeds = {lock["protocol"]["schedule"]["seed"]}
    for trial in lock["schedule"]:
        seeds.add(env_seed(lock_sha256, suite.name, scenario=trial["scenario"], repeat=trial["repeat"]))
        seeds.add(policy_seed(lock_sha256, trial["ordinal"]))
    return frozenset(names | {str(seed) for seed in seeds})


def _spaced(text: str) -> str:
    """Return the words of a text in lower case, each between single blanks, split where letters meet digits."""
    words = _PIECES.findall(unicodedata.normalize("NFKC", text))
    return f" {' '.join(words).casefold()} "


def _squashed(text: str) -> str:
    return "".join(_PIECES.findall(unicodedata.normalize("NFKC", text))).casefold()
