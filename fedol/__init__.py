"""FedOL: one larger server model from many small private ones, with a single upload per client."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names and where they live; torch is imported only when the first of them is used.
_HOME = {
    "Knowledge": "fedol.knowledge",
    "Mixture": "fedol.objective",
    "Ballots": "fedol.voting",
    "PseudoLabels": "fedol.voting",
    "RunConfig": "fedol.config",
    "Task": "fedol.task",
    "TaskFolder": "fedol.federation.taskfolder",
    "class_confidence": "fedol.voting",
    "client_weights": "fedol.objective",
    "distill": "fedol.distillation",
    "entropy": "fedol.voting",
    "load": "fedol.server",
    "pseudo_labels": "fedol.voting",
    "run": "fedol.federation.simulation",
    "soft_targets": "fedol.objective",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from fedol.config import RunConfig as RunConfig
    from fedol.distillation import distill as distill
    from fedol.federation.simulation import run as run
    from fedol.federation.taskfolder import TaskFolder as TaskFolder
    from fedol.knowledge import Knowledge as Knowledge
    from fedol.objective import Mixture as Mixture
    from fedol.objective import client_weights as client_weights
    from fedol.objective import soft_targets as soft_targets
    from fedol.server import load as load
    from fedol.task import Task as Task
    from fedol.voting import Ballots as Ballots
    from fedol.voting import PseudoLabels as PseudoLabels
    from fedol.voting import class_confidence as class_confidence
    from fedol.voting import entropy as entropy
    from fedol.voting import pseudo_labels as pseudo_labels


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fedol' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
