"""What all peers are given alike: the settings, the clients' data, the order of their batches, and the models.

``benchmarks/peers.py`` writes it into the folder ``$PEERS_WORK``. No user would write this: its lines count for nobody.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Work:
    """A federation in a folder: ten clients with images of their own, and public images."""

    def __init__(self) -> None:
        folder = Path(os.environ["PEERS_WORK"])
        self.settings: dict[str, Any] = json.loads((folder / "work.json").read_text())
        self.clients, self.epochs = self.settings["clients"], self.settings["epochs"]
        self.batch_size, self.lr = self.settings["batch_size"], self.settings["lr"]
        self._arrays = np.load(folder / "work.npz")

    def client(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Client k's images [n, 1, H, W], their classes [n], and of every epoch their order [epochs, n]."""
        if os.environ["PEERS_BEGINS"] == "data":
            torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # the first one imports a second's worth
            begin()
        x, y, orders = (torch.from_numpy(self._arrays[f"{name}{k}"]) for name in ("x", "y", "orders"))
        return x, y, orders

    def public(self) -> tuple[Tensor, Tensor]:
        """The public images [N, 1, H, W], and of every epoch of the server their order [epochs, N]."""
        return torch.from_numpy(self._arrays["public"]), torch.from_numpy(self._arrays["public_orders"])

    def raw_public(self) -> np.ndarray:
        """The public images before they are normalised, uint8."""
        return self._arrays["raw_public"]


def begin() -> None:
    """Note in ``$PEERS_MARK`` when the work begins: the first time counts, in whichever process it is."""
    try:
        with open(os.environ["PEERS_MARK"], "x") as file:
            file.write(repr(time.time()))
    except FileExistsError:
        pass


def network(width: int, classes: int, channels: int) -> nn.Module:
    """Two convolutions and a linear layer, always with the same weights.

    No batch norm, whose statistics pfl does not average, and nothing with a kink, where rounding makes another path.
    """
    if os.environ.get("PEERS_BEGINS") == "model":
        begin()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(32 * width, classes),
        )


def small(classes: int = 10, channels: int = 1) -> nn.Module:
    """A client's model, and what FedAvg averages."""
    return network(16, classes, channels)


def large(classes: int = 10, channels: int = 1) -> nn.Module:
    """The server's that learns from the clients' answers."""
    return network(32, classes, channels)
