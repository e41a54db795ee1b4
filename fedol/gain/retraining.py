"""A site's own kind of model trained again: on its private samples, and on the public ones as the server's targets say.

A target t_c(x), times the site's share of the class over the federation's, is not only the site's posterior, but also
how often the site has such a sample at all, π_site(c) / π(c) being the same for every sample of a class. So the rows
are left as they are, not normalised: a public sample weighs as much as it is like the site's (importance weights).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from fedol.core.adaptation import Floats, Labels, folds, shift
from fedol.errors import FedolError, InputError, cause
from fedol.models.soft import SoftClassifier

Learner = Callable[[Any, Labels], Any]  # from samples and labels to something with predict_proba


def lesson(targets: npt.ArrayLike, prior: npt.ArrayLike, counts: npt.ArrayLike) -> Floats:
    """The server's targets [N, C] as a site with these class counts learns them; rows sum to a sample's weight."""
    found: Floats = np.asarray(targets, dtype=np.float64) * np.exp(shift(counts, prior))
    return found


def plain(estimator: Any, classes: int) -> Learner:
    """The site's kind of model on its own samples alone."""
    return lambda x, labels: _fitted(estimator, x, np.eye(classes)[labels])


def taught(estimator: Any, public: Any, targets: Floats, prior: npt.ArrayLike) -> Learner:
    """The same kind on its own samples and the public ones."""
    classes = targets.shape[1]

    def learn(x: Any, labels: Labels) -> Any:
        heard = lesson(targets, prior, np.bincount(labels, minlength=classes))
        return _fitted(estimator, joined(x, public), np.concatenate([np.eye(classes)[labels], heard]))

    return learn


def crossed(learner: Learner, x: Any, labels: Labels, classes: int, seed: int) -> Floats:
    """What a kind of model says of every sample [N, C] where it has not seen it: fitted once a fold."""
    found = np.empty((len(labels), classes))
    for rows in folds(len(labels), seed):
        others = np.setdiff1d(np.arange(len(labels)), rows)
        if not len(others):
            raise InputError("One labelled sample is too few to train a model again; give more.")
        fitted = learner(_safe_indexing(x, others), labels[others])
        found[rows] = fitted.predict_proba(_safe_indexing(x, rows))
    return found


def joined(first: Any, second: Any) -> Any:
    """Both sets of rows: arrays, sparse matrices, frames or lists of texts."""
    from scipy import sparse

    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second]) if isinstance(first, np.ndarray) else [*first, *second]


def _fitted(estimator: Any, x: Any, soft: Floats) -> Any:
    try:
        return SoftClassifier(clone(estimator, safe=False)).fit(x, soft)
    except FedolError:
        raise
    except Exception as error:  # other people's models
        name = type(estimator).__name__
        raise InputError(f"{name} cannot be trained on your samples and the public ones: {cause(error)}.") from error
