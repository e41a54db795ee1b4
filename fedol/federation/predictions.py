"""Clients of any architecture send what they predict: every knowledge method, and FedKT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from fedol import methods
from fedol.distillation import Store, serve
from fedol.federation.scenario import Scenario
from fedol.federation.scheme import Client, Lesson, seconds
from fedol.knowledge import Knowledge
from fedol.knowledge.uploads import Uploads, knowledge_files
from fedol.methods.fedkt import load_labels, save_labels, students, trainings
from fedol.methods.teacher import Teacher
from fedol.model import Architecture, ServerModel
from fedol.robust.screening import Screening, screen
from fedol.seeding import derive
from fedol.training import Process, predict


class Predictions:
    """A client sends its model's predictions on the public set."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario

    def architecture(self, k: int) -> Architecture:
        """Client k's own choice."""
        return self.scenario.client(k)

    def trainings(self, k: int) -> int:
        """The one that predicts."""
        return 1

    def client(self, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Learn the server's feedback, where there is any, then the private data; predict the public set."""
        here, architecture = self.scenario, self.architecture(k)
        job, spent = here.job(k, architecture, lesson.model if lesson else None), 0.0
        if lesson:
            job = replace(job, seed=derive(job.seed, "round", lesson.round))
        if lesson and lesson.feedback is not None and lesson.heeded is not None and lesson.heeded.sum() > 1:
            homework = replace(
                job,
                name=f"{job.name} feedback",
                images=here.public[lesson.heeded],
                targets=lesson.feedback[lesson.heeded],  # cross-entropy against q has the gradient of KL(q ‖ p_k)
                recipe=replace(job.recipe, epochs=lesson.epochs),
                seed=derive(job.seed, "feedback"),
            )
            spent += seconds((yield homework))
        spent += seconds((yield job))
        log_probs = predict(job.model, here.public, architecture.normalise, here.device)
        send = partial(Knowledge.from_logits(log_probs, here.task, f"client {k}").save, codec=here.config.codec)
        trained = ServerModel(job.model, architecture, [{"recipe": asdict(job.recipe)}], here.device)
        return Client(trained, send, spent)

    def uploads(self, paths: Sequence[Path]) -> Uploads:
        """What the server hears."""
        return knowledge_files(paths, self.scenario.task)

    def screening(self, paths: Sequence[Path]) -> Screening | None:
        """The verdict on the clients, where the defence asks for one."""
        return screen(self.uploads(paths)) if self.scenario.config.distillation.defence.trust else None

    def teacher(self, paths: Sequence[Path]) -> Teacher:
        """The method, having heard every client that the defence lets pass."""
        settings, screened = self.scenario.config.distillation, self.screening(paths)
        paths = [paths[k] for k in screened.kept] if screened else paths
        return methods.find(settings.method)(self.uploads(paths), settings)

    def server(
        self,
        uploads: Sequence[Path],
        store: Store | None = None,
        name: str = "server",
        start: nn.Module | None = None,
        round: int = 1,
    ) -> Process[ServerModel]:
        """The method's targets, and training on them."""
        here, recipe = self.scenario, self.scenario.config.distillation.recipe
        seed = here.config.seed if round == 1 else derive(here.config.seed, "round", round)
        teacher = self.teacher(uploads)
        return (yield from serve(teacher, here.public, here.server, recipe, seed, here.device, store, name, start))


class Students(Predictions):
    """FedKT: a client sends the classes that its students predict. It has one round only."""

    def trainings(self, k: int) -> int:
        """Teachers and students."""
        return trainings(len(self.scenario.shares[k]))

    def client(self, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Teachers on subsets of the private data, then students on the public set; the first one stays its model."""
        here, architecture = self.scenario, self.architecture(k)
        taught, spent = yield from students(here.job(k, architecture), architecture, here.public, here.device)
        predicted = [predict(model, here.public, architecture.normalise, here.device).argmax(1) for model in taught]
        send = partial(save_labels, labels=torch.stack(predicted))
        return Client(ServerModel(taught[0], architecture, device=here.device), send, spent)

    def uploads(self, paths: Sequence[Path]) -> Uploads:
        """One opinion per student."""
        return Uploads(paths, lambda path, k: load_labels(path, self.scenario.task, f"client {k}"))
