"""Pretrained networks by name: what a name says, where the weights come from, and learning at a rate of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from small_encoder import FEATURES, SIZE, Small, encoder
from torch import nn

import fedol
from fedol.data import load
from fedol.errors import InputError
from fedol.model import Architecture
from fedol.models import create, parameter_count
from fedol.models.bodies import from_hub, from_timm, from_torchvision
from fedol.models.pretrained import Pretrained, bodies, body_of, new_body
from fedol.models.registry import is_code
from fedol.training import Job, Recipe, fit

CPU = torch.device("cpu")


def test_what_a_name_says() -> None:
    assert Pretrained.parse("timm:resnet18") == Pretrained("timm:resnet18", "linear", False)
    assert Pretrained.parse("hf:google/vit+mlp+tuned") == Pretrained("hf:google/vit", "mlp", True)
    assert Pretrained.parse("my.py:net+tuned") == Pretrained("my.py:net", "linear", True)
    assert Pretrained.parse("my.py:net") is None is Pretrained.parse("resnet20")
    for wrong in ("timm:resnet18+", "timm:resnet18+mlp+cnn", "timm:resnet18+tuned+tuned"):
        with pytest.raises(InputError, match=r"write SOURCE:NAME\+HEAD"):
            Pretrained.parse(wrong)


def test_what_a_file_may_name_without_trust() -> None:
    for plain in ("timm:resnet18", "torchvision:resnet18+mlp", "package:efficientnet-lite0+tuned"):
        assert not is_code(plain)
    for code in (
        "hf:any/thing",
        "timm:resnet18@/etc/weights.pth",
        "timm:hf-hub:any",
        "timm:a+my.py:Head",
        "my.py:f+mlp",
    ):
        assert is_code(code)


def digits(count: int = 120) -> Any:
    train = load("digits").train
    return train.take(np.arange(count))


def test_a_tuned_network_learns_at_its_own_rate() -> None:
    data = digits()
    names = [str(d) for d in range(10)]
    made = Architecture.on(data.samples, "small_encoder:encoder+tuned", names, 8)
    assert made.shape == (1, 8, 8) and abs(made.prepare.mean[0] - 0.5) < 1e-6
    moved = {}
    for rate in (1e-2, 1e-9):
        model = made.build(1)
        (body,) = bodies(model)
        before = [parameter.detach().clone() for parameter in body.parameters()]
        recipe = Recipe(2, 32, lr=1e-2, body_lr=rate, schedule="cosine")
        (result,) = fit([Job("client", model, data.samples, torch.from_numpy(data.y), made.prepare, recipe)], CPU)
        assert result.error is None and result.losses[1] < result.losses[0]
        changes = zip(before, body.parameters(), strict=True)
        moved[rate] = max((a - b).abs().max().item() for a, b in changes)
    assert moved[1e-2] > 1e-3 and moved[1e-9] < 1e-6
    with pytest.raises(InputError, match="body_lr must be a positive number"):
        Recipe(body_lr=0.0)


def test_a_tuned_training_is_continued(tmp_path: Path) -> None:
    """Both optimisers' moments are kept between epochs."""
    data, names = digits(), [str(d) for d in range(10)]
    made = Architecture.on(data.samples, "small_encoder:encoder+tuned", names, 8)
    kept: list[Any] = []
    about = data.samples, torch.from_numpy(data.y), made.prepare, Recipe(3, 32, lr=1e-2, body_lr=1e-3)
    (whole,) = fit([Job("client", made.build(1), *about, checkpoint=kept.append)], CPU)
    again = made.build(2)
    (rest,) = fit([Job("client", again, *about, resume=kept[0])], CPU)
    assert rest.losses == whole.losses
    for name, tensor in whole.job.model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_a_tuned_server_is_saved_and_loaded(tmp_path: Path) -> None:
    small = {"clients": 2, "public": 100, "epochs": 1, "iterations": 1, "partition": "iid", "device": "cpu"}
    models = {"client_models": ("small_encoder:encoder+linear",), "server_model": "small_encoder:encoder+tuned"}
    out = fedol.run(out=tmp_path / "run", **models, **small).out
    test = load("digits").test.samples
    probs = fedol.load(out, trust_code=True).predict_proba(test)
    assert probs.shape == (len(test), 10) and np.isfinite(probs).all()


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_of_a_file(tmp_path: Path, suffix: str) -> None:
    """Of the network as its library saves it, with a head that is left over; and what does not fit, or is no tensor."""
    other = Small(10)
    file = tmp_path / f"weights{suffix}"
    if suffix == ".pth":
        torch.save({"state_dict": other.state_dict()}, file)
    else:
        save_file(other.state_dict(), file)
    body = new_body(f"small_encoder:encoder@{file}")
    assert torch.equal(body.module.net.conv.weight, other.conv.weight) and body.features == FEATURES
    assert not any(parameter.requires_grad for parameter in body.module.parameters())
    save_file({"conv.weight": torch.zeros(FEATURES, 3, 3, 3)}, tmp_path / "less.safetensors")
    with pytest.raises(InputError, match=r"do not fit 'small_encoder:encoder': 'conv.bias' should be \[20\]"):
        new_body(f"small_encoder:encoder@{tmp_path / 'less.safetensors'}")
    with pytest.raises(InputError, match="There is no file of weights"):
        new_body("small_encoder:encoder@nowhere.pth")


def test_a_file_of_weights_runs_no_code(tmp_path: Path) -> None:
    file = tmp_path / "evil.pth"
    torch.save({"conv.weight": Path}, file)  # a class, as any code would come
    with pytest.raises(InputError, match=r"evil.pth is damaged or holds more than tensors"):
        new_body(f"small_encoder:encoder@{file}")


@pytest.mark.parametrize(("name", "words"), [
    ("package:nothing", "There is no packaged encoder 'nothing'; known are: efficientnet-lite0"),
    ("hf:/nowhere/at/all", r"The encoder 'hf:/nowhere/at/all' cannot be loaded"),
    ("timm:hf-hub:any/thing", "is on the Hugging Face hub; write hf:NAME"),
    ("small_encoder:nothing+mlp", "has no 'nothing'"),
])  # fmt: skip
def test_encoders_that_are_not_there(name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    known = Pretrained.parse(name)
    assert known is not None
    with pytest.raises(InputError, match=words):
        body_of(known.encoder)


def in_other_words(num_labels: int) -> nn.Module:
    """As Hugging Face's classifiers are made and answer."""

    class Record(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(64, num_labels)

        def forward(self, images: torch.Tensor) -> Any:
            return SimpleNamespace(logits=self.net(images.flatten(1)), loss=None)

    return Record()


def handed_on(pretrained: bool = False, **keywords: Any) -> nn.Module:
    """As timm's entry points are made."""
    return Small(**keywords)


def test_factories_in_other_libraries_words_work_as_they_are() -> None:
    assert parameter_count(create(in_other_words, classes=4, shape=(1, 8, 8))) == 65 * 4
    assert create(in_other_words, classes=4, shape=(1, 8, 8))(torch.zeros(3, 1, 8, 8)).shape == (3, 4)
    for factory in (encoder, handed_on):
        assert create(factory, classes=7, shape=(1, 8, 8))(torch.zeros(2, 1, 8, 8)).shape == (2, 7)


def test_the_adapter_of_timm_asks_for_a_network_without_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in under the library's name, which does not import beside this PyTorch: the adapter's words alone."""
    asked: dict[str, Any] = {}

    def create_model(name: str, **keywords: Any) -> nn.Module:
        asked.update(name=name, **keywords)
        return Small(keywords["num_classes"])

    timm = ModuleType("timm")
    timm.create_model = create_model  # type: ignore[attr-defined]
    timm.data = SimpleNamespace(resolve_model_data_config=lambda net: net.pretrained_cfg)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)
    body = from_timm("resnet18", True)
    assert asked == {"name": "resnet18", "pretrained": True, "num_classes": 0}
    assert (body.features, body.size, body.mean, body.std) == (FEATURES, SIZE, (0.4, 0.5, 0.6), (0.2, 0.25, 0.5))


def test_the_adapter_of_torchvision_takes_the_head_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Likewise."""
    asked: list[Any] = []
    transforms = SimpleNamespace(crop_size=[SIZE], mean=[0.1] * 3, std=[0.2] * 3)
    default = SimpleNamespace(transforms=lambda: transforms)

    def get_model(name: str, weights: Any) -> nn.Module:
        asked.append((name, weights))
        net = nn.Sequential()
        net.conv, net.flat, net.fc = nn.Conv2d(3, 5, SIZE), nn.Flatten(), nn.Linear(5, 1000)
        return net

    models = SimpleNamespace(get_model=get_model, get_model_weights=lambda name: SimpleNamespace(DEFAULT=default))
    torchvision = ModuleType("torchvision")
    torchvision.models = models  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    body = from_torchvision("resnet18", True)
    assert asked == [("resnet18", default)] and (body.features, body.size, body.mean) == (5, SIZE, (0.1,) * 3)
    from_torchvision("resnet18", False)
    assert asked[1] == ("resnet18", None)


def test_images_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of the library's own kind, from a folder as its hub has them."""
    transformers = pytest.importorskip("transformers", reason="hf: needs the extra hf")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4
    )
    transformers.ViTModel(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"size": {"height": 8, "width": 8}, "image_mean": [0.5, 0.5, 0.5]}'
    )
    body = from_hub(str(tmp_path), True)
    assert (body.features, body.size, body.mean) == (16, 8, (0.5,) * 3) and body.tokens is None
    again = from_hub(str(tmp_path), False)
    assert again.features == 16
