"""A served policy is who its source and weights say, wherever they lie; the rest is what its operator tells."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from trialplate.errors import LockError, UsageError
from trialplate.policies.identity import read_identity, served_registration
from trialplate.spec.registration import Registration

SOURCE = "class Arm:\n    pass\n"


def folder(path: Path, *, source: str = SOURCE, weights: bytes = b"w") -> Path:
    """Return a folder with a policy and its weights."""
    path.mkdir()
    (path / "arm.py").write_text(source, encoding="utf-8")
    (path / "a.npz").write_bytes(weights)
    return path


def served(base: Path, reference: str = "arm.py:Arm", **options: object) -> Registration:
    return served_registration(reference, base=base, **options)  # type: ignore[arg-type]


def test_one_policy_served_from_two_places_is_one_policy(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "one"), folder(tmp_path / "other")
    here = served(one, weights=("a.npz",))
    assert served(tmp_path, f"{other}/arm.py:Arm", weights=(str(other / "a.npz"),)) == here
    assert str(tmp_path) not in here.model_dump_json()


def test_another_source_other_weights_and_other_options_are_another_policy(tmp_path: Path) -> None:
    same = folder(tmp_path / "same")
    others = [
        served(folder(tmp_path / "source", source=SOURCE + "# changed\n"), weights=("a.npz",)),
        served(folder(tmp_path / "weights", weights=b"v"), weights=("a.npz",)),
        served(same, weights=("a.npz",), options={"speed": 2}),
        served(same),
    ]
    digests = {registration.sha256() for registration in (served(same, weights=("a.npz",)), *others)}
    assert len(digests) == 5


def test_a_policy_with_weights_is_a_model_and_one_without_is_a_program(tmp_path: Path) -> None:
    base = folder(tmp_path / "one")
    assert served(base).kind == "fixed_program"
    assert served(base, weights=("a.npz",)).kind == "model"
    assert served(base).checkpoint is None


def test_what_the_operator_tells_is_kept_and_the_digest_of_the_weights_is_found_out(tmp_path: Path) -> None:
    told = Registration.model_validate_json(
        '{"model": {"name": "m", "revision": "7"}, "checkpoint": {"ref": "hub/m@7"},'
        ' "normalization": {"stats_sha256": "' + "0" * 64 + '", "mode": "quantile"}}'
    )
    found = served(folder(tmp_path / "one"), weights=("a.npz",), told=told)
    assert (found.model, found.normalization) == (told.model, told.normalization)
    assert found.checkpoint is not None
    assert found.checkpoint.ref == "hub/m@7"
    assert found.checkpoint.sha256 is not None
    assert found.policy_source is not None


def test_the_digest_of_the_file_itself_may_be_told_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    base = folder(tmp_path / "one")
    right, wrong = sha256(b"w").hexdigest(), "0" * 64
    for digest in (right, wrong):
        told = Registration.model_validate_json(f'{{"checkpoint": {{"ref": "c", "sha256": "{digest}"}}}}')
        if digest == right:
            assert served(base, weights=("a.npz",), told=told).checkpoint.sha256 == right  # type: ignore[union-attr]
            continue
        with pytest.raises(UsageError, match="the weights have"):
            served(base, weights=("a.npz",), told=told)


@pytest.mark.parametrize("missing", ["arm.py", "a.npz"])
def test_code_or_weights_that_are_not_there_are_refused(tmp_path: Path, missing: str) -> None:
    base = folder(tmp_path / "one")
    (base / missing).unlink()
    with pytest.raises(LockError, match=missing):
        served(base, weights=("a.npz",))


# -- the operator's file --------------------------------------------------------------------------------------------


def test_an_identity_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "identity.toml"
    path.write_text('kind = "model"\n[model]\nname = "m"\nrevision = "7"\n', encoding="utf-8")
    found = read_identity(path)
    assert (found.kind, found.model.name) == ("model", "m")  # type: ignore[union-attr]
    assert found.checkpoint_reason == "not_reported"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"kind = ", "not TOML"),
        (b"\xff\xfe", "not TOML"),
        (b'kind = "robot"', "kind"),
        (b"surprise = 1", "surprise"),
        (b"[model]\nrevision = '1'", "model.name"),
        (b"[model]\nname = 'm'\nrevision = 2024-01-01", "no place"),
    ],
)
def test_a_mistake_in_it_is_named(tmp_path: Path, text: bytes, told: str) -> None:
    path = tmp_path / "identity.toml"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=told):
        read_identity(path)


def test_a_missing_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"identity .*none\.toml"):
        read_identity(tmp_path / "none.toml")
