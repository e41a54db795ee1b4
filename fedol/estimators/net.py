"""FedOL's networks as a scikit-learn estimator of images."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from fedol.data.dataset import pixels
from fedol.data.samples import Samples, samples
from fedol.errors import FedolError, InputError
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec
from fedol.seeding import derive
from fedol.settings import RunSettings, Training
from fedol.training import Job, Recipe, fit, resolve_device

Floats = npt.NDArray[np.float64]


class NetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A network on images: uint8, or floats in [0, 1], of the shape [N, H, W] or [N, channels, H, W].

    ``model`` is a name (``mlp``, ``cnn``, ``resnet20``, ``my.py:Net``) or a class of yours, ``width`` that of FedOL's
    own; the others are settings of ``fedol.run``, with its defaults.
    """

    def __init__(
        self,
        model: ModelSpec = "cnn",
        *,
        width: int = RunSettings.width,
        device: str = "auto",
        random_state: Any = None,
        epochs: int = RunSettings.epochs,
        batch_size: int = RunSettings.batch_size,
        lr: float = Training.lr,
        optimiser: Any = Training.optimiser,
        schedule: Any = Training.schedule,
        weight_decay: float = Training.weight_decay,
        augment: bool = Training.augment,
        patch: str = Training.patch,
        average: float = Training.average,
        body_lr: float = Training.body_lr,
        grow: float = Training.grow,
    ) -> None:
        self.model = model
        self.width = width
        self.device = device
        self.random_state = random_state
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.optimiser = optimiser
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.augment = augment
        self.patch = patch
        self.average = average
        self.body_lr = body_lr
        self.grow = grow

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Learn the labels of images."""
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        classes, encoded = np.unique(labels, return_inverse=True)
        images = _images(X)
        if len(images) != len(encoded):
            raise InputError(f"There are {len(images)} images, but {len(encoded)} labels; give one each.")
        self._train(images, torch.from_numpy(encoded.astype(np.int64)), len(classes))
        self.classes_ = classes
        return self

    def fit_soft(self, X: npt.ArrayLike, soft: Floats) -> Self:
        """Learn how likely each of the classes 0, 1, ... is of each image, [N, C]."""
        self._train(_images(X), torch.from_numpy(soft).float(), soft.shape[1])
        self.classes_ = np.arange(soft.shape[1])
        return self

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Probabilities [N, classes]."""
        check_is_fitted(self)
        return self.network_.predict_proba(_images(X))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The most probable class of each image."""
        found: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return found

    def _train(self, images: Samples, targets: torch.Tensor, classes: int) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        recipe = Recipe(**{item.name: getattr(self, item.name) for item in fields(Training)})
        device = resolve_device(self.device)
        architecture = Architecture.on(images, self.model, [str(c) for c in range(classes)], self.width)
        module = architecture.build(derive(seed, "init"))
        job = Job("net", module, images, targets, architecture.prepare, recipe, derive(seed, "fit"), alone=True)
        (result,) = fit([job], device)
        if result.error:
            raise FedolError(result.error)
        self.network_ = ServerModel(module.eval(), architecture, device=device)


def _images(x: npt.ArrayLike) -> Samples:
    shape = np.shape(x)
    if len(shape) not in (3, 4):
        raise InputError(f"A network takes images, [N, H, W] or [N, channels, H, W], but these are {list(shape)}.")
    return samples(pixels(x, "X"))
