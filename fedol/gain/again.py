"""``fedol adapt --retrain``: the site's own kind of model again, on its samples and the server's published targets."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedol.adapted import AdaptedModel, Own, checked, prior_of, right
from fedol.core.adaptation import better, chosen, shift
from fedol.core.arrays import Array
from fedol.data import Labelled
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError
from fedol.estimators import NetClassifier
from fedol.federation.predictors import Asked
from fedol.gain.opening import class_counts, common
from fedol.gain.retraining import Learner, crossed, plain, taught
from fedol.model import ServerModel
from fedol.runs.published import Published


@dataclass(frozen=True)
class Kind:
    """A site's kind of model, as an estimator, and samples as it takes them."""

    estimator: Any

    def rows(self, given: Samples) -> Any:
        """Images for a network, rows, a frame or texts for any other."""
        if isinstance(self.estimator, NetClassifier):
            return given.array()
        return given.rows(named=hasattr(self.estimator, "feature_names_in_"))

    def own(self, fitted: Any, classes: tuple[str, ...]) -> Own:
        """A fitted one as the site's own model."""
        if isinstance(self.estimator, NetClassifier):
            network = fitted.estimator.network_
            return Own.of(replace(network, architecture=replace(network.architecture, classes=classes)), classes)
        import joblib

        if hasattr(self.estimator, "feature_names_in_"):
            fitted.feature_names_in_ = self.estimator.feature_names_in_  # it is handed frames, like the one before
        file = io.BytesIO()
        joblib.dump(fitted, file)
        return Own(Asked(type(self.estimator).__name__, fitted, common(classes)), file.getvalue(), ".joblib")


def kind_of(model: Any, spec: str) -> Kind:
    """Of an opened model the kind; one that cannot be trained again is an error."""
    if isinstance(model, NetClassifier) or (hasattr(model, "fit") and hasattr(model, "predict_proba")):
        return Kind(model)
    raise InputError(
        f"'{spec}' cannot be trained again: give an estimator with fit and predict_proba (.joblib, my.py:load) or the "
        "name of a network of FedOL's, such as cnn."
    )


def retrained(
    server: ServerModel, train: Labelled, kind: Kind, public: Samples, published: Published, seed: int = 0
) -> AdaptedModel:
    """The server with the better of the site's two own models: trained on its samples alone, or on the targets, too.

    Each is cross-fitted on the site's training samples, mixed with the server as ``ServerModel.adapt`` does, and the
    one whose mixture has more of them right goes into the result, trained on all of them.
    """
    classes, labels = len(server.classes), checked(train.y, server.classes)
    if published.classes != server.classes or published.public != public.fingerprint:
        raise FedolError("The targets are of other classes or of other public samples than these; get the run's own.")
    x, prior = kind.rows(train.samples), prior_of(server)
    learners: dict[str, Learner] = {
        "own": plain(kind.estimator, classes),
        "retrained": taught(kind.estimator, kind.rows(public), published.targets.astype(np.float64), published.prior),
    }
    heard = server.predict_log_proba(train.samples).double()
    shifted = shift(class_counts((train,), classes), prior)
    within = {name: _log(crossed(learner, x, labels, classes, seed)) for name, learner in learners.items()}
    mixed = {name: chosen(heard, labels, shifted, said, seed) for name, said in within.items()}
    name = "retrained" if better(mixed["retrained"].crossed, mixed["own"].crossed, labels) else "own"
    best = mixed[name]
    evidence: dict[str, Any] = {
        "held_out": len(labels),
        "right": right(best.crossed, labels),
        "right_server": right(heard, labels),
    }
    evidence |= {f"right_{each}": right(said, labels) for each, said in within.items()} | {"inside": name}
    own = kind.own(learners[name](x, labels), server.classes) if best.adaptation.own else None
    return AdaptedModel(server, best.adaptation, own, evidence)


def _log(probs: Array) -> torch.Tensor:
    return torch.from_numpy(np.log(np.maximum(probs, 1e-30)))


def targets_beside(run: Path) -> Published:
    """The targets that a run published, in its folder or beside its model file."""
    return Published.read(run if run.is_dir() else run.parent)
