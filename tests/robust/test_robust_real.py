"""Screening on real CIFAR-100 clients: nobody honest is left out, liars are. All attacks: benchmarks/robustness.py."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedol.robust.agreement import Opinions
from fedol.robust.attacks import attacked
from fedol.robust.trust import judge

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "predictions"
NAMES = ("dirichlet-1_plain", "dirichlet-0.05_plain", "classes-20_plain", "dirichlet-0.05_augmented")


@pytest.mark.parametrize("name", NAMES)
def test_honest_clients_stay_and_liars_go(name: str) -> None:
    file = FOLDER / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"the real predictions are not beside this checkout ({file})")
    with np.load(file) as arrays:
        clients = list(torch.from_numpy(arrays["public_logits"].astype(np.float32)).softmax(2))
    assert judge(Opinions.of(clients)).excluded == ()
    for attack in ("colluding", "specialist3", "specialist10"):
        sent = attacked(attack, clients[:3], clients[3:])
        assert sorted(judge(Opinions.of([*sent, *clients[3:]])).excluded) == [0, 1, 2], attack
