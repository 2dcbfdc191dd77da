"""The read-only folder: nothing but regular files below it, each within its limits."""

from __future__ import annotations

import os
import socket
import tracemalloc
from pathlib import Path

import pytest

from trialplate.errors import EvidenceError, UsageError
from trialplate.store.folder import Caps, Folder


def _code(call: object) -> str:
    with pytest.raises(EvidenceError) as caught:
        call()  # type: ignore[operator]
    return caught.value.code


def test_contents_are_files_with_sizes_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"12345")
    (tmp_path / "g").touch()
    with Folder(tmp_path) as folder:
        contents = folder.contents()
        assert folder.names() == ("a", "g")
        assert folder.read("a/f", limit_bytes=5) == b"12345"
    assert (contents.files, contents.folders, contents.findings) == ({"a/f": 5, "g": 0}, {"a"}, ())


def test_a_file_in_the_place_of_the_folder_is_refused_and_an_absent_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").touch()
    assert _code(lambda: Folder(tmp_path / "bundle.zip")) == "archive_refused"
    assert _code(lambda: Folder(tmp_path / "absent")) == "file_missing"


def test_links_pipes_sockets_and_second_names_are_told_apart_from_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "twin").hardlink_to(tmp_path / "file")
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with Folder(tmp_path) as folder:
            contents = folder.contents()
            codes = {name: _code(lambda n=name: folder.read(n, limit_bytes=9)) for name in ("file", "link", "pipe")}
    assert contents.files == {}
    found = {item.path: item.found for item in contents.findings}
    assert set(found) == {"file", "twin", "link", "dangling", "pipe", "socket"}
    assert (found["twin"], found["link"], found["pipe"]) == (
        "a file with 2 names",
        "a symbolic link",
        "a special file (p)",
    )
    assert codes == {"file": "not_regular_file", "link": "not_regular_file", "pipe": "not_regular_file"}


def test_a_folder_exchanged_for_a_link_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "c"
    (place / "episodes").mkdir(parents=True)
    (place / "episodes" / "row.json").write_bytes(b"{}")
    with Folder(place) as folder:
        folder.contents()
        (place / "episodes").rename(tmp_path / "elsewhere")
        (place / "episodes").symlink_to(tmp_path / "elsewhere")
        assert _code(lambda: folder.read("episodes/row.json", limit_bytes=9)) == "not_regular_file"


def test_the_folder_itself_exchanged_after_opening_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "c"
    place.mkdir()
    (place / "f").write_bytes(b"old")
    with Folder(place) as folder:
        place.rename(tmp_path / "moved")
        place.mkdir()
        (place / "f").write_bytes(b"new")
        assert folder.read("f", limit_bytes=9) == b"old"


def test_a_sparse_giant_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(8 * 1024**4)
    tracemalloc.start()
    with Folder(tmp_path) as folder:
        contents_code = _code(folder.contents)
        assert _code(lambda: folder.read("giant", limit_bytes=1024)) == "size_limit"
    assert contents_code == "size_limit"
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_a_file_or_a_number_of_files_above_the_limit_is_refused(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"12345")
    with Folder(tmp_path) as folder:
        assert [item.code for item in folder.contents(caps=Caps(file_bytes=4)).findings] == ["size_limit"] * 5
        assert _code(lambda: folder.contents(caps=Caps(files=4))) == "size_limit"
        assert _code(lambda: folder.contents(caps=Caps(total_bytes=24))) == "size_limit"
        assert folder.contents(caps=Caps(files=5, file_bytes=5, total_bytes=25)).findings == ()
        assert _code(lambda: folder.read("0", limit_bytes=4)) == "size_limit"


def test_endless_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "/".join("d" * 12)).mkdir(parents=True)
    with Folder(tmp_path) as folder:
        assert _code(folder.contents) == "path_unsafe"


def test_a_file_that_is_gone_is_missing(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder:
        assert _code(lambda: folder.read("a/b", limit_bytes=1)) == "file_missing"
        assert _code(lambda: folder.sha256("a")) == "file_missing"


def test_reading_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with Folder(tmp_path) as folder:
            folder.contents()
            folder.read("a/f", limit_bytes=1)
            folder.sha256("a/f")
            _code(lambda folder=folder: folder.read("a", limit_bytes=1))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_cap_is_lowered_never_raised() -> None:
    with pytest.raises(UsageError, match="expected 1 to 1000000"):
        Caps(files=1_000_001)
    with pytest.raises(UsageError):
        Caps(line_bytes=0)


def test_of_a_counted_folder_only_the_first_level_is_listed_and_everything_is_looked_at(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"episodes/{number}/deep").mkdir(parents=True)
        (tmp_path / f"episodes/{number}/row.json").write_bytes(b"{}")
    (tmp_path / "episodes/note").write_bytes(b"x")
    (tmp_path / "episodes/1/link").symlink_to("row.json")
    with Folder(tmp_path) as folder:
        contents = folder.contents(counted="episodes")
        assert contents.files == {"episodes/note": 1}
        assert contents.folders == {"episodes", "episodes/0", "episodes/1", "episodes/2"}
        assert [(item.code, item.path) for item in contents.findings] == [("not_regular_file", "episodes/1/link")]
        assert _code(lambda: folder.contents(caps=Caps(total_bytes=6), counted="episodes")) == "size_limit"


def test_one_folder_is_listed_with_sizes_and_what_is_no_file_without(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"123")
    (tmp_path / "a/b/link").symlink_to("file")
    (tmp_path / "a/b/c/inner").write_bytes(b"")
    (tmp_path / "shortcut").symlink_to("a")
    with Folder(tmp_path) as folder:
        assert folder.listing("a/b") == {"c": None, "file": 3, "link": None}
        assert list(folder.below("a")) == ["a/b/c/inner", "a/b/file"]
        assert _code(lambda: folder.listing("shortcut")) == "not_regular_file"
        assert _code(lambda: folder.listing("a/b/file")) == "not_regular_file"
        assert _code(lambda: folder.listing("none")) == "file_missing"


def test_lines_come_one_by_one_and_one_that_is_too_long_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n\nbcdefgh\r\nlast")
    with Folder(tmp_path) as folder:
        assert list(folder.lines("lines", limit_bytes=100)) == [b"a\n", b"\n", b"bcdefgh\r\n", b"last"]
        assert list(folder.lines("lines", limit_bytes=3)) == [b"a\n", b"\n", b"bcde", b"fgh\r", b"\n", b"last"]
