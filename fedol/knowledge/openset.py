"""A client of any framework for the union: how far each public sample looks like its data, by cross-fitting.

``fedol.core.union`` needs of a client r_kc = m_k(x) p_k(c|x). The two factors come from different fits, which is better
than one fit for both:

- p_k(c|x) from a fit on the private data alone. It is what the client would send without a mass, so a server that finds
  the public set of another domain still has it.
- m_k(x) = Σ_c p(c|x) / p(public|x) from ``folds`` fits with one more class, "public". A model remembers what it was
  shown as public; so each is shown the public samples outside of one fold, and answers on that fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from fedol.data.findings import check_marks, strata
from fedol.errors import InputError
from fedol.knowledge.task import Task
from fedol.knowledge.upload import Knowledge
from fedol.models.openset import fold_of
from fedol.text import MOST, printable

Floats = npt.NDArray[np.float64]
# Measured (logistic regression and forests, seed 100): 0.38 to 5 where the two sets are alike, down to 0.08 where the
# public set lacks most of the client's classes, and 0.02 to 0.15, once 0.6, where images are moved, dimmed and noisy.
FAMILIAR = 0.2


class OpenSet:
    """Anything with ``fit`` and ``predict_proba``, as a client of the union.

    ``estimator`` is left as it is; copies of it are fitted, ``folds`` + 1 of them, to the labels 0, 1, ... of the
    classes that the client holds and then "public". A net of a fixed width needs at least one output more than these.

    ``mass`` is what the masses are fitted with, if not with ``estimator``. One that is good at its classes may be far
    too sure of what is public: its ``mass_`` is then ten or a thousand. No label is needed to see that another, with
    more weight decay, say, has one nearer to 1.
    """

    classes_: list[Any]  # what the columns stand for; of findings, their positions
    mass_: float
    """The mean mass of a public sample, over its expectation n_k / n_u: about one, because densities integrate to one.

    Far above, the model knows its private data by heart; ``mass`` may be a simpler one. Near zero, the public set is of
    another domain than the client's data, or lacks its classes.
    """

    def __init__(self, estimator: Any, folds: int = 2, mass: Any = None) -> None:
        for each in (estimator, *(() if mass is None else (mass,))):
            _check_estimator(each)
        if type(folds) is not int or folds < 2:
            raise InputError(
                f"folds must be a whole number of at least 2, but is {folds}: no model may answer on what it was shown."
            )
        self.estimator, self.folds, self.mass = estimator, folds, mass

    def fit(self, x: Any, y: Any, public: Any, classes: Sequence[Any] | None = None) -> OpenSet:
        """Learn from the private samples ``x`` with their labels ``y``, and answer on the ``public`` samples.

        Samples are arrays, SciPy's sparse matrices or pandas' frames. ``classes`` are all classes in the task's order,
        where ``y`` holds only some: names, among which a number in ``y`` is a position, or numbers. Where a sample may
        have several findings, ``y`` marks them with ones, [N, findings]; then each is learnt by a fit of its own.
        """
        private, shown = _rows(x, "the private samples"), _rows(public, "the public samples")
        if shown < self.folds:
            raise InputError(f"{shown} public samples cannot be cut into {self.folds} folds; give more or fewer folds.")
        both = _joined(x, public)
        own, other = np.arange(private), np.arange(private, private + shown)
        self._of_findings = np.ndim(y) == 2
        if self._of_findings:
            marks = check_marks(y, private, "y")
            held, encoded = np.unique(strata(marks)[0], return_inverse=True)  # for the mass: which kind of sample
            every, columns = list(range(marks.shape[1])), list(range(marks.shape[1]))
            probs = np.stack([self._answers(both, own, mark, other, 2)[:, 1] for mark in marks.T], 1)
        else:
            held, encoded = np.unique(_labels(y, private), return_inverse=True)
            every = held.tolist() if classes is None else list(classes)
            columns, probs = _places(held.tolist(), every), np.zeros((shown, len(every)))
            probs[:, columns] = self._answers(both, own, encoded, other, len(held))
        log_mass = np.zeros(shown)
        fold = fold_of(shown, self.folds).numpy()
        for number in range(self.folds):
            seen = np.concatenate([own, other[fold != number]])
            target = np.concatenate([encoded, np.full(len(seen) - private, len(held))])
            found = _fitted(
                self.estimator if self.mass is None else self.mass,
                both,
                seen,
                target,
                other[fold == number],
                len(held) + 1,
            )
            # A forest may say exactly zero, but n samples cannot show that anything is rarer than Laplace's rule of
            # succession has it, 1 / (n + labels). Measured: any floor from 1e-1 to 1e-6 scores alike.
            least = 1 / (len(seen) + len(held) + 1)
            mine, theirs = found[:, :-1].sum(1).clip(least), found[:, -1].clip(least)
            # The fit saw the share (F - 1) / F of the public set, and so its ratios are larger by that.
            log_mass[fold == number] = np.log(mine / theirs * (self.folds - 1) / self.folds)
        self.classes_, self._held, self._private = every, columns, private
        self._probs, self._log_mass = probs, log_mass
        self.mass_ = float(np.exp(log_mass).mean() * shown / private)
        return self

    def log_ratios(self) -> Floats:
        """log r_kc [public samples, classes]; minus infinity where the client lacks the class or rules it out.

        Of findings those of no and yes, [public samples, findings, 2].
        """
        self._check()
        with np.errstate(divide="ignore"):
            if self._of_findings:
                return np.log(np.stack([1 - self._probs, self._probs], -1)) + self._log_mass[:, None, None]
            return np.log(self._probs) + self._log_mass[:, None]

    def knowledge(self, task: Task | None = None, client: str = "client") -> Knowledge:
        """What the client sends: the predictions of the fit on its own data, and their masses."""
        self._check()
        probs, held = self._probs, None
        if self._of_findings:
            return Knowledge.from_findings(probs, task, client).with_mass(self._log_mass, self._private, self.folds)
        if task is not None:
            probs, held = probs[:, self._held], _places([self.classes_[c] for c in self._held], task.classes)
        own = Knowledge.from_probabilities(probs, task, client, held)
        return own.with_mass(self._log_mass, self._private, self.folds)

    @property
    def familiar(self) -> bool:
        """Whether the public set looks like the client's data at all, by ``mass_``.

        If not, ask whoever chose it. Send the mass nevertheless: the server sees by it whether to doubt it.
        """
        self._check()
        return self.mass_ >= FAMILIAR

    def _answers(self, samples: Any, own: Any, encoded: Any, asked: Any, labels: int) -> Floats:
        """Distributions over the labels 0, 1, ...; without a fit, and certain, where the client has only one."""
        if (encoded == encoded[0]).all():
            certain: Floats = np.tile(np.eye(labels)[encoded[0]], (len(asked), 1))
            return certain
        found = _fitted(self.estimator, samples, own, encoded, asked, labels)
        shares: Floats = found / found.sum(1, keepdims=True)
        return shares

    def _check(self) -> None:
        if not hasattr(self, "mass_"):
            raise InputError("This OpenSet has learnt nothing yet; call fit(x, y, public) first.")


def _check_estimator(estimator: Any) -> None:
    lacking = [verb for verb in ("fit", "predict_proba") if not callable(getattr(estimator, verb, None))]
    if isinstance(estimator, type):
        raise InputError(f"OpenSet needs an estimator, not its class; write {estimator.__name__}().")
    if lacking:
        raise InputError(
            f"OpenSet needs an estimator with fit and predict_proba, but {type(estimator).__name__} has no "
            f"{lacking[0]}; give one that predicts probabilities."
        )
    weighted = [key for key, value in _parameters(estimator).items() if key.endswith("class_weight") and value]
    if weighted:
        raise InputError(f"Ratios count how many samples each class has, which {weighted[0]} undoes; leave it out.")


def _fitted(estimator: Any, samples: Any, seen: Any, target: Any, asked: Any, labels: int) -> Floats:
    """What a copy, fitted to the samples ``seen`` with the labels 0, 1, ..., says of those ``asked``."""
    model = clone(estimator, safe=False)  # a deep copy of what scikit-learn cannot clone
    model.fit(_taken(samples, seen), target)
    found: Floats = np.asarray(model.predict_proba(_taken(samples, asked)), dtype=np.float64)
    name = type(estimator).__name__
    if found.ndim != 2 or len(found) != len(asked) or found.shape[1] < labels:
        raise InputError(
            f"{name} was fitted to {labels} labels, one of which may be 'public', and asked about {len(asked)} "
            f"samples, but its probabilities have the shape {list(found.shape)}; let it predict all labels."
        )
    found = found[:, :labels]  # the first: a net may have more outputs than there are labels here
    wrong = ~np.isfinite(found).all(1) | (found < 0).any(1) | (found.sum(1) <= 0)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{name} gives no probabilities for one sample, but {found[place]}; look at its training.")
    return found


def _parameters(estimator: Any) -> dict[str, Any]:
    return estimator.get_params() if hasattr(estimator, "get_params") else {}


def _labels(y: Any, samples: int) -> npt.NDArray[Any]:
    """The labels as int64 or text [N]."""
    labels = np.asarray(y)
    if labels.dtype == object and all(isinstance(value, str) for value in labels.flat):
        labels = labels.astype(np.str_)
    if labels.shape != (samples,):
        raise InputError(
            f"There are {samples} private samples, but y has the shape {list(labels.shape)}; give one label each."
        )
    if labels.dtype.kind == "U":
        return labels
    if labels.dtype.kind not in "biuf" or (labels.dtype.kind == "f" and not (labels == np.rint(labels)).all()):
        raise InputError(f"y must be whole numbers or names, but is {labels.dtype}; label every private sample.")
    return labels.astype(np.int64)


def _places(held: Sequence[Any], classes: Sequence[Any]) -> list[int]:
    """Where the classes ``held`` are among all: a number is a position, unless the classes are numbers, too."""
    if len(set(classes)) < len(classes):
        raise InputError("The classes must all be different; name each once.")
    positions = bool(held) and not isinstance(held[0], str) and any(isinstance(name, str) for name in classes)
    place = {name: position for position, name in enumerate(range(len(classes)) if positions else classes)}
    for name in held:
        if name not in place:
            among = f"{len(classes)} classes: {printable(', '.join(map(str, classes)), MOST)}"
            raise InputError(
                f"The client holds the class {name}, which is not one of the {among}; check y and classes."
            )
    return [place[name] for name in held]


def _rows(samples: Any, what: str) -> int:
    shape = getattr(samples, "shape", None)
    rows = int(shape[0]) if shape else len(samples) if hasattr(samples, "__len__") else 0
    if not rows:
        raise InputError(f"There are none of {what}; give an array, a sparse matrix or a frame of at least one.")
    return rows


def _joined(first: Any, second: Any) -> Any:
    """Both sets of samples as one: a frame, a sparse matrix or an array."""
    from scipy import sparse

    frames = [hasattr(part, "iloc") for part in (first, second)]
    if any(frames):
        columns = [list(getattr(part, "columns", ())) for part in (first, second)]
        if not all(frames) or columns[0] != columns[1]:
            raise InputError(
                "If the private or the public samples are a frame, both must be, with the same columns in one order; "
                "prepare both in the same way."
            )
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    parts = [part if sparse.issparse(part) else np.asarray(part) for part in (first, second)]
    if parts[0].shape[1:] != parts[1].shape[1:]:
        shapes = " and ".join(str(list(part.shape[1:])) for part in parts)
        raise InputError(f"A private and a public sample have the shapes {shapes}; prepare both in the same way.")
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def _taken(samples: Any, index: npt.NDArray[np.intp]) -> Any:
    return samples.iloc[index] if hasattr(samples, "iloc") else samples[index]
