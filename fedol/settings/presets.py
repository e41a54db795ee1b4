"""Presets: settings that go together, by name. What one does not name has its own default."""

from __future__ import annotations

from typing import Any

from fedol.settings import CODEC

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    # Section V of the paper; the width is the family's nominal one (the paper names none).
    "paper": {
        "dataset": "cifar100",
        "public": 5000,
        "clients": 10,
        "partition": "dirichlet:0.05",
        "client_models": ("resnet11", "resnet20"),
        "server_model": "resnet56",
        "parameter_model": "resnet20",
        "width": 16,
        "codec": "float32",  # its baselines average log-probabilities, which quantisation costs some tenths of a point
        "iterations": 10,
        "tau": 0.2,
        "rho": 0.1,
        "rho_step": 0.05,
        "epochs": 50,
        "batch_size": 64,
        "lr": 1e-3,
    },
}
# The same federation and upload, trained as well as we know how; docs/results/best.md has the ablation.
PRESETS["best"] = {
    **PRESETS["paper"],
    "codec": CODEC,
    "width": 64,
    "method": "pooled",  # FedOL+'s targets; its labels and second iteration gained nothing with this training
    "iterations": 2,  # of a method that has some, if another is asked for
    "epochs": 100,  # of the clients, more than half of what this preset costs
    "server_epochs": 200,
    "augment": True,
    "schedule": "cosine",
    "patch": "cutmix",
    "average": 0.999,
}
# By kind of data: the models in place of every preset's, which take images.
ROWS = {"client_models": ("mlp",), "server_model": "mlp-large", "parameter_model": "mlp"}
SUITED: dict[str, dict[str, Any]] = {
    "tables": ROWS,
    "texts": ROWS,
    "signals": {"client_models": ("cnn1d",), "server_model": "cnn1d-large", "parameter_model": "cnn1d"},
}


def suited(setting: str, kind: str, images: Any) -> Any:
    """What names the models where nobody does: for ``images``, and by the kind of other samples."""
    return SUITED.get(kind, {}).get(setting, images)
