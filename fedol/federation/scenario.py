"""Everything that is fixed before anyone trains: who holds which data, and who runs which model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedol.config import ModelName, RunConfig
from fedol.data import Dataset, Split, load, partition, split
from fedol.data.samples import Samples
from fedol.data.split import parts
from fedol.knowledge.task import Task
from fedol.model import Architecture
from fedol.seeding import derive
from fedol.training import Job, resolve_device


def deal(config: RunConfig, dataset: Dataset) -> list[npt.NDArray[np.int64]]:
    """Which of the private samples each client of a configuration holds."""
    *_, private = parts(dataset, config.public, config.seed, config.development)
    labels, groups = dataset.train.y[private], dataset.train.groups
    groups = None if groups is None else groups[private]
    return partition(labels, config.partition, config.clients, config.seed, len(dataset.classes), groups=groups)


class Scenario:
    """The data of a configuration, split and dealt to clients, and the models to train on it."""

    def __init__(self, config: RunConfig, dataset: Dataset | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dataset = dataset or load(config.dataset, config.data_dir)
        self.data: Split = split(self.dataset, config.public, config.seed, config.development)
        self.public: Samples = self.data.shared  # one object: an engine keeps one copy on its device
        self.shares = deal(config, self.dataset)
        self.task = Task.of(self.public, self.dataset.classes)

    def under(self, config: RunConfig) -> Scenario:
        """The same data and clients under other settings of training and method, without a second copy of the data."""
        other = copy.copy(self)
        other.config = config
        return other

    def architecture(self, model: ModelName) -> Architecture:
        """A model for this data."""
        return Architecture.on(self.public, model, self.dataset.classes, self.config.width, self.data.prepare)

    def client(self, k: int) -> Architecture:
        """Client k's own model."""
        return self.architecture(self.config.client_model(k))

    @property
    def server(self) -> Architecture:
        """The server's model."""
        return self.architecture(self.config.server_model)

    def job(self, k: int, architecture: Architecture, model: nn.Module | None = None) -> Job:
        """Client k's training of a model, or of a new one, on its private data: cross-entropy on its labels."""
        share, name = self.data.private.take(self.shares[k]), f"client {k}"
        return Job(
            name=name,
            model=architecture.build(derive(self.config.seed, name, "init")) if model is None else model,
            inputs=share.samples,
            targets=torch.from_numpy(share.y),
            prepare=architecture.prepare,
            recipe=self.config.recipe,
            seed=derive(self.config.seed, name),
        )

    def describe(self) -> dict[str, Any]:
        """Who holds how many samples of which class."""
        classes = self.dataset.classes
        counts = [np.bincount(self.data.private.y[share], minlength=len(classes)) for share in self.shares]
        return {
            "dataset": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "task": self.task.id,
            "classes": list(classes),
            "public": len(self.public),
            "test": len(self.data.test),
            "samples_per_client_and_class": [count.tolist() for count in counts],
        }
