"""The worked example of the evidence page is executed; its tables are those of the code; its counts are counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import DOCS, ROOT, blocks, rows, section, text

import crash_matrix
from trialplate.store import findings

PAGE = DOCS / "evidence.md"
DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}…")
CRASHES = "Crashes, power cuts, full disks"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with the protocol of the page, and an environment in which its commands are found."""
    folder = tmp_path_factory.mktemp("example")
    commands = folder / "commands"
    commands.mkdir()
    for name, program in (("trialplate", "-P -m trialplate.cli"), ("python3", "-I -S")):
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {program} "$@"\n', encoding="utf-8")
        (commands / name).chmod(0o755)
    work = folder / "work"
    work.mkdir()
    (protocol,) = blocks(PAGE, "toml")
    (work / "protocol.toml").write_text(protocol, encoding="utf-8")
    return work, {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "COLUMNS": "80"}


def _shown() -> Iterator[tuple[str, str]]:
    """Yield each command of the page with the lines that it is said to print."""
    for body in blocks(PAGE, "console"):
        for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, _, printed = command.partition("\n")
            yield line, printed


def _compared(printed: str, folder: Path) -> list[str]:
    """Return what is compared: words, without the folder and with every digest the same."""
    return DIGEST.sub("DIGEST", printed.replace(f"{folder}/", "")).split()


def test_every_command_of_the_worked_example_prints_what_the_page_says(place: tuple[Path, dict[str, str]]) -> None:
    folder, environment = place
    count = 0
    for command, printed in _shown():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert _compared(done.stdout, folder) == _compared(printed, folder), f"{command}: {done.stdout} {done.stderr}"
        if command.startswith("trialplate lock"):
            (kept,) = re.findall("^[0-9a-f]{64}$", done.stdout, flags=re.MULTILINE)
            (folder / "kept-elsewhere.txt").write_text(kept, encoding="utf-8")
        count += 1
    assert count >= 12


def test_a_digest_of_the_page_that_stands_for_the_same_thing_is_the_same() -> None:
    printed = "".join(printed for _, printed in _shown())
    named = re.findall(r"^(lock|id  |sealed|promoted|published) +(?:\w+/)?(\S{8})…", printed, flags=re.MULTILINE)
    by_name: dict[str, set[str]] = {}
    for name, digest in named:
        by_name.setdefault(name.strip(), set()).add(digest)
    assert by_name["id"] == by_name["sealed"] == by_name["promoted"] == by_name["published"]
    assert all(len(digests) == 1 for digests in by_name.values())


def test_the_five_lines_are_those_that_a_check_prints() -> None:
    told = [row[0].strip("`") for row in rows("evidence.md", "What a check prints") if row[0].startswith("`")]
    printed = next(printed for command, printed in _shown() if "verify bundles" in command)
    assert told == [line.split()[0] for line in printed.splitlines() if not line.startswith(" ")]


def test_the_stages_and_their_codes_are_those_of_the_check() -> None:
    shown = [
        (
            name,
            {int(code): set(re.findall(r"`(\w+)`", codes)) for code, codes in re.findall(r"(\d): ([^;]*)", listed)},
        )
        for _, name, _, listed in rows("evidence.md", "The eleven stages")
    ]
    assert shown == [
        (name, {by: set(codes.split()) for by, codes in stage.items()}) for name, stage in findings._STAGES
    ]


def test_the_exit_codes_are_explained() -> None:
    assert [row[0] for row in rows("evidence.md", "What a check prints") if row[0].isdigit()] == ["0", "1", "2", "3"]


def test_the_count_of_crash_points_of_a_run_is_the_number_that_is_tried() -> None:
    table = rows("evidence.md", CRASHES)
    counts = [int(row[2].replace(",", "")) for row in table]
    assert counts[0] == len(tuple(crash_matrix.points()))
    assert int(table[0][1]) == sum(len(crash_matrix.undisturbed(base).calls) for base in crash_matrix.BASES)
    for column in (1, 2):
        numbers = [int(row[column].replace(",", "")) for row in table]
        assert numbers[-1] == sum(numbers[:-1])
    assert [row[3] for row in table] == ["0"] * len(table)


def test_the_page_is_linked_from_where_a_reader_begins() -> None:
    assert "docs/evidence.md" in text(ROOT / "README.md") and "evidence.md" in text(DOCS / "index.md")


def test_the_page_promises_nothing_that_does_not_exist() -> None:
    for absent in ("RO-Crate", "RFC 3161", "BLAKE3", "time stamp token"):
        assert absent not in text(PAGE)
    assert "does not expire" in " ".join(section("evidence.md", "Promotion, publication").split())
