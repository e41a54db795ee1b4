"""The server's loop: targets from the method, then training on them, as often as the method wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor

from fedol import methods
from fedol.arrays import Array, to_tensor
from fedol.data.split import channel_statistics
from fedol.errors import FedolError, InputError
from fedol.knowledge import Knowledge
from fedol.methods import Distillation, Targets
from fedol.models import ModelSpec
from fedol.seeding import derive
from fedol.server import Architecture, ServerModel
from fedol.training import Job, Normalisation, Process, Recipe, Snapshot, drive, resolve_device


class Store(Protocol):
    """Where finished iterations are kept, so that a later start continues after the last one."""

    def last(self) -> ServerModel | None:
        """The server after the last finished iteration."""

    def finish(self, server: ServerModel, targets: Targets, seconds: float) -> None:
        """Keep an iteration that has just finished."""

    def snapshot(self, iteration: int) -> Snapshot | None:
        """The last finished epoch within this iteration."""

    def keep(self, iteration: int) -> Callable[[Snapshot], None] | None:
        """What keeps an epoch of this iteration; None where only whole iterations are kept."""


def distill(
    knowledge: Iterable[Knowledge | Array],
    public: Array,
    *,
    model: ModelSpec = "resnet56",
    method: str = "fedol",
    classes: Sequence[str] | None = None,
    width: int = 16,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> ServerModel:
    """Train a server model from clients' knowledge and the public images (uint8 [N, channels, H, W]).

    ``knowledge`` holds ``Knowledge`` or arrays of probabilities [N, C], one per client. ``settings`` are the fields of
    ``Distillation`` (iterations, tau, rho, rho_step) and of ``Recipe`` (epochs, batch_size, lr).
    """
    images = to_tensor(public, "public images")
    if images.dim() != 4 or images.dtype != torch.uint8:
        raise InputError(
            f"public images must be uint8 [N, channels, H, W], but are {images.dtype} {list(images.shape)}."
        )
    clients = [
        item if isinstance(item, Knowledge) else Knowledge.from_probabilities(item, client=f"client {number}")
        for number, item in enumerate(knowledge)
    ]
    if not clients:
        raise InputError("There is no client to learn from; pass at least one client's knowledge.")
    for client in clients:
        if client.log_probs.shape != (len(images), clients[0].log_probs.shape[1]):
            raise InputError(
                f"{client.client} predicts {list(client.log_probs.shape)}, but there are {len(images)} public images "
                f"and {clients[0].client} has {clients[0].log_probs.shape[1]} classes."
            )
    names = classes if classes is not None else [str(c) for c in range(clients[0].log_probs.shape[1])]
    mean, std = channel_statistics(images.cpu().numpy())
    channels, height, breadth = images.shape[1:]
    architecture = Architecture(model, tuple(names), (channels, height, breadth), width, Normalisation(mean, std))
    recipe = Recipe(**{key: settings.pop(key) for key in ("epochs", "batch_size", "lr") if key in settings})
    try:
        wanted = Distillation(method=method, recipe=recipe, **settings)
    except TypeError as error:
        raise InputError(f"distill does not know a setting: {error}.") from None
    where = resolve_device(device)
    ((_, server),) = drive([distillation(clients, images, architecture, wanted, seed, where)], where)
    return server


def distillation(
    knowledge: Iterable[Knowledge],
    public: Tensor,
    architecture: Architecture,
    settings: Distillation,
    seed: int,
    device: torch.device,
    store: Store | None = None,
    name: str = "server",
    start: ServerModel | None = None,
) -> Process[ServerModel]:
    """The same as a process for ``training.drive``, so that several servers can train side by side.

    Continues after the store's last iteration and keeps every new one there. Weights continue from one iteration to the
    next; the optimiser is fresh in each. The first iteration begins with fresh weights or those of ``start``, a
    trained model, which then votes from the first iteration on.
    """
    teacher = methods.find(settings.method)(knowledge, settings)
    server = (store.last() if store else None) or ServerModel(
        start.module if start else architecture.build(derive(seed, "server", "init")), architecture
    )
    server.device = device
    for iteration in range(len(server.history) + 1, teacher.iterations + 1):
        votes = iteration > 1 or start is not None
        targets = teacher.targets(iteration, server.predict_log_proba(public).exp() if votes else None)
        result = yield Job(
            name=f"{name} {iteration}/{teacher.iterations}",
            model=server.module,
            images=public,
            targets=targets.soft,
            normalise=architecture.normalise,
            recipe=settings.recipe,
            seed=derive(seed, "server", iteration),
            resume=store.snapshot(iteration) if store else None,
            checkpoint=store.keep(iteration) if store else None,
            alone=True,
        )
        if result.error:
            raise FedolError(result.error)
        record = {"iteration": iteration, **targets.record, "loss": result.losses[-1]}
        server = replace(server, history=[*server.history, record])
        if store:
            store.finish(server, targets, result.seconds)
    server.module.eval()
    return server
