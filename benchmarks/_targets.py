"""The labels that a server would learn of what clients send, by every way to make targets."""

from __future__ import annotations

from fractions import Fraction

import torch

from fedol.core.mixture import Mixture
from fedol.core.union import Union, guessed_mass
from fedol.core.voting import Ballots, baseline_count
from fedol.knowledge import Knowledge
from fedol.methods.fedol_plus import gathered

RHOS = [Fraction(iteration + 1, 20) for iteration in range(1, 11)]


def labels(clients: list[Knowledge]) -> dict[str, torch.Tensor]:
    """What the server would learn of these: a label per public image, -1 where none."""
    ballots, mixture, union = Ballots(), Mixture(), Union()
    for client in clients:
        ballots.add(client.probabilities())
        mixture.add(client.probabilities())
        mass = client.log_mass
        union.add(client.log_probs + (guessed_mass(client.probabilities(), 1.0) if mass is None else mass)[:, None])
    found = {"mixture": mixture.mean().argmax(1), "union": union.posterior().argmax(1)}
    found["log mean"] = torch.stack([client.log_probs for client in clients]).mean(0).argmax(1)
    found["pool"] = gathered(clients).pooled().soft.argmax(1)
    for rho in RHOS:
        found[f"Algorithm 1, rho {float(rho):g}"] = ballots.elect(baseline_count(rho, len(mixture.mean()))).labels
    return found


def accuracy(found: torch.Tensor, truth: torch.Tensor) -> float:
    """Percent of the labels given that are right."""
    return 100 * (found == truth)[found >= 0].double().mean().item()
