"""What of a benchmark is not done yet, how much work it is, and how far it has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedol.bench import one_round
from fedol.bench.cells import Cell
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.bench.summary import label
from fedol.config import RunConfig
from fedol.data import Dataset
from fedol.errors import InputError
from fedol.federation.scenario import Scenario, Scheme, deal
from fedol.methods import CEILING, ENSEMBLE, LOCAL
from fedol.model import Architecture
from fedol.progress import NOBODY, Observer, watched
from fedol.text import clock, shown
from fedol.training import Epoch


@dataclass(frozen=True)
class Plan:
    """A group of unfinished cells that share data and clients."""

    cells: list[Cell]
    work: float  # FLOPs of training
    predictions: float  # FLOPs of predicting on public and test samples
    clients: int  # that must be trained first
    epochs: int  # of all trainings, to be told of

    @property
    def total(self) -> float:
        """All FLOPs."""
        return self.work + self.predictions

    def as_json(self, speed: float, timed: bool) -> dict[str, Any]:
        """For people and programs; ``timed``: the speed is that of finished work, not of a few batches."""
        config = self.cells[0].config
        return {
            "partition": config.partition,
            "seed": config.seed,
            "methods": [cell.method for cell in self.cells],
            "rounds": [cell.rounds for cell in self.cells],
            "rows": [_row(cell) for cell in self.cells],
            "clients": self.clients,
            "flops": self.total,
            "seconds": self.total / speed if speed else 0.0,  # of a model in which torch counts nothing
            "timed": timed,
        }


def _row(cell: Cell) -> str:
    """A cell in words."""
    return f"{cell.rounds} rounds of {label(cell.settings)}" if cell.rounds > 1 else label(cell.settings)


def plans(spec: Spec, scenario: Scenario, folder: BenchFolder) -> list[Plan]:
    """The unfinished groups. A cell that several groups want (the ceiling) belongs to the first."""
    for config in spec.dealings():
        for partition in spec.partitions:
            _refuse_impossible(replace(config, partition=partition), spec.seeds, scenario.dataset)
    seen: set[str] = set()
    found = []
    for group in watched(spec.groups(), "planning"):
        # By hash: variants whose change does not matter to a method ask for the same cell.
        wanted = {cell.hash: cell for cell in group if cell.hash not in seen and not folder.finished(cell)}
        seen |= wanted.keys()
        missing = list(wanted.values())
        if missing:
            found.append(plan(missing, scenario, folder))
    return found


def _refuse_impossible(config: RunConfig, seeds: Sequence[int], dataset: Dataset) -> None:
    """What no seed can deal is said now, not after hours of work on the others; a seed without luck fails alone."""
    refused = []
    for seed in seeds:
        try:
            deal(replace(config, seed=seed), dataset)
        except InputError as error:
            refused.append(error)
        else:
            return
    raise refused[0]


def plan(cells: list[Cell], scenario: Scenario, folder: BenchFolder) -> Plan:
    """What some unfinished cells of one group cost, and those of their clients that are missing."""
    clients = one_round.missing_clients(cells, folder)
    share = sum(client_work(cell, scenario) / cell.config.clients for cell, _ in clients)
    trained = share + sum(_work(cell, scenario, folder) for cell in cells)
    predicted = sum(client_predictions(cell, scenario) for cell, _ in clients)
    predicted += sum(server_predictions(cell, scenario) for cell in cells)
    epochs = sum(client_epochs(cell, scenario, k) for cell, k in clients)
    epochs += sum(_epochs(cell, scenario, folder) for cell in cells)
    return Plan(cells, trained, predicted, len(clients), epochs)


def _work(cell: Cell, scenario: Scenario, folder: BenchFolder) -> float:
    """FLOPs of a cell's servers, and of its clients in the rounds after the first; less what is finished."""
    finished = folder.last_round(cell)
    later = client_work(cell, scenario) + feedback_work(cell, scenario)
    iterations = cell.record.trainings(cell.config.iterations)
    begun = folder.iterations(cell) / iterations if cell.rounds == 1 else 0.0
    server = server_work(cell, scenario) * max(0.0, cell.rounds - finished - begun)
    return server + later * max(0.0, cell.rounds - max(1, finished) - folder.heard(cell) / cell.config.clients)


def _epochs(cell: Cell, scenario: Scenario, folder: BenchFolder) -> int:
    """Epochs of a cell's servers, and of its clients in the rounds after the first; less what is finished."""
    plan, finished = cell.config.distillation, folder.last_round(cell)
    serves = cell.record.targets or cell.method == CEILING
    begun = folder.iterations(cell) if cell.rounds == 1 else 0
    trainings = max(0, cell.record.trainings(plan.iterations) * (cell.rounds - finished) - begun) if serves else 0
    later = sum(client_epochs(cell, scenario, k) for k in range(cell.config.clients)) if cell.rounds > 1 else 0
    if cell.record.targets:
        later += cell.config.clients * cell.feedback_epochs
    return trainings * plan.recipe.epochs + later * max(0, cell.rounds - max(1, finished))


def client_epochs(cell: Cell, scenario: Scenario, k: int) -> int:
    """Epochs of a client's trainings in the first round."""
    return Scheme.of(scenario.under(cell.config)).trainings(k) * cell.config.epochs


# Training on a sample costs three forward passes: one forward, two for the gradients of weights and activations. A
# multiplication and an addition are two operations; only convolutions and matrix products count.
TRAINING = 3


@cache
def forward_flops(architecture: Architecture) -> int:
    """FLOPs of one sample's forward pass."""
    model = architecture.build().eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, *architecture.shape))
    return int(counter.get_total_flops())


def client_work(cell: Cell, scenario: Scenario) -> float:
    """FLOPs of all clients' training on their private data in one round."""
    scheme = Scheme.of(scenario.under(cell.config))
    config = cell.config
    images = (len(scenario.dataset.train) - config.public - config.development) / config.clients  # on average
    images = cell.record.client.images(images, config.public)
    flops = sum(forward_flops(scheme.architecture(k)) for k in range(config.clients))
    return TRAINING * flops * images * config.epochs


def feedback_work(cell: Cell, scenario: Scenario) -> float:
    """FLOPs of all clients' training on the server's feedback in one round."""
    if not cell.record.targets:
        return 0.0
    own = scenario.under(cell.config)
    flops = sum(forward_flops(own.client(k)) for k in range(cell.config.clients))
    return float(TRAINING * flops * cell.config.public * cell.feedback_epochs)


def server_work(cell: Cell, scenario: Scenario) -> float:
    """FLOPs of the server's training in one round."""
    if not cell.record.targets and cell.method != CEILING:
        return 0.0
    plan = cell.config.distillation
    epochs = plan.recipe.epochs * cell.record.trainings(plan.iterations)
    return float(TRAINING * forward_flops(scenario.under(cell.config).server) * cell.config.public * epochs)


def client_predictions(cell: Cell, scenario: Scenario) -> float:
    """FLOPs of the average client's predictions on the public and the test set."""
    scheme = Scheme.of(scenario.under(cell.config))
    flops = sum(forward_flops(scheme.architecture(k)) for k in range(cell.config.clients)) / cell.config.clients
    return flops * (cell.config.public + len(scenario.dataset.test))


def server_predictions(cell: Cell, scenario: Scenario) -> float:
    """FLOPs of predicting on the public and the test set after the clients' first round."""
    if cell.method in (LOCAL, ENSEMBLE):
        return 0.0 if cell.method == LOCAL else cell.config.clients * client_predictions(cell, scenario)
    times = cell.record.trainings(cell.config.iterations) + 1
    own = scenario.under(cell.config)
    model = Scheme.of(own).architecture(0) if cell.record.combine else own.server
    server = forward_flops(model) * (cell.config.public + len(scenario.dataset.test))
    later = (cell.rounds - 1) * (cell.config.clients * client_predictions(cell, scenario) + server)
    return times * server + later


CLEAR = 0.01  # share of the work after which the time left can be told


class OutOfTime(Exception):
    """The time limit is over; raised between epochs, so that what is finished stays and the rest ends at once."""


Show = Callable[[float, float | None, str, bool], None]
"""Gets the share that is done, the seconds left or None, what has just happened, and whether a cell is finished."""


class Progress(Observer):
    """Counts work (FLOPs) as epochs finish, and lets ``show`` tell of it now and then."""

    def __init__(self, show: Show | None = None, every: float = 15.0, observer: Observer = NOBODY) -> None:
        self._show, self._every, self._observer = show or _line, every, observer
        self.total = self.done = 0.0
        self.flops: dict[int, float] = {}  # parameters of a model -> FLOPs of training it on one sample
        self.deadline: float | None = None  # of time.monotonic
        self._began = self._shown = time.monotonic()
        self._lock = Lock()  # epochs are reported from the threads that train

    def begin(self, work: float, epochs: int) -> None:
        """So much is to be done; the observer hears of it as of a stage."""
        self.total = work
        self._observer.stage("training", epochs)

    def epoch(self, epoch: Epoch) -> None:
        """A training has finished an epoch."""
        self._observer.epoch(epoch)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime
        parameters = sum(p.numel() for p in epoch.job.model.parameters() if p.requires_grad)
        with self._lock:
            self.done += self.flops.get(parameters, 0.0) * epoch.samples
            if time.monotonic() - self._shown >= self._every:
                self._tell(f"{epoch.job.name}, epoch {epoch.epoch}/{epoch.job.recipe.epochs}")

    def cell(self, cell: Cell, accuracy: float) -> None:
        """A cell has finished."""
        several = f", {cell.rounds} rounds" if cell.rounds > 1 else ""
        with self._lock:
            self._tell(f"{cell.place}: {label(cell.settings)}{several} {100 * accuracy:.1f} %", finished=True)

    def _tell(self, what: str, finished: bool = False) -> None:
        self._shown = time.monotonic()
        share = min(1.0, self.done / self.total) if self.total else 1.0
        left = (self._shown - self._began) * (1 - share) / share if share > CLEAR else None
        self._show(share, left, what, finished)


def _line(share: float, left: float | None, what: str, finished: bool) -> None:
    remaining = "" if left is None else f", about {clock(left)} left"
    print(f"[{100 * share:3.0f} %{remaining}] {shown(what)}", file=sys.stderr, flush=True)
