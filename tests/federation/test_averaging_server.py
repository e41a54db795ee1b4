"""The server of FedAvg as a federation uses it: whole states, weighted by what the clients hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedol.config import configure
from fedol.federation.scenario import Scenario, Scheme
from fedol.model import ServerModel
from fedol.training import drive

TINY = {"clients": 3, "public": 60, "width": 4, "device": "cpu", "parameter_model": "resnet11"}


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedavg-bn"])
def test_the_server_averages_whole_states_by_sizes_and_one_method_measures_its_norms_anew(
    method: str, tmp_path: Path
) -> None:
    scheme = Scheme.of(here := Scenario(configure(overrides={**TINY, "method": method})))
    sizes = [len(share) for share in here.shares]
    assert len(set(sizes)) == 3
    paths, states = [tmp_path / str(k) for k in range(3)], []
    for k, path in enumerate(paths):
        model = scheme.architecture(k).build(k)
        for buffer in model.buffers():
            buffer.fill_(k + 1)
        ServerModel(model, scheme.architecture(k)).save(path)
        states.append(model.state_dict())
    ((_, learnt),) = drive([scheme.server(paths)], torch.device("cpu"))
    for name, found in learnt.server.module.state_dict().items():
        wanted = sum(size * state[name].double() for size, state in zip(sizes, states, strict=True)) / sum(sizes)
        if method == "fedavg-bn" and "running" in name:
            assert not torch.allclose(found.double(), wanted, atol=1e-2), name
        elif "num_batches" not in name:
            torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=0, msg=name)
