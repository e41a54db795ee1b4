"""The audit: attacks on what a client really sends, with what an attacker could know at worst.

Membership inference asks whether predictions on an image tell that the model was trained on it. Two attacks.
*Threshold*: a low loss says "member" (Yeom et al. 2018). *Likelihood ratio* (LiRA, Carlini et al. 2022): the attacker
trains shadow models of the same kind, some with and some without the image, and asks which of the two groups the real
prediction looks like. Both see exactly what a knowledge file holds.

A client of the union also sends masses, which are about membership by construction: it is attacked by a threshold on
them, too, and by the likelihood ratio of masses and predictions together. Its shadows learn what is public as it did,
and each answer is that of a net that was not shown the image as public, as in its file. The mean of its ratios
r_kc over the public images is n_kc / n_u, so that masses sharpen what a file says of the class mix.

Who attacks: someone who reads the client's file and chose the public images, so that images that may be the client's
are among them (a coordinator can do that; otherwise no private image is ever predicted). What is asked: which of these
images the client was trained on, and how many images of each class it holds. Members and others have the same
classes in the same numbers, so that a client's classes alone do not give its images away.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import Array
from fedol.data import Labelled
from fedol.data.samples import Samples, samples
from fedol.errors import FedolError, InputError
from fedol.knowledge import Knowledge, codecs
from fedol.model import ServerModel
from fedol.models.openset import OpenSet
from fedol.privacy.leakage import FEWEST, SMALLEST, Leakage, Values, confidence, matched, variation
from fedol.privacy.release import parsed, released
from fedol.progress import watched
from fedol.seeding import derive, numpy_generator
from fedol.training import Job, OnEpoch, Recipe, fit, predict
from fedol.training.job import folds_of


def likelihood_ratio(observed: Values, shadows: Values, inside: npt.NDArray[np.bool_]) -> Values:
    """log N(observed; in) − log N(observed; out) per image, from the shadows' confidence and membership [S, N].

    Each image has its own two means; one covariance each for all of them, because shadows are few. Of several figures
    at once, ``observed`` is [N, D] and ``shadows`` [S, N, D].
    """
    several = observed.ndim > 1
    seen, told = (shadows, observed) if several else (shadows[..., None], observed[..., None])
    logs = []
    for part in (inside, ~inside):
        mean = np.where(part[..., None], seen, 0).sum(0) / part.sum(0)[:, None]
        apart = (seen - mean)[part]
        covariance = apart.T @ apart / len(apart) + SMALLEST**2 * np.eye(apart.shape[1])
        off = told - mean
        distance = (off @ np.linalg.inv(covariance) * off).sum(1)
        logs.append(-(distance + np.linalg.slogdet(covariance)[1]) / 2)
    ratio: Values = logs[0] - logs[1]
    return ratio


@dataclass(frozen=True)
class Said:
    """What a model says of images: log-probabilities [N, C], and a client of the union their log-masses [N]."""

    log_probs: Tensor
    log_mass: Tensor | None = None

    def mix(self) -> Values:
        """The class mix that it looks like: the mean prediction; with masses, of what is like the client's data."""
        weight = torch.ones(len(self.log_probs)) if self.log_mass is None else self.log_mass.double().exp()
        total = (weight[:, None] * self.log_probs.double().exp()).sum(0)
        found: Values = (total / total.sum()).numpy()
        return found


SHADOWS = 8


class Answers(Protocol):
    """Any model that can be asked, of whatever framework; shadows can be trained of our own only."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Their names, in the order of the columns."""

    def predict_log_proba(self, inputs: Samples | Array) -> Tensor:
        """[N, classes]."""


def audit(
    model: Answers,
    members: Labelled,
    others: Labelled,
    public: Samples | Array,
    recipe: Recipe,
    codec: str = codecs.DEFAULT,
    shadows: int = SHADOWS,
    seed: int = 0,
    on_epoch: OnEpoch = lambda epoch: None,
    release: str | None = None,
) -> dict[str, Any]:
    """Membership inference and what the file says about the class mix; with ``shadows=0`` the threshold attack only."""
    codecs.find(codec)  # what is no codec or no release is said before shadows are trained for it
    if release:
        parsed(release)
    return Attacker.of(model, members, others, public, recipe, shadows, seed, on_epoch).read(codec, release)


@dataclass(frozen=True)
class Attacker:
    """What the attacker has prepared against one client, whichever way the client packs its file."""

    pool: Labelled  # as many images of the client's as others of each class
    member: npt.NDArray[np.bool_]
    said: Said  # by the client on the pool, and on the public images
    said_publicly: Said
    shadows: list[Said]  # by shadow models on the pool
    held: npt.NDArray[np.bool_]  # [S, N]: what each of them was trained on
    mix: Values  # the client's true class mix
    recipe: Recipe  # the shadows'

    @classmethod
    def of(
        cls,
        model: Answers,
        members: Labelled,
        others: Labelled,
        public: Samples | Array,
        recipe: Recipe,
        shadows: int = SHADOWS,
        seed: int = 0,
        on_epoch: OnEpoch = lambda epoch: None,
    ) -> Attacker:
        """Ask the model, and train shadows of its kind by the same recipe."""
        inside, outside = _matched(members, others, seed)
        pool = inside.joined(outside)
        seen, held = _shadows(model, pool, public, recipe, shadows, seed, on_epoch)
        mix = np.bincount(members.y, minlength=len(model.classes)) / len(members)
        member = np.arange(len(pool)) < len(inside)
        return cls(pool, member, _said(model, pool.samples), _said(model, public), seen, held, mix, recipe)

    def read(self, codec: str, release: str | None = None) -> dict[str, Any]:
        """What a file in this codec reveals; the shadows' answers are released and packed as the client's are."""
        packed = codecs.find(codec.removesuffix("+zstd"))  # that loses nothing, and takes most of the time

        def sent(said: Said) -> Said:
            known = Knowledge.from_logits(said.log_probs)
            if said.log_mass is not None:
                known = known.with_mass(said.log_mass)
            if release:
                known = released(known, release)
            samples, classes = known.log_probs.shape
            body = codecs.pack(packed, known.log_probs, known.log_mass)
            log_probs, log_mass = codecs.unpack(packed, body, samples, classes, known.log_mass is not None)
            return Said(torch.log_softmax(log_probs, 1), log_mass)

        def figures(said: Said) -> Values:
            """What the attacker looks at, [N] without masses, else [N, 2]."""
            sure = confidence(said.log_probs, self.pool.y)
            return sure if said.log_mass is None else np.stack([sure, said.log_mass.double().numpy()], 1)

        observed = figures(sent(self.said))
        columns = {"": observed} if observed.ndim == 1 else {"": observed[:, 0], " of masses": observed[:, 1]}
        names = {"": "threshold", " of masses": "masses"}
        attacks = {names[what]: asdict(Leakage.of(column, self.member)) for what, column in columns.items()}
        if self.shadows:
            usual = np.stack([figures(sent(said)) for said in self.shadows])
            asked = [(f"likelihood ratio{what}", column) for what, column in columns.items()]
            for place, (name, column) in enumerate(asked):
                shadows = usual if observed.ndim == 1 else usual[..., place]
                attacks[name] = asdict(Leakage.of(likelihood_ratio(column, shadows, self.held), self.member))
            if observed.ndim > 1:
                both = likelihood_ratio(observed, usual, self.held)
                attacks["likelihood ratio of both"] = asdict(Leakage.of(both, self.member))
        inferred = sent(self.said_publicly).mix()
        even = np.full(len(self.mix), 1 / len(self.mix))
        return {
            "codec": codec,
            "release": release,
            "shadows": len(self.shadows),
            "recipe": asdict(self.recipe) if self.shadows else None,
            "images": len(self.pool),
            "membership": attacks,
            "label_mix": {
                "error": variation(inferred, self.mix),
                "error_of_guessing_evenly": variation(even, self.mix),
            },
        }


def _said(model: Answers, inputs: Samples | Array) -> Said:
    """What a model says of samples that it was not shown as public: so all that it answers in its file."""
    if not isinstance(model, ServerModel) or not isinstance(model.module, OpenSet):
        return Said(model.predict_log_proba(inputs))
    return _opened(predict(model.module.nets[0], samples(inputs, "samples"), model.architecture.prepare, model.device))


def _opened(log_probs: Tensor) -> Said:
    """Log-probabilities whose last class is "public" as predictions and masses."""
    known = log_probs[:, :-1]
    return Said(torch.log_softmax(known, 1), torch.logsumexp(known, 1) - log_probs[:, -1])


def _matched(members: Labelled, others: Labelled, seed: int) -> tuple[Labelled, Labelled]:
    """As many members as others of each class."""
    inside, outside = matched(members.y, others.y, seed)
    if len(inside) < FEWEST:
        raise InputError(
            f"Only {len(inside)} images outside the training data have its classes; at least {FEWEST} needed."
        )
    return members.take(inside), others.take(outside)


def _shadows(
    model: Answers,
    pool: Labelled,
    public: Samples | Array,
    recipe: Recipe,
    count: int,
    seed: int,
    on_epoch: OnEpoch,
) -> tuple[list[Said], npt.NDArray[np.bool_]]:
    """Shadow models' answers on the pool, and which images each was trained on: every image in exactly half."""
    if count < 0 or count % 2:
        raise InputError(f"--shadows must be 0 or an even number, not {count}: half of these models learn each image.")
    if not count:
        return [], np.zeros((0, len(pool)), dtype=bool)
    if not isinstance(model, ServerModel):
        raise InputError("Shadow models can be trained of a model of 'fedol client fit' only; use --shadows 0.")
    order = numpy_generator(seed, "shadows").permuted(np.tile(np.arange(count) % 2 == 0, (len(pool), 1)), axis=1).T
    held: npt.NDArray[np.bool_] = np.ascontiguousarray(order)
    jobs = []
    for s in range(count):
        part = pool.take(np.flatnonzero(held[s]))
        built = model.architecture.build(derive(seed, "shadow", s, "init"))
        prepare, targets = model.architecture.prepare, torch.from_numpy(part.y)
        job = Job(f"shadow {s}", built, part.samples, targets, prepare, recipe, derive(seed, "shadow", s))
        if isinstance(built, OpenSet):  # one fold says what the file says
            job = next(iter(folds_of(job, built, samples(public, "public samples"), len(model.classes))))
        jobs.append(job)
    for result in fit(jobs, model.device, on_epoch):
        if result.error:
            raise FedolError(result.error)
    seen = [predict(job.model, pool.samples, job.prepare, model.device) for job in watched(jobs, "predicting")]
    opened = isinstance(model.module, OpenSet)
    return [_opened(log_probs) if opened else Said(log_probs) for log_probs in seen], held
