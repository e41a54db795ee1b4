"""Fed-ET (Cho et al. 2022): a consensus weighted by the variance of logits, and a little of what dissenters say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.voting import TIE
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Distillation, Teacher, once, one_hot

DIVERSITY = 0.05  # λ, the weight of the dissenters


@method("fedet", "FedET", heeds=(), compared=("one-round", "rounds", "equal-compute", "cost"), row=8, paper="FedET")
def fedet(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = onehot(y) + λ·s_div, the target of CE(y, s) + λ·KL(s_div ‖ s); two passes over the clients.

    α_k ∝ σ²_k, the variance of client k's logits over the classes; y = argmax Σ_k α_k z_k. s_div = softmax(Σ α_k z_k)
    over the clients whose own class is not y, α renormalised over them; where nobody dissents, or only clients whose
    classes are all alike (σ² = 0), there is no such term.
    Log-probabilities stand for the logits: they differ by a constant per sample, which changes none of these.
    """
    return _teacher(knowledge, lambda client: client.log_probs)


@method("fedet-probs", "FedET, variance of probabilities", heeds=(), compared=("one-round", "equal-compute"), row=9)
def fedet_probs(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """The same with σ²_k the variance of the probabilities: the other way to read the method."""
    return _teacher(knowledge, Knowledge.probabilities)


def _teacher(knowledge: Iterable[Knowledge], varying: Callable[[Knowledge], Tensor]) -> Teacher:
    """Fed-ET with σ²_k the variance over the classes of what ``varying`` gives."""
    total, _ = _pool(knowledge, varying, None)
    best = total.amax(1, keepdim=True)
    consensus = (total >= best - TIE * best.abs()).int().argmax(1)  # the lowest class of equal ones
    diverse, weight = _pool(knowledge, varying, consensus)
    dissent = weight > 0
    opinion = torch.softmax(diverse / torch.where(dissent, weight, 1.0)[:, None], 1) * dissent[:, None]
    soft = one_hot(consensus, total.shape[1]) + DIVERSITY * opinion
    return once(soft, dissent=dissent.double().mean().item())


def _pool(
    knowledge: Iterable[Knowledge], varying: Callable[[Knowledge], Tensor], consensus: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Σ σ²_k z_k [N, C] and Σ σ²_k [N], over all clients or over those that contradict the consensus."""
    pooled, weight = torch.zeros(()), torch.zeros(())
    for client in knowledge:
        z = exact(client.log_probs)
        variance = exact(varying(client)).var(1, correction=0)
        if consensus is not None:
            variance = variance * (z.argmax(1) != consensus)
        pooled, weight = pooled + variance[:, None] * z, weight + variance
    return pooled, weight
