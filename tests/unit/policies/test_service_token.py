"""The management token: made once, readable by its owner alone, compared whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from trialplate.errors import UsageError
from trialplate.policies.service.token import bears_token, token_from

TOKEN = "0f" * 32


def test_a_token_is_made_with_256_bits_that_only_its_owner_can_read(tmp_path: Path) -> None:
    os.umask(0)
    token = token_from(tmp_path / "t")
    assert len(bytes.fromhex(token)) == 32
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600
    assert token_from(tmp_path / "t") == token
    assert token_from(tmp_path / "other") != token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666, 0o610])
def test_a_token_that_others_could_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "t"
    token_from(path)
    path.chmod(mode)
    with pytest.raises(UsageError, match="0600"):
        token_from(path)


def test_a_link_to_a_token_is_refused(tmp_path: Path) -> None:
    token_from(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    with pytest.raises(UsageError, match="not a link"):
        token_from(tmp_path / "link")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError):
        token_from(tmp_path / "dangling")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", ["", "secret", "0f" * 31, "0F" * 32, "0f" * 33])
def test_a_file_without_a_token_is_refused_and_its_content_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(UsageError) as refused:
        token_from(path)
    assert not content or content not in refused.value.message


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="plain file"):
        token_from(tmp_path / "pipe")
    with pytest.raises(UsageError):
        token_from(tmp_path)
    with pytest.raises(UsageError):
        token_from(tmp_path / "no" / "folder" / "t")


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        ([(b"authorization", f"Bearer {TOKEN}".encode())], True),
        ([(b"Authorization", f"bearer {TOKEN}".encode())], True),
        ([(b"authorization", f"Basic {TOKEN}".encode())], False),
        ([(b"authorization", TOKEN.encode())], False),
        ([(b"authorization", f"Bearer {TOKEN[:-1]}".encode())], False),
        ([(b"authorization", f"Bearer {TOKEN}0".encode())], False),
        ([(b"authorization", b"Bearer \xff\xfe")], False),
        ([(b"authorization", f"Bearer {TOKEN}".encode())] * 2, False),
        ([(b"cookie", f"Bearer {TOKEN}".encode())], False),
        ([(b"x-authorization", f"Bearer {TOKEN}".encode())], False),
        ([], False),
    ],
)
def test_only_one_bearer_header_with_the_whole_token_opens(headers: list[tuple[bytes, bytes]], good: bool) -> None:
    assert bears_token(headers, TOKEN) is good
