"""Load the code of an arm from the source that was hashed, never from bytecode that lies beside it.

Python takes a file of ``__pycache__`` for the code of a source when a time and a size in it agree, or because it says
of itself that it need not be compared. What is in it may be another program, and no digest of the source would tell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from trialplate.fingerprint import is_source


class FromSource(SourceFileLoader):
    """Compiles a module from its source, whatever is cached."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of a module. Raises SyntaxError."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Finder:
    """Asks the other finders, and has what lies below ``roots`` loaded from source."""

    def __init__(self) -> None:
        self.roots: set[Path] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of an arm, None for any other."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                return self._from_source(spec)
        return None

    def _from_source(self, spec: ModuleSpec) -> ModuleSpec | None:
        loader = spec.loader
        if not isinstance(loader, SourceFileLoader | SourcelessFileLoader):
            return None
        place = Path(loader.path).resolve()
        if not any(is_source(place, root) for root in self.roots):
            return None
        if isinstance(loader, SourcelessFileLoader):
            raise ImportError(f"{place} is bytecode without its source: nobody can tell what it is", name=spec.name)
        if type(loader) is SourceFileLoader:
            spec.loader, spec.cached = FromSource(loader.name, loader.path), None
        return spec


_FINDER = _Finder()


def load_from_source(root: Path) -> None:
    """From now on load every module that is a source of an arm (a file, or what lies below a folder) from source."""
    _FINDER.roots.add(root)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def file_spec(name: str, path: Path) -> ModuleSpec | None:
    """Return the spec of a policy file, to be loaded from its source."""
    return spec_from_file_location(name, path, loader=FromSource(name, str(path)))
