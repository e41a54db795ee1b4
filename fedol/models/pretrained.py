"""Pretrained networks as model names: ``SOURCE:NAME[@WEIGHTS][+HEAD][+tuned]``.

``timm:resnet50``, ``hf:google/vit-base-patch16-224`` and ``torchvision:resnet50`` come from these libraries,
``package:efficientnet-lite0`` from an installed package that carries its weights, and ``my.py:encoder+linear`` from
your own function. The network is frozen and a head learns on its features: a linear layer, unless another model of
that many features is named (``+mlp``, ``+my.py:Head``). With ``+tuned`` the network learns, too. ``@FILE`` has the
weights where there is no internet. Weights are data: safetensors, or what ``torch.load`` reads without running code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from fedol.code import imported
from fedol.errors import FedolError, InputError, cause
from fedol.models.bodies import SOURCES, Body, accepted, from_callable

TUNED, LINEAR = "tuned", "linear"
PLAIN = "package", "timm", "torchvision"  # sources of which a name cannot ask for anybody's files or code


@dataclass(frozen=True)
class Pretrained:
    """What such a name says."""

    encoder: str  # with its source and weights
    head: str = LINEAR
    tuned: bool = False

    @classmethod
    def parse(cls, spec: object) -> Pretrained | None:
        """What a model's name says; None where it names no pretrained network."""
        if not isinstance(spec, str) or ":" not in spec:
            return None
        encoder, *others = spec.split("+")
        if encoder.partition(":")[0] not in SOURCES and not others:
            return None  # your own model, which is whole
        heads = [other for other in others if other != TUNED]
        if len(heads) > 1 or "" in others or len(others) - len(heads) > 1:
            raise InputError(f"The model '{spec}' is no pretrained network with a head; write SOURCE:NAME+HEAD.")
        return cls(encoder, heads[0] if heads else LINEAR, TUNED in others)

    @property
    def plain(self) -> bool:
        """Whether building it runs no code but that of libraries, and reads nothing that the name alone chooses."""
        source, _, name = self.encoder.partition(":")
        return source in PLAIN and ":" not in name and "@" not in name and ":" not in self.head


@lru_cache(maxsize=4)
def body_of(encoder: str) -> Body:
    """The network of this name with its weights, in evaluation mode; one for all who ask, so nobody may train it."""
    return new_body(encoder)


def new_body(encoder: str) -> Body:
    """A network of this name with its weights, of one's own."""
    name, _, weights = encoder.partition("@")
    source, _, what = name.partition(":")
    try:
        if source in SOURCES:
            if source == "timm" and ":" in what:
                raise InputError(f"'{what}' is on the Hugging Face hub; write hf:NAME.")
            body = SOURCES[source](what, not weights)
        else:
            body = from_callable(imported(name, "encoder"))
    except FedolError:
        raise
    except Exception as error:  # other people's libraries, the network, a name that they do not know
        helps = "" if weights else f"; where there is no internet, give its weights as {source}:{what}@FILE"
        raise InputError(f"The encoder '{encoder}' cannot be loaded ({cause(error)}){helps}.") from error
    if weights:
        _fill(body.module, Path(weights).expanduser(), encoder)
    body.module.eval().requires_grad_(False)
    return body


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a file, without running code that it holds."""
    if not path.is_file():
        raise InputError(f"There is no file of weights {path}; give a .safetensors, .pth or .bin file.")
    try:
        found: Any = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # pickle's own, what it refuses, and what is damaged
        raise InputError(f"{path} is damaged or holds more than tensors; give a .safetensors file.") from error
    for wrapped in ("state_dict", "model"):
        found = found.get(wrapped, found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{path} holds no network's weights; give a .safetensors file, or a saved state_dict.")
    return found


def _fill(module: nn.Module, path: Path, encoder: str) -> None:
    """Give a network its weights; those of a head that it lacks are left over."""
    found, prefix = read_weights(path), ""
    wanted = module.state_dict()
    inner = [name for name, _ in module.named_children()]
    if len(inner) == 1 and not set(wanted) & set(found):
        prefix = f"{inner[0]}."  # the file is of the network within
    given = {f"{prefix}{name}": tensor for name, tensor in found.items()}
    for name, tensor in wanted.items():
        if name not in given or given[name].shape != tensor.shape:
            holds = "absent" if name not in given else str(list(given[name].shape))
            short = name.removeprefix(prefix)
            raise InputError(
                f"The weights in {path} do not fit '{encoder.partition('@')[0]}': '{short}' should be "
                f"{list(tensor.shape)}, but is {holds}."
            )
    module.load_state_dict({name: given[name] for name in wanted})


class Resized(nn.Module):
    """A body on images of any size and of one channel, too: made what it wants first."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body, self._size, self._channels = body.module, body.size, body.channels

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images to features."""
        found: Tensor = self.body(self.fitted(images))
        return found

    def fitted(self, images: Tensor) -> Tensor:
        """Of the body's size and channels."""
        if images.shape[1] < self._channels:
            images = images.expand(-1, self._channels, -1, -1)
        if images.shape[2:] != (self._size, self._size):
            images = F.interpolate(images, (self._size, self._size), mode="bicubic", antialias=True)
        return images


class Tuned(nn.Module):
    """A pretrained body and a head, which learn together; the body at a rate of its own (``Recipe.body_lr``)."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits."""
        found: Tensor = self.head(self.body(inputs))
        return found


def tuned(encoder: str, head: Callable[..., nn.Module], shape: tuple[int, ...], offer: dict[str, Any]) -> Tuned:
    """A new body, which is free to learn, with a new head."""
    body = new_body(encoder)
    if body.size == 0:
        raise InputError(f"The encoder '{encoder}' reads words and stays frozen here; leave +{TUNED} out.")
    if len(shape) != 3:
        raise InputError(f"The encoder '{encoder}' takes images of (channels, height, width), not {tuple(shape)}.")
    body.module.requires_grad_(True)
    features = {**offer, "shape": (body.features,), "channels": body.features, "size": ()}
    return Tuned(Resized(body), head(**accepted(head, features)))


def bodies(model: nn.Module) -> list[nn.Module]:
    """The pretrained parts of a model that learn at a rate of their own."""
    return [part.body for part in model.modules() if isinstance(part, Tuned)]
