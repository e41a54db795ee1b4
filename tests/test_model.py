"""The trained model: saved, loaded, ready to predict."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fedol
from fedol.data import Normalisation, load
from fedol.errors import FedolError, InputError
from fedol.model import Architecture, ServerModel
from fedol.models import ModelSpec, create


class Local(nn.Module):
    """Importable only while its module is."""

    def __init__(self, classes: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.layer = nn.Linear(int(np.prod(shape)), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(x.flatten(1))
        return logits


class Tied(nn.Module):
    """Two layers with the same weights."""

    def __init__(self, classes: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        size = int(np.prod(shape))
        self.first, self.second, self.head = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, classes)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.second(self.first(x.flatten(1)).relu()).relu())
        return logits


def make(model: ModelSpec, width: int = 4) -> ServerModel:
    architecture = Architecture(
        model, ("cat", "dog"), (3, 6, 5), width, Normalisation((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
    )
    return ServerModel(architecture.build(seed=3).eval(), architecture, [{"iteration": 1, "loss": 0.5}])


IMAGES = np.random.default_rng(0).integers(0, 256, size=(20, 3, 6, 5), dtype=np.uint8)


@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet11", Local])
def test_what_is_saved_is_what_is_loaded(model: ModelSpec, tmp_path: Path) -> None:
    before = make(model)
    before.save(tmp_path / "model.safetensors")
    for place in (tmp_path, tmp_path / "model.safetensors", str(tmp_path)):
        after = fedol.load(place)
        np.testing.assert_array_equal(after.predict_proba(IMAGES), before.predict_proba(IMAGES))
        assert (after.classes, after.history) == (before.classes, before.history)
        assert after.architecture.prepare == before.architecture.prepare
        assert not after.module.training


def test_images_that_the_model_would_misread_are_refused() -> None:
    model = make("cnn")
    with pytest.raises(InputError, match="takes images as uint8, 0 to 255, but these are float32"):
        model.predict(IMAGES.astype(np.float32) / 255)  # they would be divided by 255 again
    for images, size in ((IMAGES[:, :1], "1x6x5"), (IMAGES[:, 0], "6x5"), (IMAGES[0], "6x5")):
        with pytest.raises(InputError, match=f"takes images of 3x6x5, but these are {size}"):
            model.predict_proba(images)


def test_tied_weights_are_saved_and_are_still_tied_when_loaded(tmp_path: Path) -> None:
    before = make(Tied)
    before.save(tmp_path / "model.safetensors")
    after = fedol.load(tmp_path)
    assert after.module.second.weight is after.module.first.weight
    assert torch.equal(after.module.first.weight, before.module.first.weight)
    np.testing.assert_array_equal(after.predict_proba(IMAGES), before.predict_proba(IMAGES))


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make("cnn").save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_run_folder_gives_back_the_trained_model(finished: Path) -> None:
    model, test = fedol.load(finished), load("digits").test
    summary = json.loads((finished / "summary.json").read_text())
    assert (model.predict(test.x) == test.y).mean() == summary["server"]["accuracy"]
    assert len(model.history) == 2


def test_a_class_that_cannot_be_imported_is_handed_over(tmp_path: Path) -> None:
    def scoped() -> type[nn.Module]:
        class Inner(Local):
            pass

        return Inner

    inner = scoped()
    before = make(inner)
    before.save(tmp_path / "model.safetensors")
    with pytest.raises(FedolError, match="Inner"):
        fedol.load(tmp_path)
    after = fedol.load(tmp_path, model=inner)
    np.testing.assert_array_equal(after.predict(IMAGES), before.predict(IMAGES))


def test_only_a_path_is_loaded() -> None:
    with pytest.raises(InputError, match=r"named by its path, .* not ndarray of shape \[2, 3\]"):
        fedol.load(np.zeros((2, 3)))  # type: ignore[arg-type]


def test_weights_of_another_model_are_refused_in_one_sentence(tmp_path: Path) -> None:
    make("mlp").save(tmp_path / "model.safetensors")
    with pytest.raises(FedolError, match="do not fit cnn") as caught:
        fedol.load(tmp_path, model="cnn")
    assert "\n" not in str(caught.value)


def test_the_weights_of_a_client_load_too(finished: Path, tmp_path: Path) -> None:
    shutil.copy(finished / "clients" / "00.safetensors", tmp_path / "client.safetensors")
    client = fedol.load(tmp_path / "client.safetensors")
    assert client.predict(load("digits").test.x[:3]).shape == (3,)
    module = create("mlp", classes=10, shape=(1, 8, 8), width=4)
    assert client.module.state_dict().keys() == module.state_dict().keys()
