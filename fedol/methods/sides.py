"""The two sides of a method: what a client trains and sends, and what the server learns from.

Most methods' clients have ``Predictions``; FedKT's and FedAvg's own are in their files. A client's side sees it through
a ``Site``, which a simulation's scenario is; its work is a process for ``training.drive``. The server's side is a
function from knowledge to targets; everything else about training a server is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedol.core.pooling import TINY
from fedol.core.voting import PseudoLabels
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError
from fedol.knowledge import Knowledge, Task
from fedol.knowledge.ahead import Uploads, knowledge_files
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec
from fedol.models.fitted import fitted_in
from fedol.robust import Defence
from fedol.seeding import derive
from fedol.settings import Voting, check_kinds
from fedol.training import Fit, Job, Process, Recipe, predict

T = TypeVar("T")


@dataclass(frozen=True)
class Client:
    """A client that has finished its part of a round: its model, and how to write what it sends to a file."""

    model: ServerModel
    send: Callable[[Path], object]
    seconds: float  # of training
    losses: tuple[float, ...] = ()  # after each epoch; over its folds their mean


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
        """Client k's own model, with the classes that it answers on."""

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
            # Cross-entropy against q has the gradient of KL(q ‖ p_k); of other classes a client learns nothing.
            feedback = architecture.own(lesson.feedback[lesson.heeded])
            homework = replace(
                job,
                name=f"{job.name} feedback",
                inputs=site.public.take(lesson.heeded),
                targets=feedback,
                recipe=replace(job.recipe, epochs=lesson.epochs),
                seed=derive(job.seed, "feedback"),
            )
            if fitted_in(job.model):  # it forgets one training at the next, so it learns both in one
                private = one_hot(job.targets, feedback.shape[1]).to(feedback.dtype)
                inputs = job.inputs.joined(homework.inputs)
                job = replace(job, inputs=inputs, targets=torch.cat([private, feedback]))
            else:
                spent += seconds((yield homework))
        result = yield job
        spent += seconds(result)
        log_probs = predict(job.model, site.public, architecture.prepare, site.device)
        held = architecture.answers
        own = Knowledge.from_logits(log_probs[:, held], site.task, f"client {k}", held)
        send = partial(own.save, codec=site.config.codec)
        trained = ServerModel(job.model, architecture, [{"recipe": job.recipe.as_json()}], site.device)
        return Client(trained, send, spent, result.losses)

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


@dataclass(frozen=True)
class Distillation(Voting):
    """How the server learns."""

    recipe: Recipe = field(default_factory=Recipe)
    defence: Defence = field(default_factory=Defence)

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.iterations < 1:
            raise InputError(f"iterations must be at least 1, but is {self.iterations}.")
        if not 0 < self.rho <= 1 or not 0 <= self.rho_step <= 1:
            raise InputError(f"rho must lie in (0, 1] and rho_step in [0, 1], but are {self.rho} and {self.rho_step}.")
        if not 0 <= self.tau < float("inf"):
            raise InputError(f"tau must be a finite number of at least 0, but is {self.tau}.")


@dataclass(frozen=True)
class Targets:
    """What the server trains on in one iteration, and what to remember of how it came about."""

    soft: Tensor  # [N, C]; rows need not sum to one
    record: Mapping[str, float] = field(default_factory=dict)
    votes: PseudoLabels[Tensor] | None = None
    strange: int | None = None  # how many samples are like no client's, where the method can tell
    restart: bool = False  # train from freshly drawn weights instead of continuing the server's
    posterior: Tensor | None = None  # what ``soft`` was softened from, [N, C]; none: it was not
    weight: Tensor | None = None  # how often each sample is to count in the prior, [N]; none: all alike

    @property
    def sharp(self) -> Tensor:
        """The targets as distributions, before anything softened them."""
        found = (self.soft if self.posterior is None else self.posterior).double()
        return found / found.sum(1, keepdim=True).clamp_min(TINY)

    @property
    def prior(self) -> Tensor:
        """The classes' shares [C] among what taught the targets: what a site's own shares replace."""
        weight = torch.ones(len(self.soft)) if self.weight is None else self.weight
        total = (weight.double()[:, None] * self.sharp).sum(0)
        return total / total.sum().clamp_min(TINY)


class Teacher(Protocol):
    """A method that has heard all clients."""

    @property
    def iterations(self) -> int:
        """How often the server trains."""

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """Targets of one iteration (from 1); ``server``: its own public probabilities, from the second iteration on."""


@dataclass(frozen=True)
class Clients:
    """Knowledge as a method goes through it, once or again; that there is none is said here, for all methods."""

    knowledge: Iterable[Knowledge]

    def __iter__(self) -> Iterator[Knowledge]:
        nobody = True
        for client in self.knowledge:
            nobody = False
            yield client
        if nobody:
            raise InputError(
                "There is no client to learn from; at least one client's predictions are needed, and as some methods "
                "go through them twice, in a list rather than a generator."
            )


@dataclass(frozen=True)
class Once:
    """A teacher with one target for one iteration: every knowledge method that trains once."""

    answer: Targets
    iterations: int = 1

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """The target; it depends neither on the iteration nor on the server."""
        return self.answer


def once(
    soft: Tensor,
    strange: int | None = None,
    posterior: Tensor | None = None,
    weight: Tensor | None = None,
    **record: float,
) -> Teacher:
    """The teacher that trains the server one time on ``soft`` [N, C]; ``record`` goes into the history."""
    return Once(Targets(soft.float(), record, strange=strange, posterior=posterior, weight=weight))


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """Hard labels [N] as targets [N, C]."""
    return F.one_hot(labels.long(), classes).to(torch.float64)


def everywhere(server: Tensor, targets: Tensor) -> Tensor:
    """The samples whose feedback clients learn before another round, a mask [N]: all of them, unless a method says."""
    return torch.ones(len(server), dtype=torch.bool)
