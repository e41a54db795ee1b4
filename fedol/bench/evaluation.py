"""What labels say about a finished training: the only place of a benchmark that sees a withheld label."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from fedol import methods
from fedol.distillation import Store
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, Targets
from fedol.methods.sides import Teacher, once, one_hot
from fedol.model import ServerModel, load
from fedol.runs.evaluation import accuracy, pseudo_label_accuracy
from fedol.training import Fit

MIXTURE = "fedhkt-k"  # the λ mixture, of the ensembles worth looking at the first


def test_accuracy(model: ServerModel, scenario: Scenario) -> float:
    """On the dataset's own test set."""
    return accuracy(model.predict_log_proba(scenario.data.test.samples), scenario.data.test.y)


def ceiling(scenario: Scenario) -> Teacher:
    """The control that is told the truth about the public set: as far as a server can get on these samples."""
    return once(one_hot(torch.from_numpy(scenario.data.public_labels), len(scenario.data.classes)))


def ensembles(models: Iterable[ServerModel], scenario: Scenario) -> dict[str, float]:
    """Test accuracy of the clients pooled as the knowledge methods pool them; nothing is trained."""
    test = scenario.data.test
    predictions = [Knowledge.from_logits(model.predict_log_proba(test.samples)) for model in models]
    names = dict.fromkeys([MIXTURE, *methods.compared("ensemble")])
    pooled = {name: methods.find(name).teacher(predictions, Distillation()).targets(1, None).soft for name in names}
    return {name: accuracy(soft, test.y) for name, soft in pooled.items()}


class Diagnosed(Store):
    """Keeps a server's iterations (``distillation.Store``) with what labels say about each; none is chosen by it."""

    def __init__(self, path: Path, scenario: Scenario) -> None:
        self._path, self._scenario = path, scenario

    def last(self) -> ServerModel | None:
        """The server after the last finished iteration."""
        return load(self._path, self._scenario.config.server_model) if self._path.exists() else None

    def finish(self, server: ServerModel, targets: Targets, fit: Fit) -> None:
        """Add to the iteration's record, in place, and keep the server."""
        truth = self._scenario.data.public_labels
        diagnostics: dict[str, Any] = {
            "test_accuracy": test_accuracy(server, self._scenario),
            "target_accuracy": accuracy(targets.soft, truth),
        }
        if targets.votes:
            diagnostics["pseudo_label_accuracy"] = pseudo_label_accuracy(targets.votes.labels, truth)
        server.history[-1] |= {"seconds": round(fit.seconds, 3), "diagnostics": diagnostics}
        server.save(self._path)
