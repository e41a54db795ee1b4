"""An estimator as a module: a client or a server like any other, which learns in one step instead of epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fedol.errors import FedolError, InputError, cause
from fedol.models import stored
from fedol.models.held import Held
from fedol.models.trees import size
from fedol.text import MOST, printable

if TYPE_CHECKING:  # scikit-learn, which only those need who have an estimator
    from fedol.models.soft import SoftClassifier


class Fitted(nn.Module):
    """Anything with ``fit`` and ``predict_proba``, on flattened prepared samples of so many ``features``.

    Its whole state is one tensor of bytes (``fedol.models.stored``), so that its file is read like a network's.
    ``ours`` are those that FedOL has a name for.
    """

    def __init__(self, estimator: Any, classes: int, features: int, name: str, ours: bool = False) -> None:
        super().__init__()
        self.classes, self.features, self.name, self.ours = classes, features, name, ours
        self.learner = _learner(estimator, classes)
        stored.check_storable(estimator, name, ours)
        self.samples = 0  # that it has learnt from

    def learn(self, inputs: Tensor, targets: Tensor) -> None:
        """Fit it to classes [N] or soft targets [N, classes]; what it knew before is forgotten."""
        x = self._rows(inputs)
        with self._failing("learn"):
            if targets.dim() == 1:
                self.learner.fit_labels(x, targets.numpy(), self.classes)
            else:
                self.learner.fit(x, targets.double().numpy())
        self.samples = len(x)

    def forward(self, inputs: Tensor) -> Tensor:
        """Log-probabilities [B, classes]; before it has learnt, all alike.

        As if it had seen one sample more, evenly of all classes: a forest may say exactly zero, but n samples cannot
        show that anything is impossible.
        """
        probs = torch.full((len(inputs), self.classes), 1 / self.classes, dtype=torch.float64, device=inputs.device)
        if self.samples:
            with self._failing("answer"):
                found = torch.from_numpy(self.learner.predict_proba(self._rows(inputs))).to(inputs.device)
            probs = (self.samples * found + probs) / (self.samples + 1)
        return probs.log().float()

    def get_extra_state(self) -> Tensor:
        """Everything that was learnt, as bytes; none before."""
        if not self.samples:
            return torch.zeros(0, dtype=torch.uint8)
        state = {"estimator": self.learner.estimator, "known": self.learner.known.tolist(), "samples": self.samples}
        return torch.from_numpy(np.frombuffer(stored.packed(state, self.name), dtype=np.uint8).copy())

    def set_extra_state(self, state: Tensor) -> None:
        """What ``get_extra_state`` gave, or an ``InputError`` that says what makes no sense: it may be a stranger's."""
        if not len(state):
            raise InputError("it has learnt nothing")
        found = stored.unpacked(state.numpy().tobytes(), self.learner.estimator, self.ours, self.features)
        if not isinstance(found, dict) or set(found) != {"estimator", "known", "samples"}:
            raise InputError("it holds no estimator")
        estimator, known, samples = found["estimator"], found["known"], found["samples"]
        if type(estimator) is not type(self.learner.estimator):
            raise InputError(f"it holds a {type(estimator).__name__} in place of '{self.name}'")
        if not isinstance(known, list) or not known or any(type(place) is not int for place in known):
            raise InputError("the classes that it knows make no sense")
        if not all(low < high for low, high in zip([-1, *known], [*known, self.classes], strict=True)):
            raise InputError("the classes that it knows make no sense")
        if type(samples) is not int or not 0 < samples < 1 << 53:
            raise InputError("the number of samples that it has seen makes no sense")
        self.learner, self.samples = _learner(estimator, self.classes, known), samples

    @property
    def estimators(self) -> list[Any]:
        """The one that it is."""
        return [self.learner.estimator]

    @property
    def size(self) -> tuple[int, int]:
        """How large it is: nodes and trees, or coefficients and none."""
        return size(self.learner.estimator)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        """Whatever goes wrong within other people's code is one sentence."""
        try:
            yield
        except FedolError:
            raise
        except Exception as error:
            raise InputError(f"The model '{self.name}' cannot {what}: {printable(cause(error), MOST)}.") from error

    def _rows(self, inputs: Tensor) -> np.ndarray:
        """The samples as rows of numbers that it can take."""
        rows: np.ndarray = inputs.detach().float().cpu().flatten(1).numpy()
        wrong = ~np.isfinite(rows)
        if wrong.any() and _takes_gaps(self.learner.estimator):
            wrong = np.isinf(rows)
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            what = "a missing value" if np.isnan(rows[row, column]) else "an infinite value"
            raise InputError(
                f"The model '{self.name}' cannot take {what}, which sample {row} has in column {column}; fill it in, "
                "or choose hist-boosting, lightgbm or xgboost, which take missing values."
            )
        return rows


class Copies(nn.Module):
    """An estimator for each finding, as one model: what tells two classes apart tells whether a finding is there."""

    def __init__(self, nets: Sequence[nn.Module]) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nets)

    @property
    def estimators(self) -> list[Any]:
        """All of them."""
        return [each for net in self._fitted for each in net.estimators]

    @property
    def _fitted(self) -> list[Fitted]:
        return [net for net in self.nets if isinstance(net, Fitted)]

    @property
    def samples(self) -> int:
        """Those that the last has learnt from: where folds are told what is public, that is its question."""
        return self._fitted[-1].samples

    def learn(self, inputs: Tensor, targets: Tensor) -> None:
        """Fit each to its answers, [N, findings] or soft ones [N, findings, 2]; rows of zeros say nothing.

        Soft answers that are all sure are labels, which any estimator learns.
        """
        for net, asked in zip(self._fitted, targets.unbind(1), strict=True):
            told = torch.ones(len(asked), dtype=torch.bool) if asked.dim() == 1 else asked.sum(1) > 0
            asked = asked[told]
            if asked.dim() == 2 and ((asked == 0) | (asked == 1)).all():
                asked = asked.argmax(1)
            net.learn(inputs[told], asked)

    def forward(self, inputs: Tensor) -> Tensor:
        """Log-probabilities [B, findings, 2] of no and yes."""
        return torch.stack([net(inputs) for net in self.nets], 1)


STATE = "_extra_state"  # what PyTorch calls the one tensor in a state_dict


def fitted_in(module: nn.Module) -> Fitted | Copies | None:
    """The estimator that a module is, of all classes, those that its client holds, or findings; None of a network."""
    inner = module.net if isinstance(module, Held) else module
    return inner if isinstance(inner, Fitted | Copies) else None


def check_teachable(module: nn.Module) -> None:
    """Refuse a server that cannot learn soft targets, before anyone has trained."""
    if (fitted := fitted_in(module)) is not None:
        from fedol.models.soft import weights_of

        weights_of(fitted.estimators[0])


def _learner(estimator: Any, classes: int, known: list[int] | None = None) -> SoftClassifier:
    from fedol.models.soft import SoftClassifier

    return SoftClassifier(estimator, classes, None if known is None else np.array(known))


def _takes_gaps(estimator: Any) -> bool:
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(estimator).input_tags.allow_nan)
    except Exception:  # what has no tags says what it cannot take itself
        return True
