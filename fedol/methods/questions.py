"""A method where samples have several findings: it is asked about each, as about two classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from fedol.core.voting import PseudoLabels
from fedol.knowledge import Knowledge
from fedol.methods.method import Method
from fedol.methods.sides import Distillation, Targets, Teacher


@dataclass(frozen=True)
class About:
    """What the clients say of one finding; a file is read again for each, so that memory stays as it is for one."""

    knowledge: Iterable[Knowledge]
    finding: int

    def __iter__(self) -> Iterator[Knowledge]:
        return (client.about(self.finding) for client in self.knowledge)


@dataclass(frozen=True)
class Questions:
    """A teacher for each finding, as one: rows as in ``fedol.data.findings``."""

    teachers: Sequence[Teacher]

    @classmethod
    def of(cls, method: Method, knowledge: Iterable[Knowledge], settings: Distillation, findings: int) -> Teacher:
        """The method, having heard all clients about every finding."""
        return cls([method.teacher(About(knowledge, finding), settings) for finding in range(findings)])

    @property
    def iterations(self) -> int:
        """How often the server trains."""
        return max(teacher.iterations for teacher in self.teachers)

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """Those of each finding, row by row; of what they record, the mean."""
        count = len(self.teachers)
        parts = [
            teacher.targets(iteration, None if server is None else server[finding::count])
            for finding, teacher in enumerate(self.teachers)
        ]
        votes = [part.votes for part in parts if part.votes is not None]
        return Targets(
            _rows([part.soft for part in parts]),
            {name: fmean(part.record[name] for part in parts) for name in parts[0].record},
            PseudoLabels(*(_rows(list(each)) for each in zip(*map(_columns, votes), strict=True))) if votes else None,
            restart=parts[0].restart,
        )


def _columns(votes: PseudoLabels[Tensor]) -> tuple[Tensor, ...]:
    return votes.labels, votes.score, votes.voters


def _rows(parts: Sequence[Tensor]) -> Tensor:
    """One tensor [N, ...] a finding -> [N · findings, ...]."""
    return torch.stack(list(parts), 1).flatten(0, 1)
