"""Class-balanced logit pooling as a one-pass method, and its two pure forms (see ``fedol.core.pooling``)."""

from __future__ import annotations

from collections.abc import Iterable

from fedol.core.pooling import Pool
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.teacher import Distillation, Teacher, once


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
        pool.add(client.log_probs)
    return pool
