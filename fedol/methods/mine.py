"""MinE: on every sample the client with the lowest entropy teaches (the paper's reading of Grandvalet & Bengio)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from fedol.core.voting import TIE, with_entropy
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Distillation, Teacher, once, one_hot


@method("mine", "MinE", heeds=(), compared=("one-round", "rounds", "equal-compute", "ensemble"), row=10, paper="MinE")
def mine(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = p_k* with k* = argmin_k H(p_k(x)); a tie goes to the earlier client."""
    return once(_surest(knowledge))


@method("mine-hard", "MinE, hard", heeds=(), compared=("one-round", "equal-compute"), row=11)
def mine_hard(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """The same client's class alone."""
    surest = _surest(knowledge)
    return once(one_hot(surest.argmax(1), surest.shape[1]))


def _surest(knowledge: Iterable[Knowledge]) -> Tensor:
    """Each sample's prediction [N, C] of the client that is surest of it."""
    least, best = torch.tensor(torch.inf), torch.zeros(())
    for client in knowledge:
        probs, nats = with_entropy(client.log_probs)
        surer = nats < least * (1 - TIE)
        least, best = torch.where(surer, nats, least), torch.where(surer[:, None], probs, best)
    return best
