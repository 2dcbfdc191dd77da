"""The 68 scenarios: how each variant is drawn, and the shipped manifest they are read from.

The generator is deterministic in the suite's version and seed. The manifest is the contract; a test generates it
again and compares bytes. Source: fair pick-and-place protocol, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trialplate.canonical import canonical_json, read_stored
from trialplate.errors import DocumentFault, ProtocolError
from trialplate.interfaces import Scenario
from trialplate.suites.pick_place import placing, staging
from trialplate.suites.pick_place.draw import Draw
from trialplate.suites.pick_place.scene_spec import Scene, read_scene

SUITE_NAME = "pick-place"
SUITE_VERSION = "1"
SUITE_SEED = 20260701
MANIFEST_SCHEMA = "trialplate.manifest/1"
MANIFEST_PATH = Path(__file__).parent / "data" / "manifest.json"

VARIANTS: tuple[tuple[str, str, int], ...] = (
    ("nominal", "standard_objects", 7),
    ("nominal", "standard_lighting", 7),
    ("nominal", "centered_placement", 6),
    ("edge", "small_objects", 3),
    ("edge", "heavy_objects", 3),
    ("edge", "edge_placement", 3),
    ("edge", "occluded_objects", 3),
    ("edge", "transparent_objects", 3),
    ("adversarial", "low_lighting", 3),
    ("adversarial", "cluttered_scene", 3),
    ("adversarial", "slippery_surface", 2),
    ("adversarial", "moving_disturbance", 2),
    ("domain_randomization", "lighting", 10),
    ("domain_randomization", "object_colour", 5),
    ("domain_randomization", "position", 5),
    ("domain_randomization", "camera", 3),
)
"""Domain, variant, number of scenarios, in manifest order. The counts are a contract."""

TOTAL = 68


def _standard_objects(draw: Draw, n: int) -> dict[str, Any]:
    edge_m = draw.uniform(0.036, 0.044)
    return staging.scene(placing.nominal(draw), edge_m=edge_m)


def _standard_lighting(draw: Draw, n: int) -> dict[str, Any]:
    lights = staging.lights([staging.Glow(intensity=draw.uniform(0.9, 1.1)) for _ in range(3)])
    return staging.scene(placing.nominal(draw), lamps=lights)


def _centered_placement(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.centred(draw))


def _small_objects(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.nominal(draw), edge_m=0.02, mass_kg=0.02)


def _heavy_objects(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.nominal(draw), edge_m=0.05, mass_kg=2.0)


def _edge_placement(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.at_the_rim(draw, n))


def _occluded_objects(draw: Draw, n: int) -> dict[str, Any]:
    spot = placing.nominal(draw)
    document = staging.scene(spot)
    document["occluder"] = staging.occluder(spot, block_edge_m=staging.NOMINAL_EDGE_M)
    return document


def _transparent_objects(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.nominal(draw), alpha=0.25)


def _low_lighting(draw: Draw, n: int) -> dict[str, Any]:
    lights = staging.lights([staging.Glow(intensity=0.08)] * 3)
    return staging.scene(placing.nominal(draw), lamps=lights)


def _cluttered_scene(draw: Draw, n: int) -> dict[str, Any]:
    spot = placing.wide(draw)
    document = staging.scene(spot)
    document["obstacles"] = [staging.obstacle(draw, at) for at in placing.clutter(draw, spot, count=(3, 5, 6)[n])]
    return document


def _slippery_surface(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.nominal(draw), friction=0.1)


def _moving_disturbance(draw: Draw, n: int) -> dict[str, Any]:
    document = staging.scene(placing.nominal(draw))
    pushes = (((5, 6, (0.5, 0.0, 0.0)),), ((5, 5, (0.0, -0.5, 0.0)), (15, 6, (-0.3, 0.39, 0.0))))[n]
    document["disturbances"] = [
        {"start_step": start, "duration_steps": steps, "force_n": list(force_n)} for start, steps, force_n in pushes
    ]
    return document


def _lighting(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.nominal(draw), lamps=staging.lights([staging.drawn_glow(draw) for _ in range(3)]))


def _object_colour(draw: Draw, n: int) -> dict[str, Any]:
    spot = placing.nominal(draw)
    document = staging.scene(spot, rgb=staging.drawn_red(draw))
    document["distractors"] = [
        staging.distractor(draw, at, n=k) for k, at in enumerate(placing.bystanders(draw, spot, count=2 + n % 2))
    ]
    return document


def _position(draw: Draw, n: int) -> dict[str, Any]:
    return staging.scene(placing.anywhere(draw))


def _camera(draw: Draw, n: int) -> dict[str, Any]:
    document = staging.scene(placing.nominal(draw))
    document["cameras"]["primary"] = staging.shifted_primary(draw)
    return document


_DRAWN: Mapping[str, Callable[[Draw, int], dict[str, Any]]] = {
    "standard_objects": _standard_objects,
    "standard_lighting": _standard_lighting,
    "centered_placement": _centered_placement,
    "small_objects": _small_objects,
    "heavy_objects": _heavy_objects,
    "edge_placement": _edge_placement,
    "occluded_objects": _occluded_objects,
    "transparent_objects": _transparent_objects,
    "low_lighting": _low_lighting,
    "cluttered_scene": _cluttered_scene,
    "slippery_surface": _slippery_surface,
    "moving_disturbance": _moving_disturbance,
    "lighting": _lighting,
    "object_colour": _object_colour,
    "position": _position,
    "camera": _camera,
}


def generate(seed: int = SUITE_SEED) -> tuple[Scenario, ...]:
    """Draw all scenarios anew. The shipped manifest is ``generate()`` and nothing else."""
    drawn: list[Scenario] = []
    for domain, variant, count in VARIANTS:
        for n in range(count):
            draw = Draw(f"{SUITE_NAME}/{SUITE_VERSION}/{seed}/{variant}/{n}")
            scene = Scene.model_validate_json(canonical_json(staging.to_binary32(_DRAWN[variant](draw, n))))
            name = f"pp-{len(drawn) + 1:03d}"
            drawn.append(Scenario(name, name, domain, variant, scene.model_dump(mode="json")))
    return tuple(drawn)


def manifest_document(scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """Return the manifest of ``scenarios`` as a plain document."""
    return {
        "schema": MANIFEST_SCHEMA,
        "suite": SUITE_NAME,
        "version": SUITE_VERSION,
        "scenarios": [scenario.document() for scenario in scenarios],
    }


def load_manifest(data: bytes) -> tuple[Scenario, ...]:
    """Read a manifest and refuse everything but the 68 scenarios of this suite in their order.

    Raises ProtocolError with every mistake found: a wrong count, a duplicated, missing or reordered id, a wrong
    domain or variant, or a scene that breaks its own rules. Raises CanonicalError when the bytes are not canonical.
    """
    document = read_stored(data)
    faults = [
        DocumentFault(key, f"expected {expected!r}, got {document.get(key)!r}")
        for key, expected in (("schema", MANIFEST_SCHEMA), ("suite", SUITE_NAME), ("version", SUITE_VERSION))
        if document.get(key) != expected
    ]
    entries = document.get("scenarios", [])
    expected_rows = [(domain, variant) for domain, variant, count in VARIANTS for _ in range(count)]
    if len(entries) != TOTAL:
        faults.append(DocumentFault("scenarios", f"expected exactly {TOTAL} scenarios, got {len(entries)}"))
    ids = [entry.get("id") for entry in entries]
    faults += [DocumentFault("scenarios", f"id {name!r} stands {ids.count(name)} times") for name in _repeated(ids)]
    for n, (entry, (domain, variant)) in enumerate(zip(entries, expected_rows, strict=False)):
        faults += _entry_faults(entry, n, domain=domain, variant=variant)
    if faults:
        raise ProtocolError("manifest of pick-place 1", faults)
    return tuple(Scenario(**entry) for entry in entries)


def _repeated(ids: Sequence[Any]) -> list[Any]:
    return sorted({name for name in ids if ids.count(name) > 1}, key=str)


def _entry_faults(entry: Mapping[str, Any], n: int, *, domain: str, variant: str) -> list[DocumentFault]:
    name = f"pp-{n + 1:03d}"
    wanted = {"id": name, "family": name, "domain": domain, "variant": variant}
    faults = [
        DocumentFault(f"scenarios[{n}].{key}", f"expected {value!r}, got {entry.get(key)!r}")
        for key, value in wanted.items()
        if entry.get(key) != value
    ]
    try:
        read_scene(entry.get("parameters", {}))
    except ValidationError as error:
        faults += [
            DocumentFault(f"scenarios[{n}].parameters." + ".".join(str(part) for part in e["loc"]), e["msg"])
            for e in error.errors()
        ]
    return faults


@lru_cache(maxsize=1)
def scenarios() -> tuple[Scenario, ...]:
    """Return the scenarios of the shipped manifest, in order."""
    return load_manifest(MANIFEST_PATH.read_bytes())
