"""One round for the cells of a partition and seed: their clients once, then all their servers side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedol.bench.cells import Cell
from fedol.bench.evaluation import Diagnosed, ceiling, ensembles, test_accuracy
from fedol.bench.store import BenchFolder
from fedol.distillation import serve
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario, Scheme
from fedol.files import read_json, write_json
from fedol.methods import CEILING, ENSEMBLE, LOCAL, title
from fedol.methods.sides import guarded
from fedol.model import ServerModel, load
from fedol.runs.evaluation import summary_statistics
from fedol.training import OnEpoch, Process, drive

Result = dict[str, Any]
RECORD = ("client", "samples", "accuracy", "upload_bytes", "seconds")  # what is known about a client


def missing_clients(cells: Sequence[Cell], folder: BenchFolder) -> list[tuple[Cell, int]]:
    """The clients that these cells still need, each once.

    A server learns from uploads; only ensembles and later rounds need the models, which are many times larger
    and may be left behind on a borrowed machine.
    """
    missing = {
        (cell.clients, k): (cell, k)
        for cell in cells
        for k in range(cell.config.clients)
        if not all(file(cell.clients, k).exists() for file in _read(cell, folder))
    }
    return list(missing.values())


def _read(cell: Cell, folder: BenchFolder) -> list[Callable[[str, int], Path]]:
    """The files of each client that a cell reads."""
    if cell.method == CEILING:
        return []
    if cell.method == LOCAL:
        return [folder.record]
    if cell.method == ENSEMBLE:
        return [folder.client]
    return [folder.upload, folder.client if cell.rounds > 1 else folder.record]


def train_clients(
    groups: Sequence[tuple[Sequence[Cell], Scenario]], folder: BenchFolder, on_epoch: OnEpoch, failed: dict[str, str]
) -> None:
    """Train what is missing, of all kinds of clients together, and keep each client when it is finished.

    What fails goes into ``failed``: the hash of the clients, and why.
    """
    wanted = [(cell, k, scenario) for cells, scenario in groups for cell, k in missing_clients(cells, folder)]
    processes = [guarded(Scheme.of(scenario.under(cell.config)).client(k)) for cell, k, scenario in wanted]
    device = groups[0][1].device
    for position, client in drive(processes, device, on_epoch):
        cell, k, scenario = wanted[position]
        if isinstance(client, FedolError):
            theirs = [other for cells, _ in groups for other in cells if other.clients == cell.clients]
            names = ", ".join(dict.fromkeys(title(other.method) for other in theirs if other.method != CEILING))
            failed[cell.clients] = f"{names}, {cell.place}: {client}"
            continue
        client.send(folder.upload(cell.clients, k))
        record = {
            "client": k,
            "samples": len(scenario.shares[k]),
            "accuracy": test_accuracy(client.model, scenario),
            "upload_bytes": folder.upload(cell.clients, k).stat().st_size,
            "seconds": round(client.seconds, 3),
        }
        write_json(folder.record(cell.clients, k), record)
        client.model.save(folder.client(cell.clients, k))


def trained_clients(cell: Cell, scenario: Scenario, folder: BenchFolder) -> list[ServerModel]:
    """A cell's clients after their first round."""
    scheme = Scheme.of(scenario.under(cell.config))
    models = [load(folder.client(cell.clients, k), scheme.architecture(k).model) for k in range(cell.config.clients)]
    for model in models:
        model.device = scenario.device
    return models


def server(cell: Cell, scenario: Scenario, folder: BenchFolder) -> Process[Result]:
    """A cell's result: train its server, or none where the clients already are the answer."""
    if cell.method in (LOCAL, ENSEMBLE):
        return _clients_alone(cell, scenario, folder)
    started, own = time.perf_counter(), scenario.under(cell.config)
    store = Diagnosed(folder.server(cell), own)
    if cell.method == CEILING:
        recipe, seed = cell.config.distillation.recipe, cell.config.seed
        model = yield from serve(
            ceiling(own), own.public, own.server, recipe, seed, own.device, store, name=cell.method
        )
    else:
        uploads = [folder.upload(cell.clients, k) for k in range(cell.config.clients)]
        learnt = yield from Scheme.of(own).server(uploads, store, cell.method)
        model = learnt.server
    elapsed = round(time.perf_counter() - started, 3)  # beside others: not what it would take alone
    # The last iteration has been tested; an average has no iterations.
    last = model.history[-1]["diagnostics"]["test_accuracy"] if model.history else test_accuracy(model, own)
    result = {"accuracy": last, "history": model.history, "seconds": elapsed}
    return result if cell.method == CEILING else {**result, **_clients(cell, folder)}


def _clients_alone(cell: Cell, scenario: Scenario, folder: BenchFolder) -> Result:
    if cell.method == ENSEMBLE:
        pooled = ensembles(trained_clients(cell, scenario, folder), scenario)
        return {"accuracy": next(iter(pooled.values())), "ensembles": pooled}
    found = _clients(cell, folder)
    spread = summary_statistics([record["accuracy"] for record in found["clients"]])
    return {"accuracy": spread["mean"], "over_clients": spread, **found}


def _clients(cell: Cell, folder: BenchFolder) -> Result:
    records = []
    for path in (folder.record(cell.clients, k) for k in range(cell.config.clients)):
        record = read_json(path)
        if not (isinstance(record, dict) and all(isinstance(record.get(name), int | float) for name in RECORD)):
            raise FedolError(f"{path} is no record of a client.", path)
        records.append(record)
    return {"clients": records}
