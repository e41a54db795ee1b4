"""Settings: declared once, as fields of frozen dataclasses with their help; commands and files take them from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedol.settings.declaring import DATA as DATA
from fedol.settings.declaring import METHOD as METHOD
from fedol.settings.declaring import MODEL as MODEL
from fedol.settings.declaring import MODELS as MODELS
from fedol.settings.declaring import OPTIMISER as OPTIMISER
from fedol.settings.declaring import SCHEDULE as SCHEDULE
from fedol.settings.declaring import TRAINING as TRAINING
from fedol.settings.declaring import Estimator as Estimator
from fedol.settings.declaring import ModelName as ModelName
from fedol.settings.declaring import Settings as Settings
from fedol.settings.declaring import check_kinds as check_kinds
from fedol.settings.declaring import code_of as code_of
from fedol.settings.declaring import own as own
from fedol.settings.declaring import setting as setting
from fedol.settings.declaring import spelled_out as spelled_out

# Which files hold samples, in the words of every help text; ``fedol.data`` reads them.
LABELLED = "a table (.csv, .parquet, .jsonl), an .npz file or a folder of images by class"
UNLABELLED = "a folder of images, an .npz or an .npy file, a table (.csv, .parquet, .jsonl) or lines of text (.txt)"

# By measurement (docs/robustness.md): without attackers it costs the mixture nothing on average; the floor up to 10.5.
DEFENDED, NONE = "trust,exact,cap,runoff", "none"
CODEC = "lattice20"  # of uploads, unless somebody chooses another


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
