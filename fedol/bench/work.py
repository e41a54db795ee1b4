"""How much there is to compute: FLOPs of training, counted by torch on one image.

The convention: training on a sample costs three forward passes (one forward, two for the gradients of weights and
activations); a multiplication and an addition are two operations; only convolutions and matrix products count.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from fedol.bench.cells import Cell
from fedol.federation.scenario import Scenario
from fedol.federation.scheme import Scheme
from fedol.methods import CEILING, ENSEMBLE, LOCAL
from fedol.model import Architecture

TRAINING = 3  # forward passes per training step


@cache
def forward_flops(architecture: Architecture) -> int:
    """FLOPs of one image's forward pass."""
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
