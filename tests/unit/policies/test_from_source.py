"""What runs is compiled from the source that was hashed: bytecode that somebody put beside it is not even read."""

from __future__ import annotations

import importlib.util
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trialplate.errors import LockError
from trialplate.fingerprint import is_source, policy_source
from trialplate.policies.in_process import load_policy

HONEST = """
from trialplate.testing.toy import Scripted


class Arm(Scripted):
    told = "the source"
"""


def _poison(source: Path, *, code: str) -> None:
    """Put bytecode of another program in the cache, as one that need not be compared with its source."""
    cached = Path(importlib.util.cache_from_source(str(source)))
    cached.parent.mkdir(exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    cached.write_bytes(header + marshal.dumps(compile(code, str(source), "exec")))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An importable package of an arm."""
    place = tmp_path / "arm_of_a_test"
    place.mkdir()
    (place / "__init__.py").write_text("", encoding="utf-8")
    (place / "inner.py").write_text(HONEST, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield place
    for name in [name for name in sys.modules if name.partition(".")[0] == "arm_of_a_test"]:
        del sys.modules[name]


def test_a_policy_file_is_compiled_from_its_source_and_not_taken_from_a_cache(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(HONEST, encoding="utf-8")
    before = policy_source("mine.py:Arm", base=tmp_path)
    _poison(source, code=HONEST.replace("the source", "the cache"))
    assert policy_source("mine.py:Arm", base=tmp_path) == before  # no digest of a source tells
    spec = importlib.util.spec_from_file_location("as_python_loads_it", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.Arm.told == "the cache"
    assert load_policy("mine.py:Arm", base=tmp_path).told == "the source"


def test_a_module_of_an_arm_is_compiled_from_its_source(package: Path) -> None:
    _poison(package / "inner.py", code=HONEST.replace("the source", "the cache"))
    assert load_policy("arm_of_a_test.inner:Arm", base=package).told == "the source"


def test_a_module_that_an_arm_imports_later_is_compiled_from_its_source_too(package: Path) -> None:
    (package / "late.py").write_text("TOLD = 'the source'\n", encoding="utf-8")
    _poison(package / "late.py", code="TOLD = 'the cache'\n")
    late = HONEST.replace(
        'told = "the source"',
        "\n    @property\n    def told(self):\n        from arm_of_a_test.late import TOLD\n        return TOLD",
    )
    (package / "inner.py").write_text(late, encoding="utf-8")
    assert load_policy("arm_of_a_test.inner:Arm", base=package).told == "the source"


def test_bytecode_without_a_source_is_refused(package: Path) -> None:
    code = compile("TOLD = 'nobody knows'\n", "hidden.py", "exec")
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    (package / "hidden.pyc").write_bytes(header + marshal.dumps(code))
    (package / "inner.py").write_text(f"from arm_of_a_test.hidden import TOLD\n{HONEST}", encoding="utf-8")
    with pytest.raises((LockError, ImportError), match="bytecode without its source"):
        load_policy("arm_of_a_test.inner:Arm", base=package)


def test_a_source_is_what_lies_below_the_root_and_is_neither_hidden_nor_cached(tmp_path: Path) -> None:
    assert is_source(tmp_path / "a/b.py", tmp_path) and is_source(tmp_path / "a.py", tmp_path / "a.py")
    for name in (".venv/lib/x.py", "a/.hidden.py", "__pycache__/x.py"):
        assert not is_source(tmp_path / name, tmp_path)
    assert not is_source(tmp_path.parent / "x.py", tmp_path)
