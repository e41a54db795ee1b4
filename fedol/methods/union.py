"""The union: the sum of the clients' joint density ratios, which is what a model trained on all data would say.

A client learns one more class, "public", cross-fitted on the public set, and sends beside its predictions how far each
public sample looks like its data (``fedol.core.union``). A client that sends predictions alone counts by its entropy,
as in Eq. 12, at the mean mass of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from statistics import median

import torch
from torch import Tensor

from fedol.core.pooling import TINY, Pool, balanced, tempered
from fedol.core.union import TAIL, Sums, Union, doubted, excess, familiarity, guessed_mass, tamed
from fedol.core.voting import shannon
from fedol.data.samples import Samples
from fedol.knowledge import Knowledge
from fedol.methods.method import method
from fedol.methods.sides import Client, Distillation, Lesson, Predictions, Site, Teacher, once, seconds
from fedol.model import Architecture, ServerModel
from fedol.models.fitted import Copies, Fitted
from fedol.models.openset import OpenSet, fold_of
from fedol.seeding import derive
from fedol.training import Process, predict
from fedol.training.job import folds_of

# The public set is of another domain where its middle sample occurs this many times less often in the union of the
# private data than in the public set. Measured: 0.65 to 1.1 where the domain is the same, even with half of the
# classes missing, and at most 0.06 where the images are moved, dimmed and noisy (docs/union.md).
STRANGE = 0.2


def answers(model: OpenSet, public: Samples, architecture: Architecture, device: torch.device) -> Tensor:
    """log r_kc [N, C] of every public sample, each from the net that was not shown it.

    A net has seen the share (F - 1) / F of the public set, and so its ratios are larger by that. Where samples have
    findings, "public" is one of these, and the mass is that of its no over its yes: a row for each of the others.
    Estimators are too sure: their masses are tamed.
    """
    folds, findings = len(model.nets), len(architecture.findings)
    fold = fold_of(len(public), folds)
    found = torch.zeros(len(public), max(1, findings), len(architecture.classes))
    for number, net in enumerate(model.nets):
        log_probs = predict(net, public.take(fold == number), architecture.prepare, device)
        if findings:
            each = log_probs.view(-1, findings + 1, 2)
            found[fold == number] = each[:, :-1] + (each[:, -1:, :1] - each[:, -1:, 1:])
        else:
            found[fold == number, 0] = log_probs[:, :-1] - log_probs[:, -1:]
    logs = found.flatten(0, 1) + torch.log(torch.tensor((folds - 1) / folds))
    first = model.nets[0]
    if not isinstance(first, Fitted | Copies):
        return logs
    mass = torch.logsumexp(logs, 1)
    private = first.samples - int((fold != 0).sum())  # of all that it has learnt from
    return logs + (tamed(mass, private / len(public)) - mass)[:, None].to(logs.dtype)


class Ratios(Predictions):
    """A client of any architecture sends its predictions on the public set with their masses."""

    sends = "ratios"
    heeds = ("folds",)

    def architecture(self, site: Site, k: int) -> Architecture:
        """Its own choice, once a fold and with one more class."""
        return replace(site.client(k), folds=site.config.folds)

    def trainings(self, site: Site, k: int) -> int:
        """One a fold."""
        return int(site.config.folds)

    def images(self, private: float, public: int) -> float:
        """Its own in every fold, and the public ones in all but one; by the usual two folds."""
        return 2 * private + public

    def work(self, site: Site, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Train a net a fold, and answer each public sample with the one that has not seen it."""
        architecture = self.architecture(site, k)
        model = architecture.build(derive(site.config.seed, f"client {k}", "init"))
        assert isinstance(model, OpenSet)
        private, spent, losses = site.job(k, architecture, model), 0.0, []
        for job in folds_of(private, model, site.public, len(architecture.classes)):
            result = yield job
            spent += seconds(result)
            losses.append(result.losses)
        mean = tuple(sum(epoch) / len(epoch) for epoch in zip(*losses, strict=True))
        logs = answers(model, site.public, architecture, site.device)
        about = site.task, f"client {k}", len(private.inputs), len(model.nets)
        own = Knowledge.from_log_ratios(logs[:, architecture.answers], *about, architecture.answers)
        trained = ServerModel(model, architecture, [{"recipe": private.recipe.as_json()}], site.device)
        return Client(trained, partial(own.save, codec=site.config.codec), spent, mean)


@method("union", "Union", client=Ratios(), heeds=(), row=17)
def union(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
    """t = Σ_k r_k, normalised, trained on once; the pool where nobody sends a mass.

    Where the public set is of another domain, masses are doubted, and the sum is balanced to the prior that the pool
    balances to: then a class that the shift favours at every client gains nothing by it. The defence ``cap`` holds each
    client's masses to its samples, and these to a multiple of the middle client's: then nobody gains by claiming more.
    """
    most = largest(knowledge, settings.defence.cap)
    sums, doubtful, guessed, doubtfully_guessed = (Union() for _ in range(4))
    pool, shares, clients = Pool(), list[float](), 0
    for client in knowledge:
        clients += 1
        pool.add(client.log_probs, client.held)
        if client.log_mass is None or client.share is None:
            mass = guessed_mass(client.probabilities(), 1.0)
            guessed.add(client.joint(mass))
            doubtfully_guessed.add(client.joint(doubted(mass, 1.0)))
            continue
        share = min(client.share, most)
        sums.add(client.log_ratios() - (excess(client.log_mass, share) if most < math.inf else 0.0))
        doubtful.add(client.joint(doubted(client.log_mass, share)))
        shares.append(share)
    if not shares:
        return once(pool.pooled().soft, familiarity=0.0, ratios=0.0)
    share = sum(shares) / len(shares)
    familiar = familiarity(sums.log_mass(), sum(shares))
    middle, heard = familiar.median().item(), len(shares) / clients
    if clients > len(shares):
        sums = sums.including(guessed.log_ratios() + math.log(share))
        doubtful = doubtful.including(doubtfully_guessed.log_ratios() + math.log(share))
    if middle < STRANGE:
        soft = softened(doubtful.posterior(), pool.nats).clamp_min(TINY).log()
        return once(torch.softmax(balanced(soft, pool.prior()), 1), familiarity=middle, ratios=heard)
    # A client that sends no mass does not say what it does not know.
    strange = int((familiar < STRANGE).sum()) if clients == len(shares) else None
    posterior, often = sums.posterior(), familiar.clamp(max=TAIL)
    return once(softened(posterior, pool.nats), strange, posterior, often, familiarity=middle, ratios=heard)


def summed(sums: Sums) -> Teacher:
    """The same from sums alone, of clients of whom nobody has seen a single one.

    What was rounded to zero is not impossible: all classes of a sample together have a step's worth of it. Where the
    public set is of another domain, masses cannot be doubted one by one, nor can a prior be estimated from single
    answers: the sum is balanced to a uniform prior.
    """
    total, least = Union(), Union()
    total.add(sums.ratios.log())
    least.add(sums.ratios.clamp_min(sums.step / sums.ratios.shape[1]).log())
    share = sums.share or total.log_mass().exp().mean().item()
    familiar = familiarity(total.log_mass(), share)
    middle, posterior, often = familiar.median().item(), least.posterior(), familiar.clamp(max=TAIL)
    soft = posterior
    if len(sums.mixture):
        soft = softened(soft, shannon(sums.mixture / sums.mixture.sum(1, keepdim=True).clamp_min(TINY)).mean().item())
    if middle < STRANGE:
        even = torch.full_like(soft[0], 1 / soft.shape[1])
        return once(torch.softmax(balanced(soft.clamp_min(TINY).log(), even), 1), familiarity=middle, ratios=1.0)
    return once(soft, int((familiar < STRANGE).sum()), posterior, often, familiarity=middle, ratios=1.0)


def largest(knowledge: Iterable[Knowledge], times: float) -> float:
    """The most samples that a client with masses may have, as n_k / n_u: so many times the middle one's."""
    shares = [] if math.isinf(times) else [client.share for client in knowledge if client.share is not None]
    return times * median(shares) if shares else math.inf


def softened(posterior: Tensor, nats: float) -> Tensor:
    """Answers [N, C] at least as uncertain, on average, as the λ mixture: a server learns more from these.

    A posterior is right and often nearly certain.
    """
    if shannon(posterior).mean() >= nats:
        return posterior
    return torch.softmax(tempered(posterior.clamp_min(TINY).log(), nats), 1)
