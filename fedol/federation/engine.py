"""What trains the clients of a simulation: here this process; ``flower.engine`` has one that spreads them over Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedol.errors import FedolError
from fedol.federation.scheme import Scheme
from fedol.methods.sides import guarded
from fedol.runs.folder import RunFolder
from fedol.training import OnEpoch, drive

Engine = Callable[[Scheme, Sequence[int], RunFolder, OnEpoch], list[str]]
"""Trains these clients, leaves each one's model and upload in the folder, and returns why any failed."""


def in_process(scheme: Scheme, clients: Sequence[int], folder: RunFolder, on_epoch: OnEpoch) -> list[str]:
    """All of them side by side in this process."""
    processes, failed = [guarded(scheme.client(k)) for k in clients], []
    for position, client in drive(processes, scheme.scenario.device, on_epoch):
        if isinstance(client, FedolError):
            failed.append(str(client))
            continue
        k = clients[position]
        client.model.save(folder.client_model(k))
        folder.log({"stage": "client", "client": k, "seconds": client.seconds})
        client.send(folder.knowledge(k))
    return failed
