"""A method is a function from knowledge to targets; everything else about training a server is the same for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fedol.core.voting import PseudoLabels
from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.robust.defence import Defence
from fedol.settings import Voting, check_kinds
from fedol.training import Recipe


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


def once(soft: Tensor, strange: int | None = None, **record: float) -> Teacher:
    """The teacher that trains the server one time on ``soft`` [N, C]; ``record`` goes into the history."""
    return Once(Targets(soft.float(), record, strange=strange))


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """Hard labels [N] as targets [N, C]."""
    return F.one_hot(labels.long(), classes).to(torch.float64)


def everywhere(server: Tensor, targets: Tensor) -> Tensor:
    """The samples whose feedback clients learn before another round, a mask [N]: all of them, unless a method says."""
    return torch.ones(len(server), dtype=torch.bool)
