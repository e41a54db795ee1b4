"""FedOL: voted pseudo-labels and the clients' mixture, alternating with server training (the paper's Section IV)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from torch import Tensor

from fedol.core.mixture import Mixture, with_labels
from fedol.core.voting import Ballots, baseline_count, with_entropy
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Distillation, Targets, Teacher, once


@method("mixture", "λ mixture", heeds=(), same_as="fedhkt-k")  # as FedHKT with every client its own group
def mixture(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = Σ_k λ_k p_k with λ = softmax_k(−H(p_k)) (Eq. 12): FedOL with τ = 0 and one iteration."""
    mixed = Mixture(settings.defence.floor)
    for client in knowledge:
        mixed.add(*with_entropy(client.log_probs))
    return once(mixed.mean())


@method("fedol", "FedOL", iterates=True, compared=("one-round", "equal-compute", "cost"), row=13, paper="FedOL")
class FedOL:
    """Hears every client once; each iteration then votes, the server included, and gives the target of Eq. 7."""

    def __init__(self, knowledge: Iterable[Knowledge], settings: Distillation) -> None:
        self.iterations = settings.iterations
        self._settings = settings
        defence = settings.defence
        self._ballots = Ballots(defence.exact, defence.cap, defence.runoff)
        mixture = Mixture(defence.floor)
        probs: Tensor | None = None
        for client in knowledge:
            probs, nats = with_entropy(client.log_probs, probs)  # most of the work for a client: once, for both
            self._ballots.add(probs, nats)
            mixture.add(probs, nats)
        self._mixture = mixture.mean()

    def rho(self, iteration: int) -> Fraction:
        """ρ of an iteration as the decimal fraction a person wrote, so that ⌈ρN⌉ never slips by one; at most 1."""
        start, step = Fraction(str(self._settings.rho)), Fraction(str(self._settings.rho_step))
        return min(Fraction(1), start + (iteration - 1) * step)

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """Algorithm 1, then the target of Eq. 7. A sample nobody is sure of keeps its distillation term."""
        ballots = self._ballots if server is None else self._ballots.including(server)
        rho = self.rho(iteration)
        votes = ballots.elect(baseline_count(rho, len(self._mixture)))
        covered = votes.labels >= 0
        record = {
            "rho": float(rho),
            "coverage": covered.double().mean().item(),
            "voters": votes.voters.double().mean().item(),
            "score": votes.score[covered].mean().item(),
        }
        return Targets(with_labels(self._mixture, votes.labels, self._settings.tau).float(), record, votes)


@method("fedol-reinit", "FedOL, restarted each iteration", iterates=True, compared=("equal-compute",), row=15)
class Restarted(FedOL):
    """FedOL whose server starts from fresh weights in every iteration: is it the labels that help, or the epochs?"""

    def targets(self, iteration: int, server: Tensor | None) -> Targets:
        """FedOL's own, for a new server; the one before still votes."""
        return replace(super().targets(iteration, server), restart=True)


@method("fedol-tau0", "FedOL, τ = 0", iterates=True, fixed={"tau": 0.0}, compared=("equal-compute",), row=14)
def without_labels(knowledge: Iterable[Knowledge], settings: Distillation) -> FedOL:
    """FedOL with τ = 0: the same iterations on the λ mixture alone."""
    return FedOL(knowledge, replace(settings, tau=0.0))
