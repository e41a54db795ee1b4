"""Differential privacy: what is promised, where it is written, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import exit_code
from torch import nn

import fedol
from fedol.data import load
from fedol.errors import InputError
from fedol.federation.client import client_fit
from fedol.federation.predictors import predict_knowledge
from fedol.knowledge.header import Guarantee
from fedol.knowledge.task import Task
from fedol.training import Recipe

pytest.importorskip("opacus", reason="private training needs the package opacus")
from fedol.privacy.training import Budget

DIGITS = load("digits")
PUBLIC = DIGITS.train.x[:40]
TASK = Task.of(PUBLIC, DIGITS.classes)


@pytest.fixture
def data(tmp_path: Path) -> str:
    np.savez(
        tmp_path / "mine.npz",
        train_x=DIGITS.train.x[100:200, 0],
        train_y=DIGITS.train.y[100:200],
        test_x=DIGITS.test.x[:50, 0],
        test_y=DIGITS.test.y[:50],
    )
    return str(tmp_path / "mine.npz")


def test_the_promise_goes_from_training_into_the_signed_header(data: str, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    result = client_fit(TASK, data, "cnn", out, Recipe(2, 32), width=4, device="cpu", budget=Budget(8.0, 1e-3))
    assert 0 < result["privacy"]["epsilon"] <= 8.0 and result["privacy"]["delta"] == 1e-3
    assert not any(isinstance(m, nn.BatchNorm2d) for m in fedol.load(out).module.modules())
    knowledge = predict_knowledge(str(out), PUBLIC, TASK, "alice")
    assert knowledge.privacy is not None and "training example" in knowledge.privacy.covers
    again, header = fedol.Knowledge.decode(knowledge.encode(), TASK)
    assert again.privacy == header.privacy == knowledge.privacy
    other = replace(header, privacy=Guarantee(0.1, 0.0, "everything"))
    assert other.message(b"") != header.message(b"")  # the signature covers it


def test_without_a_promise_the_header_is_as_before() -> None:
    knowledge = fedol.Knowledge.from_probabilities(np.full((40, 10), 0.1), TASK)
    header = fedol.Knowledge.decode(knowledge.encode(), TASK)[1]
    assert header.privacy is None and "privacy" not in header.as_json()


@pytest.mark.parametrize(
    "promise",
    [7, {}, {"epsilon": 1, "delta": 0}, {"epsilon": "1", "delta": 0, "covers": ""}]
    + [
        {"epsilon": e, "delta": d, "covers": c}
        for e, d, c in ((0, 0, ""), (1, 1, ""), (1, 0, "x" * 400), (1e400, 0, ""))
    ],
)
def test_a_stranger_s_nonsense_is_refused(promise: object) -> None:
    with pytest.raises(InputError, match="its header promises privacy"):
        Guarantee.from_json(promise)


def test_a_model_that_cannot_be_private_is_refused_with_the_reason(data: str, tmp_path: Path) -> None:
    def normed(classes: int, shape: tuple[int, int, int]) -> nn.Module:
        return nn.Sequential(nn.BatchNorm2d(shape[0]), nn.Flatten(), nn.Linear(64, classes))

    with pytest.raises(InputError, match=r"^[^.]*privately: [^.]*BatchNorm[^.]*nn\.GroupNorm[^.]*\.$"):
        client_fit(TASK, data, normed, tmp_path / "m", Recipe(1, 32), device="cpu", budget=Budget(8.0))


def test_a_budget_that_is_none_is_refused(data: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dp-epsilon"):
        Budget(0.0)
    with pytest.raises(InputError, match="no protection"):
        client_fit(TASK, data, "mlp", tmp_path / "m", Recipe(1, 32), device="cpu", budget=Budget(1.0, 0.5))


def test_a_budget_that_no_noise_reaches_is_refused(data: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dp-epsilon 0\.0001 with --dp-delta 0\.001 .*too low\); allow a larger"):
        client_fit(TASK, data, "mlp", tmp_path / "m", Recipe(1, 32), device="cpu", budget=Budget(1e-4, 1e-3))


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(1, 32, augment=True),
        Recipe(1, 32, grow=0.5),
        Recipe(1, 32, schedule="cosine"),
        Recipe(1, 32, optimiser="sgd"),
    ],
)
def test_what_a_private_training_does_not_do_is_refused(recipe: Recipe, data: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither augmentation nor schedule"):
        client_fit(TASK, data, "mlp", tmp_path / "m", recipe, device="cpu", budget=Budget(8.0))


def test_a_smaller_budget_means_more_noise(data: str, tmp_path: Path) -> None:
    losses = [
        client_fit(
            TASK, data, "mlp", tmp_path / "m", Recipe(6, 32, 1e-2), width=4, device="cpu", budget=Budget(e, 1e-3)
        )["loss"]
        for e in (50.0, 0.2)
    ]
    assert losses[0] < losses[1]


def test_the_command(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fedol.federation.taskfolder import TaskFolder

    TaskFolder.create(tmp_path / "task", TASK, PUBLIC)
    budget = "--dp-epsilon 4 --dp-delta 0.001 --device cpu"
    fit = f"client fit {tmp_path}/task --data {data} --model mlp --width 4 --epochs 1 {budget}"
    commands = [
        f"{fit} --out {tmp_path}/m.safetensors --json",
        f"client predict {tmp_path}/task --model {tmp_path}/m.safetensors --out {tmp_path}/a.fedol",
        f"inspect {tmp_path}/a.fedol --json",
        f"distill {tmp_path}/task {tmp_path}/a.fedol --model mlp --iterations 1 --epochs 1 --out {tmp_path}/run",
    ]
    shown = []
    for command in commands:
        capsys.readouterr()
        assert exit_code(*command.split()) == 0
        shown.append(capsys.readouterr().out)
    assert 0 < json.loads(shown[2])["privacy"]["epsilon"] <= 4
    reports = [(tmp_path / "run" / name).read_text() for name in ("MODEL_CARD.md", "report.html")]
    for told in (shown[1], shown[3], *reports):
        assert "adding or removing any one training example" in " ".join(told.split())


def test_delta_alone_is_no_privacy(data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"client fit {tmp_path} --data {data} --dp-delta 0.001 --out {tmp_path}/m.safetensors"
    assert exit_code(*words.split()) == 2 and "give --dp-epsilon too" in capsys.readouterr().err


def test_a_private_training_that_was_stopped_starts_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedol.federation.taskfolder.TaskFolder.open", stopped)
    for option, told in (("--epochs=3", "continues"), ("--dp-epsilon=3", "starts again")):
        code = exit_code("client", "fit", "task", "--data=mine.npz", option)
        assert code == 130 and told in capsys.readouterr().err


def test_the_noise_is_not_from_the_run_s_seed(data: str, tmp_path: Path) -> None:
    models = []
    for name in ("a", "b"):
        client_fit(
            TASK, data, "mlp", tmp_path / name, Recipe(1, 32), width=4, seed=0, device="cpu", budget=Budget(1.0, 1e-3)
        )
        models.append(fedol.load(tmp_path / name).module.state_dict())
    assert not all(torch.equal(models[0][key], models[1][key]) for key in models[0])
