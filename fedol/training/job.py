"""What is trained (a job), how (a recipe), and what comes of it (a fit)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from fedol.code import address
from fedol.errors import InputError, unknown
from fedol.seeding import derive
from fedol.settings import Training, check_kinds
from fedol.training.optimisers import check_optimiser
from fedol.training.schedules import check_schedule, rates
from fedol.training.snapshot import Snapshot

ALL_CORES = 0
# A kernel over fewer pixels than this ends before a second thread has begun (measured: benchmarks/training.py).
PIXELS_WORTH_A_SECOND_THREAD = 16_384

PATCHES = ("none", "cutout", "cutmix")


@dataclass(frozen=True)
class Recipe(Training):
    """The training of one model."""

    proximal: float = 0.0  # FedProx's μ: adds (μ/2)‖w − w₀‖², w₀ being the weights the training starts from

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.epochs < 1 or self.batch_size < 2:
            raise InputError(
                f"epochs must be at least 1 and batch_size at least 2, but are {self.epochs}, {self.batch_size}."
            )
        if not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be a positive number, but is {self.lr}.")
        if self.patch not in PATCHES:
            raise unknown("patch", str(self.patch), PATCHES)
        check_schedule(self.schedule)
        check_optimiser(self.optimiser)
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight_decay must be a finite number of at least 0, but is {self.weight_decay}.")
        if not 0 <= self.average < 1:
            raise InputError(f"average must lie in [0, 1), but is {self.average}.")

    def as_json(self) -> dict[str, Any]:
        """Plain values; a class of yours becomes its name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: address(value) if callable(value) else value for name, value in values.items()}


@dataclass(frozen=True)
class Normalisation:
    """Per-channel mean and standard deviation on the [0, 1] scale; part of a model, like its weights."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """uint8 [n, C, H, W] -> normalised float32."""
        mean = torch.tensor(self.mean, device=images.device)[:, None, None]
        std = torch.tensor(self.std, device=images.device)[:, None, None]
        return (images.float() / 255 - mean) / std


@dataclass(frozen=True, eq=False)
class Job:
    """One model to fit to images (uint8 [N, C, H, W]) and targets (classes [N] or soft targets [N, C])."""

    name: str
    model: nn.Module
    images: Tensor
    targets: Tensor
    normalise: Normalisation
    recipe: Recipe = field(default_factory=Recipe)
    seed: int = 0
    resume: Snapshot | None = None  # go on from here
    checkpoint: Callable[[Snapshot], None] | None = None  # called after every epoch
    alone: bool = False  # a large job that may use all cores, where its images are large enough to keep them busy

    def __post_init__(self) -> None:
        if len(self.images) != len(self.targets):
            raise InputError(f"{self.name} has {len(self.images)} images but {len(self.targets)} targets.")
        if len(self.images) < 2:
            raise InputError(f"{self.name} has {len(self.images)} training images; at least 2 are needed.")

    @cached_property
    def random_layers(self) -> bool:
        """Whether the model draws random numbers of its own (dropout): tried on a copy with two blank images."""
        model = copy.deepcopy(self.model).cpu().train()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            before = torch.get_rng_state()
            model(self.normalise(self.images[:2].cpu()))
            return not torch.equal(before, torch.get_rng_state())

    @property
    def threads(self) -> int:
        """CPU threads: fixed by the job alone, whatever runs beside it: they can change the last bit of a sum."""
        pixels = min(self.recipe.batch_size, len(self.images)) * self.pixels
        return ALL_CORES if self.alone and pixels >= PIXELS_WORTH_A_SECOND_THREAD else 1

    @property
    def samples(self) -> int:
        """Images per epoch: a trailing batch of one is left out, because batch norm has no variance for it."""
        return len(self.images) - (len(self.images) % self.recipe.batch_size == 1)

    @property
    def pixels(self) -> int:
        """Of one image."""
        height, width = self.images.shape[-2:]
        return height * width

    def order(self, epoch: int) -> Tensor:
        """The images of an epoch in their order, shuffled by a generator of this job and epoch alone."""
        generator = torch.Generator().manual_seed(derive(self.seed, "shuffle", epoch))
        return torch.randperm(len(self.images), generator=generator)[: self.samples]

    def views(self, epoch: int) -> Tensor:
        """How each of them is augmented, int64 [samples, 3]: rows and columns to shift by, and whether to flip.

        By up to an eighth of a side, four pixels of CIFAR's 32: of digits' 8, four would leave nothing to recognise.
        """
        generator = torch.Generator().manual_seed(derive(self.seed, "augment", epoch))
        down, right = (side // 8 for side in self.images.shape[-2:])
        ranges = (-down, down + 1), (-right, right + 1), (0, 2)
        return torch.stack([torch.randint(*ends, (self.samples,), generator=generator) for ends in ranges], 1)

    def patches(self, epoch: int) -> Tensor:
        """The box pasted into each, int64 [samples, 5]: the image it is from, then its top, bottom, left and right.

        Cutout: half as long and wide as the image, and clipped at its border. Cutmix: of any share of the image, and
        empty for half of them.
        """
        generator = torch.Generator().manual_seed(derive(self.seed, "patch", epoch))
        sides = torch.tensor(self.images.shape[-2:])
        other = torch.randint(len(self.images), (self.samples, 1), generator=generator)
        centre = torch.rand(self.samples, 2, generator=generator) * sides
        area, coin = torch.rand(2, self.samples, 1, generator=generator)
        share = torch.full_like(area, 0.5) if self.recipe.patch == "cutout" else area.sqrt() * (coin < 0.5)
        low = (centre - share * sides / 2).round().clamp_min(0).long()
        high = (centre + share * sides / 2).round().long().minimum(sides)
        return torch.cat([other, torch.stack([low, high], 2).flatten(1)], 1)

    @cached_property
    def rates(self) -> list[float]:
        """The learning rate of every step."""
        steps = -(-self.samples // self.recipe.batch_size)
        return rates(self.recipe.schedule, self.recipe.lr, self.recipe.epochs * steps)

    def pace(self, epoch: int) -> Tensor:
        """Per step of an epoch, float32 [steps, 2]: the learning rate, and the newest weights' share in the average."""
        steps = -(-self.samples // self.recipe.batch_size)
        done = [(epoch - 1) * steps + step for step in range(steps)]
        return torch.tensor([[self.rates[n], max(1 - self.recipe.average, 10 / (10 + n))] for n in done])

    def tables(self, epoch: int) -> dict[str, Tensor]:
        """All that changes with the epoch, and that the recipe uses."""
        tables = {"order": self.order(epoch), "pace": self.pace(epoch)}
        if self.recipe.augment:
            tables["views"] = self.views(epoch)
        if self.recipe.patch != "none":
            tables["patches"] = self.patches(epoch)
        return tables


@dataclass(frozen=True)
class Fit:
    """The outcome of one job: the mean loss of each epoch, or why it stopped."""

    job: Job
    losses: tuple[float, ...]
    seconds: float
    path: str  # what trained it: "plain loop", "CUDA graph", ...
    error: str | None = None


@dataclass(frozen=True)
class Epoch:
    """One finished epoch, for progress displays and checkpoints."""

    job: Job
    epoch: int  # 1-based
    loss: float
    images: int


OnEpoch = Callable[[Epoch], None]
