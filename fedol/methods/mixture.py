"""The λ mixture: FedOL's distillation term alone, trained once; also what FedHKT is without its groups."""

from __future__ import annotations

from collections.abc import Iterable

from fedol.core.mixture import Mixture
from fedol.core.voting import with_entropy
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.teacher import Distillation, Teacher, once


@method("mixture", "λ mixture", heeds=(), same_as="fedhkt-k")  # as FedHKT with every client its own group
def mixture(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = Σ_k λ_k p_k with λ = softmax_k(−H(p_k)) (Eq. 12): FedOL with τ = 0 and one iteration."""
    mixed = Mixture(settings.defence.floor)
    for client in knowledge:
        mixed.add(*with_entropy(client.log_probs))
    return once(mixed.mean())
