"""Voting and targets stream: fed client by client, they never hold a [K, N, C] float tensor."""

import json
import os
import subprocess
import sys

PROGRAM = """
import json, resource, sys
import torch
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.methods.fedol import FedOL

torch.set_num_threads(1)
N, C = 5000, 100

def clients(count):
    for k in range(count):
        yield Knowledge.from_logits(4 * torch.randn(N, C, generator=torch.Generator().manual_seed(k)))

def use(count):
    method = FedOL(clients(count), Distillation())
    first = method.targets(1, None)
    return method.targets(2, first.soft / first.soft.sum(1, keepdim=True))

def peak():
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

use(2)  # libraries, thread pools and the [N, C] sums are there now
before = peak()
targets = use(200)
print(json.dumps({"growth": peak() - before, "voters": targets.votes.voters.sum().item()}))
"""


def test_two_hundred_clients_cost_a_fraction_of_their_predictions() -> None:
    # Every tensor in a mapping of its own, so that what is freed is gone and fragmentation is not measured.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=env)
    result = json.loads(answer.stdout)
    assert result["voters"] == 201 * 750  # it did vote: 15 % of 5,000, the server included
    assert result["growth"] < 80e6, "the predictions together are 400 MB in float32"
