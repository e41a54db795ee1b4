"""Sites that hold some of the task's classes, each with names of its own order: simulated, by files, and on Flower."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from commands import Command
from sklearn.linear_model import LogisticRegression

import fedol
from fedol import Knowledge, Task, TaskFolder
from fedol.config import RunConfig
from fedol.data import load, split
from fedol.errors import InputError
from fedol.federation.client import client_fit
from fedol.federation.predictors import predict_knowledge
from fedol.federation.scenario import Scenario, Scheme
from fedol.methods import Lesson
from fedol.model import Architecture, ServerModel
from fedol.model import load as load_model
from fedol.training import Recipe

pytestmark = pytest.mark.usefixtures("free_to_send")

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LISTS = {"alice": ["seven", "two", "nine"], "bob": ["zero", "one", "three", "four"], "carol": ["six", "five", "eight"]}
LISTS["dave"] = ["seven"]
QUICK: dict[str, Any] = {"clients": 5, "partition": "classes:2", "epochs": 2, "public": 100, "device": "cpu"}


@dataclass(frozen=True)
class Sites:
    folder: Path
    task: Task

    def data(self, name: str) -> str:
        return str(self.folder / f"{name}.npz")

    @property
    def public(self) -> Any:
        return TaskFolder.open(self.folder / "task").samples()


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    folder = tmp_path_factory.mktemp("sites")
    parts = split(load("digits"), 200, seed=0)
    task = Task.of(parts.public, NAMES, "digits")
    TaskFolder.create(folder / "task", task, parts.public)
    for name, own in LISTS.items():
        place = {NAMES.index(each): label for label, each in enumerate(own)}
        mine = parts.private.take(np.flatnonzero(np.isin(parts.private.y, list(place))))
        y = np.array([place[c] for c in mine.y.tolist()])
        np.savez(
            folder / f"{name}.npz", train_x=mine.x[20:], train_y=y[20:], test_x=mine.x[:20], test_y=y[:20], classes=own
        )
    return Sites(folder, task)


def fit(sites: Sites, name: str, out: Path, **more: Any) -> dict[str, Any]:
    settings = {"device": "cpu", "own_classes": True, "public": sites.public, **more}
    return client_fit(sites.task, sites.data(name), "mlp", out, Recipe(epochs=8, batch_size=16), **settings)


@pytest.mark.parametrize("method", ["union", "fedol+", "fedkt"])
def test_simulated_clients_have_their_classes_alone(method: str, tmp_path: Path) -> None:
    result = fedol.run(out=tmp_path / "run", method=method, own_classes=True, iterations=1, **QUICK)
    counts = json.loads((result.out / "data.json").read_text())["samples_per_client_and_class"]
    for k, row in enumerate(counts):
        held = tuple(np.flatnonzero(row).tolist())
        model = load_model(result.out / "clients" / f"{k:02d}.safetensors")
        assert model.architecture.held == held
        if method != "fedkt":
            assert Knowledge.read(result.out / "clients" / f"{k:02d}.fedol")[0].held == held
    assert 0 <= result.summary["server"]["accuracy"] <= 1 and result.model.architecture.held == ()
    assert fedol.run(out=result.out, method=method, own_classes=True, iterations=1, **QUICK).already_finished


def test_a_client_whose_classes_are_all_there_is_no_other_client(tmp_path: Path) -> None:
    files = []
    for own in (False, True):
        settings = {**QUICK, "partition": "iid", "own_classes": own, "iterations": 1}
        out = fedol.run(out=tmp_path / str(own), **settings).out
        files.append([(out / name).read_bytes() for name in ("clients/00.fedol", "model.safetensors")])
    assert files[0] == files[1]


@pytest.mark.parametrize("method", ["fedavg", "fedavg-bn", "fedprox"])
def test_weights_cannot_be_averaged_over_other_classes(method: str) -> None:
    with pytest.raises(InputError, match=f"'{method}' averages weights, so all clients need one model, of all classes"):
        RunConfig(method=method, own_classes=True)


def test_feedback_teaches_a_client_nothing_of_other_classes() -> None:
    """In rounds after the first: the server's probabilities on its classes, as they are."""
    scheme = Scheme.of(Scenario(RunConfig(method="fedol", own_classes=True, **QUICK)))
    held = list(scheme.architecture(0).held)
    feedback = torch.rand(100, 10).softmax(1)
    lesson = Lesson(2, scheme.architecture(0).build(), feedback, torch.ones(100, dtype=torch.bool))
    homework = next(scheme.client(0, lesson))
    torch.testing.assert_close(homework.targets[:, held], feedback[:, held])
    rest = [c for c in range(10) if c not in held]
    assert len(held) == 2 and (homework.targets[:, rest] == 0).all()


@pytest.mark.parametrize("folds", [0, 2])
def test_a_site_s_names_are_enough(sites: Sites, folds: int, tmp_path: Path) -> None:
    found = fit(sites, "alice", tmp_path / "m.safetensors", folds=folds)
    assert found["held"] == ["two", "seven", "nine"] and found["accuracy"] > 0.8
    knowledge = predict_knowledge(str(tmp_path / "m.safetensors"), sites.public, sites.task, "alice")
    assert knowledge.held == (2, 7, 9) and (knowledge.log_mass is not None) == bool(folds)
    everything = fit(sites, "alice", tmp_path / "all.safetensors", folds=folds, own_classes=False)
    whole = predict_knowledge(str(tmp_path / "all.safetensors"), sites.public, sites.task, "alice")
    assert everything["held"] is None and whole.held == ()
    assert len(knowledge.encode("q7c60+zstd")) < 0.7 * len(whole.encode("q7c60+zstd"))
    assert len(knowledge.encode()) < len(whole.encode())


@pytest.mark.parametrize("folds", [0, 2])
def test_a_site_of_one_class(sites: Sites, folds: int, tmp_path: Path) -> None:
    found = fit(sites, "dave", tmp_path / "m.safetensors", folds=folds)
    knowledge = predict_knowledge(str(tmp_path / "m.safetensors"), sites.public, sites.task, "dave")
    assert found["held"] == ["seven"] and knowledge.held == (7,) and (knowledge.log_mass is not None) == bool(folds)


def test_any_model_with_names_says_which(sites: Sites, tmp_path: Path) -> None:
    with np.load(sites.data("alice")) as mine:
        x, y = mine["train_x"].reshape(-1, 64) / 255, mine["classes"][mine["train_y"]]
    model = LogisticRegression(max_iter=300).fit(x, y)
    opened = fedol.OpenSet(model).fit(x, y, sites.public.floats().reshape(200, -1))
    for name, kept in (("plain", model), ("open", opened)):
        joblib.dump(kept, tmp_path / f"{name}.joblib")
        knowledge = predict_knowledge(str(tmp_path / f"{name}.joblib"), sites.public, sites.task, "alice")
        assert knowledge.held == (2, 7, 9) and (knowledge.ratios is not None) == (name == "open")
        expected = model.predict_proba(sites.public.floats().reshape(200, -1))  # its columns: nine, seven, two
        np.testing.assert_allclose(knowledge.probabilities()[:, [9, 7, 2]], expected, atol=1e-5)
    again = Knowledge.from_log_ratios(opened.log_ratios(), sites.task, "alice", len(x), 2, opened.classes_)
    np.testing.assert_allclose(again.log_ratios(), opened.knowledge(sites.task).log_ratios(), atol=0.02)


def test_a_model_of_another_list_is_placed_by_name(sites: Sites, tmp_path: Path) -> None:
    """A model that was trained somewhere else, for classes that are all the task's; and one for others."""
    shape = Architecture.on(sites.public, "mlp", ("nine", "two"), 16)
    module = shape.build(1)
    ServerModel(module, shape).save(tmp_path / "m.safetensors")
    knowledge = predict_knowledge(str(tmp_path / "m.safetensors"), sites.public, sites.task, "alice")
    expected = ServerModel(module, shape).predict_proba(sites.public)
    assert knowledge.held == (2, 9)
    np.testing.assert_allclose(knowledge.probabilities()[:, [9, 2]], expected, atol=1e-5)
    other = replace(shape, classes=("nine", "gnu"))
    ServerModel(module, other).save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="trained for other classes than the task's"):
        predict_knowledge(str(tmp_path / "m.safetensors"), sites.public, sites.task, "alice")


def test_a_federation_of_files(sites: Sites, command: Command, tmp_path: Path) -> None:
    """By the commands: every site its own list, and a server that knows all classes."""
    train = ["--model", "mlp", "--epochs", 15, "--batch-size", 16, "--folds", 2, "--device", "cpu", "--own-classes"]
    files = []
    for name in ("alice", "bob", "carol"):
        model, file = tmp_path / f"{name}.safetensors", tmp_path / f"{name}.fedol"
        code, out, err = command(
            "client", "fit", sites.folder / "task", "--data", sites.data(name), *train, "--out", model
        )
        assert code == 0 and f"It knows the classes that you hold alone, {len(LISTS[name])} of 10: " in out, err
        code, _, err = command("client", "predict", sites.folder / "task", "--model", model, "--out", file)
        assert code == 0, err
        files.append(file)
    code, out, _ = command("inspect", files[0], "--task", sites.folder / "task")
    assert code == 0 and "3, and it says which: two, seven, nine" in out
    code, out, err = command(
        *("distill", sites.folder / "task", *files, "--method", "union", "--server-model", "mlp", "--epochs", 40),
        *("--device", "cpu", "--out", tmp_path / "run", "--json"),
    )
    assert code == 0, err
    test = load("digits").test
    model = fedol.load(tmp_path / "run")
    assert model.classes == NAMES and (model.predict(test.samples) == test.y).mean() > 0.7
    code, out, err = command(
        "client", "fit", sites.folder / "task", "--data", sites.data("alice"), "--own-classes", "--dp-epsilon", 3
    )
    assert code == 2 and "--own-classes tells exactly which classes your data have" in err


def test_an_audit_of_a_model_of_some_classes(sites: Sites, command: Command, tmp_path: Path) -> None:
    fit(sites, "bob", tmp_path / "m.safetensors")
    code, out, err = command(
        *("audit", "--task", sites.folder / "task", "--model", tmp_path / "m.safetensors", "--data"),
        *(sites.data("bob"), "--shadows", 2, "--epochs", 2, "--json"),
    )
    assert code == 0, err
    assert 0 <= json.loads(out)["clients"][0]["membership"]["likelihood ratio"]["auc"] <= 1


def test_a_node_of_flower_sends_its_own(sites: Sites, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="needs Flower")
    from fedol.federation.transports.flower_client import answer

    node: dict[str, object] = {"task": str(sites.folder / "task"), "client": "bob", "data": sites.data("bob")}
    node |= {"model": "mlp", "epochs": 2, "device": "cpu", "cache": str(tmp_path / "cache"), "own-classes": True}
    reply = answer({"task": sites.task.id, "public": sites.task.fingerprint}, node)
    assert Knowledge.decode(reply["knowledge"], sites.task)[0].held == (0, 1, 3, 4)  # type: ignore[arg-type]
