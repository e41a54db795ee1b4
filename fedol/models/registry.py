"""Models by name or your own: what a spec means, whether it may run code, and the network that it builds.

A name with a colon (``my.py:Net``, ``package.module:Net``) is code: building the model imports and calls it. What
somebody types on a command line or passes from Python is their own word and goes to ``create`` as it is. What a file
says (the header of a model, a run's ``config.json``, a TOML or a benchmark's JSON) may be a stranger's, and comes here
first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from fedol.code import address, describe, imported, is_estimator
from fedol.code import fingerprint as code_fingerprint
from fedol.errors import FedolError, InputError, brief, cause, measures, unknown
from fedol.models.bodies import accepted
from fedol.models.estimators import ESTIMATORS, NATIVE
from fedol.models.fitted import Fitted
from fedol.models.nets import (
    bottleneck_resnet,
    cnn,
    cnn1d,
    cnn1d_large,
    cnn_large,
    linear,
    mlp,
    mlp_large,
    wide_resnet22,
)
from fedol.models.pretrained import Pretrained, tuned
from fedol.settings import ClientSettings, Estimator, RunSettings, ServerSettings, code_of
from fedol.text import printable

# In which a file can name code, and what that is.
SETTINGS = code_of(RunSettings) | code_of(ServerSettings) | code_of(ClientSettings)

_BUILT: dict[str, Callable[..., Any]] = {}  # by its address, what this process has built models of


def remember(spec: ModelSpec, build: Callable[..., Any]) -> None:
    """Keep code that was just allowed to build a model: the files this process writes will name it."""
    name = address(spec)
    if name in NATIVE or (is_code(name) and "<" not in name):  # several local classes may share one address
        _BUILT[name] = build


def trusted(name: str, where: str, trust_code: bool) -> ModelSpec:
    """The model that a model file names: one of FedOL's, or code that this process has built models of before.

    The latter is the very class of then: nothing is imported. Other code is refused, unless the caller vouches for it.
    """
    if name in NATIVE:
        if name not in _BUILT and not trust_code:
            raise FedolError(
                f"{where} holds a model of '{name}', whose own reader crashes on a file that makes no sense: if you "
                "trust whoever made it, add --trust-code (in Python: trust_code=True), or give the model yourself (in "
                f"Python: model='{name}')."
            )
        return name
    if name in _BUILT and not trust_code:
        return name if Pretrained.parse(name) else _BUILT[name]
    check(name, where, trust_code)
    return name


def check_settings(settings: Mapping[str, Any], where: str, trust_code: bool) -> None:
    """Refuse settings from a file that name code, unless the caller vouches for it."""
    for setting in SETTINGS:
        named = settings.get(setting, [])
        for name in named if isinstance(named, list | tuple) else str(named).split(","):
            check(str(name), where, trust_code, SETTINGS[setting])


def check(name: str, where: str, trust_code: bool, what: str = "model") -> None:
    """Refuse a name from a file that is code, unless the caller vouches for it."""
    if is_code(name) and not trust_code:
        raise FedolError(
            f"{where} names the {what} '{printable(name, 100)}', which is code of whoever made it: if you trust them, "
            f"add --trust-code (in Python: trust_code=True), or give the {what} yourself (in Python: {what}=)."
        )


ModelSpec = str | type[nn.Module] | Callable[..., Any] | Estimator
"""What ``create`` accepts as a model."""

FIXED: dict[str, Callable[..., nn.Module]] = {
    "linear": linear,
    "mlp": mlp,
    "mlp-large": mlp_large,
    "cnn1d": cnn1d,
    "cnn1d-large": cnn1d_large,
    "cnn": cnn,
    "cnn-large": cnn_large,
    "resnet22-wide": wide_resnet22,
}
RESNET = re.compile(r"resnet([1-9][0-9]{0,3})")
PRIVATE = "fedol.privacy.converted"  # as whose members the built-in models go by that were trained privately


def names() -> list[str]:
    """The built-in names; ``resnet11`` to ``resnet56`` stand for every depth ``9n + 2``."""
    return [*FIXED, *(f"resnet{9 * blocks + 2}" for blocks in range(1, 7)), *ESTIMATORS]


def is_builtin(name: str) -> bool:
    """Whether one of FedOL's own networks has this name."""
    return name in FIXED or RESNET.fullmatch(name) is not None


def is_code(name: str) -> bool:
    """Whether building the model of this name would call code that is not FedOL's or a known library's."""
    if (known := Pretrained.parse(name)) is not None and known.plain:
        return False
    source, colon, member = name.rpartition(":")
    return bool(colon) and not (source == PRIVATE and is_builtin(member))


def identity(spec: ModelSpec) -> str:
    """The address; of your own model, which may change, with the fingerprint of its code."""
    code = fingerprint(spec)
    return address(spec) if code is None else f"{address(spec)}@{code}"


def fingerprint(spec: ModelSpec) -> str | None:
    """Of the code of your own model; None of FedOL's own."""
    if isinstance(spec, str) and not is_code(spec):
        return None
    return None if isinstance(spec, str) and ":" not in spec else code_fingerprint(find(spec))


def find(spec: ModelSpec) -> Callable[..., Any]:
    """The callable that builds a model: a network, or an estimator."""
    if isinstance(spec, nn.Module):
        raise InputError(
            f"The model {describe(spec)} is an instance; hand over its class or a function that makes it, "
            "because every client needs weights of its own."
        )
    if is_estimator(spec):
        return partial(_as_given, spec)
    if callable(spec):
        return spec
    if (known := Pretrained.parse(spec)) is not None:
        return partial(tuned, known.encoder, find(known.head)) if known.tuned else find(known.head)
    if not isinstance(spec, str):
        raise InputError(f"A model is a name, 'module:callable' or a callable, not {brief(spec)}.")
    if ":" in spec:
        return imported(spec)
    if spec in FIXED or spec in ESTIMATORS:
        return FIXED.get(spec) or ESTIMATORS[spec]
    match = RESNET.fullmatch(spec)
    if match is None:
        raise unknown("model", spec, names())
    depth = int(match[1])
    blocks = max(1, round((depth - 2) / 9))
    if depth != 9 * blocks + 2:
        raise InputError(
            f"There is no model '{spec}'; a bottleneck ResNet has 9n + 2 layers (resnet11, resnet20, resnet29, ...), "
            f"the nearest is 'resnet{9 * blocks + 2}'."
        )
    return partial(bottleneck_resnet, blocks)


def _as_given(estimator: Any) -> Any:
    return estimator  # of which every model is a copy


MOST_VALUES = 1 << 24  # of one sample: 4,096 x 4,096 in grey. A shape in a file could claim any number


# Dimensions of the samples that FedOL's own models take: any, or channels with a length; else those of an image.
TAKES = {
    "linear": "any shape",
    "mlp": "any shape",
    "mlp-large": "any shape",
    "cnn1d": "(channels, length)",
    "cnn1d-large": "(channels, length)",
}
RANKS = {"any shape": range(1, 9), "(channels, length)": [2], "images of (channels, height, width)": [3]}


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Refuse samples that one of FedOL's own models does not take, and name some that do."""
    takes = TAKES.get(name, "images of (channels, height, width)")
    if len(shape) not in RANKS[takes]:
        fitting = [other for other, given in TAKES.items() if len(shape) in RANKS[given]]
        raise InputError(f"The model '{name}' takes {takes}, not {tuple(shape)}; take {' or '.join(fitting)}.")


def create(spec: ModelSpec, *, classes: int, shape: tuple[int, ...], width: int = 16, seed: int = 0) -> nn.Module:
    """A model for samples of ``shape``, of images (channels, height, width), in training mode on the CPU.

    ``spec`` is a built-in name (see ``names``), ``package.module:callable``, ``path/to/file.py:callable``, a class or
    function, an estimator as scikit-learn has them, or a pretrained network (``fedol.models.pretrained``), whose frozen
    features the samples then are. A callable is handed those of ``classes``, ``channels``, ``size`` (height, width; of
    samples with channels alone, nothing), ``shape`` and ``width`` which its signature accepts, and the same by other
    libraries' names: ``num_classes``, ``num_labels``, ``in_chans``. It makes a module that maps samples [B, *shape] to
    logits [B, classes], or to a record that has them as ``logits``, or an estimator, of which the model is a copy
    (``fedol.models.fitted``).
    """
    if classes < 1 or width < 1:
        raise InputError(f"A model needs at least one class and a positive width, not {classes=} and {width=}.")
    if not shape or min(shape) < 1:
        raise InputError(f"A model's shape holds one or more positive numbers, not {tuple(shape)}.")
    if isinstance(spec, str) and is_builtin(spec):
        check_shape(spec, shape)
    if math.prod(shape) > MOST_VALUES:
        raise InputError(f"Samples of {measures(shape)} are too large for a model here; make them smaller.")
    known = Pretrained.parse(spec)
    build, name = find(spec), describe(spec)
    remember(spec, build)
    channels, *size = shape
    offer = {"classes": classes, "channels": channels, "size": tuple(size), "shape": tuple(shape), "width": width}
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which draws the same weights but also reseeds every GPU's global generator.
        torch.default_generator.manual_seed(seed)
        try:
            module = build(offer=offer, shape=shape) if known and known.tuned else _built(build, offer)
            if is_estimator(module):
                ours = isinstance(spec, str) and (known.head if known else spec) in ESTIMATORS
                module = _fitted(module, name, classes, math.prod(shape), seed, ours)
        except FedolError:  # a missing package, say: it has its sentence
            raise
        except Exception as error:  # other people's code
            raise InputError(
                f"The model '{name}' cannot be created from {', '.join(offer)}: {cause(error)}."
            ) from error
        if not isinstance(module, nn.Module):
            raise InputError(
                f"The model '{name}' must create a torch.nn.Module or an estimator, not a {type(module).__name__}."
            )
        module = _probe(module, name, shape, classes)
    if not isinstance(module, Fitted) and not parameter_count(module):  # lazy layers have some only since the probe
        raise InputError(f"The model '{name}' has no trainable parameters, so it cannot learn; add or unfreeze some.")
    return module


def _fitted(estimator: Any, name: str, classes: int, features: int, seed: int, ours: bool) -> nn.Module:
    """An estimator that has yet to learn, as a module; what it cannot do at the end is said now."""
    if not callable(getattr(estimator, "predict_proba", None)):
        raise InputError(
            f"The model '{name}' has no predict_proba, so it cannot say how likely each class is; choose another one, "
            "or let it (scikit-learn's SVC has probability=True)."
        )
    from fedol.models.soft import seeded  # and with it scikit-learn

    return Fitted(seeded(estimator, seed), classes, features, name, ours)


def parameter_count(module: nn.Module) -> int:
    """The number of trainable parameters; of an estimator, what comes nearest to it (``fedol.models.trees.size``)."""
    learnt = sum(part.size[0] for part in module.modules() if isinstance(part, Fitted))
    return learnt + sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def size_of(module: nn.Module) -> dict[str, Any]:
    """How large a model is, for a record: ``parameters``; of an estimator also ``size``, in the words of its kind."""
    parameters, sizes = parameter_count(module), [part.size for part in module.modules() if isinstance(part, Fitted)]
    if not sizes:
        return {"parameters": parameters}
    trees = sum(trees for _, trees in sizes)
    what = f"nodes in {trees:,} trees" if trees else "coefficients"
    return {"parameters": parameters, "size": f"{parameters:,} {what}"}


def _built(build: Callable[..., nn.Module], offer: Mapping[str, Any]) -> Any:
    """What a callable makes of those keywords that it takes, in our words or in other libraries'."""
    if isinstance(build, type) and callable(getattr(build, "fit", None)) and not issubclass(build, nn.Module):
        return build()  # an estimator's class: its parameters are its own
    theirs = {"num_classes": offer["classes"], "in_chans": offer["channels"]}
    if accepted(build, {"any": None}):  # which takes them all, and may hand them on to another
        try:
            return build(**offer)
        except TypeError:
            return build(**theirs)
    return build(**accepted(build, {**offer, **theirs, "num_labels": offer["classes"]}))


class Answers(nn.Module):
    """A network that answers with a record, as Hugging Face's do: its logits."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.net(inputs).logits
        return logits


@torch.no_grad()
def _probe(module: nn.Module, name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two blank samples must give two rows of logits; in eval mode, so that no running statistic moves.

    Gives back the module, or one around it that takes the logits out of a record.
    """
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    if device.type == "meta":  # where nothing is computed
        return module
    blank = torch.zeros(2, *shape, dtype=torch.float32, device=device)
    module.eval()
    try:
        logits = module(blank)
    except Exception as error:  # other people's code
        raise InputError(
            f"The model '{name}' fails on samples of shape {list(blank.shape)}: {cause(error)}."
        ) from error
    if isinstance(getattr(logits, "logits", None), torch.Tensor):
        module, logits = Answers(module), logits.logits
    module.train()
    got = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if got != [2, classes]:
        raise InputError(
            f"The model '{name}' maps samples of shape {list(blank.shape)} to {got}; it must give {[2, classes]}."
        )
    return module
