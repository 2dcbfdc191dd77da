from __future__ import annotations

from trialplate.report.text import condition_text, data_uri, leaves, visible


def test_plain_and_accented_text_stays_as_it_is() -> None:
    for text in ("plain", "Größe 3 µm – 日本語 ✓", "two\nlines"):
        assert visible(text) == text


def test_characters_that_cannot_be_seen_are_spelled_out() -> None:
    assert visible("a\u202eb\u200bc\x07\ud800") == "a[U+202E]b[U+200B]c[U+0007][U+D800]"


def test_leaves_of_a_document_have_paths_and_null_is_said() -> None:
    document = {"a": {"b": None, "c": True}, "d": [1, 2.5], "e": [{"f": "x"}], "g": [], "h": {}}
    assert leaves(document) == [
        ("a.b", "null"),
        ("a.c", "yes"),
        ("d", "1, 2.5"),
        ("e[0].f", "x"),
        ("g", "none"),
    ]


def test_a_condition_reads_with_its_unit_and_index() -> None:
    condition = {"column": "x", "index": 2, "op": "lt", "limit": 0.5, "unit": "m"}
    assert condition_text(condition) == "x[2] < 0.5 m"
    assert condition_text(condition | {"index": 0, "unit": "1", "op": "ge"}) == "x ≥ 0.5"


def test_bytes_become_an_address_of_their_kind() -> None:
    assert data_uri(b"\xff\xd8", kind="image/jpeg") == "data:image/jpeg;base64,/9g="
