"""A frozen network's features: computed once, wherever they are needed, and the head on them a model like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import Command
from small_encoder import FEATURES, SIZE, encoder
from torch.nn import functional as F

import fedol
from fedol.data import Images, load
from fedol.data.samples import Samples
from fedol.errors import FedolError, InputError
from fedol.features import Features, fast
from fedol.features.store import FEW, Store, store
from fedol.model import Architecture, export_onnx

SMALL = "small_encoder:encoder+linear"
LARGER = "small_encoder:encoder+mlp"
FAST = {"clients": 3, "public": 200, "epochs": 3, "iterations": 1, "device": "cpu", "partition": "iid"}


@pytest.fixture
def digits() -> Images:
    found = load("digits").train.samples
    assert isinstance(found, Images)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """How many samples the encoder was asked about, call by call; nothing is kept from before."""
    monkeypatch.setenv("FEDOL_CACHE", str(tmp_path / "cache"))
    store.cache_clear()
    monkeypatch.setattr(fast, "MANY", 10**9)  # no translation, which takes seconds
    counts: list[int] = []
    encode = Features._encode

    def counted(self: Features, given: Samples) -> torch.Tensor:
        counts.append(len(given))
        return encode(self, given)

    monkeypatch.setattr(Features, "_encode", counted)
    yield counts
    store.cache_clear()


def on(samples: Samples, model: str = SMALL) -> Architecture:
    return Architecture.on(samples, model, [str(d) for d in range(10)], 8)


def test_features_are_the_networks_at_its_own_size_and_normalisation(digits: Images) -> None:
    few = digits.take(slice(40))
    known = on(few).prepare
    assert isinstance(known, Features) and known.prepared(few.shape) == (FEATURES,)
    x = (few.batch(slice(None)).float() / 255 - 0.5) / (0.95 / 3)  # grey: the mean of the three channels'
    x = F.interpolate(x.expand(-1, 3, -1, -1), (SIZE, SIZE), mode="bicubic", antialias=True)
    with torch.no_grad():
        expected = encoder(0)(x).mean((2, 3))
    torch.testing.assert_close(known.rows(few).float(), expected, rtol=2e-3, atol=2e-3)
    (prepared,) = known.stream(few, [slice(None)], torch.device("cpu"))
    torch.testing.assert_close(prepared.mean(0), torch.zeros(FEATURES), rtol=0, atol=1e-3)
    with torch.no_grad():
        torch.testing.assert_close(known(few.batch(slice(None))), prepared, rtol=0, atol=0.05)


def test_nothing_is_computed_twice(digits: Images, asked: list[int], tmp_path: Path) -> None:
    """Clients, folds, the server and the evaluation share features, as do a second run and another process."""
    models = {"client_models": (SMALL,), "server_model": LARGER, "method": "union"}
    fedol.run(dataset="digits", out=tmp_path / "one", **models, **FAST)
    assert sum(asked) <= len(digits) + len(load("digits").test) + 16  # each image once; two are tried, unkept
    asked.clear()
    fedol.run(dataset="digits", out=tmp_path / "two", seed=1, **models, **FAST)
    store.cache_clear()  # as another process finds it
    on(digits).prepare.ready(digits)
    assert sum(asked) < FEW


def test_a_damaged_file_of_features_is_computed_again(tmp_path: Path) -> None:
    samples, kept = load("digits").train.samples.take(slice(50)), tmp_path / "kept"
    computed: list[int] = []

    def encode(given: Samples) -> torch.Tensor:
        computed.append(len(given))
        return given.batch(slice(None)).flatten(1).half()

    first = Store(kept).features(samples, encode)
    again = Store(kept).features(samples.take(slice(20, 40)), encode)
    assert computed == [50] and torch.equal(again, first[20:40])
    (file,) = kept.iterdir()
    assert kept.stat().st_mode & 0o77 == 0 and file.stat().st_mode & 0o77 == 0  # they tell of private samples
    file.write_bytes(file.read_bytes()[:100])
    assert torch.equal(Store(kept).features(samples, encode), first) and computed == [50, 50]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("features") / "run"
    settings: dict[str, Any] = {**FAST, "epochs": 15, "width": 16}
    return fedol.run(out=out, client_models=(SMALL, "mlp"), server_model=LARGER, **settings).out


def test_a_head_is_a_model_like_any_other(run: Path, digits: Images, tmp_path: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    assert [client["model"] for client in summary["clients"]] == [SMALL, "mlp", SMALL]
    assert summary["clients"][0]["parameters"] == (FEATURES + 1) * 10 and summary["server"]["accuracy"] > 0.4
    model = fedol.load(run, trust_code=True)
    assert model.architecture.shape == (FEATURES,) and "images 1x8x8" in repr(model)
    few = digits.take(slice(100))
    kept = model.predict_proba(few)
    one_by_one = np.concatenate([model.predict_proba(few.take([place])) for place in range(5)])
    np.testing.assert_allclose(one_by_one, kept[:5], atol=0.02)  # computed anew, not looked up
    model.save(tmp_path / "model.safetensors")
    again = fedol.load(tmp_path / "model.safetensors", trust_code=True)
    assert again.architecture == model.architecture
    np.testing.assert_array_equal(again.predict_proba(few), kept)


@pytest.mark.slow
def test_it_is_exported_as_one_graph_from_pixels(run: Path, digits: Images, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="exporting needs the extra onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model = fedol.load(run, trust_code=True)
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    few = digits.take(slice(40))
    (found,) = session.run(None, {"images": few.array()})
    np.testing.assert_allclose(found, model.predict_proba(few), atol=0.02)


def test_client_and_server_by_files(digits: Images, command: Command, tmp_path: Path) -> None:
    data = load("digits")
    public, names = digits.take(slice(60)).array(), ",".join(data.classes)
    np.savez(tmp_path / "public.npz", public)
    arrays = {"train_x": data.train.x[60:300], "train_y": data.train.y[60:300]}
    np.savez(tmp_path / "own.npz", test_x=data.test.x[:50], test_y=data.test.y[:50], **arrays)
    task, model, file = tmp_path / "task", tmp_path / "alice.safetensors", tmp_path / "alice.fedol"
    assert command("task", "new", task, "--public", tmp_path / "public.npz", "--classes", names).code == 0
    fit = ("client", "fit", task, "--data", tmp_path / "own.npz", "--epochs", 5, "--device", "cpu", "--quiet")
    assert command(*fit, "--model", SMALL, "--out", model, "--folds", 2).code == 0
    assert command("client", "predict", task, "--model", model, "--out", file, "--trust-code", "--quiet").code == 0
    learnt = ("distill", task, file, "--model", LARGER, "--method", "union", "--epochs", 2, "--device", "cpu")
    assert command(*learnt, "--out", tmp_path / "run", "--quiet").code == 0


def test_a_header_that_makes_no_sense_is_refused(digits: Images) -> None:
    header = on(digits.take(slice(40))).header()
    assert Architecture.from_header(json.loads(json.dumps(header))) == on(digits.take(slice(40)))
    for change, words in (
        ({"raw": [1, -8, 8]}, "the shape of its raw samples"),
        ({"mean": [0.0]}, "as many features as it has"),
        ({"std": [0.0] * FEATURES}, "is not above 0"),
        ({"std": ["1"] * FEATURES}, "makes no sense"),
    ):
        with pytest.raises(InputError, match=words):
            Architecture.from_header({**header, "features": {**header["features"], **change}})
    with pytest.raises(InputError, match="names no encoder"):
        Architecture.from_header({**header, "model": "mlp"})


def test_other_weights_than_it_was_trained_with_are_refused(digits: Images) -> None:
    header = on(digits.take(slice(40))).header()
    header["features"]["weights"] = "0" * 16
    known = Architecture.from_header(header).prepare
    with pytest.raises(FedolError, match="are not those that this model was trained with; get the same version"):
        known(digits.batch(slice(2)))
