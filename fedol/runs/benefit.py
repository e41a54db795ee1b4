"""What each client of a simulation has from the server: both on the test set, weighed as the client's classes are.

A client has no test samples of its own here, because all it holds is trained on. But its samples of a class are like
everybody's, so the mean of the recalls per class, weighed by its class counts, is what it would measure at home.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedol.adapted import prior_of
from fedol.core.adaptation import Adaptation, shift
from fedol.data import Labelled
from fedol.errors import FedolError
from fedol.files import write_json
from fedol.model import ServerModel
from fedol.runs.folder import RunFolder

Recall = npt.NDArray[np.float64]  # of each class [C]; NaN of one that has no test samples
Counts = npt.NDArray[np.int64]


def recall(log_probs: Tensor, labels: npt.NDArray[np.int64]) -> Recall:
    """How many of each class are right."""
    right, classes = log_probs.argmax(1).numpy() == labels, log_probs.shape[1]
    with np.errstate(invalid="ignore"):
        found: Recall = np.bincount(labels[right], minlength=classes) / np.bincount(labels, minlength=classes)
    return found


def at_home(recalls: Recall, counts: Counts) -> float | None:
    """The accuracy on samples of these classes; None where none of them is in the test set."""
    known = np.isfinite(recalls) & (counts > 0)
    return float(recalls[known] @ counts[known] / counts[known].sum()) if known.any() else None


def account_for_benefit(
    folder: RunFolder, server: ServerModel, own: Sequence[Recall], test: Labelled, counts: Sequence[Counts]
) -> None:
    """Write ``benefit.json``: of each client its own model, the server, and the server with the client's prior."""
    said = server.predict_log_proba(test.samples).double()
    served, found = recall(said, test.y), []
    for k, (mine, held) in enumerate(zip(own, counts, strict=True)):
        row = {"client": k, "own": at_home(mine, held), "server": at_home(served, held), "prior": None}
        try:
            shifted = Adaptation(tuple(shift(held, prior_of(server)).tolist()))
            row["prior"] = at_home(recall(shifted.log_proba(said), test.y), held)
        except FedolError:  # a method that averages weights has no prior
            pass
        found.append(row)
    write_json(folder.path / "benefit.json", found)
