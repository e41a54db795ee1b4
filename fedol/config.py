"""The configuration of a run: one frozen dataclass with every default visible, a TOML file, presets."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from fedol import codeprint, methods
from fedol.codecs import DEFAULT, find
from fedol.data.partitions import PARTITIONS, Partition
from fedol.data.partitions import canonical as partition_name
from fedol.errors import InputError, unknown
from fedol.kinds import check_kinds
from fedol.methods import CONTROLS, LOCAL, PARAMETER_METHODS, Distillation
from fedol.models.trust import check_settings
from fedol.robust.defence import NONE, Defence, canonical
from fedol.training import Recipe

# A model is a name or, from Python, a class or function of yours.
ModelName = str | Callable[..., Any]


class Settings:
    """What a run is frozen with; every such dataclass is one of these."""

    server_model: ModelName
    method: str
    written: ClassVar[tuple[str, ...]]  # what a run writes beside what every run does, as patterns in its folder

    def __post_init__(self) -> None:
        """Refuse values of another kind than their fields'."""
        check_kinds(self)
        check_model(self.server_model)

    def as_json(self) -> dict[str, Any]:
        """Plain values; a class of yours becomes its name."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: _plain(getattr(self, field.name)) for field in fields}

    def changes(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from an older one's plain values, as (then, now); a setting it did not have yet was off."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        off = {field.name: _plain(field.default) for field in fields if field.default is not dataclasses.MISSING}
        now, then = self.as_json(), {**off, **before}
        return {name: (then.get(name), now.get(name)) for name in {**now, **before} if then.get(name) != now.get(name)}

    @property
    def parts(self) -> dict[str, tuple[str, str | None]]:
        """What may be code of yours, by setting: in words, and its fingerprint, which FedOL's own has not."""
        from fedol.models import describe, fingerprint

        found: dict[str, tuple[str, str | None]] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            models = {field.name: value} if field.name.endswith("_model") else {}
            if field.name.endswith("_models"):
                models = {f"{field.name}[{number}]": model for number, model in enumerate(value)}
            for name, model in models.items():
                found[name] = f"the model '{describe(model)}' ({name})", fingerprint(model)
        return {**found, "method": (f"the method '{self.method}'", methods.fingerprint(self.method))}

    @property
    def code(self) -> dict[str, str]:
        """The fingerprints of what is yours."""
        return {name: code for name, (_, code) in self.parts.items() if code is not None}

    def other_code(self, before: Mapping[str, str]) -> list[str]:
        """What is not the code that an older run of these settings was made with, in words.

        ``before`` is that run's ``code``. A run that has none may be of a time when nothing was noted.
        """
        parts = self.parts
        if not before:
            parts = {"method": parts["method"]} if self.method in methods.BUILT_IN else {}
        return [words for name, (words, code) in parts.items() if before.get(name) != code]

    @property
    def hash(self) -> str:
        """Names the configuration: any changed setting changes it."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    from fedol.models import address

    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return address(value) if callable(value) else value


def check_model(model: Any) -> None:
    """Refuse what cannot name a model."""
    if not (isinstance(model, str) or callable(model)):
        raise InputError(f"A model is a name, 'module:callable' or a class of yours, not {model!r}.")


@dataclass(frozen=True)
class RunConfig(Settings):
    """One simulated federation. The defaults are the quick job: digits, ten small clients, about a minute on a CPU."""

    written = ("clients/[0-9]*.fedol", "clients/[0-9]*.safetensors")

    dataset: str = "digits"
    data_dir: str | None = None
    public: int = 400  # unlabeled samples that everyone shares, taken from the training data
    clients: int = 10
    partition: str = "dirichlet:0.3"
    client_models: tuple[ModelName, ...] = ("mlp", "cnn")  # dealt evenly in turn
    server_model: ModelName = "cnn-large"
    parameter_model: ModelName = "cnn"  # every client's and the server's, in methods that average weights
    width: int = 16
    codec: str = DEFAULT  # of the clients' uploads
    method: str = "fedol"
    defence: str = NONE  # against clients that lie; simulated ones do not, so the default is the paper's method
    iterations: int = 10
    tau: float = 0.2
    rho: float = 0.1
    rho_step: float = 0.05
    mu: float = 0.01  # FedProx's pull towards the weights a client was sent
    epochs: int = 20
    server_epochs: int | None = None  # of each server iteration; as many as ``epochs`` unless set
    batch_size: int = 32
    lr: float = 1e-3
    augment: bool = False  # random flip and crop, for clients and server
    optimiser: str = "adam"  # of clients and server; sgd has momentum 0.9 and wants a larger learning rate
    schedule: str = "constant"  # of the learning rate, for clients and server: constant, cosine or one-cycle
    patch: str = "none"  # in the server's images: none, cutout or cutmix
    average: float = 0.0  # decay of the running average of the server's weights; 0: the last weights count
    weight_decay: float = 0.0  # of the server's weights, not through the gradient (with Adam: AdamW)
    development: int = 0  # labeled images taken from the private ones to be the test set, while methods are developed
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.partition, Partition):
            object.__setattr__(self, "partition", partition_name(self.partition))
        super().__post_init__()
        object.__setattr__(self, "client_models", tuple(_names(self.client_models)))
        object.__setattr__(self, "defence", canonical(self.defence))
        if not self.client_models:
            raise InputError("client_models must name at least one model, for instance 'resnet11,resnet20'.")
        find(self.codec)
        for model in (*self.client_models, self.parameter_model):
            check_model(model)
        if self.clients < 1 or self.width < 1:
            raise InputError(f"clients and width must be at least 1, but are {self.clients} and {self.width}.")
        if self.method in CONTROLS:
            here = f"`fedol bench one-round --methods {self.method}`"
            raise InputError(f"'{self.method}' is no method of a run but a control of benchmarks; use {here}.")
        if self.method not in methods.names():
            raise unknown("method", self.method, methods.names())
        if self.defence != NONE and self.method in UNDEFENDED:
            raise InputError(f"Defences judge what clients predict; '{self.method}' has no such clients: defence none.")
        if not 0 <= self.mu < float("inf"):
            raise InputError(f"mu must be a finite number of at least 0, but is {self.mu}.")
        _ = self.recipe, self.distillation  # what they refuse is refused now

    @property
    def parts(self) -> dict[str, tuple[str, str | None]]:
        """The partition may be yours, too."""
        words = f"the partition '{self.partition}'"
        return {**super().parts, "partition": (words, partition_code(self.partition))}

    def client_model(self, client: int) -> ModelName:
        """Client k's model: the list dealt in turn."""
        return self.client_models[client % len(self.client_models)]

    @property
    def recipe(self) -> Recipe:
        """How a client trains."""
        return Recipe(
            self.epochs, self.batch_size, self.lr, self.optimiser, augment=self.augment, schedule=self.schedule
        )

    @property
    def distillation(self) -> Distillation:
        """How the server learns."""
        epochs = self.epochs if self.server_epochs is None else self.server_epochs
        recipe = replace(
            self.recipe, epochs=epochs, patch=self.patch, average=self.average, weight_decay=self.weight_decay
        )
        defence = Defence.parse(self.defence)
        return Distillation(self.method, self.iterations, self.tau, self.rho, self.rho_step, recipe, defence)


def partition_code(name: str) -> str | None:
    """The fingerprint of a partition of yours, such as ``mine:3``; None of FedOL's own."""
    scheme = PARTITIONS.get(name.partition(":")[0])
    return codeprint.fingerprint(scheme) if scheme else None


def _names(models: ModelName | Iterable[ModelName]) -> Iterator[ModelName]:
    """One by one, whether they came as a list or, from the command line, as ``resnet11,resnet20``."""
    if isinstance(models, str):
        yield from (name.strip() for name in models.split(",") if name.strip())
    elif callable(models):
        yield models
    elif isinstance(models, Iterable):
        yield from models
    else:
        raise InputError(f"The setting 'client_models' must be a list of models, but is {models!r}.")


UNDEFENDED = (LOCAL, "fedkt", *PARAMETER_METHODS)  # methods in which the server hears no predictions

PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    # Section V of the paper; the width is the family's nominal one (the paper names none).
    "paper": {
        "dataset": "cifar100",
        "public": 5000,
        "clients": 10,
        "partition": "dirichlet:0.05",
        "client_models": ("resnet11", "resnet20"),
        "server_model": "resnet56",
        "parameter_model": "resnet20",
        "width": 16,
        "codec": "float32",  # its baselines average log-probabilities, which quantisation costs some tenths of a point
        "iterations": 10,
        "tau": 0.2,
        "rho": 0.1,
        "rho_step": 0.05,
        "epochs": 50,
        "batch_size": 64,
        "lr": 1e-3,
    },
}
# The same federation and upload, trained as well as we know how; docs/results/best.md has the ablation.
PRESETS["best"] = {
    **PRESETS["paper"],
    "codec": DEFAULT,
    "width": 64,
    "method": "pooled",  # FedOL+'s targets; its labels and second iteration gained nothing with this training
    "iterations": 2,  # of a method that has some, if another is asked for
    "epochs": 100,  # of the clients, more than half of what this preset costs
    "server_epochs": 200,
    "augment": True,
    "schedule": "cosine",
    "patch": "cutmix",
    "average": 0.999,
}


def configure(
    preset: str | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    trust_code: bool = False,
) -> RunConfig:
    """A configuration from a preset, then a TOML file, then single settings; the later wins.

    What counts of the file may name models that are code (``my.py:Net``) only with ``trust_code``.
    """
    overrides = overrides or {}
    written = _read(file) if file else {}
    check_settings({name: value for name, value in written.items() if name not in overrides}, str(file), trust_code)
    from_file = written.pop("preset", "quick")
    preset = str(from_file if preset is None else preset)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    return changed(RunConfig(), {**PRESETS[preset], **written, **overrides})


def changed(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The configuration with some settings replaced."""
    known = [field.name for field in dataclasses.fields(RunConfig)]
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return dataclasses.replace(config, **settings)


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"The configuration {file} cannot be read: {why}.") from None
    return {key.replace("-", "_"): value for key, value in values.items()}
