"""A cell is one number of a table: a method under one configuration. Its hash names its result.

Only the settings that a method depends on enter the hash, so cells that must be equal are one cell: FedDF does not
know τ, the ceiling knows no partition. A setting that is added later and switched off changes no hash.
A dataset, partition, model or method of FedOL's is named; one of yours may change, so its name has a fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from fedol import methods
from fedol.code import is_estimator
from fedol.config import RunConfig, is_own, partition_code
from fedol.data import DATASETS, Dataset
from fedol.methods import CEILING, LOCAL, Method
from fedol.models import address, identity

OWN = ("npz", "folder")  # datasets that are files of the user; so is every one that is a path
# What a setting is that a cell does not name: its default; of the codec, the default when cells began.
OFF = {field.name: field.default for field in fields(RunConfig)} | {"codec": "q7c60+zstd"}
FEDOL = RunConfig.method  # which every other method is compared with
HOW = ("development", "augment", "optimiser", "schedule")  # clients and server train, and on what they are tested
# Likewise, and how their data were read: named where they are on.
ALSO = ("body_lr", "label", "text", "categories", "missing", "test", "image_size")
# Of a server; the paper's has none of them on.
SWITCHES = ("patch", "average", "weight_decay", "defence", "server_lr", "server_optimiser", "server_schedule")
FEEDBACK_EPOCHS = 20
SERVER, TEACHER = FEEDBACKS = ("server", "teacher")  # whose predictions clients learn: the server's, or its target


@dataclass(frozen=True)
class Cell:
    """One method, one configuration; several rounds where ``rounds`` says so."""

    method: str
    config: RunConfig
    rounds: int = 1
    feedback_epochs: int = FEEDBACK_EPOCHS  # of a client on the feedback, in rounds after the first
    feedback: str = SERVER

    @classmethod
    def of(
        cls,
        method: str,
        config: RunConfig,
        rounds: int = 1,
        feedback_epochs: int = FEEDBACK_EPOCHS,
        feedback: str = SERVER,
    ) -> Cell:
        """The cell of a method; ``config`` becomes the method's own."""
        known = methods.find(method)
        method = known.same_as or method
        control = {"method": LOCAL, "defence": OFF["defence"]}  # which hears nobody
        own = replace(config, **(control if known.control else {"method": method}))
        return cls(method, own, rounds, feedback_epochs, feedback)

    @property
    def record(self) -> Method:
        """What the method is."""
        return methods.find(self.method)

    @cached_property  # its name stays what it was when the work began
    def settings(self) -> dict[str, Any]:
        """Every setting that this result depends on."""
        found: dict[str, Any] = {"method": self.method}
        code = methods.fingerprint(self.method)
        found |= {} if code is None else {"method_code": code}
        found |= _data(self.config) if self.method == CEILING else self.client_settings
        plan = self.config.distillation
        method = self.record
        if method.targets or self.method == CEILING:
            found |= {"server_model": identity(self.config.server_model), "server_epochs": plan.recipe.epochs}
            found |= _switched_on(self.config, *SWITCHES)
        if method.iterates:
            found["iterations"] = plan.iterations
        if method.targets:
            found |= {name: method.fixed.get(name, getattr(plan, name)) for name in method.heeds}
        if self.rounds > 1:
            found["rounds"] = self.rounds
            if method.targets:
                found["feedback_epochs"] = self.feedback_epochs
                found |= {} if self.feedback == SERVER else {"feedback": self.feedback}
        return found

    @cached_property
    def client_settings(self) -> dict[str, Any]:
        """Every setting that the clients of the first round depend on: equal for all methods that share them."""
        config, side = self.config, self.record.client
        kind = side.sends
        specs = (config.parameter_model,) if kind == "weights" else config.client_models
        models = [identity(spec) for spec in specs]
        found = {**_data(config), "partition": _partition(config), "clients": config.clients, "epochs": config.epochs}
        found |= {"sends": kind, "client_models": models}
        if kind in ("predictions", "ratios"):
            found |= _switched_on(config, "codec")
        found |= _switched_on(config, "client_patch", "client_weight_decay", "grow", "own_classes")
        return found | {name: getattr(config, name) for name in side.heeds}

    @property
    def place(self) -> str:
        """Where it belongs, for people."""
        return f"{self.config.partition}, seed {self.config.seed}"

    @property
    def hash(self) -> str:
        """Names the result."""
        return digest(self.settings)

    @property
    def clients(self) -> str:
        """Names the clients."""
        return digest(self.client_settings)


def identified(config: RunConfig, dataset: Dataset) -> RunConfig:
    """The configuration with the name that its data have in cells."""
    if config.dataset in DATASETS and config.dataset not in OWN:
        return config
    return replace(config, dataset=dataset.identity)


def digest(settings: dict[str, Any]) -> str:
    """A short hash of settings, whatever their order."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _data(config: RunConfig) -> dict[str, Any]:
    names = ("dataset", "public", "seed", "width", "batch_size", "lr")
    return {name: getattr(config, name) for name in names} | _switched_on(config, *HOW, *ALSO)


def _partition(config: RunConfig) -> str:
    """Its name; of one of yours, with a fingerprint of its code."""
    code = partition_code(config.partition)
    return config.partition if code is None else f"{config.partition}@{code}"


def _switched_on(config: RunConfig, *names: str) -> dict[str, Any]:
    """Those that are not off, so that the hashes of results from before they existed still hold."""
    return {name: _named(getattr(config, name)) for name in names if getattr(config, name) != OFF[name]}


def _named(value: Any) -> Any:
    """A setting as a name; an optimiser or schedule of yours with a fingerprint of its code."""
    return identity(value) if is_own(value) else address(value) if callable(value) or is_estimator(value) else value
