"""Train one checkpoint: demonstrations, then rounds of DAgger, then a .npz that policy.py reads without torch.

``python train.py short`` and ``python train.py long`` write ``weights-short.npz`` and ``weights-long.npz`` beside
this file and print their SHA-256. The README says how to make the environment.
"""
# mypy: ignore-errors

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from demonstrations import Demonstrations, Driver, collect, disturbed, joined
from policy import CHUNK_ROWS, FEATURES, ROW_NUMBERS, Network
from scenes import TRAINING_SEEDS, Disjointness, disjointness, drawn_scenes
from torch import nn

from trialplate.canonical import canonical_json
from trialplate.suites.pick_place.scenarios import MANIFEST_PATH

HERE = Path(__file__).parent
BATCH = 512
RATE = 1e-3
EXECUTED_ROWS_WEIGHT = 2.0
FINE = 0.02  # below this difference the loss of a translation is quadratic


@dataclass(frozen=True)
class Recipe:
    """What makes one checkpoint.

    ``scene_seeds``: one batch of training scenes per round; the demonstrator drives the first round, the student the
    others. ``scenes_per_round``: how many of a batch are used, None for all.
    """

    name: str
    scene_seeds: tuple[int, ...]
    scenes_per_round: int | None
    hidden: tuple[int, ...]
    epochs_per_round: int
    last_epochs: int
    seed: int


RECIPES = {
    "short": Recipe("short", TRAINING_SEEDS[:3], 24, (256, 256, 256), 12, 30, 11),
    "long": Recipe("long", TRAINING_SEEDS, None, (256, 256, 256), 12, 60, 12),
}


class Student(nn.Module):
    """Layers with ReLU between them; the last one's tanh is part of the loss and of policy.py."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            values = torch.relu(layer(values))
        return self.layers[-1](values).reshape(-1, CHUNK_ROWS, ROW_NUMBERS)


def loss_of(said: torch.Tensor, labels: torch.Tensor, row_weights: torch.Tensor) -> torch.Tensor:
    """Huber on the three translations, cross-entropy on the gripper; rows that are executed weigh more."""
    move = nn.functional.huber_loss(torch.tanh(said[..., :3]), labels[..., :3], reduction="none", delta=FINE) / FINE
    grip = nn.functional.binary_cross_entropy_with_logits(
        2.0 * said[..., 3], (labels[..., 3] > 0.0).float(), reduction="none"
    )
    return ((move.sum(-1) + grip) * row_weights).mean()


def fit(
    student: Student,
    data: Demonstrations,
    *,
    mean: np.ndarray,
    scale: np.ndarray,
    epochs: int,
    stream: np.random.Generator,
) -> float:
    """Train in place with a falling rate; return the loss of the last epoch."""
    inputs = torch.from_numpy((data.features - mean) / scale)
    labels = torch.from_numpy(data.labels)
    row_weights = torch.ones(CHUNK_ROWS)
    row_weights[: CHUNK_ROWS // 2] = EXECUTED_ROWS_WEIGHT
    optimiser = torch.optim.AdamW(student.parameters(), lr=RATE, weight_decay=1e-4)
    steps = epochs * max(1, len(inputs) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    total = 0.0
    for _ in range(epochs):
        order = torch.from_numpy(stream.permutation(len(inputs)))
        batches = order.split(BATCH)[: max(1, len(inputs) // BATCH)]
        total = 0.0
        for batch in batches:
            optimiser.zero_grad()
            loss = loss_of(student(inputs[batch]), labels[batch], row_weights)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() / len(batches)
    return total


def export(
    student: Student, path: Path, *, sizes: tuple[int, ...], mean: np.ndarray, scale: np.ndarray, metadata: dict
) -> None:
    """Write the checkpoint: float32 arrays and one JSON text; the same numbers give the same bytes."""
    arrays = {"sizes": np.array(sizes, np.int64), "mean": mean, "scale": scale}
    for n, layer in enumerate(student.layers):
        arrays[f"weight_{n}"] = layer.weight.detach().numpy().T.copy()
        arrays[f"bias_{n}"] = layer.bias.detach().numpy().copy()
    arrays["metadata"] = np.array(canonical_json(metadata).decode())
    np.savez(path, **arrays)


def driven_by(network: Network) -> Driver:
    """Return the student as a driver, by the same code that drives it under test."""
    return lambda situation, _: network.said(situation.features())


def train(recipe: Recipe, path: Path) -> None:
    """Run the recipe and write ``path`` after every round, so that a round is driven by what is exported."""
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    stream = np.random.default_rng(recipe.seed)
    sizes = (FEATURES, *recipe.hidden, CHUNK_ROWS * ROW_NUMBERS)
    student = Student(sizes)
    sets: list[Demonstrations] = []
    scenes = []
    mean = scale = None
    started = time.perf_counter()
    for number, scene_seed in enumerate(recipe.scene_seeds):
        fresh = drawn_scenes((scene_seed,))[: recipe.scenes_per_round]
        scenes += fresh
        drive = driven_by(Network(path)) if number else disturbed(recipe.seed, share=0.3, deviation=0.1)
        sets.append(collect(fresh, drive, seed=scene_seed * 1000))
        data = joined(sets)
        if number == 0:
            mean = data.features.mean(axis=0)
            scale = data.features.std(axis=0) + np.float32(1e-4)
        last = number == len(recipe.scene_seeds) - 1
        epochs = recipe.last_epochs if last else recipe.epochs_per_round
        loss = fit(student, data, mean=mean, scale=scale, epochs=epochs, stream=stream)
        metadata = describe(recipe, data, disjointness(scenes), rounds=number + 1, loss=loss)
        export(student, path, sizes=sizes, mean=mean, scale=scale, metadata=metadata)
        print(
            f"round {number}: driver placed {sets[-1].placed}/{sets[-1].episodes}, {len(data.features)} calls, "
            f"loss {loss:.4f}, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")


def describe(recipe: Recipe, data: Demonstrations, apart: Disjointness, *, rounds: int, loss: float) -> dict:
    """Return what the checkpoint says about itself."""
    return {
        "recipe": {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(recipe).items()},
        "rounds": rounds,
        "episodes": data.episodes,
        "calls": len(data.features),
        "demonstrations_sha256": data.sha256(),
        "last_loss": float(loss),
        "torch": str(torch.__version__),
        "manifest_sha256": hashlib.sha256(MANIFEST_PATH.read_bytes()).hexdigest(),
        "disjoint": apart.holds,
        "training_scenes": apart.scenes,
        "shared_digests": apart.shared_digests,
        "nearest_m": float(apart.nearest_m),
        "training_scenes_sha256": apart.scenes_sha256,
    }


def main() -> None:
    """Read the recipe's name and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("--out", type=Path, help="where to write; beside this file unless told")
    arguments = parser.parse_args()
    recipe = RECIPES[arguments.recipe]
    train(recipe, arguments.out or HERE / f"weights-{recipe.name}.npz")


if __name__ == "__main__":
    main()
