"""The seam for samples of any kind: images behind it, and a kind that only this file knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedol
from fedol.core.arrays import fingerprint
from fedol.data import Dataset, Images, Labelled, Normalisation, Preprocessing, Samples, load, split
from fedol.data.samples import Index, Shape, check_alike, register, samples, slices
from fedol.errors import FedolError, InputError
from fedol.model import Architecture
from fedol.training import Job, Recipe, fit, predict

CPU = torch.device("cpu")
PIXELS = np.random.default_rng(0).integers(0, 256, size=(12, 3, 6, 5), dtype=np.uint8)


@register
@dataclass(frozen=True)
class Scale(Preprocessing):
    """Vectors with their sum as one more feature, divided by the largest value."""

    kind: ClassVar[str] = "vectors"
    largest: float

    def __call__(self, batch: Tensor) -> Tensor:
        return torch.cat([batch, batch.sum(1, keepdim=True)], 1) / self.largest

    def prepared(self, shape: Shape) -> Shape:
        return (shape[0] + 1,)

    def blank(self, shape: Shape) -> Tensor:
        return torch.zeros(2, shape[0] - 1)

    def header(self) -> dict[str, Any]:
        return {"kind": self.kind, "largest": self.largest}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Scale:
        return cls(float(header["largest"]))


@dataclass(frozen=True, eq=False)
class Vectors(Samples):
    kind: ClassVar[str] = "vectors"
    values: np.ndarray  # float32 [N, features]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> Shape:
        return self.values.shape[1:]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.values)

    def take(self, index: Index) -> Vectors:
        return Vectors(self.values[index if isinstance(index, slice) else np.asarray(index)])

    def joined(self, others: Vectors) -> Vectors:
        return Vectors(np.concatenate([self.values, others.values]))

    def batch(self, index: Tensor | slice) -> Tensor:
        return torch.from_numpy(self.values)[index]

    def array(self) -> np.ndarray:
        return self.values

    def fit(self, public: Vectors | None = None) -> Scale:
        """The public ones' at every site."""
        return Scale(float(np.abs((self if public is None else public).values).max()))


class Line(nn.Sequential):
    def __init__(self, classes: int, shape: tuple[int, ...]) -> None:
        super().__init__(nn.Linear(*shape, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, classes))


def blobs(count: int, seed: int) -> tuple[Vectors, np.ndarray]:
    """Three clouds in five dimensions, negative numbers among them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = np.random.default_rng(9).normal(0, 4, (3, 5))
    return Vectors((centres[labels] + rng.normal(size=(count, 5))).astype(np.float32)), labels


@pytest.fixture(scope="module")
def server() -> fedol.model.ServerModel:
    """Trained on vectors: nobody's images are anywhere near."""
    public, truth = blobs(300, 0)
    sure = np.where(np.eye(3)[truth] == 1, 0.9, 0.05)
    return fedol.distill([sure, sure], public, model=Line, epochs=8, iterations=2, batch_size=32, lr=0.01)


def test_another_kind_is_distilled_saved_and_asked(server: fedol.model.ServerModel, tmp_path: Path) -> None:
    test, truth = blobs(200, 1)
    assert (server.predict(test) == truth).mean() > 0.9
    assert server.architecture.shape == (6,) and server.architecture.prepare == blobs(300, 0)[0].fit()
    server.save(tmp_path / "model.safetensors")
    again = fedol.load(tmp_path, model=Line)
    assert again.architecture == server.architecture
    np.testing.assert_array_equal(again.predict_proba(test), server.predict_proba(test))


def test_a_model_takes_its_own_kind_and_shape_alone(server: fedol.model.ServerModel) -> None:
    with pytest.raises(InputError, match="The model takes vectors, but these are images; convert them"):
        server.predict(PIXELS)
    with pytest.raises(InputError, match="takes vectors of 6, but these are 3"):
        server.predict(Vectors(np.zeros((4, 2), np.float32)))
    images = Architecture.on(samples(PIXELS), "mlp", "ab", 4)
    with pytest.raises(InputError, match="takes images, but these are vectors"):
        fedol.model.ServerModel(images.build(), images).predict(blobs(4, 0)[0])


def test_a_clients_training_of_another_kind() -> None:
    (inputs, labels), (test, truth) = blobs(200, 2), blobs(200, 3)
    made = Architecture.on(inputs, Line, "abc", 4)
    job = Job("client", made.build(1), inputs, torch.from_numpy(labels), made.prepare, Recipe(8, 16, lr=0.01))
    (result,) = fit([job], CPU)
    assert result.error is None and not job.random_layers and job.threads == 1
    assert (predict(job.model, test, made.prepare, CPU).argmax(1).numpy() == truth).mean() > 0.9


@pytest.mark.parametrize("recipe", [{"augment": True}, {"patch": "cutmix"}])
def test_what_a_kind_cannot_be_augmented_by_is_refused(recipe: dict[str, Any]) -> None:
    public, _ = blobs(60, 0)
    with pytest.raises(InputError, match=r"There is no .* of vectors; leave '(augment|patch)' out"):
        fedol.distill([np.full((60, 3), 1 / 3)], public, model=Line, epochs=1, iterations=1, **recipe)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset("clouds", Labelled(*blobs(500, 4)), Labelled(*blobs(100, 5)), ("a", "b", "c"))


def test_a_whole_run_of_another_kind(dataset: Dataset, tmp_path: Path) -> None:
    models = {"client_models": [Line], "server_model": Line}
    small = {"clients": 3, "public": 200, "epochs": 15, "iterations": 2, "batch_size": 32, "lr": 0.01, "device": "cpu"}
    result = fedol.run(dataset=dataset, out=tmp_path / "run", **models, **small)
    assert result.summary["server"]["accuracy"] > 0.9
    public = split(dataset, 200, 0).shared
    for file in (result.out / "clients" / "00.safetensors", result.out / "model.safetensors"):
        assert fedol.load(file, model=Line).architecture.prepare == public.fit()
    evidence = json.loads((result.out / "evidence.json").read_text())
    chosen = [sample["index"] for sample in evidence["samples"]]
    assert evidence["captions"] == public.take(chosen).captions() and not (result.out / "public.png").exists()
    page = (result.out / "report.html").read_text()
    assert "clouds" in page and all(caption in page for caption in evidence["captions"])


def test_what_cannot_be_drawn_is_shown_by_its_first_values() -> None:
    assert Vectors(np.array([[0.12345, -2, 3000]], np.float32)).captions() == ["0.123, -2, 3e+03"]
    assert Vectors(np.arange(9, dtype=np.float32)[None]).captions() == ["0, 1, 2, 3, 4, 5"]


def test_another_kind_or_shape_than_the_public_samples_is_refused() -> None:
    public, images = blobs(3, 0)[0], samples(PIXELS)
    check_alike(public, public.take(slice(1)), "Yours")
    for given, words in (
        (images, "Yours are images of 3x6x5, but the task's public ones are vectors of 5"),
        (Vectors(np.zeros((3, 4), np.float32)), "Yours are 4, but the task's public ones are 5"),
    ):
        with pytest.raises(InputError, match=words):
            check_alike(given, public, "Yours")


@pytest.mark.parametrize("method", ["fedkt", "fedavg-bn"])
def test_methods_with_a_training_of_their_own(dataset: Dataset, tmp_path: Path, method: str) -> None:
    models = {"client_models": [Line], "server_model": Line, "parameter_model": Line, "method": method}
    small = {"clients": 2, "public": 200, "epochs": 3, "iterations": 1, "batch_size": 32, "lr": 0.01, "device": "cpu"}
    result = fedol.run(dataset=dataset, out=tmp_path / "run", **models, **small)
    assert result.summary["server"]["accuracy"] > 0.6


def test_a_task_of_another_kind() -> None:
    public, _ = blobs(50, 0)
    task = fedol.Task.of(public, "abc")
    assert (task.samples, task.fingerprint) == (50, fingerprint(public.values))
    assert task.id != fedol.Task.of(public.take(np.arange(50)[::-1]), "abc").id


def test_a_task_folder_does_not_take_what_it_could_not_read_back(tmp_path: Path) -> None:
    public, _ = blobs(50, 0)
    task = fedol.Task.of(public, "abc")
    with pytest.raises(InputError, match="does not hold vectors"):
        fedol.TaskFolder.create(tmp_path / "task", task, public)
    assert fedol.TaskFolder.open(fedol.TaskFolder.create(tmp_path / "task", task, None).path).task == task


def test_a_kind_that_cannot_be_drawn_leaves_no_pictures() -> None:
    assert blobs(3, 0)[0].pictures() is None and samples(PIXELS).pictures() is not None


def test_a_kind_without_private_training_says_so() -> None:
    with pytest.raises(FedolError, match="no private training on vectors"):
        blobs(3, 0)[0].unfitted()


def test_an_unknown_kind_in_a_file_is_refused() -> None:
    header = Architecture.on(blobs(3, 0)[0], "mlp", "ab", 4).header()
    for kind in ("smells", ["images"], "vector"):
        with pytest.raises(InputError, match="There is no kind of samples"):
            Architecture.from_header({**header, "kind": kind})


def test_arrays_and_tensors_are_images_and_samples_stay_themselves() -> None:
    given = samples(PIXELS)
    assert isinstance(given, Images) and samples(given) is given and given.kind == "images"
    assert torch.equal(samples(torch.from_numpy(PIXELS)).batch(slice(None)), torch.from_numpy(PIXELS))
    assert np.shares_memory(given.array(), PIXELS)
    with pytest.raises(InputError, match=r"public images must be uint8 \[N, channels, H, W\]"):
        samples(PIXELS[0], "public images")
    assert samples(PIXELS.astype(np.float32)).kind == "signals"


def test_images_say_what_they_are() -> None:
    given = samples(PIXELS)
    assert (len(given), given.shape, given.places) == (12, (3, 6, 5), 30)
    assert given.fingerprint == fingerprint(PIXELS) != given.take([1, 0]).fingerprint
    chosen = np.array([4, 0, 4])
    mask = np.arange(12) % 5 == 0
    for index in (chosen, chosen.tolist(), torch.from_numpy(chosen), mask, torch.from_numpy(mask), slice(2, 7)):
        where = index.numpy() if isinstance(index, Tensor) else index
        assert np.array_equal(given.take(index).array(), PIXELS[where])
    assert np.array_equal(given.take(chosen).joined(given).array(), np.concatenate([PIXELS[chosen], PIXELS]))
    assert given.floats().dtype == np.float32 and np.array_equal(given.floats(), PIXELS.astype(np.float32) / 255)


def test_grey_images_are_taken_in_the_layout_that_earlier_versions_had() -> None:
    """By which a convolution chooses its kernel: 'fedavg-bn' measures the same to the last bit."""
    grey, rows = load("digits").train.samples, np.arange(0, 40, 3)
    taken = grey.take(rows).batch(slice(None))
    assert taken.stride() == torch.from_numpy(grey.array()[rows]).stride() == (64, 1, 8, 1)
    assert torch.equal(taken, grey.batch(torch.from_numpy(rows)))


def test_images_are_fitted_per_channel_and_old_headers_have_no_kind() -> None:
    fitted = samples(PIXELS).fit()
    np.testing.assert_allclose(fitted.mean, (PIXELS / 255).mean((0, 2, 3)), rtol=1e-12)
    assert fitted.header() == {"mean": list(fitted.mean), "std": list(fitted.std)}
    header = Architecture.on(samples(PIXELS), "mlp", "ab", 4).header()
    assert list(header) == ["model", "classes", "shape", "width", "mean", "std"]
    assert Architecture.from_header(header).prepare == fitted
    assert samples(PIXELS).unfitted() == Normalisation((0.5,) * 3, (0.5,) * 3)


def test_labelled_samples_are_taken_and_joined_together() -> None:
    data = load("digits").train
    few, more = data.take(np.array([3, 1])), data.take(np.array([0]))
    both = few.joined(more)
    assert isinstance(both, Labelled) and both.y.tolist() == data.y[[3, 1, 0]].tolist()
    assert np.array_equal(both.x, data.x[[3, 1, 0]])


@pytest.mark.parametrize("count", [0, 1, 7, 250, 503])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_are_those_of_torch(count: int, parts: int) -> None:
    everything = torch.arange(count)
    expected = torch.tensor_split(everything, parts)
    assert all(map(torch.equal, (everything[part] for part in slices(count, parts)), expected))
