"""The trainings of a client that also learns what is public (``fedol.models.openset``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch

from fedol.data.samples import Samples
from fedol.models.openset import OpenSet, fold_of
from fedol.seeding import derive
from fedol.training.job import Job


def folds_of(private: Job, model: OpenSet, public: Samples, classes: int) -> Iterable[Job]:
    """A client's trainings: for each fold its private samples, and as one more class the public ones outside of it."""
    fold = fold_of(len(public), len(model.nets))
    for number, net in enumerate(model.nets):
        shown = fold != number
        label = torch.full((int(shown.sum()),), classes, dtype=private.targets.dtype)
        yield replace(
            private,
            name=f"{private.name} fold {number + 1}",
            model=net,
            inputs=private.inputs.joined(public.take(shown)),
            targets=torch.cat([private.targets, label]),
            seed=derive(private.seed, "fold", number),
        )
