"""Everything that is fixed before anyone trains: who holds which data, who runs which model, and each one's part.

A server reads the uploads from files, exactly as they were sent. Both sides are processes for ``training.drive``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedol import methods
from fedol.config import ModelName, RunConfig
from fedol.data import Dataset, Split, load, partition, split
from fedol.data.dataset import parts
from fedol.data.findings import strata
from fedol.data.reading import Reading, sited
from fedol.data.samples import Samples
from fedol.distillation import Learnt, Note, Store, hear, learn
from fedol.errors import FedolError, InputError
from fedol.knowledge.ahead import Uploads
from fedol.knowledge.task import Task
from fedol.methods import Client, Lesson, Method, Teacher
from fedol.methods.sides import guarded
from fedol.model import Architecture
from fedol.runs.folder import RunFolder
from fedol.seeding import derive
from fedol.training import Job, OnEpoch, Process, drive, resolve_device


def deal(config: RunConfig, dataset: Dataset) -> list[npt.NDArray[np.int64]]:
    """Which of the private samples each client of a configuration holds."""
    dataset = sited(dataset, config.partition)
    *_, private = parts(dataset, config.public, config.seed, config.development)
    labels, groups = dataset.train.y[private], dataset.train.groups
    groups = None if groups is None else groups[private]
    labels, classes = strata(labels) if dataset.findings else (labels, len(dataset.classes))
    return partition(labels, config.partition, config.clients, config.seed, classes, groups=groups)


class Scenario:
    """The data of a configuration, split and dealt to clients, and the models to train on it."""

    def __init__(self, config: RunConfig, dataset: Dataset | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dataset = sited(dataset or load(config.dataset, config.data_dir, Reading.of(config)), config.partition)
        self.data: Split = split(self.dataset, config.public, config.seed, config.development)
        self.public: Samples = self.data.shared  # one object: an engine keeps one copy on its device
        self.shares = deal(config, self.dataset)
        self.task = Task.of(self.public, self.dataset.classes, findings=self.dataset.findings)
        if self.dataset.findings and not methods.find(config.method).hears:
            raise InputError(
                f"{self.dataset.name} has findings, several of which a sample may have, and the method "
                f"'{config.method}' knows classes alone; use union, fedol, or another that learns from predictions."
            )
        if self.dataset.findings and config.own_classes:
            raise InputError("Every client answers on every finding; leave --own-classes out.")

    def under(self, config: RunConfig) -> Scenario:
        """The same data and clients under other settings of training and method, without a second copy of the data."""
        other = copy.copy(self)
        other.config = config
        return other

    def architecture(self, model: ModelName) -> Architecture:
        """A model for this data."""
        known = self.dataset
        return Architecture.on(
            self.public, model, known.classes, self.config.width, self.data.prepare, findings=known.findings
        )

    def client(self, k: int) -> Architecture:
        """Client k's own model; with ``own_classes``, of the classes that it holds."""
        known = self.architecture(self.config.client_model(k))
        return known.holding(self.data.private.y[self.shares[k]]) if self.config.own_classes else known

    @property
    def server(self) -> Architecture:
        """The server's model."""
        return self.architecture(self.config.server_model)

    def job(self, k: int, architecture: Architecture, model: nn.Module | None = None) -> Job:
        """Client k's training of a model, or of a new one, on its private data: cross-entropy on its labels."""
        share, name = self.data.private.take(self.shares[k]), f"client {k}"
        architecture.prepare.ready(share.samples)
        return Job(
            name=name,
            model=architecture.build(derive(self.config.seed, name, "init")) if model is None else model,
            inputs=share.samples,
            targets=torch.from_numpy(share.y),
            prepare=architecture.prepare,
            recipe=self.config.recipe,
            seed=derive(self.config.seed, name),
        )

    def class_counts(self) -> list[npt.NDArray[np.int64]]:
        """How many samples of each class, or with each finding, each client holds."""
        return [self.data.private.take(share).counts(len(self.dataset.classes)) for share in self.shares]

    def describe(self) -> dict[str, Any]:
        """Who holds how many samples of which class, or with which finding."""
        classes, findings = self.dataset.classes, self.dataset.findings
        counts = self.class_counts()
        return {
            "dataset": self.dataset.name,
            "fingerprint": self.dataset.fingerprint,
            "task": self.task.id,
            "classes": list(classes),
            **({"findings": list(findings)} if findings else {}),
            "public": len(self.public),
            "test": len(self.data.test),
            "samples_per_client_and_class": [count.tolist() for count in counts],
        }


@dataclass(frozen=True)
class Scheme:
    """How a federation goes under one method."""

    scenario: Scenario
    method: Method

    @classmethod
    def of(cls, scenario: Scenario) -> Scheme:
        """The scheme of the configuration's method."""
        return cls(scenario, methods.find(scenario.config.method))

    def architecture(self, k: int) -> Architecture:
        """Client k's model."""
        return self.method.client.architecture(self.scenario, k)

    def trainings(self, k: int) -> int:
        """How many models client k trains in the first round."""
        return self.method.client.trainings(self.scenario, k)

    def client(self, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Client k's part of a round."""
        return self.method.client.work(self.scenario, k, lesson)

    def uploads(self, paths: Sequence[Path]) -> Uploads:
        """What the server hears of these files."""
        return self.method.client.uploads(self.scenario, paths)

    def teacher(self, paths: Sequence[Path]) -> Teacher:
        """The method, having heard everyone that the server listens to."""
        here = self.scenario
        heard = hear(self.method, self.uploads(paths), here.config.distillation, findings=len(here.dataset.findings))
        return heard[0]

    def server(
        self,
        uploads: Sequence[Path],
        store: Store | None = None,
        name: str = "server",
        start: nn.Module | None = None,
        round: int = 1,
        note: Note | None = None,
    ) -> Process[Learnt]:
        """The server's part of a round; from the second on it starts from the model of the last one."""
        here = self.scenario
        if self.method.combine:
            yield from ()
            return Learnt(self.method.combine(here, uploads))
        seed = here.config.seed if round == 1 else derive(here.config.seed, "round", round)
        plan = here.config.distillation
        knowledge = self.uploads(uploads)
        return (
            yield from learn(
                self.method, knowledge, here.public, here.server, plan, seed, here.device, store, name, start, note
            )
        )


Engine = Callable[[Scheme, Sequence[int], RunFolder, OnEpoch], list[str]]
"""Trains these clients, leaves each one's model and upload in the folder, and returns why any failed."""


def in_process(scheme: Scheme, clients: Sequence[int], folder: RunFolder, on_epoch: OnEpoch) -> list[str]:
    """All of them side by side in this process."""
    processes, failed = [guarded(scheme.client(k)) for k in clients], []
    for position, client in drive(processes, scheme.scenario.device, on_epoch):
        if isinstance(client, FedolError):
            failed.append(str(client))
            continue
        k = clients[position]
        client.model.save(folder.client_model(k))
        folder.log({"stage": "client", "client": k, "seconds": client.seconds, "losses": client.losses})
        client.send(folder.knowledge(k))
    return failed
