"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020): the server averages the clients' weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fedol.data.samples import Preprocessing, Samples, slices
from fedol.errors import InputError
from fedol.methods.method import Method, register
from fedol.methods.sides import Client, Lesson, Predictions, Site, seconds
from fedol.model import Architecture, ServerModel, load
from fedol.models import describe
from fedol.models.fitted import fitted_in
from fedol.seeding import derive
from fedol.training import Process


def average(states: Iterable[tuple[Mapping[str, Tensor], int]]) -> dict[str, Tensor]:
    """w = Σ_k (n_k / n) w_k over the whole state, normalisation statistics included; weights and sizes one by one.

    Counters such as the number of batches seen are averaged too and rounded, so that they stay whole numbers.
    """
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    samples = 0
    for state, size in states:
        for name, value in state.items():
            total[name] = total.get(name, torch.zeros(())) + value.detach().cpu().double() * size
            kinds[name] = value.dtype
        samples += size
    if not samples:
        raise InputError("There is nothing to average; at least one client with samples is needed.")
    mean = {name: value / samples for name, value in total.items()}
    return {name: (m if kinds[name].is_floating_point else m.round()).to(kinds[name]) for name, m in mean.items()}


@torch.no_grad()
def recalibrate(
    model: nn.Module, public: Samples, prepare: Preprocessing, device: torch.device, batch: int = 250
) -> None:
    """Replace every batch norm's running statistics by those of this model on the public samples, in place.

    Averaged weights make other activations than any client's, so averaged statistics fit none of them.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.to(device).train()
    seen = 0
    # Parts of nearly equal size: the layers behind a norm see its statistics of the part, and a short one has odd ones.
    for values in prepare.stream(public, slices(len(public), math.ceil(len(public) / batch)), device):
        if len(values) < 2:  # has no variance
            continue
        seen += len(values)
        for norm in norms:
            norm.momentum = len(values) / seen  # a plain mean over all; what was there before goes with the first
        model(values)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class Weights(Predictions):
    """A client sends its trained weights; all have one architecture and start from the same weights."""

    sends = "weights"

    def __init__(self, proximal: bool = False) -> None:
        self.proximal = proximal  # FedProx: μ/2 ‖w − w_global‖² on the trainable parameters (``Recipe.proximal``)
        self.heeds = ("mu",) if proximal else ()

    def architecture(self, site: Site, k: int) -> Architecture:
        """The same for everyone."""
        return site.architecture(site.config.parameter_model)

    def work(self, site: Site, k: int, lesson: Lesson | None = None) -> Process[Client]:
        """Train the weights that everyone starts from on the private data."""
        architecture = self.architecture(site, k)
        model = architecture.build(derive(site.config.seed, "parameters", "init"))
        if fitted_in(model):
            name = describe(architecture.model)
            raise InputError(f"'{site.config.method}' averages weights, and '{name}' has none; choose a network.")
        job = site.job(k, architecture, model)
        if lesson:
            model.load_state_dict(lesson.model.state_dict())
            job = replace(job, seed=derive(job.seed, "round", lesson.round))
        if self.proximal:
            job = replace(job, recipe=replace(job.recipe, proximal=site.config.mu))
        result = yield job
        trained = ServerModel(model, architecture, device=site.device)
        return Client(trained, trained.save, seconds(result), result.losses)


def combined(site: Site, uploads: Sequence[Path]) -> ServerModel:
    """The average, by the clients' numbers of samples; nothing is trained."""
    architecture = Weights().architecture(site, 0)
    module = architecture.build()
    states = (load(path, architecture.model).module.state_dict() for path in uploads)
    module.load_state_dict(average(zip(states, map(len, site.shares), strict=True)))
    return ServerModel(module.eval(), architecture, device=site.device)


def recalibrated(site: Site, uploads: Sequence[Path]) -> ServerModel:
    """The same, its normalisation statistics measured anew on the public samples."""
    server = combined(site, uploads)
    recalibrate(server.module, site.public, server.architecture.prepare, site.device)
    return server


ROUNDS = ("one-round", "rounds")
register(
    Method("fedavg", "FedAvg", combine=combined, client=Weights(), compared=(*ROUNDS, "cost"), row=1, paper="FedAvg")
)
register(
    Method(
        "fedavg-bn",
        "FedAvg, norms recalibrated",
        combine=recalibrated,
        client=Weights(),
        compared=("one-round",),
        row=2,
    )
)
register(
    Method(
        "fedprox", "FedProx", combine=combined, client=Weights(proximal=True), compared=ROUNDS, row=3, paper="FedProx"
    )
)
