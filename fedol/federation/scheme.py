"""A method on a scenario: each client's part of a round, and the server's.

A server reads the uploads from files, exactly as they were sent. Both sides are processes for ``training.drive``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fedol import methods
from fedol.distillation import Learnt, Note, Store, learn
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.knowledge.uploads import Uploads
from fedol.methods import Client, Lesson, Method, Teacher
from fedol.methods.sides import guarded
from fedol.model import Architecture
from fedol.runs.folder import RunFolder
from fedol.seeding import derive
from fedol.training import OnEpoch, Process, drive


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
        """The method, having heard everyone."""
        return self.method.teacher(self.uploads(paths), self.scenario.config.distillation)

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
        folder.log({"stage": "client", "client": k, "seconds": client.seconds})
        client.send(folder.knowledge(k))
    return failed
