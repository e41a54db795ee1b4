"""FedKT (Li et al. 2021): clients distill ensembles of their own into students; the server learns from their votes.

Client: s random partitions of its data into t subsets, a teacher on each subset; per partition the t teachers vote a
hard label for every public sample and one student learns these. It sends the s students' classes: s·N small integers.
Server: consistent voting. A client counts where all its students agree, and then with all s votes.
Every training follows the recipe of all methods here (50 epochs in the paper's preset), not the 100 epochs with L2 1e-5
of the authors' code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor, nn

from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError
from fedol.files import intact, read_tensors, write_tensors
from fedol.knowledge import Knowledge
from fedol.knowledge.ahead import Uploads
from fedol.knowledge.task import Task
from fedol.methods.method import method
from fedol.methods.sides import Client, Distillation, Lesson, Predictions, Site, Teacher, once, one_hot
from fedol.model import Architecture, ServerModel
from fedol.seeding import derive
from fedol.training import Job, Process, predict


@dataclass(frozen=True)
class Ensembles:
    """The paper's s = 2 partitions of t = 5 subsets."""

    partitions: int = 2
    subsets: int = 5


def students(
    private: Job, architecture: Architecture, public: Samples, device: torch.device, ensembles: Ensembles = Ensembles()
) -> Process[tuple[list[nn.Module], float]]:
    """The client side: the s students, and the seconds it took.

    ``private`` is what a client of any other method trains: data, recipe, seed.
    """
    taught, spent = [], 0.0
    for part in range(ensembles.partitions):
        votes = torch.zeros(len(public), len(architecture.classes), dtype=torch.int32)
        for number, subset in enumerate(_subsets(private, part, ensembles.subsets)):
            name = f"{private.name} teacher {part + 1}.{number + 1}"
            model = architecture.build(derive(private.seed, name, "init"))
            inputs, targets = private.inputs.take(subset), private.targets[subset]
            spent += yield from _train(replace(private, name=name, model=model, inputs=inputs, targets=targets))
            chosen = predict(model, public, private.prepare, device).argmax(1, keepdim=True)
            votes.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=votes.dtype))
        name = f"{private.name} student {part + 1}"
        student = architecture.build(derive(private.seed, name, "init"))
        labels = votes.argmax(1)  # a tie goes to the lowest class
        spent += yield from _train(replace(private, name=name, model=student, inputs=public, targets=labels))
        taught.append(student)
    return taught, spent


def trainings(samples: int, ensembles: Ensembles = Ensembles()) -> int:
    """How many models a client with so many samples trains: for each partition its teachers and a student."""
    return ensembles.partitions * (_teachers(samples, ensembles.subsets) + 1)


def _teachers(samples: int, subsets: int) -> int:
    """One per subset, or as many as leave each two samples to train on."""
    return max(1, min(subsets, samples // 2))


def _subsets(private: Job, part: int, count: int) -> Iterable[Tensor]:
    """A random partition, with a subset for each teacher."""
    generator = torch.Generator().manual_seed(derive(private.seed, "fedkt", part))
    order = torch.randperm(len(private.inputs), generator=generator)
    return torch.tensor_split(order, _teachers(len(order), count))


def _train(job: Job) -> Process[float]:
    """One teacher or student; the seconds it took."""
    result = yield replace(job, seed=derive(job.seed, job.name))
    if result.error:
        raise FedolError(result.error)
    return result.seconds


def save_labels(path: Path, labels: Tensor) -> None:
    """Write a client's upload, the students' classes [s, N]: one byte each up to 256 classes."""
    kind = torch.uint8 if labels.max() < 256 else torch.int32
    write_tensors(path, {"labels": labels.to(kind)}, {"kind": "student labels"})


def load_labels(path: Path, task: Task, client: str) -> Iterator[Knowledge]:
    """Read an upload back: one (certain) opinion per student, all in the client's name."""
    with intact(path, "make it again"):
        labels = read_tensors(path)[0]["labels"]
    known = labels.dim() == 2 and labels.numel() > 0 and labels.dtype in (torch.uint8, torch.int32)
    if not known or labels.shape[1] != task.samples or not 0 <= labels.min() <= labels.max() < len(task.classes):
        raise InputError(f"{path} does not answer the task {task.id}: make it again for this one.", path)
    for student in labels:
        yield Knowledge.from_probabilities(one_hot(student, len(task.classes)), task, client)


class Students(Predictions):
    """A client sends the classes that its students predict. FedKT has one round only."""

    sends = "students"

    def trainings(self, site: Site, k: int) -> int:
        """Teachers and students."""
        return trainings(len(site.shares[k]))

    def images(self, private: float, public: int) -> float:
        """s·t teachers on 1/t of its own each, then s students on the public ones."""
        return Ensembles().partitions * (private + public)

    def work(self, site: Site, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Teachers on subsets of the private data, then students on the public set; the first one stays its model."""
        architecture = self.architecture(site, k)
        taught, spent = yield from students(site.job(k, architecture), architecture, site.public, site.device)
        predicted = [predict(model, site.public, architecture.prepare, site.device).argmax(1) for model in taught]
        send = partial(save_labels, labels=torch.stack(predicted))
        return Client(ServerModel(taught[0], architecture, device=site.device), send, spent)

    def uploads(self, site: Site, paths: Sequence[Path]) -> Uploads:
        """One opinion per student."""
        return Uploads(paths, lambda path, k: load_labels(path, site.task, f"client {k}"))


@method(
    "fedkt",
    "FedKT",
    client=Students(),
    heeds=(),
    compared=("one-round", "equal-compute", "cost"),
    row=12,
    paper="FedKT",
)
def fedkt(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """Hard labels by consistent voting, trained once; the students of one client come in a row under its name."""
    consistent, plain = torch.zeros(()), torch.zeros(())
    for _, group in groupby(knowledge, key=lambda student: student.client):
        votes = [one_hot(student.log_probs.argmax(1), student.log_probs.shape[1]) for student in group]
        counts = torch.stack(votes).sum(0)
        plain = plain + counts
        consistent = consistent + counts * (counts == len(votes))
    # Where no client agrees with itself all counts are zero and the first class would win: ask everyone instead.
    nobody = consistent.sum(1) == 0
    labels = torch.where(nobody[:, None], plain, consistent).argmax(1)
    return once(one_hot(labels, plain.shape[1]), fallback=nobody.double().mean().item())
