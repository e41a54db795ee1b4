"""FedOL+: class-balanced logit pooling (``fedol.core.pooling``) as a method, alone and with pseudo-labels."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedol.core.mixture import with_labels
from fedol.core.pooling import TINY, Pool
from fedol.core.voting import PseudoLabels
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Distillation, Targets, Teacher, once


@method("pooled", "Pooled logits", heeds=(), compared=("ensemble",))
def pooled(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """The pool's target, its offsets b from the class prior estimated without labels."""
    return once(gathered(knowledge).pooled().soft)


@method("pooled-uniform", "Pooled logits, uniform prior", heeds=())
def pooled_uniform(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """The same for a public set that is known to be balanced."""
    return once(gathered(knowledge).uniform().soft)


@method("pooled-free", "Pooled logits, no prior", heeds=())
def pooled_free(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """Standardised scores without offsets: no prior is assumed."""
    return once(gathered(knowledge).prior_free().soft)


def gathered(knowledge: Iterable[Knowledge]) -> Pool:
    """Everyone, heard once."""
    pool = Pool()
    for client in knowledge:
        pool.add(client.log_probs, client.held)
    return pool


@method("fedol+", "FedOL+", iterates=True, heeds=("tau",), row=16)  # it finds its own ρ
class FedOLPlus:
    """Hears every client once. The target is the pool's plus τ on its class, for the ρN samples it is surest of.

    ρ is the share of the public set on which two halves of the clients, each pooled on its own, predict the same
    class: found without labels, and low where the clients know too little of each other's classes to check on each
    other. From the second iteration on the server is one more member of the pool.
    """

    def __init__(self, knowledge: Iterable[Knowledge], settings: Distillation) -> None:
        self.iterations = settings.iterations
        self._tau = settings.tau
        self._pool, halves = Pool(), (Pool(), Pool())
        for number, client in enumerate(knowledge):
            self._pool.add(client.log_probs, client.held)
            halves[number % 2].add(client.log_probs, client.held)
        self.rho = _agreement(*halves) if len(halves[1]) else 0.0  # one client has nobody to agree with

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """The pool's target of this iteration, with its surest labels."""
        pool = self._pool if server is None else self._pool.including(server.clamp_min(TINY).log())
        soft = pool.pooled().soft
        confidence, label = soft.max(1)
        sure = confidence.argsort(descending=True, stable=True)[: round(self.rho * len(soft))]
        labels = torch.full_like(label, -1).scatter(0, sure, label[sure])
        score = torch.full_like(confidence, -1.0).scatter(0, sure, confidence[sure])
        record = {  # no "rho": nobody votes here, the coverage says it
            "coverage": len(sure) / len(soft),
            "voters": float(len(pool)),
            "score": confidence[sure].mean().item() if len(sure) else 0.0,
        }
        voters = torch.where(labels >= 0, len(pool), 0)
        return Targets(with_labels(soft, labels, self._tau).float(), record, PseudoLabels(labels, score, voters))


def _agreement(one: Pool, other: Pool) -> float:
    same = one.pooled().soft.argmax(1) == other.pooled().soft.argmax(1)
    return same.double().mean().item()
