"""A method on a scenario: each client's part of a round, and the server's.

A server reads the uploads from files, exactly as they were sent. Both sides are processes for ``training.drive``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from fedol import methods
from fedol.distillation import Learnt, Note, Store, learn
from fedol.federation.scenario import Scenario
from fedol.knowledge.uploads import Uploads
from fedol.methods import Client, Lesson, Method, Teacher
from fedol.model import Architecture
from fedol.seeding import derive
from fedol.training import Process


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
