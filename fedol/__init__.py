"""FedOL: one larger server model from many small private ones, with a single upload per client."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Read when torch is imported, so it must be said before. OpenMP's threads spin while they wait for work; on a core that
# somebody else needs, everything then waits for them (benchmarks/threads.py: how much).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Public names and where they live; torch is imported only when the first of them is used.
_HOME = {
    "AdaptedModel": "fedol.adapted",
    "Ballots": "fedol.core.voting",
    "Comparison": "fedol.report.comparison",
    "Dataset": "fedol.data",
    "Knowledge": "fedol.knowledge",
    "Mixture": "fedol.core.mixture",
    "NetClassifier": "fedol.estimators",
    "OneShotClassifier": "fedol.estimators",
    "OpenSet": "fedol.knowledge.openset",
    "PseudoLabels": "fedol.core.voting",
    "RunConfig": "fedol.config",
    "RunResult": "fedol.report.result",
    "ServerModel": "fedol.model",
    "Task": "fedol.knowledge.task",
    "TaskFolder": "fedol.federation.taskfolder",
    "class_confidence": "fedol.core.voting",
    "client_weights": "fedol.core.mixture",
    "compare": "fedol.api",
    "distill": "fedol.distillation",
    "entropy": "fedol.core.voting",
    "load": "fedol.gain.opening",
    "pseudo_labels": "fedol.core.voting",
    "run": "fedol.api",
    "soft_targets": "fedol.core.mixture",
    "union": "fedol.core.union",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from fedol.adapted import AdaptedModel as AdaptedModel
    from fedol.api import compare as compare
    from fedol.api import run as run
    from fedol.config import RunConfig as RunConfig
    from fedol.core.mixture import Mixture as Mixture
    from fedol.core.mixture import client_weights as client_weights
    from fedol.core.mixture import soft_targets as soft_targets
    from fedol.core.union import union as union
    from fedol.core.voting import Ballots as Ballots
    from fedol.core.voting import PseudoLabels as PseudoLabels
    from fedol.core.voting import class_confidence as class_confidence
    from fedol.core.voting import entropy as entropy
    from fedol.core.voting import pseudo_labels as pseudo_labels
    from fedol.data import Dataset as Dataset
    from fedol.distillation import distill as distill
    from fedol.estimators import NetClassifier as NetClassifier
    from fedol.estimators import OneShotClassifier as OneShotClassifier
    from fedol.federation.taskfolder import TaskFolder as TaskFolder
    from fedol.gain.opening import load as load
    from fedol.knowledge import Knowledge as Knowledge
    from fedol.knowledge.openset import OpenSet as OpenSet
    from fedol.knowledge.task import Task as Task
    from fedol.model import ServerModel as ServerModel
    from fedol.report.comparison import Comparison as Comparison
    from fedol.report.result import RunResult as RunResult


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedol' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
