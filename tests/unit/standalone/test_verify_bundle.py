"""The second verifier's own reader, writer, tree and paths, against the shared vectors and the package's."""

from __future__ import annotations

import ast
import base64
import json
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from trialplate.canonical import read_stored
from trialplate.errors import CanonicalError
from trialplate.standalone import verify_bundle as second
from trialplate.store.findings import STAGE_NAMES, finding

ROOT = Path(__file__).parents[3]
SOURCE = Path(second.__file__)
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (ROOT / "tests" / "data" / "canonical.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("vector", VECTORS["number_text"], ids=lambda v: v["ieee754_be"])
def test_a_number_has_the_text_of_rfc_8785(vector: dict[str, Any]) -> None:
    value = struct.unpack(">d", bytes.fromhex(vector["ieee754_be"]))[0]
    assert second.number_text(value) == vector["text"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_written_as_an_independent_writer_writes_it(value: float) -> None:
    assert second.number_text(value) == rfc8785.dumps(value).decode()


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda v: v["name"])
def test_a_document_has_the_bytes_of_rfc_8785(vector: dict[str, Any]) -> None:
    text = second.canonical(json.loads(vector["input"]))
    assert text == vector["canonical"]
    assert second.sha256(text.encode()) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["stored"], ids=lambda v: v["name"])
def test_a_stored_document_is_taken_or_refused(vector: dict[str, Any]) -> None:
    if "bytes_hex" in vector:
        data = bytes.fromhex(vector["bytes_hex"])
    else:
        before, times, middle, after, times_after = vector["repeat"]
        data = (before * times + middle + after * times_after).encode()
    if vector["expect"] == "size":
        return  # a file is never read beyond its limit
    assert _refusal(data) == (vector["expect"] != "ok")


def _refusal(data: bytes) -> bool:
    try:
        second.parse(data)
    except ValueError:
        return True
    return False


def _package_refuses(data: bytes) -> bool:
    try:
        read_stored(data)
    except CanonicalError:
        return True
    return False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.booleans())
def test_both_readers_take_and_refuse_the_same_texts(value: Any, ascii_only: bool) -> None:
    for options in ({"separators": (",", ":"), "sort_keys": True}, {}):
        text = json.dumps(value, ensure_ascii=ascii_only, **options)  # type: ignore[arg-type]
        data = text.encode("utf-8", "surrogatepass")
        assert _refusal(data) == _package_refuses(data), data


@given(st.binary(max_size=40))
def test_both_readers_refuse_the_same_bytes(data: bytes) -> None:
    assert _refusal(data) == _package_refuses(data)


@pytest.mark.parametrize("depth", [64, 65])
def test_sixty_four_levels_are_read_and_no_more(depth: int) -> None:
    for data in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"0" + b"}" * depth):
        assert _refusal(data) == (depth > 64)


def _leaves(vector: dict[str, Any]) -> list[bytes]:
    if "leaves_hex" in vector:
        return [bytes.fromhex(leaf) for leaf in vector["leaves_hex"]]
    return [leaf.encode() for leaf in vector["leaves_utf8"]]


@pytest.mark.parametrize("vector", VECTORS["merkle_root"], ids=lambda v: v["root"][:8])
def test_the_root_over_rows_is_that_of_rfc_9162(vector: dict[str, Any]) -> None:
    assert second.root_of(_leaves(vector)).hex() == vector["root"]


@pytest.mark.parametrize("vector", VECTORS["path"], ids=lambda v: v["path"][:40])
def test_a_path_is_safe_everywhere_or_told(vector: dict[str, Any]) -> None:
    bundle = second.Bundle()
    bundle.check_paths([vector["path"]])
    assert (not bundle.found) is vector["ok"]


@pytest.mark.parametrize("pair", [("a/b", "A/b"), ("a/b", "a/B"), ("a", "a/b"), ("x/a", "X/c")])
def test_two_spellings_of_one_name_are_told(pair: tuple[str, str]) -> None:
    bundle = second.Bundle()
    bundle.check_paths(pair)
    assert {item[0] for item in bundle.found} == {"path_unsafe"}


@pytest.mark.parametrize("vector", VECTORS["journal_scan"], ids=lambda v: v["name"])
def test_a_chain_is_followed_as_far_as_it_holds(vector: dict[str, Any]) -> None:
    count, size, last = 0, 0, vector["lock_sha256"]
    for line in base64.b64decode(vector["bytes_base64"]).split(b"\n")[:-1]:
        record = second.whole_record(line)
        if record is None or (record["seq"], record["prev_sha256"]) != (count, last):
            break
        count, size, last = count + 1, size + len(line) + 1, record["sha256"]
    assert (count, size) == (vector["records"], vector["good_bytes"])


def test_its_findings_have_the_stages_and_exit_codes_of_the_package() -> None:
    stages = {"container": 1, "integrity": 2, "documents": 4, "binding": 5, "journal and rows": 6}
    stages |= {"qualification": 8, "recomputation": 9, "rules": 10}
    for code, (stage, exit_code) in second.RANK.items():
        item = finding(code, "file")
        assert (stages[STAGE_NAMES[item.stage]], item.exit_code) == (stage, exit_code), code


def test_it_imports_the_standard_library_alone_and_none_of_us() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert imported <= sys.stdlib_module_names
    assert not imported & {"socket", "urllib", "http", "pickle", "subprocess", "importlib", "ctypes"}


def test_an_interpreter_of_version_3_9_can_read_it() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 9))
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.keyword) and node.arg in ("strict", "slots", "kw_only")), node.value.lineno
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):  # ``str | None`` where it is evaluated
            optional = any(isinstance(side, ast.Constant) and side.value is None for side in (node.left, node.right))
            assert not optional or _in_annotation(tree, node), node.lineno


def _in_annotation(tree: ast.AST, wanted: ast.AST) -> bool:
    """Annotations are never evaluated there: the file imports them from the future."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            holder = getattr(node, name, None)
            if holder is not None and any(inner is wanted for inner in ast.walk(holder)):
                return True
    return False


def test_the_tool_of_the_repository_is_the_file_that_is_shipped() -> None:
    assert (ROOT / "tools" / "verify_bundle.py").read_bytes() == SOURCE.read_bytes()


def test_a_wheel_ships_it(tmp_path: Path) -> None:
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        place = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(place, tmp_path / name, ignore=ignored) if place.is_dir() else shutil.copy(place, tmp_path)
    script = "from setuptools import build_meta; build_meta.build_wheel('out')"
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("trialplate/standalone/verify_bundle.py") == SOURCE.read_bytes()
