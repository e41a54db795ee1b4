"""Training with differential privacy (DP-SGD, Abadi et al. 2016) by Opacus.

This is the one training loop beside ``fedol.training``, because privacy changes the step itself: batches are Poisson
samples (an example is in or not by chance, so their sizes vary), every example's own gradient is clipped before they
are summed, and noise is added to the sum. An engine that captures one step for fixed batches can do none of these.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from fedol.errors import FedolError, InputError, cause
from fedol.knowledge.header import TRAINING_EXAMPLE, Guarantee
from fedol.privacy.converted import check
from fedol.training import Epoch, Job, OnEpoch
from fedol.training.cpu import threads

CLIP = 1.0  # the norm that an example's gradient is clipped to


@dataclass(frozen=True)
class Budget:
    """What the client allows."""

    epsilon: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and 0 < self.delta < 1):
            raise InputError(
                f"--dp-epsilon must be positive and --dp-delta in (0, 1), not {self.epsilon}, {self.delta}."
            )

    def part(self, trainings: int) -> Budget:
        """What each of several trainings on the same data may spend: their guarantees add up."""
        return Budget(self.epsilon / trainings, self.delta / trainings)


def fit_private(
    job: Job, budget: Budget, device: torch.device, on_epoch: OnEpoch = lambda epoch: None
) -> tuple[float, Guarantee]:
    """Train a job's model in place; the last epoch's loss, and the guarantee that holds, as Opacus accounts for it."""
    check(job.model)
    from opacus import PrivacyEngine

    recipe, model = job.recipe, job.model.to(device).train()
    if recipe.augment or recipe.grow or recipe.schedule != "constant" or recipe.optimiser != "adam":
        words = "A private training has neither augmentation nor schedule nor smaller images, and its optimiser is Adam"
        raise InputError(f"{words}; leave these options out.")
    if budget.delta * len(job.inputs) > 1:
        raise InputError(f"--dp-delta {budget.delta:g} is no protection for {len(job.inputs):,} examples; take less.")
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    prepared = job.prepare.batches(job.inputs, device)
    data = TensorDataset(torch.arange(len(job.inputs)), job.targets)
    draws, noise = torch.Generator(), torch.Generator(device)
    for secret in (draws, noise):  # not from the run's seed: whoever knows the noise can subtract it
        secret.seed()
    loader = DataLoader(data, batch_size=min(recipe.batch_size, len(data)), generator=draws)
    with warnings.catch_warnings(), threads(1):
        warnings.simplefilter("ignore")  # Opacus warns of its default noise source, and of its own hooks
        engine = PrivacyEngine(accountant="rdp")
        try:
            private, private_optimiser, batches = engine.make_private_with_epsilon(
                module=model,
                optimizer=optimiser,
                data_loader=loader,
                target_epsilon=budget.epsilon,
                target_delta=budget.delta,
                epochs=recipe.epochs,
                max_grad_norm=CLIP,
                noise_generator=noise,
            )
        except ValueError as error:  # for every δ there is an ε below which no noise, however few the epochs, suffices
            wish = f"--dp-epsilon {budget.epsilon:g} with --dp-delta {budget.delta:g}"
            raise InputError(f"No noise gives {wish} ({cause(error)}); allow a larger --dp-epsilon.") from error
        loss = math.nan
        for epoch in range(1, recipe.epochs + 1):
            total, seen = 0.0, 0
            for index, targets in batches:
                private_optimiser.zero_grad()
                if len(index):  # a Poisson sample can be empty; its step then adds noise alone, and counts
                    value = F.cross_entropy(private(prepared(index.to(device), None)), targets.to(device))
                    value.backward()  # type: ignore[no-untyped-call]
                    total, seen = total + value.item() * len(index), seen + len(index)
                    private_optimiser.step()
                else:
                    _noise_alone(private_optimiser)
            loss = total / max(1, seen)
            if not math.isfinite(loss):
                raise FedolError(f"{job.name} diverged in epoch {epoch}; try a smaller learning rate.")
            on_epoch(Epoch(job, epoch, loss, seen))
        private.remove_hooks()
        spent = engine.get_epsilon(budget.delta)
    return loss, Guarantee(spent, budget.delta, TRAINING_EXAMPLE)


def _noise_alone(optimiser: object) -> None:
    """The step of an empty sample: per-example gradients of no example, to which Opacus adds its noise."""
    for parameter in optimiser.params:  # type: ignore[attr-defined]
        parameter.grad_sample = torch.zeros((0, *parameter.shape), device=parameter.device)
    optimiser.step()  # type: ignore[attr-defined]
