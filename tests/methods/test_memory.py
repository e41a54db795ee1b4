"""Voting, targets and the pool stream: fed client by client, they never hold a [K, N, C] float tensor."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, resource, sys
import torch
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, find

torch.set_num_threads(1)
N, C = 5000, 50
NAME, COUNT = sys.argv[1], int(sys.argv[2])

def clients(count):
    for k in range(count):
        yield Knowledge.from_logits(4 * torch.randn(N, C, generator=torch.Generator().manual_seed(k)))

def use(count):
    method = find(NAME).teacher(clients(count), Distillation())
    return method.targets(2, torch.softmax(4 * torch.randn(N, C, generator=torch.Generator().manual_seed(count)), 1))

def peak():
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

use(2)  # libraries, thread pools and the [N, C] sums are there now
before = peak()
targets = use(COUNT)
print(json.dumps({"growth": peak() - before, "voters": targets.record["voters"]}))
"""


@pytest.mark.parametrize(
    ("method", "clients", "voters"),
    [("fedol", 200, 201 * 0.15), ("fedol+", 30, 31)],  # an image's, of all with the server; 15 % of them are sure
)
def test_many_clients_cost_a_fraction_of_their_predictions(method: str, clients: int, voters: float) -> None:
    # Every tensor in a mapping of its own, so that what is freed is gone and fragmentation is not measured.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    command = [sys.executable, "-c", PROGRAM, method, str(clients)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    result = json.loads(answer.stdout)
    assert result["voters"] == pytest.approx(voters)  # they were heard
    together = clients * 5000 * 50 * 4
    assert result["growth"] < together / 5, f"the predictions together are {together / 1e6:.0f} MB in float32"
