"""Settings: declared once, as fields of frozen dataclasses with their help; commands and files take them from here."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Protocol, TypeVar

from fedol.code import address, is_estimator
from fedol.errors import InputError, brief

DATA, MODELS, METHOD, TRAINING = "Data", "Models", "Method", "Training"  # the panels of a command's help
MODEL, OPTIMISER, SCHEDULE = "model", "optimiser", "schedule"  # what may be code

# Which files hold samples, in the words of every help text; ``fedol.data`` reads them.
LABELLED = "a table (.csv, .parquet, .jsonl), an .npz file or a folder of images by class"
UNLABELLED = "a folder of images, an .npz or an .npy file, a table (.csv, .parquet, .jsonl) or lines of text (.txt)"

CALLABLE = "Callable[..., Any]"


class Estimator(Protocol):
    """A classifier as scikit-learn has them."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn."""

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [N, classes]."""


ModelName = str | Callable[..., Any] | Estimator
"""A name or, from Python, your own class or function, or an estimator."""
# By measurement (docs/robustness.md): without attackers it costs the mixture nothing on average; the floor up to 10.5.
DEFENDED, NONE = "trust,exact,cap,runoff", "none"
CODEC = "lattice20"  # of uploads, unless somebody chooses another

# By the annotation: what is accepted, and how to say so.
KINDS: dict[str, tuple[Any, str]] = {
    "int": (int, "a whole number"),
    "float": (int | float, "a number"),
    "str": (str, "text"),
    "bool": (bool, "true or false"),
}


def setting(default: Any, help: str, panel: str, code: str = "") -> Any:
    """A field of a settings record: its default, what it is, and where it stands in a command's help.

    ``code`` is what it may name that is your own code: a model, an optimiser, a schedule.
    """
    return field(default=default, metadata={"help": help, "panel": panel, "code": code})


def own(record: type, name: str, default: Any, help: str = "") -> Any:
    """A field of another record, with a default of its own, and help of its own where it means less here."""
    (found,) = (item for item in fields(record) if item.name == name)
    return field(default=default, metadata={**found.metadata, **({"help": help} if help else {})})


Function = TypeVar("Function", bound=Callable[..., Any])


def spelled_out(*records: type, but: Collection[str] = ()) -> Callable[[Function], Function]:
    """Show the settings of records, which a function takes as ``**settings``, in its signature and its help."""
    known = [item for record in records for item in fields(record) if "help" in item.metadata and item.name not in but]

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        settings = [
            inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=item.type)
            for item in known
        ]
        function.__signature__ = signature.replace(parameters=[*own, *settings])  # type: ignore[attr-defined]
        words = (f"        {item.name}: {item.metadata['help']}" for item in known)
        function.__doc__ = "\n".join([f"{function.__doc__}\n    Settings:\n", *words])
        return function

    return decorate


class Settings:
    """What a run is frozen with; every such dataclass is one of these."""

    server_model: ModelName

    def __post_init__(self) -> None:
        """Refuse values of another kind than their fields'."""
        check_kinds(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values; your own class becomes its name."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}  # type: ignore[arg-type]

    def changes(self, before: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """What differs from an older one's plain values, as (then, now); a setting it did not have yet was off."""
        known = fields(self)  # type: ignore[arg-type]
        off = {item.name: _plain(item.default) for item in known if item.default is not MISSING}
        now, then = self.as_json(), {**off, **before}
        return {name: (then.get(name), now.get(name)) for name in {**now, **before} if then.get(name) != now.get(name)}

    @property
    def hash(self) -> str:
        """Names the configuration: any changed setting changes it."""
        return hashlib.sha256(json.dumps(self.as_json(), sort_keys=True).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return address(value) if callable(value) or is_estimator(value) else value


def code_of(record: Any) -> dict[str, str]:
    """The settings of a record that may name code, and what that is."""
    return {item.name: item.metadata["code"] for item in fields(record) if item.metadata.get("code")}


def check_kinds(settings: Any, what: str = "setting") -> None:
    """Refuse a value of another kind in a frozen dataclass; where a float is due, 1 becomes 1.0: one configuration."""
    for item in fields(settings):
        kind, *others = str(item.type).split(" | ")
        value = getattr(settings, item.name)
        if kind not in KINDS or (value is None and "None" in others) or (callable(value) and CALLABLE in others):
            continue
        accepted, words = KINDS[kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"The {what} '{item.name}' must be {words}, but is {brief(value)}.")
        if kind == "float":
            object.__setattr__(settings, item.name, float(value))


@dataclass(frozen=True)
class Training:
    """How a model trains. The defaults are the paper's: Adam, no weight decay, no schedule; the last epoch counts."""

    epochs: int = setting(50, "Epochs of every training.", TRAINING)
    batch_size: int = setting(64, "Samples per step.", TRAINING)
    lr: float = setting(1e-3, "The learning rate.", TRAINING)
    optimiser: str | Callable[..., Any] = setting(
        "adam",
        "adam, adamw, muon, sgd (momentum 0.9; wants a larger --lr), a name in torch.optim, or module:callable.",
        TRAINING,
        OPTIMISER,
    )
    # A step takes this share of each weight, times the learning rate (AdamW).
    weight_decay: float = setting(0.0, "Decay of the weights, not through the gradient.", TRAINING)
    augment: bool = setting(False, "Random flip and reflect-padded crop of every image.", TRAINING)
    # Cutout: a grey square in every image; cutmix: in half of them a box of another one.
    patch: str = setting("none", "In the images: none, cutout or cutmix.", TRAINING)
    schedule: str | Callable[..., Any] = setting(
        "constant",
        "Of the learning rate: constant, cosine (falls to 0), one-cycle (rises for the first fifth), a name in "
        "torch.optim.lr_scheduler, stepped once a batch, or module:callable.",
        TRAINING,
        SCHEDULE,
    )
    body_lr: float = setting(
        1e-4, "The learning rate of a pretrained network that learns, too (timm:resnet50+tuned).", TRAINING
    )
    average: float = setting(
        0.0, "Decay per step of a running average of the weights, which then are the result; 0 is none.", TRAINING
    )
    # The first half of it at half of the height and width, the rest at three quarters.
    grow: float = setting(0.0, "Share of the epochs that see smaller images, which is quicker; 0 is none.", TRAINING)


@dataclass(frozen=True)
class Voting:
    """How the targets are made. The defaults are the paper's."""

    method: str = setting("fedol", "How the uploads become what the server learns: fedol, fedol+, pooled, ...", METHOD)
    iterations: int = setting(
        10, "Iterations of voting and training, in fedol, its variants and fedol+; others train once.", METHOD
    )
    tau: float = setting(0.2, "Weight of the pseudo-labels (Eq. 7), in fedol and fedol+; others have none.", METHOD)
    rho: float = setting(
        0.1, "Share of samples a model votes on in the first iteration of fedol; fedol+ finds its own.", METHOD
    )
    rho_step: float = setting(0.05, "What rho grows by in each iteration of fedol; fedol+ has none.", METHOD)


@dataclass(frozen=True)
class Columns:
    """How files are read: what the columns of rows mean, of which one that nobody names is a feature."""

    label: str | None = setting(
        None,
        "In a table: the column of the labels, where it is not called label, class, target or y; a,b are findings.",
        DATA,
    )
    text: str | None = setting(None, "In a table: the column of the texts to classify, or several a,b.", DATA)
    categories: str | None = setting(
        None, "In a table: columns a,b of categories that look like numbers; what holds words is one anyway.", DATA
    )
    missing: str | None = setting(
        None, "In a table: how a missing value is spelt, beside nothing, ?, NA, nan, null.", DATA
    )
    test: str | None = setting(None, "In a table: the file of the test rows; a fifth is held out otherwise.", DATA)
    image_size: int | None = setting(
        None,
        "Height and width that a folder's images are made; they are then read as needed, with all of their 16 bits.",
        DATA,
    )


@dataclass(frozen=True)
class Data(Columns):
    """Who holds what."""

    dataset: str = setting("digits", f"digits, cifar10, cifar100, fashion-mnist, {LABELLED}.", DATA)
    data_dir: str | None = setting(None, "Where the dataset's files are.", DATA)
    public: int = setting(400, "Unlabelled samples that everyone shares, taken from the training data.", DATA)
    clients: int = setting(10, "How many clients there are.", DATA)
    partition: str = setting(
        "dirichlet:0.3",
        "Who holds what: dirichlet:ALPHA, classes:PER_CLIENT, iid, column:NAME by what a table says there, or sites.",
        DATA,
    )
    development: int = setting(0, "Private labelled samples that take the test set's place, to tune on.", DATA)


@dataclass(frozen=True)
class Server:
    """The model that is trained."""

    server_model: ModelName = setting(
        "resnet56",
        "The server's model: resnet56, my.py:Class, ..., or an estimator, which learns in one step: forest, ...",
        MODELS,
        MODEL,
    )
    width: int = setting(16, "Width of the built-in models.", MODELS)


@dataclass(frozen=True)
class Models(Server):
    """Everyone's models, and how uploads are packed."""

    client_models: tuple[ModelName, ...] = setting(
        ("mlp", "cnn"), "Models dealt to the clients in turn, for instance resnet11,hist-boosting.", MODELS, MODEL
    )
    parameter_model: ModelName = setting(
        "cnn", "Everyone's model in methods that average weights (fedavg, fedprox).", MODELS, MODEL
    )
    codec: str = setting(
        CODEC, "How uploads are packed: lattice20, or float32, float16, q7c60, top10, each also with +zstd.", MODELS
    )
    own_classes: bool = setting(
        False, "Give each client's model and upload the classes alone that the client holds.", MODELS
    )


@dataclass(frozen=True)
class Machine:
    """What is not about the result."""

    seed: int = setting(0, "All randomness comes from this one number.", TRAINING)
    device: str = setting("auto", "auto, cpu, cuda or mps.", TRAINING)


@dataclass(frozen=True)
class Learning(Training, Voting):
    """How a server learns."""

    defence: str = setting(
        NONE,
        "Against clients that lie, some of trust, exact, cap, runoff, floor with commas between; none is the paper's "
        "method.",
        METHOD,
    )


@dataclass(frozen=True)
class RunSettings(Machine, Learning, Models, Data):
    """One simulated federation. The defaults are the quick job: digits, ten small clients, about a minute on a CPU."""

    server_model: ModelName = own(Models, "server_model", "cnn-large")
    epochs: int = own(Training, "epochs", 20)
    batch_size: int = own(Training, "batch_size", 32)
    weight_decay: float = own(Training, "weight_decay", 0.0, "Decay of the server's weights, not through the gradient.")
    patch: str = own(Training, "patch", "none", "In the server's images: none, cutout or cutmix.")
    average: float = own(
        Training, "average", 0.0, "Decay per step of a running average of the server's weights; 0 is none."
    )
    grow: float = own(
        Training, "grow", 0.0, "Share of the clients' epochs that see smaller images, which is quicker; 0 is none."
    )
    # The server's own, where they are not the clients'.
    server_epochs: int | None = setting(None, "Epochs of each server iteration, if not as many.", TRAINING)
    server_lr: float | None = setting(None, "The server's learning rate, if another.", TRAINING)
    server_optimiser: str | Callable[..., Any] | None = setting(
        None, "The server's optimiser, if another.", TRAINING, OPTIMISER
    )
    server_schedule: str | Callable[..., Any] | None = setting(
        None, "The server's schedule, if another.", TRAINING, SCHEDULE
    )
    client_patch: str = setting("none", "In the clients' images: none, cutout or cutmix.", TRAINING)
    client_weight_decay: float = setting(0.0, "Decay of the clients' weights, not through the gradient.", TRAINING)
    folds: int = setting(2, "Parts of the public set that clients of union are cross-fitted on.", METHOD)
    mu: float = setting(0.01, "FedProx's pull towards the weights a client was sent.", METHOD)


@dataclass(frozen=True)
class Answers:
    """What a server that learns from files is asked for."""

    task: str  # its id


@dataclass(frozen=True)
class ServerSettings(Machine, Learning, Server, Answers):
    """How a server learns from files. The defaults are the paper's, except for the defence."""

    defence: str = own(Learning, "defence", DEFENDED)  # unlike the paper's server, this one hears strangers
    parent: str = ""  # where it continues another run: the hash of that run's model
    added: tuple[str, ...] = ()  # and the hashes of the files that are new


@dataclass(frozen=True)
class ClientSettings(Machine, Training, Columns):
    """How a client on its own trains."""

    width: int = own(Server, "width", 16)
    own_classes: bool = own(
        Models,
        "own_classes",
        False,
        "Give the model the classes alone that you hold, and your file columns for these. It then says which they are.",
    )
    folds: int = setting(
        0,
        "Learn what is public too, in so many parts of the public set, two or more: for the method union. 0 learns "
        "your own classes alone, and trains once.",
        METHOD,
    )


@dataclass(frozen=True)
class Dealing(Data):
    """What decides who holds which data."""

    seed: int = own(Machine, "seed", 0)
