"""Algorithm 1: pseudo-labels by a class-wise weighted vote of the models that are sure of a sample.

Every model m has an entropy baseline, its ⌈ρN⌉-th lowest entropy over the public set. On a sample, the models at or
below their baseline are reliable; each votes +1 for its class and −1 for all others, weighted by its class-wise
confidence C²_m (Eq. 8). With those ±1 votes the aggregate of Eq. 11 is ``G_c = 2·share_c − 1``, where share_c is the
C² mass of the reliable models that vote c over the C² mass on c of all reliable models. So the whole algorithm is one
matrix product (the denominators) and one scatter (the numerators), and no [models, samples, classes] tensor exists:
a model is remembered by its ballot, a few bytes per sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedol.core.arrays import Array, blocks, exact, probabilities, returned
from fedol.errors import InputError

T = TypeVar("T", Tensor, "np.ndarray", Array)

# What differs by less than this is a tie: float64 sums of the same terms in another order do. Relative for entropies,
# masses and supports, which may be tiny; absolute for G, which lies in [-1, 1].
TIE = 1e-12
CHUNK = 64  # ballots stored in one piece
FLOOR = {torch.int16: -(1 << 15), torch.int32: 0}  # where ranks begin: int16 then holds 65,536 of them
BLOCK = 1 << 20  # models × samples counted at once: bounds the scratch memory, whatever the number of models


@dataclass(frozen=True)
class PseudoLabels(Generic[T]):
    """What a vote decided, per public sample."""

    labels: T  # int64 [N]; -1 where no model is reliable
    score: T  # float [N]; G of the winning class, in (-1, 1]; -1 where there is none
    voters: T  # int64 [N]; how many models were reliable


@dataclass(frozen=True)
class Ballot:
    """What the vote needs of one model: 3 bytes per sample (up to 65,536 samples and 256 classes) and 8 per class."""

    rank: Tensor  # int16 or int32 [N]: how many samples have a strictly lower entropy, counted from FLOOR
    vote: Tensor  # uint8, int16 or int32 [N]: the predicted class
    confidence: Tensor  # float64 [C]: C², Eq. 8


def entropy(probs: Array) -> Array:
    """Shannon entropy over the last axis in nats, [..., C] -> [...], with 0·log 0 = 0."""
    return returned(shannon(exact(probabilities(probs, None))), probs)


def class_confidence(probs: Array) -> Array:
    """C² of every model: its mean prediction over the public set, [K, N, C] -> [K, C] (Eq. 8)."""
    tensor = probabilities(probs, 3)
    return returned(torch.stack([exact(model).mean(0) for model in tensor]), probs)


def baseline_count(rho: float | Fraction, samples: int) -> int:
    """⌈ρN⌉ in integers: 0.1 + 0.05 is 0.15 here, so ρ = 0.15 of 5,000 is 750 and not 751."""
    if not 0 < rho <= 1:
        raise InputError(f"rho must lie in (0, 1], but is {float(rho):g}.")
    exact_rho = rho if isinstance(rho, Fraction) else Fraction(float(rho)).limit_denominator(1_000_000)
    return min(samples, max(1, math.ceil(exact_rho * samples)))


def pseudo_labels(probs: Array, rho: float) -> PseudoLabels[Array]:
    """Algorithm 1 on the predictions of all source models, [M, N, C]; ``rho`` in (0, 1]."""
    tensor = probabilities(probs, 3)
    count = baseline_count(rho, tensor.shape[1])
    ballots = Ballots()
    for model in tensor:
        ballots.add(model)
    result = ballots.elect(count)
    return PseudoLabels(*(returned(part, probs) for part in (result.labels, result.score, result.voters)))


class Ballots:
    """The ballots of all models so far. Feed models one by one; each one's predictions may be freed afterwards.

    Algorithm 1 is the default. Three defences against models that claim too much (see ``fedol.robust``):
    ``exact`` makes each model reliable on exactly ⌈ρN⌉ samples, where a tie at the baseline goes to the earlier sample
    (a model of constant entropy would otherwise be reliable everywhere); ``cap`` bounds C² at so many
    times the fair share 1/C, so that no model owns a class; with ``runoff`` the reliable models only nominate: of the
    classes that they vote for, the one wins that all models together find most typical of this sample.
    """

    def __init__(self, exact: bool = False, cap: float = math.inf, runoff: bool = False) -> None:
        self._exact, self._cap, self._runoff = exact, cap, runoff
        self._ballots: list[Ballot] = []
        self._free: list[Ballot] = []  # storage for the next ballots
        self._support: Tensor | None = None  # Σ_m p_m, which only breaks ties, or decides the run-off

    def __len__(self) -> int:
        return len(self._ballots)

    def add(self, probs: Tensor, nats: Tensor | None = None) -> None:
        """Take the vote of one model from its predictions [N, C]; ``nats`` are their entropies, where already known."""
        p = exact(probs)
        if self._support is None:
            self._support = torch.zeros_like(p)
        elif self._support.shape != p.shape:
            raise InputError(f"A model predicts {list(p.shape)}, the others {list(self._support.shape)}.")
        self._free = self._free or _blank(p)
        ballot = _fill(self._free.pop(), p, shannon(p) if nats is None else nats, self._exact)
        ballot.confidence.clamp_(max=self._cap / p.shape[1])
        self._ballots.append(ballot)
        self._support += p

    def including(self, probs: Tensor) -> Ballots:
        """These ballots and one more: the server's, which differs in every iteration."""
        more = Ballots(self._exact, self._cap, self._runoff)
        more._ballots = list(self._ballots)
        more._support = None if self._support is None else self._support.clone()
        more.add(probs)
        return more

    def elect(self, count: int) -> PseudoLabels[Tensor]:
        """Vote, every model being reliable on its ``count`` least uncertain samples (ties at the baseline included)."""
        if self._support is None:
            raise InputError("There is no model to vote; at least one client's predictions are needed.")
        parts = list(self._elect(self._support, count))
        labels, score, voters = (torch.cat(column) for column in zip(*parts, strict=True))
        return PseudoLabels(labels, score, voters)

    def _elect(self, support: Tensor, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        confidence = torch.stack([ballot.confidence for ballot in self._ballots])
        habit = support.mean(0).clamp_min(torch.finfo(support.dtype).tiny)
        block = max(1, BLOCK // len(self._ballots))
        for start in range(0, len(support), block):
            rows = slice(start, start + block)
            vote = torch.stack([ballot.vote[rows] for ballot in self._ballots], 1).long()  # [n, M]
            rank = torch.stack([ballot.rank[rows] for ballot in self._ballots], 1)
            gate = rank.int() - FLOOR[rank.dtype] < count  # H_m(x) <= baseline
            total = gate.to(confidence.dtype) @ confidence  # [n, C]: C² mass of the reliable models
            weight = confidence.T.gather(0, vote) * gate  # [n, M]: C²_m of the class m votes for
            mass = torch.zeros_like(total).scatter_add_(1, vote, weight)
            # A class on which the reliable models have no mass at all has no vote either: G = -1.
            g = torch.where(total > 0, 2 * mass / total.clamp_min(torch.finfo(total.dtype).tiny) - 1, -1.0)
            # In a run-off, p_c(x) of all models over its mean: C² would again favour whoever claims most.
            merit = torch.where(mass > 0, support[rows] / habit, -1.0) if self._runoff else g
            label = _winner(merit, mass, support[rows])
            score = g.gather(1, label[:, None])[:, 0]
            voters = gate.sum(1)
            nobody = voters == 0
            yield label.masked_fill(nobody, -1), score.masked_fill(nobody, -1.0), voters


def shannon(p: Tensor) -> Tensor:
    """The entropy of distributions that have been checked and are float64 already."""
    h: Tensor = -torch.special.xlogy(p, p).sum(-1)
    return h


def with_entropy(log_probs: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The distributions of log-probabilities [N, C] in float64, and their entropies [N].

    ``out`` is room for the distributions: those of a client before, say, who has been heard.

    With z less its maximum, e = exp(z) and s the sum of all e but the largest, H = log(1 + s) − Σ e·z / (1 + s). No
    term takes from another, so that the same numbers in another order are a tie even where their entropy is tiny.
    """
    if out is None or out.shape != log_probs.shape:
        out = exact(log_probs[:0]).new_empty(log_probs.shape)
    nats = out.new_empty(len(out))
    for rows in blocks(*log_probs.shape):
        z = exact(log_probs[rows])
        highest, top = z.max(1, keepdim=True)
        z = z - highest
        e = torch.exp(z, out=out[rows]).scatter_(1, top, 0.0)
        others = e.sum(1)
        nats[rows] = torch.log1p(others) - torch.linalg.vecdot(e, z) / (1 + others)
        e.scatter_(1, top, 1.0).div_(1 + others[:, None])
    return out, nats


def entropy_rank(h: Tensor, exact_gate: bool = False) -> Tensor:
    """How many samples have a strictly lower entropy: below n exactly where h is at or below the n-th lowest.

    With ``exact_gate`` an earlier sample of the same entropy counts as lower, so that below n are exactly n samples.
    """
    if exact_gate:
        rank = torch.empty_like(h, dtype=torch.long)
        rank[h.argsort(stable=True)] = torch.arange(len(h), device=h.device)
        return rank
    values = h.cpu().numpy()  # whose sort is several times as fast
    order = np.argsort(values)
    rising = values[order]
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.searchsorted(rising, rising - TIE * np.abs(rising), side="left")
    return torch.from_numpy(ranks).to(h.device)


def _blank(p: Tensor) -> list[Ballot]:
    """Storage for the next ballots in one piece.

    One by one, these small tensors would be carved out of the memory that the last client's predictions just freed;
    the next ones would no longer fit there, and the process would grow by [N, C] per client after all (measured:
    2.1 GB for 1,000 clients instead of 0.14).
    """
    samples, classes = p.shape
    small = torch.uint8 if classes <= 1 << 8 else torch.int16 if classes <= 1 << 15 else torch.int32
    rank = p.new_empty(CHUNK, samples, dtype=torch.int16 if samples <= 1 << 16 else torch.int32)
    vote = p.new_empty(CHUNK, samples, dtype=small)
    confidence = p.new_empty(CHUNK, classes)
    return [Ballot(*parts) for parts in zip(rank, vote, confidence, strict=True)]


def _fill(ballot: Ballot, p: Tensor, h: Tensor, exact_gate: bool) -> Ballot:
    ballot.rank.copy_(entropy_rank(h, exact_gate) + FLOOR[ballot.rank.dtype])
    ballot.vote.copy_(p.argmax(-1))
    ballot.confidence.copy_(p.mean(0))
    return ballot


def _winner(g: Tensor, mass: Tensor, support: Tensor) -> Tensor:
    """The class with the highest G, or merit; ties by the voters' C² mass, then by Σ_m p_m, then the lowest class."""
    best = g >= g.amax(1, keepdim=True) - TIE
    for criterion in (mass, support):
        value = criterion.masked_fill(~best, -1.0)
        top = value.amax(1, keepdim=True)
        best &= value >= top - TIE * top.abs()
    return best.to(torch.uint8).argmax(1)
