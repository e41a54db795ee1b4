"""The client's side of a method: what it trains, and what it sends.

Most methods have ``Predictions``. FedKT's and FedAvg's own are in their files. A side sees the client through a
``Site``, which a simulation's scenario is; its work is a process for ``training.drive``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from fedol.data.samples import Samples
from fedol.errors import FedolError
from fedol.knowledge import Knowledge, Task
from fedol.knowledge.upload import Uploads, knowledge_files
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec
from fedol.seeding import derive
from fedol.training import Fit, Job, Process, predict

T = TypeVar("T")


@dataclass(frozen=True)
class Client:
    """A client that has finished its part of a round: its model, and how to write what it sends to a file."""

    model: ServerModel
    send: Callable[[Path], object]
    seconds: float  # of training


@dataclass(frozen=True)
class Lesson:
    """What a client starts another round from; the first round, so all of a one-shot method, has none."""

    round: int  # the one that begins, from 2
    model: nn.Module  # its own, or the one the server broadcasts
    feedback: Tensor | None = None  # the server's probabilities on the public set [N, C]
    heeded: Tensor | None = None  # the samples on which they are learnt, a mask [N]
    epochs: int = 20  # of learning them


class Site(Protocol):
    """Where clients and server are: the data, who holds them, and the models on them."""

    config: Any  # its settings: seed, codec, parameter_model, mu
    task: Task
    public: Samples
    device: torch.device

    @property
    def shares(self) -> Sequence[Any]:
        """The private samples of each client."""

    def architecture(self, model: ModelSpec) -> Architecture:
        """A model for this data."""

    def client(self, k: int) -> Architecture:
        """Client k's own model."""

    def job(self, k: int, architecture: Architecture, model: nn.Module | None = None) -> Job:
        """Client k's training on its private data."""


class Side(Protocol):
    """What a client does and sends."""

    sends: str
    heeds: tuple[str, ...]  # the settings that it alone depends on

    def architecture(self, site: Site, k: int) -> Architecture:
        """Client k's model."""

    def trainings(self, site: Site, k: int) -> int:
        """How many models client k trains in the first round."""

    def images(self, private: float, public: int) -> float:
        """How many samples a client with so many private ones goes through in an epoch of the first round."""

    def work(self, site: Site, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Client k's part of a round."""

    def uploads(self, site: Site, paths: Sequence[Path]) -> Uploads:
        """What the server hears of the files that came, in a method that learns from knowledge."""


class Predictions:
    """A client of any architecture sends what its model predicts on the public set."""

    sends: str = "predictions"
    heeds: tuple[str, ...] = ()

    def architecture(self, site: Site, k: int) -> Architecture:
        """Its own choice."""
        return site.client(k)

    def trainings(self, site: Site, k: int) -> int:
        """The one that predicts."""
        return 1

    def images(self, private: float, public: int) -> float:
        """Its own."""
        return private

    def work(self, site: Site, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Learn the server's feedback, where there is any, then the private data; predict the public set."""
        architecture = self.architecture(site, k)
        job, spent = site.job(k, architecture, lesson.model if lesson else None), 0.0
        if lesson:
            job = replace(job, seed=derive(job.seed, "round", lesson.round))
        if lesson and lesson.feedback is not None and lesson.heeded is not None and lesson.heeded.sum() > 1:
            homework = replace(
                job,
                name=f"{job.name} feedback",
                inputs=site.public.take(lesson.heeded),
                targets=lesson.feedback[lesson.heeded],  # cross-entropy against q has the gradient of KL(q ‖ p_k)
                recipe=replace(job.recipe, epochs=lesson.epochs),
                seed=derive(job.seed, "feedback"),
            )
            spent += seconds((yield homework))
        spent += seconds((yield job))
        log_probs = predict(job.model, site.public, architecture.prepare, site.device)
        send = partial(Knowledge.from_logits(log_probs, site.task, f"client {k}").save, codec=site.config.codec)
        trained = ServerModel(job.model, architecture, [{"recipe": job.recipe.as_json()}], site.device)
        return Client(trained, send, spent)

    def uploads(self, site: Site, paths: Sequence[Path]) -> Uploads:
        """One opinion per file."""
        return knowledge_files(paths, site.task)


def guarded(process: Process[T]) -> Process[T | FedolError]:
    """A process whose failure is its result: it stops none of those that run beside it."""
    try:
        return (yield from process)
    except FedolError as error:
        return error


def seconds(result: Fit) -> float:
    """The time of a training that went well; an error otherwise."""
    if result.error:
        raise FedolError(result.error)
    return result.seconds
