"""Federations of networks and estimators: any client, any server, through every door."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import ROOT, Command, refusal
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from test_survival import KILLED

import fedol
from fedol import methods
from fedol.config import RunConfig
from fedol.data import load, split
from fedol.errors import FedolError, InputError
from fedol.federation.scenario import Scenario
from fedol.methods import Lesson
from fedol.model import export_onnx
from fedol.training import fit

FOREST = RandomForestClassifier(30, min_samples_leaf=2)
QUICK: dict[str, Any] = {"clients": 3, "epochs": 4, "partition": "iid", "device": "cpu", "seed": 5}


@pytest.mark.parametrize(
    ("clients", "server", "method"),
    [(("xgboost", "mlp"), "mlp", "union"), (("logistic", "mlp", "xgboost"), FOREST, "fedol")],
)
def test_clients_and_server_differ_in_everything(clients: Any, server: Any, method: str, tmp_path: Path) -> None:
    result = fedol.run(
        client_models=clients, server_model=server, method=method, iterations=2, out=tmp_path / "run", **QUICK
    )
    found = result.summary
    assert found["server"]["accuracy"] > 0.6
    for client in found["clients"]:
        assert ("size" in client) == (client["model"] != "mlp") and client["parameters"] > 0
    model = fedol.load(tmp_path / "run")  # its class is known to this process
    test = load("digits").test
    assert np.mean(model.predict(test.samples) == test.y) == found["server"]["accuracy"]
    assert "parameters" in (tmp_path / "run" / "report.html").read_text()
    again = fedol.run(
        client_models=clients, server_model=server, method=method, iterations=2, out=tmp_path / "again", **QUICK
    )
    assert [path.read_bytes() for path in sorted(again.out.rglob("*.safetensors"))] == [
        path.read_bytes() for path in sorted(result.out.rglob("*.safetensors"))
    ]


def test_another_setting_of_an_estimator_is_another_run(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**QUICK, "client_models": "logistic", "method": "pooled", "out": tmp_path / "run"}
    first = fedol.run(server_model=RandomForestClassifier(5), **settings)
    assert fedol.run(server_model=RandomForestClassifier(5), **settings).summary == first.summary
    with pytest.raises(FedolError, match=r"The model 'RandomForestClassifier' \(server_model\) has changed since"):
        fedol.run(server_model=RandomForestClassifier(6), **settings)


def test_own_classes_are_an_estimators_too(tmp_path: Path) -> None:
    result = fedol.run(
        client_models=("xgboost", "logistic"),
        server_model="logistic",
        method="union",
        own_classes=True,
        out=tmp_path / "run",
        **{**QUICK, "partition": "classes:5"},
    )
    client = fedol.load(tmp_path / "run" / "clients" / "01.safetensors")
    probs, held = client.predict_proba(load("digits").test.samples), list(client.architecture.held)
    assert len(held) < 10 and (np.delete(probs, held, 1) == 0).all() and probs[:, held].sum(1) == pytest.approx(1)
    assert result.summary["server"]["accuracy"] > 0.5


def test_what_cannot_teach_or_average_is_said_before_anyone_trains(tmp_path: Path) -> None:
    def run(**settings: Any) -> None:
        fedol.run(out=tmp_path / "run", **{**QUICK, **settings})

    with pytest.raises(InputError, match="by sample_weight, which KNeighborsClassifier does not take; give another"):
        run(server_model=KNeighborsClassifier())
    with pytest.raises(InputError, match="The model 'SVC' has no predict_proba"):
        run(client_models=[SVC(), "mlp"])
    with pytest.raises(FedolError, match="'fedavg' averages weights, and 'forest' has none; choose a network"):
        run(method="fedavg", parameter_model="forest", client_models="mlp")
    with pytest.raises(InputError, match="There is no model 'hist-boostin'; did you mean 'hist-boosting'"):
        run(server_model="hist-boostin")
    fedol.run(client_models=KNeighborsClassifier(3), server_model="logistic", out=tmp_path / "knn", **QUICK)


def test_a_server_learns_from_knowledge_alone() -> None:
    parts = split(load("digits"), 150, seed=5)
    probs = np.full((150, 10), 0.01)
    probs[np.arange(150), parts.public_labels] = 0.91
    model = fedol.distill([probs, probs], parts.public, model=ExtraTreesClassifier(40), method="pooled")
    assert np.mean(model.predict(parts.test.x) == parts.test.y) > 0.8
    with pytest.raises(InputError, match="by sample_weight, which KNeighborsClassifier does not take"):
        fedol.distill([probs], parts.public, model=KNeighborsClassifier())


def test_feedback_and_private_data_are_learnt_in_one() -> None:
    site = Scenario(RunConfig(client_models="logistic", method="fedhkt", **QUICK))
    side, architecture = methods.find("fedhkt").client, site.client(0)
    heeded = torch.arange(len(site.public)) % 2 == 0
    feedback = torch.full((len(site.public), 10), 0.1)
    work = side.work(site, 0, Lesson(2, architecture.build(0), feedback, heeded))
    job = next(work)  # the only one
    assert len(job.inputs) == len(job.targets) == len(site.shares[0]) + int(heeded.sum())
    assert (job.targets[-1] == 0.1).all() and job.targets[0].max() == 1
    (done,) = fit([job], torch.device("cpu"))
    with pytest.raises(StopIteration):
        work.send(done)


@pytest.mark.parametrize("name", ["hist-boosting", "logistic"])
def test_exported_it_answers_as_before(name: str, tmp_path: Path) -> None:
    import onnxruntime

    parts = split(load("digits"), 60, seed=5)
    probs = np.eye(10)[parts.public_labels % 7]  # three classes that it never hears of
    model = fedol.distill([probs * 0.99 + 0.001], parts.public, model=name, method="pooled", classes=list("abcdefghij"))
    export_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (found,) = session.run(None, {"images": parts.test.x})
    assert np.abs(found - model.predict_proba(parts.test.x)).max() < 1e-5
    assert session.get_modelmeta().custom_metadata_map["classes"].startswith('["a"')


@pytest.mark.slow
def test_from_the_shell(tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, ROOT / "examples/demo_data.py", "demo"], cwd=tmp_path, check=True)
    demo = tmp_path / "demo"
    task = ["--public", demo / "public.npz", "--classes", "0,1,2,3,4,5,6,7,8,9"]
    assert command("task", "new", demo / "task", *task).code == 0
    fits = {
        "alice": ["logistic", "--folds", 2, "--own-classes"],
        "bob": ["sklearn.ensemble:ExtraTreesClassifier"],
        "carol": ["xgboost"],
    }
    for name, (model, *more) in fits.items():
        out = demo / f"{name}.safetensors"
        said = command(
            "client", "fit", demo / "task", "--data", demo / f"{name}.npz", "--model", model, "--out", out, *more
        )
        assert said.code == 0 and "trained on" in said.out, said.err
        sent = command("client", "predict", demo / "task", "--model", out, "--out", demo / f"{name}.fedol")
        assert sent.code == 0, sent.err
    files = [demo / f"{name}.fedol" for name in fits]
    run = ["distill", demo / "task", *files, "--model", "forest", "--out", demo / "run", "--test", demo / "test.npz"]
    said = command(*run)
    assert said.code == 0 and " nodes in 300 trees" in said.out, said.err
    assert "One model with" in (card := (demo / "run" / "MODEL_CARD.md").read_text()) and "nodes in 300 trees" in card
    assert len(command("predict", demo / "run", demo / "test.npz").out.splitlines()) == 359
    audit = ["--task", demo / "task", "--model", demo / "alice.safetensors", "--data", demo / "alice.npz"]
    said = command("audit", *audit, "--shadows", 2, "--json")
    assert said.code == 0 and "likelihood ratio" in json.loads(said.out)["clients"][0]["membership"], said.err
    private = ["client", "fit", demo / "task", "--data", demo / "bob.npz", "--model", "forest", "--out", demo / "x"]
    message = refusal([str(word) for word in [*private, "--dp-epsilon", 8]], capsys)
    assert message == "'forest' has no private training; choose a network, or leave --dp-epsilon out."


@pytest.mark.slow
def test_killed_between_its_writes_a_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    words = ["run", "--client-models", "logistic,mlp", "--server-model", "hist-boosting", "--clients", "2"]
    words += ["--epochs", "2", "--iterations", "2", "--device", "cpu", "--json", "--out"]
    done = subprocess.run([sys.executable, "-m", "fedol", *words, str(tmp_path / "whole")], cwd=ROOT, check=False)
    assert done.returncode == 0
    kills = [(4, "before"), (4, "after"), (5, "within")]
    for moment, when in kills:
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(moment), when, *words, str(tmp_path / "killed")],
            cwd=ROOT,
            capture_output=True,
        )
        assert killed.returncode == -9, killed.stderr
    subprocess.run([sys.executable, "-m", "fedol", *words, str(tmp_path / "killed")], cwd=ROOT, check=True)
    whole, again = (sorted((tmp_path / name).rglob("*.safetensors")) for name in ("whole", "killed"))
    assert [path.name for path in whole] == [path.name for path in again] and len(whole) > 4
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(whole, again, strict=True))
