"""The server's loop: targets from the method, then training on them, as often as the method wants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Unpack

import torch
from torch import nn

from fedol import methods
from fedol.core.arrays import Array
from fedol.core.union import unsure_above
from fedol.data.findings import ANSWERS
from fedol.data.samples import Samples, samples
from fedol.errors import FedolError, InputError, unknown
from fedol.knowledge import Knowledge
from fedol.knowledge.ahead import Uploads
from fedol.methods import Distillation, Method, Targets, Teacher
from fedol.methods.questions import Questions
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec
from fedol.models.fitted import check_teachable
from fedol.robust import NONE, Defence, screen
from fedol.seeding import derive
from fedol.settings import Training, Voting, spelled_out
from fedol.settings.keywords import ServerKeywords
from fedol.settings.presets import suited
from fedol.training import Fit, Job, Process, Recipe, Snapshot, drive, resolve_device

Note = Callable[[int, Knowledge], None]


@dataclass(frozen=True)
class Learnt:
    """A trained server, and the verdict on the clients that taught it; empty where nobody was judged."""

    server: ServerModel
    screening: list[dict[str, Any]] = field(default_factory=list)


class Store(Protocol):
    """Where finished iterations are kept, so that a later start continues after the last one."""

    def screening(self) -> list[dict[str, Any]] | None:
        """The verdict on the clients, where there is one already; it is part of what the server is made of."""
        return None

    def judged(self, screening: list[dict[str, Any]]) -> None:
        """Keep the verdict."""
        return

    def last(self) -> ServerModel | None:
        """The server after the last finished iteration."""

    def finish(self, server: ServerModel, targets: Targets, fit: Fit) -> None:
        """Keep an iteration that has just finished."""

    def snapshot(self, iteration: int) -> Snapshot | None:
        """The last finished epoch within this iteration; None where only whole iterations are kept."""
        return None

    def keep(self, iteration: int) -> Callable[[Snapshot], None] | None:
        """What keeps an epoch of this iteration; None likewise."""
        return None


class Audience:
    """The clients as a method goes through them, whenever it does; ``note`` is handed each of them once."""

    def __init__(self, knowledge: Iterable[Knowledge], note: Note | None, left_out: Sequence[int] = ()) -> None:
        self._knowledge, self._note, self._left_out = knowledge, note, set(left_out)
        self._noted = set[int]()

    def without(self, left_out: Sequence[int]) -> Audience:
        """Those that are listened to."""
        heard = Audience(self._knowledge, self._note, left_out)
        heard._noted = self._noted
        return heard

    def note_the_rest(self) -> None:
        """Those that were left out, or that the method did not go through."""
        if self._note:
            for position, client in _numbered(self._knowledge, self._noted):
                self._note(position, client)

    def __iter__(self) -> Iterator[Knowledge]:
        for position, client in _numbered(self._knowledge, self._left_out):
            if self._note and position not in self._noted:
                self._noted.add(position)
                self._note(position, client)
            yield client


def _numbered(knowledge: Iterable[Knowledge], left_out: Collection[int]) -> Iterable[tuple[int, Knowledge]]:
    """The clients with their positions; a file that is left out is not even read."""
    if isinstance(knowledge, Uploads):
        return knowledge.numbered(left_out)
    return ((k, client) for k, client in enumerate(knowledge) if k not in left_out)


@spelled_out(Voting, Training, but=("method",))
def distill(
    knowledge: Iterable[Knowledge | Array],
    public: Samples | Array,
    *,
    model: ModelSpec | None = None,
    method: str = "fedol",
    classes: Sequence[str] | None = None,
    findings: Sequence[str] = (),
    width: int = 16,
    seed: int = 0,
    device: str = "auto",
    defence: str = NONE,
    **settings: Unpack[ServerKeywords],
) -> ServerModel:
    """Train a server model from clients' knowledge and the public samples (an array: uint8 [N, channels, H, W]).

    ``knowledge`` holds ``Knowledge`` or arrays of probabilities [N, C], one per client. Where a sample may have several
    ``findings``, name them; an array then holds how probable each is, [N, findings]. ``settings`` are the fields of
    ``Voting`` (iterations, tau, rho, rho_step) and of ``Training`` (epochs, batch_size, lr, optimiser, schedule,
    weight_decay, augment, patch, average). ``defence`` names defences against clients that lie
    (``fedol.robust``), for instance "trust,exact,cap,runoff". Without a ``model`` it is one that takes samples of their
    kind; of images, resnet56.
    """
    shared = samples(public, "public samples")
    from_array = Knowledge.from_findings if findings else Knowledge.from_probabilities
    clients = [
        item if isinstance(item, Knowledge) else from_array(item, client=f"client {number}")
        for number, item in enumerate(knowledge)
    ]
    if not clients:
        raise InputError("There is no client to learn from; pass at least one client's knowledge.")
    count = clients[0].log_probs.shape[1]
    for client in clients:
        if client.log_probs.shape[1] != count or client.samples != len(shared):
            raise InputError(
                f"{client.client} predicts {list(client.log_probs.shape)}, but there are {len(shared)} public "
                f"{shared.kind} and {clients[0].client} has {count} classes."
            )
        if client.findings != len(findings):
            raise InputError(
                f"{client.client} answers about {client.findings} findings of a sample, but {len(findings)} are named; "
                "name those that it answers about."
            )
    if findings and classes is not None:
        raise InputError("Samples have classes or findings; name one of both.")
    names = ANSWERS if findings else [str(c) for c in range(count)] if classes is None else classes
    if len(names) != count:
        raise InputError(f"There are {len(names)} class names, but the clients predict {count} classes.")
    model = suited("server_model", shared.kind, "resnet56") if model is None else model
    architecture = Architecture.on(shared, model, names, width, findings=findings)
    wanted = replace(_wanted(method, {**settings}), defence=Defence.parse(defence))
    where, known = resolve_device(device), methods.knowing(methods.find(method).name)
    ((_, learnt),) = drive([learn(known, clients, shared, architecture, wanted, seed, where)], where)
    return learnt.server


def _wanted(method: str, settings: dict[str, Any]) -> Distillation:
    """The settings, each where it belongs: the training's in the recipe, the others beside it."""
    training, voting = ([field.name for field in fields(record)] for record in (Training, Voting))
    for name in settings:
        if name not in (*training, *voting):
            raise unknown("setting", name, (*training, *voting))
    recipe = Recipe(**{name: value for name, value in settings.items() if name in training})
    return Distillation(method, recipe=recipe, **{name: value for name, value in settings.items() if name in voting})


def learn(
    method: Method,
    knowledge: Iterable[Knowledge],
    public: Samples,
    architecture: Architecture,
    settings: Distillation,
    seed: int,
    device: torch.device,
    store: Store | None = None,
    name: str = "server",
    start: nn.Module | None = None,
    note: Note | None = None,
) -> Process[Learnt]:
    """The one way from clients' knowledge to a server: screen them, make the targets, train.

    A process for ``training.drive``, so that several servers can train side by side. ``note`` is handed each client
    once, with its position, also those that are not listened to.
    """
    teacher, screening = hear(method, knowledge, settings, store, note, len(architecture.findings))
    server = yield from serve(teacher, public, architecture, settings.recipe, seed, device, store, name, start)
    return Learnt(server, screening)


def hear(
    method: Method,
    knowledge: Iterable[Knowledge],
    settings: Distillation,
    store: Store | None = None,
    note: Note | None = None,
    findings: int = 0,
) -> tuple[Teacher, list[dict[str, Any]]]:
    """Screen the clients, and let the method hear those that are listened to; the verdict beside its teacher.

    Of ``findings`` the method hears them about each. Nobody is screened then: an honest client that never saw a finding
    is sure that nobody has it, and agrees with the others no more than a liar does.
    """
    audience, screening = Audience(knowledge, note), list[dict[str, Any]]()
    heard: Iterable[Knowledge] = audience
    if settings.defence.trust and not findings:
        kept = store.screening() if store else None
        masses = method.client.sends == "ratios"
        screening = screen(audience, masses).as_json() if kept is None else kept
        if store and kept is None:
            store.judged(screening)
        heard = audience.without([k for k, entry in enumerate(screening) if entry["left_out"]])
    teacher = Questions.of(method, heard, settings, findings) if findings else method.teacher(heard, settings)
    audience.note_the_rest()
    return teacher, screening


def serve(
    teacher: Teacher,
    public: Samples,
    architecture: Architecture,
    recipe: Recipe,
    seed: int,
    device: torch.device,
    store: Store | None = None,
    name: str = "server",
    start: nn.Module | None = None,
) -> Process[ServerModel]:
    """Train a server on what a teacher says, from ``start`` or from scratch.

    Continues after the store's last iteration and keeps every new one there. Weights continue from one iteration to the
    next unless the teacher wants a fresh start; the optimiser is fresh in each. A ``start`` is a trained model, so it
    votes from the first iteration on.
    """
    server = (store.last() if store else None) or ServerModel(
        architecture.build(derive(seed, "server", "init")) if start is None else start, architecture
    )
    server.device = device
    check_teachable(server.module)
    for iteration in range(len(server.history) + 1, teacher.iterations + 1):
        votes = iteration > 1 or start is not None
        targets = teacher.targets(iteration, server.predict_log_proba(public).exp() if votes else None)
        rows = len(public) * max(1, len(architecture.findings))
        if targets.soft.shape != (rows, len(architecture.classes)):
            raise InputError(
                f"Targets must be [{rows}, {len(architecture.classes)}], a row for each sample and a column for "
                f"each class, but the method's are {list(targets.soft.shape)}."
            )
        if not torch.isfinite(targets.soft).all():
            raise InputError(f"The method's targets of iteration {iteration} hold values that are not finite.")
        if targets.restart and iteration > 1:
            server.module = architecture.build(derive(seed, "server", "init", iteration))
        result = yield Job(
            name=f"{name} {iteration}/{teacher.iterations}",
            model=server.module,
            inputs=public,
            targets=targets.soft.view(len(public), -1, 2) if architecture.findings else targets.soft,
            prepare=architecture.prepare,
            recipe=recipe,
            seed=derive(seed, "server", iteration),
            resume=store.snapshot(iteration) if store else None,
            checkpoint=store.keep(iteration) if store else None,
            alone=True,
        )
        if result.error:
            raise FedolError(result.error)
        record = {"iteration": iteration, **targets.record, "prior": targets.prior.tolist(), "loss": result.losses[-1]}
        if targets.strange is not None:
            record["unsure_above"] = unsure_above(server.predict_log_proba(public).exp(), targets.strange)
        server = replace(server, history=[*server.history, record])
        if store:
            store.finish(server, targets, result)
    server.module.eval()
    return server
