"""Class-balanced logit pooling: one soft target from clients that each know only some of the classes.

A client k that knows class c gives it much of its probability mass, C²_kc = mean_x p_kc(x), so it should speak on c;
and what it says beyond its habits is in its centred log-probabilities z_k = log p_k − mean_c log p_k. Pooled:

    s_c(x) = Σ_k w_kc z_kc(x) + b_c,    w_kc = √C²_kc / Σ_j √C²_jc,    t = softmax(s / T)

The offsets b undo what skewed clients add up to: they make the mean of softmax(s) over the public set a class prior π.
Nobody knows π. It is estimated from the predictions, shrunk to uniform by how little two estimates of it agree
(``estimate_prior``). T makes t, and T' the target, as uncertain, on average, as the λ mixture of Eq. 12 is.

Where clients all know all classes there is no skew to undo, and a mean of probabilities is the better average. So the
target is blended with the λ mixture m, by how reliable single clients are (``fedol.core.pooling``): r is near 0
where each knows classes of its own, near 1 where all know all.

    target ∝ (r · m + (1 − r) · t)^(1 / T')

A client that says it holds some classes alone is centred on these, and has the weight zero on the others.

No label is read and nothing is trained; a client is heard once, entering through running sums, so memory does not grow
with their number. ``docs/pooling.md`` derives it and says when it fails.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.mixture import Mixture
from fedol.core.voting import shannon
from fedol.errors import InputError

BOUND = 5.0  # no entry of a client counts for more than this many of its own standard deviations
SHARPNESS = 0.9  # scores are balanced at no more than this share of a uniform prediction's entropy
TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True, eq=False)
class Pooled:
    """What the pool says."""

    soft: Tensor  # float64 [N, C]: the targets
    prior: Tensor  # float64 [C]: the class prior that they were balanced to; if to none, what they say on average


class Pool:
    """The clients so far. Feed them one by one; each one's predictions may be freed afterwards."""

    def __init__(self) -> None:
        self._mixture, self._accord = Mixture(), Accord()
        self._clients = 0
        self._weight: Tensor | None = None  # Σ_k √C²_k, [C]
        self._logits: Tensor | None = None  # Σ_k √C²_k · bounded z_k, [N, C]
        self._standard: Tensor | None = None  # Σ_k √C²_k · z_k standardised per class, [N, C]

    def __len__(self) -> int:
        return self._clients

    def add(self, log_probs: Tensor, held: Sequence[int] = ()) -> None:
        """Take in one client's log-probabilities [N, C]; where it says that it holds some classes alone, on these."""
        log_p = torch.log_softmax(exact(log_probs), 1)
        if not torch.isfinite(log_p).all():
            raise InputError("A client's log-probabilities hold NaN or an infinity; the logarithm of zero is one.")
        probs, nats = log_p.exp(), shannon(log_p.exp())
        self._mixture.add(probs, nats)
        self._accord.add(probs, nats)
        if held:
            columns = torch.tensor(held)
            own = _voice(log_p[:, columns], probs[:, columns])
            weight, logits, standard = (
                part.new_zeros(*part.shape[:-1], log_p.shape[1]).index_copy(-1, columns, part) for part in own
            )
        else:
            weight, logits, standard = _voice(log_p, probs)
        self._clients += 1
        if self._weight is None or self._logits is None or self._standard is None:
            self._weight, self._logits, self._standard = weight, logits, standard
        else:
            self._weight = self._weight + weight
            self._logits += logits
            self._standard += standard

    def including(self, log_probs: Tensor) -> Pool:
        """This pool and one more: the server, which differs in every iteration."""
        more = copy.deepcopy(self)
        more.add(log_probs)
        return more

    def pooled(self) -> Pooled:
        """Targets balanced to the class prior that the predictions themselves suggest."""
        return self.balanced_to(self.prior())

    def prior(self) -> Tensor:
        """The public set's class prior [C], as far as the predictions tell."""
        _, standard, mixture = self._sums()
        return estimate_prior(standard, mixture)

    def uniform(self) -> Pooled:
        """Targets balanced to a uniform prior: better where the public set is known to be balanced."""
        logits, _, _ = self._sums()
        return self.balanced_to(torch.full_like(logits[0], 1 / logits.shape[1]))

    def balanced_to(self, prior: Tensor) -> Pooled:
        """Targets balanced to a class prior that is known, [C] without zeros; as far as clients agree, mixed."""
        logits, _, mixture = self._sums()
        nats = self.nats
        # In units of spread, scores have no temperature yet. It must come before balancing: on scores that are nearly
        # flat, a prior that is a little off would move every sample. So they are not to be flat, even where the
        # mixture is, because its clients have hardly learned or all disagree.
        sharp = tempered(logits, min(nats, SHARPNESS * math.log(logits.shape[1])))
        soft = torch.softmax(tempered(balanced(sharp, prior), nats), 1)
        blend = torch.lerp(soft, mixture, self.reliability())
        return Pooled(torch.softmax(tempered(blend.clamp_min(TINY).log(), nats), 1), prior)

    def reliability(self) -> float:
        """The mixture's share of the target: how far single clients can be relied on, 0 to 1."""
        return self._accord.reliability()

    @property
    def nats(self) -> float:
        """The mean entropy of the λ mixture: what targets are softened to, because a server learns more from these."""
        return shannon(self._mixture.mean()).mean().item()

    def prior_free(self) -> Pooled:
        """Targets that assume no prior ("D"): z standardised per client and class, no offsets."""
        _, standard, _ = self._sums()
        soft = torch.softmax(tempered(standard, self.nats), 1)
        return Pooled(soft, soft.mean(0))

    def _sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """Both pooled scores [N, C], in units of spread, and the λ mixture."""
        if self._weight is None or self._logits is None or self._standard is None:
            raise InputError("There is nothing to pool; at least one client's predictions are needed.")
        weight = self._weight.clamp_min(TINY)  # of a class that nobody holds it is zero
        return self._logits / weight, self._standard / weight, self._mixture.mean()


def _voice(log_p: Tensor, probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a client says of the classes that it holds: its weights [C], and weighted z [N, C] bounded and standardised.

    Of one class alone it can tell nothing apart, and has no weight.
    """
    weight = probs.mean(0).sqrt() if probs.shape[1] > 1 else torch.zeros_like(probs[0])
    z = log_p - log_p.mean(1, keepdim=True)
    # In units of the client's own spread, and softly bounded: a client that shouts is as loud as any other.
    scale = z.square().mean().sqrt().clamp_min(TINY)
    logits = weight * BOUND * torch.tanh(z / (BOUND * scale))
    spread = z.std(0, correction=0)
    # A class on which a client never changes its mind has no spread, and nothing to say.
    standard = weight * torch.where(spread > 1e-9 * scale, (z - z.mean(0)) / spread.clamp_min(TINY), 0.0)
    return weight, logits, standard


def balanced(scores: Tensor, prior: Tensor) -> Tensor:
    """scores + b with b such that the mean over samples of softmax(scores + b) is ``prior``: Sinkhorn's iteration."""
    offset = torch.zeros_like(prior)
    for _ in range(15):
        offset += torch.log(prior / torch.softmax(scores + offset, 1).mean(0).clamp_min(TINY))
    return scores + offset


def estimate_prior(standard: Tensor, mixture: Tensor) -> Tensor:
    """The public set's class prior, [C], from how often each class is predicted; uniform where nothing speaks for else.

    Two log histograms g, h of predicted classes err differently: the λ mixture keeps all of the clients' habits, the
    standardised scores none. With g = θ + ε_g, h = θ + ε_h around the true log prior θ (all centred), cov(g, h)
    estimates the variance of θ and what is left the variances v_g, v_h of the errors, so that θ is estimated by
    (g/v_g + h/v_h) / (1/v_g + 1/v_h + 1/cov). Counting alone gives a log count the variance C/N, hence the floor.
    """
    habits, counts = log_counts(mixture), log_counts(standard)
    floor = mixture.shape[1] / mixture.shape[0]
    shared = torch.clamp((habits * counts).mean(), min=TINY)
    precision = [1 / torch.clamp(part.square().mean() - shared, min=floor) for part in (habits, counts)]
    theta = (precision[0] * habits + precision[1] * counts) / (precision[0] + precision[1] + 1 / shared)
    return torch.softmax(theta, 0)


def log_counts(scores: Tensor) -> Tensor:
    """The centred log histogram of predicted classes, [C]; one is added to each count, so that none is zero."""
    counts = torch.bincount(scores.argmax(1), minlength=scores.shape[1]).to(scores.dtype)
    log = torch.log(counts + 1)
    return log - log.mean()


def tempered(scores: Tensor, nats: float) -> Tensor:
    """scores / T with the T, found by bisection, at which the mean entropy of their softmax is ``nats``."""
    low, high = 1e-3, 1e3
    for _ in range(40):
        middle = (low * high) ** 0.5
        if shannon(torch.softmax(scores / middle, 1)).mean() > nats:
            high = middle
        else:
            low = middle
    return scores / high


class Accord:
    """Two running sums instead of K² pairs. A client counts on a sample as in the λ mixture, by w_k = exp(−H_k).

    With v_kc = 1 on the class that client k names, two different clients, drawn by their weights, name the same with

        same(x) = (Σ_c (Σ_k w_k v_kc)² − Σ_k w_k²) / ((Σ_k w_k)² − Σ_k w_k²)

    because Σ_c v_kc² = 1. By chance, they would with Σ_c q_c², q being how often each class is named over all samples.
    """

    def __init__(self) -> None:
        self._clients = 0
        self._votes: Tensor | None = None  # Σ_k w_k v_k, [N, C]
        self._squares: Tensor | None = None  # Σ_k w_k², [N]

    def add(self, probs: Tensor, nats: Tensor | None = None) -> None:
        """Take in one client's predictions [N, C]; ``nats`` are their entropies, where already known."""
        p = exact(probs)
        weight = torch.exp(-(shannon(p) if nats is None else nats))
        self._clients += 1
        if self._votes is None or self._squares is None:
            self._votes, self._squares = torch.zeros_like(p), torch.zeros_like(weight)
        self._votes.scatter_add_(1, p.argmax(1, keepdim=True), weight[:, None])
        self._squares += weight.square()

    def reliability(self) -> float:
        """√κ, 0 to 1: if clients err independently, two agree as the square of how far one agrees with the truth."""
        if self._votes is None or self._squares is None or self._clients < 2:
            return 0.0
        total = self._votes.sum(1)
        same = ((self._votes.square().sum(1) - self._squares) / (total.square() - self._squares)).mean().item()
        chance = (self._votes / total[:, None]).mean(0).square().sum().item()
        return max(0.0, (same - chance) / (1 - chance)) ** 0.5 if chance < 1 else 0.0
