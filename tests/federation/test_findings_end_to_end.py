"""A federation on samples of which each may have several findings: simulated, and by files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import Command
from marked import FINDINGS, digits, marked_digits

import fedol
from fedol.core.arrays import to_tensor
from fedol.data.findings import ANSWERS
from fedol.errors import InputError
from fedol.knowledge import Knowledge

SMALL = {"clients": 3, "partition": "dirichlet:0.1", "public": 200, "client_models": ("cnn",), "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the union."""
    out = tmp_path_factory.mktemp("runs") / "marked"
    fedol.run(dataset=marked_digits(), method="union", epochs=8, server_epochs=20, out=out, **SMALL)  # type: ignore[arg-type]
    return out


def test_the_union_carries_over(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    assert summary["server"]["accuracy"] > summary["local"]["mean"] + 0.1
    assert summary["server"]["auroc"] > 0.9


def test_the_model_answers_every_finding(run: Path) -> None:
    model, data = fedol.load(run), marked_digits()
    probs = model.predict_proba(data.test.samples)
    assert model.findings == FINDINGS and probs.shape == (300, 5)
    answers = model.predict(data.test.samples)
    np.testing.assert_array_equal(answers, probs > 0.5)
    right = json.loads((run / "summary.json").read_text())["server"]["accuracy"]
    assert (answers == data.test.y).mean() == pytest.approx(right)


def test_the_report_tells_findings_apart(run: Path) -> None:
    found = json.loads((run / "evaluation.json").read_text())["server"]["findings"]
    assert [row["samples"] for row in found] == marked_digits().test.y.sum(0).tolist()
    assert all(row["auroc"] > 0.8 for row in found)
    page = (run / "report.html").read_text()
    assert "Finding by finding" in page and all(name in page for name in FINDINGS)
    evidence = json.loads((run / "evidence.json").read_text())
    sample = evidence["samples"][0]
    marks = digits()[1]  # whatever is shown is a question about a sample of the public set
    assert sample["index"] < 200 and FINDINGS[sample["asked"]] and sample["truth"] in (0, 1) and marks.shape[1] == 5


def test_it_is_exported_with_a_probability_for_each(run: Path, tmp_path: Path, command: Command) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    assert command("export", run, "--onnx", tmp_path / "m.onnx").code == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    images = marked_digits().test.samples.take(slice(5)).array()
    np.testing.assert_allclose(
        session.run(None, {"images": images})[0], fedol.load(run).predict_proba(images), atol=1e-4
    )
    assert json.loads(session.get_modelmeta().custom_metadata_map["findings"]) == list(FINDINGS)


def test_predict_prints_a_column_for_each(run: Path, tmp_path: Path, command: Command) -> None:
    np.savez(tmp_path / "new.npz", images=marked_digits().test.samples.take(slice(3)).array())
    said = command("predict", run, tmp_path / "new.npz")
    lines = [line.split("\t") for line in said.out.splitlines()]
    assert lines[0] == ["image", *FINDINGS] and len(lines) == 4 and all(len(line) == 6 for line in lines)
    found = json.loads(command("predict", run, tmp_path / "new.npz", "--json").out)
    assert found[0]["even"] == pytest.approx(float(lines[1][1]), abs=1e-4)


@pytest.mark.parametrize("method", ["fedavg", "fedkt"])
def test_a_method_of_classes_alone_is_refused(method: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="knows classes alone"):
        fedol.run(dataset=marked_digits(), method=method, out=tmp_path, **SMALL)  # type: ignore[arg-type]


def test_a_federation_of_files(tmp_path: Path, command: Command) -> None:
    """A net of ours with masses, scikit-learn's forest without, and a file of somebody who answers classes."""
    from sklearn.ensemble import RandomForestClassifier

    images, marks, target = digits()
    np.savez(tmp_path / "public.npz", public=images[:200])
    np.savez(tmp_path / "test.npz", test_x=images[1400:], test_y=marks[1400:], classes=FINDINGS)
    task = tmp_path / "task"
    assert command("task", "new", task, "--public", tmp_path / "public.npz", "--findings", ",".join(FINDINGS)).code == 0
    files = []
    for name, known in (("net", (0, 1, 2, 3, 4)), ("forest", (5, 6, 7, 8, 9))):
        own = np.flatnonzero(np.isin(target[200:1400], known)) + 200
        cut = len(own) * 4 // 5
        x, y = images[own], marks[own]
        parts = {"train_x": x[:cut], "train_y": y[:cut], "test_x": x[cut:], "test_y": y[cut:]}
        np.savez(tmp_path / f"{name}.npz", **parts, classes=FINDINGS)
        model = tmp_path / f"{name}.safetensors"
        if name == "net":
            fit = ["--data", tmp_path / "net.npz", "--model", "cnn", "--folds", 2, "--epochs", 6, "--out", model]
            assert command("client", "fit", task, *fit).code == 0
        else:
            import joblib

            forest = RandomForestClassifier(30, random_state=0).fit(x.reshape(len(x), -1) / 255, y)
            model = tmp_path / "forest.joblib"
            joblib.dump(forest, model)
        files.append(tmp_path / f"{name}.fedol")
        assert command("client", "predict", task, "--model", model, "--out", files[-1]).code == 0
    shown = json.loads(command("inspect", files[0], "--task", task, "--json").out)
    assert shown["findings"] == 5 and shown["samples"] == 200 and set(shown["class_mix"]) == set(FINDINGS)
    stranger = Knowledge.from_probabilities(np.full((200, 2), 0.5), client="stranger")
    stranger.save(tmp_path / "stranger.fedol")
    out = tmp_path / "run"
    said = command(
        "distill", task, *files, tmp_path / "stranger.fedol", "--model", "cnn-large", "--method", "union",
        "--epochs", 15, "--out", out, "--test", tmp_path / "test.npz", "--width", 8,
    )  # fmt: skip
    summary = json.loads((out / "summary.json").read_text())
    assert said.code == 0 and "5 findings of each sample" in summary["refused"][0]["reason"]
    assert list(summary["public_class_mix"]) == list(FINDINGS) and 0.6 < summary["test"]["accuracy"] <= 1
    assert "5 findings: even, large" in (out / "MODEL_CARD.md").read_text()
    assert "for which there is no --own-classes" in command(
        "client", "fit", task, "--data", tmp_path / "net.npz", "--model", "cnn", "--own-classes"
    ).err.replace("\n", " ")  # fmt: skip
    assert "no audit" in command("audit", "--task", task, "--model", files[0], "--data", tmp_path / "net.npz").err


def test_distill_takes_arrays_of_findings() -> None:
    images, marks, _ = digits()
    said = np.clip(marks[:120] * 0.9 + 0.05, 0, 1)
    model = fedol.distill(
        [said, said], images[:120, None], findings=FINDINGS, model="cnn", method="mixture", epochs=30, width=8, lr=3e-3
    )
    assert ((model.predict_proba(images[:120, None]) > 0.5) == marks[:120]).mean() > 0.9
    with pytest.raises(InputError, match="name those that it answers about"):
        fedol.distill([Knowledge.from_findings(said)], images[:120, None], model="cnn")
    with pytest.raises(InputError, match="classes or findings"):
        fedol.distill([said], images[:120, None], findings=FINDINGS, classes=ANSWERS, model="cnn")


def test_cutmix_mixes_the_cost_of_all_findings() -> None:
    """Against the mixed target written out."""
    from fedol.training.loop import batch_loss

    g = torch.Generator().manual_seed(0)
    logits, marks = torch.randn(6, 4, 2, generator=g), torch.randint(0, 2, (6, 4), generator=g)
    index = torch.arange(6)
    patch = torch.tensor([[5 - k, 0, 4, 0, k + 1] for k in range(6)])
    share = 4 * torch.arange(1, 7) / 64
    hot = torch.nn.functional.one_hot(marks, 2).double()
    mixed = (1 - share)[:, None, None] * hot + share[:, None, None] * hot[patch[:, 0]]
    expected = -(mixed * torch.log_softmax(to_tensor(logits).double(), -1)).sum(-1).mean()
    assert batch_loss(logits, marks, index, patch, 64).item() == pytest.approx(expected.item(), rel=1e-5)


def test_estimators_are_clients_and_server() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4)).astype(np.float32)
    marks = np.stack([x[:, 0] > 0, x[:, 1] + x[:, 2] > 1], 1).astype(int)
    models = {"client_models": ("logistic", "mlp"), "server_model": "logistic", "epochs": 3, "progress": False}
    result = fedol.run(dataset=(x, marks), clients=2, public=150, method="union", partition="iid", **models)
    assert result.summary["server"]["accuracy"] > 0.85 and result.summary["server"]["auroc"] > 0.9
