"""Small trainings: one that the CPU does in a moment, and one of which something can be learnt."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedol.data import Images, Normalisation
from fedol.models import create
from fedol.training import Job, Recipe, fit

CPU = torch.device("cpu")
NORMALISE = Normalisation((0.3,), (0.2,))
COLOURS = Normalisation((0.5,) * 3, (0.25,) * 3)
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(256, (50, 1, 8, 8), dtype=torch.uint8, generator=GENERATOR)
HARD = torch.randint(4, (50,), generator=GENERATOR)
SOFT = torch.rand(50, 4, generator=GENERATOR)


def job(targets: Tensor = SOFT, seed: int = 3, **recipe: Any) -> Job:
    module = create("cnn", classes=4, shape=(1, 8, 8), width=4, seed=seed)
    asked = Recipe(**{"epochs": 3, "batch_size": 16, **recipe})
    return Job("it", module, Images(IMAGES), targets, NORMALISE, asked, seed)


def train(task: Job) -> list[Tensor]:
    (result,) = fit([task], CPU)
    assert result.error is None
    return [value.clone() for value in task.model.state_dict().values()]


def bright(
    name: str = "a",
    model: nn.Module | str = "resnet11",
    samples: int = 300,
    seed: int = 0,
    side: int = 8,
    width: int = 4,
    **recipe: Any,
) -> Job:
    """Classes that can be learnt: the brightness of the image tells them."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(10, (samples,), generator=generator)
    noise = torch.randint(60, (samples, 3, side, side), generator=generator)
    images = (noise + 19 * labels[:, None, None, None]).to(torch.uint8)
    if isinstance(model, str):
        model = create(model, classes=10, shape=(3, side, side), width=width, seed=seed)
    return Job(name, model, Images(images), labels, COLOURS, Recipe(**{"epochs": 2, **recipe}), seed)
