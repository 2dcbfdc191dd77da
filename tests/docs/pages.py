"""Reading the pages of the documentation: blocks of code, tables, and the protocols that they show."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def text(path: Path) -> str:
    """Return a page."""
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    """Return the blocks of code in one language."""
    return [body for name, body in FENCE.findall(text(path)) if name == language]


def page_name(path: Path) -> str:
    """Return the name of a page, for the ids of tests."""
    return str(path.relative_to(ROOT))


def section(page: str, heading: str) -> str:
    """Return what stands under a heading of the second level."""
    parts = re.split(r"^## ", text(DOCS / page), flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(heading))


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of every table row under a heading, without the heads of the tables."""
    lines = [line for line in section(page, heading).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if set(row[0]) <= {"-"}]
    heads = {number - 1 for number in rules} | set(rules)
    return [row for number, row in enumerate(cells) if number not in heads]


def first_words(page: str, heading: str) -> set[str]:
    """Return the code words in the first column of the tables under a heading."""
    return {word for row in rows(page, heading) for word in re.findall(r"`([^`]+)`", row[0])}


def protocols(page: str) -> list[str]:
    """Return every protocol of a page; a block that only has arms stands below the head of the whole one.

    A block without an arm is no protocol, but a part of one.
    """
    whole = blocks(DOCS / "protocol.md", "toml")[0]
    head = whole[: whole.index("[[arms]]")]
    shown = [body for body in blocks(DOCS / page, "toml") if re.search(r"^\[\[arms\]\]", body, flags=re.MULTILINE)]
    return [body if body.startswith("schema") else head + body for body in shown]
