"""The configuration of a run or a server: frozen dataclasses with every default visible, a TOML file, presets."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from fedol import methods
from fedol import robust as defences
from fedol.code import fingerprint as code_fingerprint
from fedol.code import is_estimator
from fedol.data import kind_of
from fedol.data.partitions import PARTITIONS, Partition
from fedol.data.partitions import canonical as partition_name
from fedol.errors import InputError, brief, unknown
from fedol.knowledge.codecs import find
from fedol.methods import Distillation
from fedol.models import address, describe, fingerprint
from fedol.models.openset import MOST_FOLDS, sensible
from fedol.models.registry import check_settings, is_code
from fedol.robust import NONE, Defence
from fedol.settings import MODEL, ClientSettings, RunSettings, ServerSettings, Settings, Training, Voting, code_of
from fedol.settings import ModelName as ModelName
from fedol.settings.presets import PRESETS as PRESETS
from fedol.settings.presets import SUITED as SUITED
from fedol.settings.presets import suited
from fedol.training import Recipe

Record = TypeVar("Record")


def recipe_of(settings: Training) -> Recipe:
    """The training that settings ask for."""
    return Recipe(**{field.name: getattr(settings, field.name) for field in dataclasses.fields(Training)})


class Learns:
    """What the settings of a learning server mean: beside their records, whose fields it leaves alone."""

    defence: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "defence", defences.canonical(self.defence))
        _ = self.distillation  # what it refuses is refused now

    @property
    def server_recipe(self) -> Recipe:
        """How the server trains."""
        return recipe_of(cast(Training, self))

    @property
    def distillation(self) -> Distillation:
        """How the server learns."""
        voting = {field.name: getattr(self, field.name) for field in dataclasses.fields(Voting)}
        return Distillation(**voting, recipe=self.server_recipe, defence=Defence.parse(self.defence))


class Frozen(Settings):
    """What a run is frozen with, and the code behind it that is yours."""

    method: str
    written: ClassVar[tuple[str, ...]]  # what a run writes beside what every run does, as patterns in its folder

    @property
    def parts(self) -> dict[str, tuple[str, str | None]]:
        """What may be your own code, by setting: in words, and its fingerprint, which FedOL's own has not."""
        found: dict[str, tuple[str, str | None]] = {}
        for setting, what in code_of(self).items():
            value = getattr(self, setting)
            several = isinstance(value, tuple)
            named = [(f"{setting}[{k}]", each) for k, each in enumerate(value)] if several else [(setting, value)]
            for name, code in named:
                if what == MODEL or is_own(code):
                    found[name] = f"the {what} '{describe(code)}' ({name})", fingerprint(code)
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


def is_own(spec: Any) -> bool:
    """Whether an optimiser or a schedule is your own code: neither a name nor PyTorch's."""
    return (callable(spec) or is_code(str(spec))) and not address(spec).startswith("torch.")


@dataclass(frozen=True)
class RunConfig(Learns, RunSettings, Frozen):
    """One simulated federation. The defaults are the quick job: digits, ten small clients, about a minute on a CPU."""

    written = ("clients/[0-9]*.fedol", "clients/[0-9]*.safetensors", "screening.json")

    def __post_init__(self) -> None:
        if isinstance(self.partition, Partition):
            object.__setattr__(self, "partition", partition_name(self.partition))
        Settings.__post_init__(self)
        object.__setattr__(self, "client_models", tuple(_names(self.client_models)))
        if not self.client_models:
            raise InputError("client_models must name at least one model, for instance 'resnet11,resnet20'.")
        find(self.codec)
        for model in (*self.client_models, self.server_model, self.parameter_model):
            check_model(model)
        if self.clients < 1 or self.width < 1:
            raise InputError(f"clients and width must be at least 1, but are {self.clients} and {self.width}.")
        method = methods.find(self.method)
        if method.control:
            here = f"`fedol bench one-round --methods {self.method}`"
            raise InputError(f"'{self.method}' is not a method of a run but a control of benchmarks; use {here}.")
        Learns.__post_init__(self)
        if self.defence != NONE and not method.hears:
            raise InputError(f"Defences judge what clients predict; '{self.method}' has no such clients: defence none.")
        if self.own_classes and method.client.sends == "weights":
            raise InputError(
                f"'{self.method}' averages weights, so all clients need one model, of all classes: own_classes off."
            )
        _ = self.recipe  # likewise
        if not sensible(self.folds):
            raise InputError(f"folds must lie between 2 and {MOST_FOLDS}, but is {self.folds}.")
        if not 0 <= self.mu < float("inf"):
            raise InputError(f"mu must be a finite number of at least 0, but is {self.mu}.")

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
        """How a client trains: without the server's own ingredients."""
        return dataclasses.replace(
            super().server_recipe, patch=self.client_patch, weight_decay=self.client_weight_decay, average=0.0
        )

    @property
    def server_recipe(self) -> Recipe:
        """How the server trains: as the clients, but for what is its own, and on images of their full size.

        A server taught with smaller ones ends a point lower (benchmarks/results/recipes.json).
        """
        servers = {name: getattr(self, f"server_{name}") for name in ("epochs", "lr", "optimiser", "schedule")}
        own = {name: value for name, value in servers.items() if value is not None}
        return dataclasses.replace(super().server_recipe, grow=0.0, **own)


@dataclass(frozen=True)
class ServerConfig(Learns, ServerSettings, Frozen):
    """How a ``serve`` or ``distill`` run learns. The defaults are the paper's, except for the defence."""

    # Not clients/*.fedol: what clients have sent, perhaps only once, is not this server's to make again.
    written = ("task.json", "roster.json", "nodes.json", "screening.json", "MODEL_CARD.md", "sums/*.part")

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        check_model(self.server_model)
        methods.knowing(self.method)
        if self.width < 1:
            raise InputError(f"width must be at least 1, but is {self.width}.")
        Learns.__post_init__(self)


def check_model(model: Any) -> None:
    """Refuse what cannot name a model."""
    if not (isinstance(model, str) or callable(model) or is_estimator(model)):
        raise InputError(f"A model is a name, 'module:callable', your own class or an estimator, not {brief(model)}.")


def partition_code(name: str) -> str | None:
    """The fingerprint of your own partition, such as ``mine:3``; None of FedOL's own."""
    scheme = PARTITIONS.get(name.partition(":")[0])
    return code_fingerprint(scheme) if scheme else None


def _names(models: ModelName | Iterable[ModelName]) -> Iterator[ModelName]:
    """One by one, whether they came as a list or, from the command line, as ``resnet11,resnet20``."""
    if isinstance(models, str):
        yield from (name.strip() for name in models.split(",") if name.strip())
    elif callable(models) or is_estimator(models):
        yield cast(ModelName, models)
    elif isinstance(models, Iterable):
        yield from models
    else:
        raise InputError(f"The setting 'client_models' must be a list of models, but is {brief(models)}.")


def configure(
    preset: str | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    trust_code: bool = False,
) -> RunConfig:
    """A configuration from a preset, then a TOML file, then single settings; the later wins.

    Models that nobody names are the preset's for images, and for other data those that take them.

    What counts of the file may name code (``my.py:Net``) only with ``trust_code``.
    """
    values = trusted(file, overrides or {}, trust_code)
    from_file = values.pop("preset", "quick")
    preset = from_file if preset is None else preset
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset", preset if isinstance(preset, str) else brief(preset), PRESETS)
    base = {**PRESETS[preset], **values}
    kind = kind_of(str(base.get("dataset", RunSettings.dataset)), base.get("text"))
    return changed(RunConfig(), {**base, **SUITED.get(kind, {}), **values})


def configure_server(
    task: str,
    file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    trust_code: bool = False,
    kind: Callable[[], str] | None = None,
) -> ServerConfig:
    """A server's configuration from a TOML file, then single settings.

    Where nobody names a model, one that takes the public samples' ``kind``, which is asked for only then.
    """
    config = _configured(ServerConfig(task), file, overrides, trust_code)
    if kind is None or "server_model" in {**written(file), **(overrides or {})}:
        return config
    return changed(config, {"server_model": suited("server_model", kind(), config.server_model)})


def configure_client(
    file: Path | None = None, overrides: Mapping[str, Any] | None = None, trust_code: bool = False
) -> ClientSettings:
    """A client's training likewise."""
    return _configured(ClientSettings(), file, overrides, trust_code)


def _configured(config: Record, file: Path | None, overrides: Mapping[str, Any] | None, trust_code: bool) -> Record:
    known = [field.name for field in dataclasses.fields(config) if "help" in field.metadata]  # type: ignore[arg-type]
    for name in (values := trusted(file, overrides or {}, trust_code)):
        if name not in known and name not in (overrides or {}):
            raise unknown(f"setting of this command (in {file})", name, known)
    return changed(config, values)


def changed(config: Record, settings: Mapping[str, Any]) -> Record:
    """The configuration with some settings replaced."""
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return dataclasses.replace(config, **settings)  # type: ignore[type-var]


def trusted(file: Path | None, overrides: Mapping[str, Any], trust_code: bool) -> dict[str, Any]:
    """The settings of a TOML file and those that replace them; what counts of the file may name code if trusted."""
    values = written(file)
    check_settings({name: value for name, value in values.items() if name not in overrides}, str(file), trust_code)
    return {**values, **overrides}


def written(file: Path | None) -> dict[str, Any]:
    """The settings of a TOML file, where there is one; dashes in names are underscores."""
    if file is None:
        return {}
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"The configuration {file} cannot be read: {why}.") from None
    return {key.replace("-", "_"): value for key, value in values.items()}
