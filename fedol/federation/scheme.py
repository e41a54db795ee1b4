"""How a federation goes: what a client does and sends, and what the server makes of it.

There is one class per kind of upload: ``Predictions``, ``Students`` (FedKT's labels) and ``Weights``. A server reads
the uploads from files, exactly as they were sent. Both sides are processes for ``training.drive``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from torch import Tensor, nn

from fedol.distillation import Store
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.model import Architecture, ServerModel
from fedol.training import Fit, Process

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


class Scheme(Protocol):
    """One kind of federation."""

    scenario: Scenario

    def architecture(self, k: int) -> Architecture:
        """Client k's model."""

    def trainings(self, k: int) -> int:
        """How many models client k trains in the first round."""

    def client(self, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Client k's part of a round."""

    def server(
        self,
        uploads: Sequence[Path],
        store: Store | None = None,
        name: str = "server",
        start: nn.Module | None = None,
        round: int = 1,
    ) -> Process[ServerModel]:
        """The server's part of a round; from the second on it starts from the model of the last one."""


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
