"""Settings as keyword arguments, so that an editor completes them and a type checker knows them.

Made from the records of ``fedol/settings`` by ``make tables``; a test checks that this changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from fedol.settings import ModelName

if TYPE_CHECKING:
    from fedol.data.partitions import Partition


class RunKeywords(TypedDict, total=False):
    """The settings of ``fedol.run``."""

    preset: str
    """quick, paper or best: what every other setting is unless it is given."""
    label: str | None
    """In a table: the column of the labels, where it is not called label, class, target or y; a,b are findings."""
    text: str | None
    """In a table: the column of the texts to classify, or several a,b."""
    categories: str | None
    """In a table: columns a,b of categories that look like numbers; what holds words is one anyway."""
    missing: str | None
    """In a table: how a missing value is spelt, beside nothing, ?, NA, nan, null."""
    test: str | None
    """In a table: the file of the test rows; a fifth is held out otherwise."""
    image_size: int | None
    """Height and width that a folder's images are made; they are then read as needed, with all of their 16 bits."""
    data_dir: str | None
    """Where the dataset's files are."""
    public: int
    """Unlabelled samples that everyone shares, taken from the training data. Default: 400."""
    clients: int
    """How many clients there are. Default: 10."""
    partition: str | Partition
    """Who holds what: dirichlet:ALPHA, classes:PER_CLIENT, iid, column:NAME by what a table says there, or sites.
    Default: dirichlet:0.3."""
    development: int
    """Private labelled samples that take the test set's place, to tune on. Default: 0."""
    server_model: ModelName
    """The server's model: resnet56, my.py:Class, ..., or an estimator, which learns in one step: forest, ... Default:
    cnn-large."""
    width: int
    """Width of the built-in models. Default: 16."""
    client_models: ModelName | Sequence[ModelName]
    """Models dealt to the clients in turn, for instance resnet11,hist-boosting. Default: mlp,cnn."""
    parameter_model: ModelName
    """Everyone's model in methods that average weights (fedavg, fedprox). Default: cnn."""
    codec: str
    """How uploads are packed: lattice20, or float32, float16, q7c60, top10, each also with +zstd. Default:
    lattice20."""
    own_classes: bool
    """Give each client's model and upload the classes alone that the client holds. Default: no."""
    method: str
    """How the uploads become what the server learns: fedol, fedol+, pooled, ... Default: fedol."""
    iterations: int
    """Iterations of voting and training, in fedol, its variants and fedol+; others train once. Default: 10."""
    tau: float
    """Weight of the pseudo-labels (Eq. 7), in fedol and fedol+; others have none. Default: 0.2."""
    rho: float
    """Share of samples a model votes on in the first iteration of fedol; fedol+ finds its own. Default: 0.1."""
    rho_step: float
    """What rho grows by in each iteration of fedol; fedol+ has none. Default: 0.05."""
    epochs: int
    """Epochs of every training. Default: 20."""
    batch_size: int
    """Samples per step. Default: 32."""
    lr: float
    """The learning rate. Default: 0.001."""
    optimiser: str | Callable[..., Any]
    """adam, adamw, muon, sgd (momentum 0.9; wants a larger --lr), a name in torch.optim, or module:callable. Default:
    adam."""
    weight_decay: float
    """Decay of the server's weights, not through the gradient. Default: 0."""
    augment: bool
    """Random flip and reflect-padded crop of every image. Default: no."""
    patch: str
    """In the server's images: none, cutout or cutmix. Default: none."""
    schedule: str | Callable[..., Any]
    """Of the learning rate: constant, cosine (falls to 0), one-cycle (rises for the first fifth), a name in
    torch.optim.lr_scheduler, stepped once a batch, or module:callable. Default: constant."""
    body_lr: float
    """The learning rate of a pretrained network that learns, too (timm:resnet50+tuned). Default: 0.0001."""
    average: float
    """Decay per step of a running average of the server's weights; 0 is none. Default: 0."""
    grow: float
    """Share of the clients' epochs that see smaller images, which is quicker; 0 is none. Default: 0."""
    defence: str
    """Against clients that lie, some of trust, exact, cap, runoff, floor with commas between; none is the paper's
    method. Default: none."""
    seed: int
    """All randomness comes from this one number. Default: 0."""
    device: str
    """auto, cpu, cuda or mps. Default: auto."""
    server_epochs: int | None
    """Epochs of each server iteration, if not as many."""
    server_lr: float | None
    """The server's learning rate, if another."""
    server_optimiser: str | Callable[..., Any] | None
    """The server's optimiser, if another."""
    server_schedule: str | Callable[..., Any] | None
    """The server's schedule, if another."""
    client_patch: str
    """In the clients' images: none, cutout or cutmix. Default: none."""
    client_weight_decay: float
    """Decay of the clients' weights, not through the gradient. Default: 0."""
    folds: int
    """Parts of the public set that clients of union are cross-fitted on. Default: 2."""
    mu: float
    """FedProx's pull towards the weights a client was sent. Default: 0.01."""


class GridKeywords(TypedDict, total=False):
    """The settings of ``fedol.compare``: a value each, or a list of values, which makes a grid."""

    preset: str
    """quick, paper or best: what every other setting is unless it is given."""
    label: str | Sequence[str | None] | None
    """In a table: the column of the labels, where it is not called label, class, target or y; a,b are findings."""
    text: str | Sequence[str | None] | None
    """In a table: the column of the texts to classify, or several a,b."""
    categories: str | Sequence[str | None] | None
    """In a table: columns a,b of categories that look like numbers; what holds words is one anyway."""
    missing: str | Sequence[str | None] | None
    """In a table: how a missing value is spelt, beside nothing, ?, NA, nan, null."""
    test: str | Sequence[str | None] | None
    """In a table: the file of the test rows; a fifth is held out otherwise."""
    image_size: int | Sequence[int | None] | None
    """Height and width that a folder's images are made; they are then read as needed, with all of their 16 bits."""
    data_dir: str | Sequence[str | None] | None
    """Where the dataset's files are."""
    public: int | Sequence[int]
    """Unlabelled samples that everyone shares, taken from the training data. Default: 400."""
    clients: int | Sequence[int]
    """How many clients there are. Default: 10."""
    development: int | Sequence[int]
    """Private labelled samples that take the test set's place, to tune on. Default: 0."""
    server_model: ModelName | Sequence[ModelName]
    """The server's model: resnet56, my.py:Class, ..., or an estimator, which learns in one step: forest, ... Default:
    cnn-large."""
    width: int | Sequence[int]
    """Width of the built-in models. Default: 16."""
    client_models: ModelName | Sequence[ModelName] | Sequence[ModelName | Sequence[ModelName]]
    """Models dealt to the clients in turn, for instance resnet11,hist-boosting. Default: mlp,cnn."""
    parameter_model: ModelName | Sequence[ModelName]
    """Everyone's model in methods that average weights (fedavg, fedprox). Default: cnn."""
    codec: str | Sequence[str]
    """How uploads are packed: lattice20, or float32, float16, q7c60, top10, each also with +zstd. Default:
    lattice20."""
    own_classes: bool | Sequence[bool]
    """Give each client's model and upload the classes alone that the client holds. Default: no."""
    iterations: int | Sequence[int]
    """Iterations of voting and training, in fedol, its variants and fedol+; others train once. Default: 10."""
    tau: float | Sequence[float]
    """Weight of the pseudo-labels (Eq. 7), in fedol and fedol+; others have none. Default: 0.2."""
    rho: float | Sequence[float]
    """Share of samples a model votes on in the first iteration of fedol; fedol+ finds its own. Default: 0.1."""
    rho_step: float | Sequence[float]
    """What rho grows by in each iteration of fedol; fedol+ has none. Default: 0.05."""
    epochs: int | Sequence[int]
    """Epochs of every training. Default: 20."""
    batch_size: int | Sequence[int]
    """Samples per step. Default: 32."""
    lr: float | Sequence[float]
    """The learning rate. Default: 0.001."""
    optimiser: str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
    """adam, adamw, muon, sgd (momentum 0.9; wants a larger --lr), a name in torch.optim, or module:callable. Default:
    adam."""
    weight_decay: float | Sequence[float]
    """Decay of the server's weights, not through the gradient. Default: 0."""
    augment: bool | Sequence[bool]
    """Random flip and reflect-padded crop of every image. Default: no."""
    patch: str | Sequence[str]
    """In the server's images: none, cutout or cutmix. Default: none."""
    schedule: str | Callable[..., Any] | Sequence[str | Callable[..., Any]]
    """Of the learning rate: constant, cosine (falls to 0), one-cycle (rises for the first fifth), a name in
    torch.optim.lr_scheduler, stepped once a batch, or module:callable. Default: constant."""
    body_lr: float | Sequence[float]
    """The learning rate of a pretrained network that learns, too (timm:resnet50+tuned). Default: 0.0001."""
    average: float | Sequence[float]
    """Decay per step of a running average of the server's weights; 0 is none. Default: 0."""
    grow: float | Sequence[float]
    """Share of the clients' epochs that see smaller images, which is quicker; 0 is none. Default: 0."""
    defence: str | Sequence[str]
    """Against clients that lie, some of trust, exact, cap, runoff, floor with commas between; none is the paper's
    method. Default: none."""
    device: str | Sequence[str]
    """auto, cpu, cuda or mps. Default: auto."""
    server_epochs: int | Sequence[int | None] | None
    """Epochs of each server iteration, if not as many."""
    server_lr: float | Sequence[float | None] | None
    """The server's learning rate, if another."""
    server_optimiser: str | Callable[..., Any] | Sequence[str | Callable[..., Any] | None] | None
    """The server's optimiser, if another."""
    server_schedule: str | Callable[..., Any] | Sequence[str | Callable[..., Any] | None] | None
    """The server's schedule, if another."""
    client_patch: str | Sequence[str]
    """In the clients' images: none, cutout or cutmix. Default: none."""
    client_weight_decay: float | Sequence[float]
    """Decay of the clients' weights, not through the gradient. Default: 0."""
    folds: int | Sequence[int]
    """Parts of the public set that clients of union are cross-fitted on. Default: 2."""
    mu: float | Sequence[float]
    """FedProx's pull towards the weights a client was sent. Default: 0.01."""


class TrainingKeywords(TypedDict, total=False):
    """How a model trains."""

    epochs: int
    """Epochs of every training. Default: 50."""
    batch_size: int
    """Samples per step. Default: 64."""
    lr: float
    """The learning rate. Default: 0.001."""
    optimiser: str | Callable[..., Any]
    """adam, adamw, muon, sgd (momentum 0.9; wants a larger --lr), a name in torch.optim, or module:callable. Default:
    adam."""
    weight_decay: float
    """Decay of the weights, not through the gradient. Default: 0."""
    augment: bool
    """Random flip and reflect-padded crop of every image. Default: no."""
    patch: str
    """In the images: none, cutout or cutmix. Default: none."""
    schedule: str | Callable[..., Any]
    """Of the learning rate: constant, cosine (falls to 0), one-cycle (rises for the first fifth), a name in
    torch.optim.lr_scheduler, stepped once a batch, or module:callable. Default: constant."""
    body_lr: float
    """The learning rate of a pretrained network that learns, too (timm:resnet50+tuned). Default: 0.0001."""
    average: float
    """Decay per step of a running average of the weights, which then are the result; 0 is none. Default: 0."""
    grow: float
    """Share of the epochs that see smaller images, which is quicker; 0 is none. Default: 0."""


class ServerKeywords(TrainingKeywords, total=False):
    """The settings of ``fedol.distill`` beside those that it names itself."""

    iterations: int
    """Iterations of voting and training, in fedol, its variants and fedol+; others train once. Default: 10."""
    tau: float
    """Weight of the pseudo-labels (Eq. 7), in fedol and fedol+; others have none. Default: 0.2."""
    rho: float
    """Share of samples a model votes on in the first iteration of fedol; fedol+ finds its own. Default: 0.1."""
    rho_step: float
    """What rho grows by in each iteration of fedol; fedol+ has none. Default: 0.05."""
