"""Clients of one architecture send their weights: FedAvg and FedProx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from fedol.distillation import Store
from fedol.federation.scenario import Scenario
from fedol.federation.scheme import Client, Lesson, seconds
from fedol.methods import PARAMETER_METHODS
from fedol.methods.fedavg import average, recalibrate
from fedol.model import Architecture, ServerModel, load
from fedol.seeding import derive
from fedol.training import Process


class Weights:
    """A client sends its trained weights; the server averages them."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._method = PARAMETER_METHODS[scenario.config.method]

    def architecture(self, k: int) -> Architecture:
        """The same for everyone."""
        return self.scenario.architecture(self.scenario.config.parameter_model)

    def trainings(self, k: int) -> int:
        """The one that it sends."""
        return 1

    def client(self, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Train the weights that everyone starts from on the private data."""
        here, architecture = self.scenario, self.architecture(k)
        model = architecture.build(derive(here.config.seed, "parameters", "init"))
        job = here.job(k, architecture, model)
        if lesson:
            model.load_state_dict(lesson.model.state_dict())
            job = replace(job, seed=derive(job.seed, "round", lesson.round))
        if self._method.proximal:
            job = replace(job, recipe=replace(job.recipe, proximal=here.config.mu))
        spent = seconds((yield job))
        trained = ServerModel(model, architecture, device=here.device)
        return Client(trained, trained.save, spent)

    def server(
        self,
        uploads: Sequence[Path],
        store: Store | None = None,
        name: str = "server",
        start: nn.Module | None = None,
        round: int = 1,
    ) -> Process[ServerModel]:
        """The average, by the clients' numbers of samples; nothing is trained."""
        yield from ()
        here, architecture = self.scenario, self.architecture(0)
        module = architecture.build()
        states = (load(path, architecture.model).module.state_dict() for path in uploads)
        module.load_state_dict(average(zip(states, map(len, here.shares), strict=True)))
        if self._method.recalibrate:
            recalibrate(module, here.public, architecture.normalise, here.device)
        return ServerModel(module.eval(), architecture, device=here.device)
