"""Ten clients' predictions to try attacks on: stored ones of CIFAR-100, and ones trained here, held out.

The stored four are those that the thresholds of ``fedol.robust`` were set on; its rules were written with simulated
ones of seeds 1 to 4, and digits of 11 to 18, in view. Nothing was tuned on those with the record's seeds, 21 to 23.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _record import ROOT
from torch import Tensor

from fedol.config import RunConfig
from fedol.data import Dataset, Labelled, load
from fedol.errors import InputError
from fedol.federation.scenario import Scenario
from fedol.training import fit, predict

PREDICTIONS = ROOT.parent / "shared" / "data" / "predictions"
PARTITIONS = ("iid", "dirichlet:1", "dirichlet:0.3", "dirichlet:0.1", "dirichlet:0.05", "classes:3")
CIFAR20 = PARTITIONS[1:3] + PARTITIONS[4:5]  # 20 classes of CIFAR-100 make a federation between the other two


@dataclass(frozen=True)
class Federation:
    """All clients' honest probabilities, and the labels that only scoring sees."""

    name: str
    clients: list[Tensor]
    truth: Tensor

    def score(self, labels: Tensor) -> float:
        """Percent right of the labels that there are."""
        return 100 * (labels == self.truth)[labels >= 0].double().mean().item()


def read(folder: Path) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The files of shared/data/predictions: their names, the clients' logits [K, N, C] and the truth [N]."""
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise InputError(f"There are no predictions (*.npz) in {folder}; say with --predictions where they are.")
    for file in files:
        with np.load(file) as arrays:
            logits, truth = arrays["public_logits"].astype(np.float32), arrays["public_labels"].astype(np.int64)
        yield file.stem, torch.from_numpy(logits), torch.from_numpy(truth)


def stored(folder: Path) -> Iterator[Federation]:
    """These files' federations."""
    for name, logits, truth in read(folder):
        yield Federation(name, list(logits.softmax(2)), truth)


def simulated(seeds: list[int], cifar: str | None) -> Iterator[Federation]:
    """Digits in every partition, and, where CIFAR-100 is there, 20 of its classes in three of them."""
    for seed in seeds:
        for partition in PARTITIONS:
            config = RunConfig(partition=partition, seed=seed, client_models=("mlp", "cnn"), epochs=15, device="cpu")
            yield _trained(f"digits {partition}", config, load("digits"))
        if cifar:
            data = _twenty(load("cifar100", cifar), seed)
            for partition in CIFAR20:
                config = RunConfig(
                    partition=partition,
                    seed=seed,
                    client_models=("cnn",),
                    width=8,
                    epochs=12,
                    public=2000,
                    device="cpu",
                )
                yield _trained(f"cifar20 {partition}", config, data)


def _trained(name: str, config: RunConfig, data: Dataset) -> Federation:
    here = Scenario(config, data)
    jobs = [here.job(k, here.client(k)) for k in range(config.clients)]
    for result in fit(jobs, here.device):
        assert result.error is None, result.error
    truth = torch.from_numpy(here.data.public_labels)
    clients = [predict(job.model, here.public, job.prepare, here.device).exp() for job in jobs]
    return Federation(f"{name} seed {config.seed}", clients, truth)


def _twenty(data: Dataset, seed: int) -> Dataset:
    """Twenty classes, drawn by the seed."""
    chosen = np.sort(np.random.default_rng(seed).choice(len(data.classes), 20, replace=False))

    def part(images: Labelled) -> tuple[np.ndarray, np.ndarray]:
        kept = np.isin(images.y, chosen)
        return images.x[kept], np.searchsorted(chosen, images.y[kept])

    return Dataset.from_arrays(*part(data.train), *part(data.test), [data.classes[c] for c in chosen], "cifar20")
