"""The audit: its figures against obvious references, and that it finds what is there to find."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import exit_code

import fedol
from fedol.errors import InputError
from fedol.federation.audit import run_audit, words
from fedol.privacy.audit import Leakage, audit, confidence, likelihood_ratio
from fedol.training import Recipe


def test_leakage_against_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    member = rng.random(3000) < 0.5
    score = rng.standard_normal(3000).round(1) + member
    found = Leakage.of(score, member)
    assert found.auc == pytest.approx(roc_auc_score(member, score))
    for rate, tpr in ((0.01, found.tpr_at_1_percent), (0.001, found.tpr_at_01_percent)):
        best = max((score[member] > t).mean() for t in score if (score[~member] > t).mean() <= rate)
        assert tpr == pytest.approx(best)


def test_confidence_is_the_logit_of_the_true_class() -> None:
    probs = torch.tensor([[0.8, 0.2], [0.5, 0.5]])
    np.testing.assert_allclose(confidence(probs.log(), np.array([0, 1])), [np.log(4), 0], atol=1e-6)


def test_the_likelihood_ratio_finds_members_that_a_threshold_cannot() -> None:
    """Images of very different difficulty: only a comparison with shadows on the same image tells."""
    rng = np.random.default_rng(0)
    difficulty = 5 * rng.standard_normal(2000)
    inside = rng.permuted(np.tile(np.arange(8) % 2 == 0, (2000, 1)), axis=1).T
    shadows = difficulty + 2 * inside + 0.3 * rng.standard_normal((8, 2000))
    member = rng.random(2000) < 0.5
    observed = difficulty + 2 * member + 0.3 * rng.standard_normal(2000)
    assert Leakage.of(observed, member).auc < 0.65
    assert Leakage.of(likelihood_ratio(observed, shadows, inside), member).auc > 0.99


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "run"
    return fedol.run(
        out=out, clients=3, partition="iid", client_models="mlp", epochs=40, method="local", device="cpu"
    ).out


def test_an_overfitted_client_leaks(trained: Path) -> None:
    found = run_audit(trained, 1, None, 4)["clients"][0]
    assert set(found["membership"]) == {"threshold", "likelihood ratio"}
    assert found["membership"]["threshold"]["auc"] > 0.5
    assert 0 <= found["label_mix"]["error"] < 0.3


def test_an_untrained_model_leaks_nothing(trained: Path) -> None:
    from fedol.config import RunConfig
    from fedol.federation.scenario import Scenario
    from fedol.model import ServerModel

    here = Scenario(RunConfig(clients=3, partition="iid", client_models=("mlp",), device="cpu"))
    model = ServerModel(here.client(0).build(5), here.client(0))
    found = audit(
        model, here.data.private.take(here.shares[0]), here.data.test, here.data.public, Recipe(1, 32), shadows=0
    )
    assert abs(found["membership"]["threshold"]["auc"] - 0.5) < 0.06


def test_the_command_speaks_to_a_data_owner(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:

    for extra in ([], ["--json"]):
        assert exit_code("audit", str(trained), "--shadows", "0", "--clients", "1", *extra) == 0
        output = capsys.readouterr().out
        if extra:
            assert json.loads(output)["clients"][0]["client"] == 0
        else:
            assert "50 % is guessing" in output and "class mix always shows" in output


def test_too_few_foreign_images_are_refused(trained: Path) -> None:
    from fedol.data import Labelled
    from fedol.data.samples import samples

    model = fedol.load(trained / "clients" / "00.safetensors")
    few = Labelled(samples(np.zeros((2, 1, 8, 8), np.uint8)), np.zeros(2, np.int64))
    with pytest.raises(InputError, match="at least 10"):
        audit(model, few, few, few.x, Recipe(1, 32))


@pytest.mark.parametrize("shadows", [1, 3, -2])
def test_shadows_that_cannot_be_halved_are_refused(trained: Path, shadows: int) -> None:
    with pytest.raises(InputError, match=f"must be 0 or an even number, not {shadows}:"):
        run_audit(trained, 1, None, shadows)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data owner's folder: the task that was sent, own data with test images apart, and a model trained too long."""
    from fedol.data import load
    from fedol.federation.client import client_fit
    from fedol.federation.taskfolder import TaskFolder
    from fedol.knowledge.task import Task

    out, digits = tmp_path_factory.mktemp("owner"), load("digits")
    task = Task.of(digits.train.x[:200], digits.classes)
    TaskFolder.create(out / "task", task, digits.train.x[:200])
    parts = {"train": slice(200, 400), "test": slice(400, 1000)}
    arrays = {f"{name}_{axis}": getattr(digits.train, axis)[part] for name, part in parts.items() for axis in "xy"}
    np.savez(out / "mine.npz", **arrays)
    client_fit(task, str(out / "mine.npz"), "cnn", out / "mine.safetensors", Recipe(60, 32), device="cpu")
    return out


def spoken(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = exit_code("audit", *arguments)
    heard = capsys.readouterr()
    return code, heard.out, " ".join(heard.err.split())


def test_a_data_owner_audits_one_model(owner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = ("--task", owner / "task", "--model", owner / "mine.safetensors", "--data", owner / "mine.npz")
    code, out, _ = spoken(capsys, *mine, "--shadows", 4, "--seed", 1, "--json")
    (client,) = json.loads(out)["clients"]
    assert client["recipe"] == asdict(Recipe(60, 32))  # as the model itself was trained: its file says so
    assert code == 0 and client["client"] == "mine" and client["samples"] == 200
    leaks = client["membership"]
    assert leaks["threshold"]["members"] == leaks["threshold"]["others"] == 200
    assert leaks["likelihood ratio"]["auc"] > leaks["threshold"]["auc"] > 0.52  # it was trained to the last image
    assert client["label_mix"]["error"] < 0.3
    code, out, _ = spoken(capsys, *mine, "--shadows", 0, "--codec", "top1")
    assert code == 0 and "Client mine, trained on 200 samples; sent as top1" in out
    assert "50 % is guessing" in out and "read that figure with care" in out and "of the same kind" not in out
    code, out, _ = spoken(capsys, *mine, "--shadows", 2, "--epochs", 3)
    said = "The attacker trained 2 models of the same kind, each on half of 400 samples, yours and others (epochs: 3)."
    assert code == 0 and said in out


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([], "does not say how it was trained; give the --epochs"),
        ([{"iteration": 3}], "does not say how it was trained; give the --epochs"),  # a server's
        ([{"recipe": {"epochs": 3, "depth": 2}}], "unknown here"),
        ([{"recipe": {"epochs": "three"}}], "unknown here"),
        ([{"recipe": 3}], "unknown here"),
        ([3], "give a FedOL model file"),
    ],
)
def test_an_audit_does_not_guess_how_a_model_was_trained(
    owner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], history: list[Any], said: str
) -> None:
    replace(fedol.load(owner / "mine.safetensors"), history=history).save(tmp_path / "other.safetensors")
    other = ("--task", owner / "task", "--model", tmp_path / "other.safetensors", "--data", owner / "mine.npz")
    code, _, err = spoken(capsys, *other, "--shadows", 2)
    assert code == 2 and said in err


def test_a_model_that_does_not_say_it_is_audited_as_told(
    owner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(fedol.load(owner / "mine.safetensors"), history=[]).save(tmp_path / "old.safetensors")
    old = ("--task", owner / "task", "--model", tmp_path / "old.safetensors", "--data", owner / "mine.npz")
    code, out, _ = spoken(capsys, *old, "--shadows", 2, "--epochs", 1, "--lr", 0.01, "--json")
    assert code == 0 and json.loads(out)["clients"][0]["recipe"] == asdict(Recipe(1, lr=0.01))
    (tmp_path / "mine.toml").write_text("epochs = 2\nlr = 0.02\nwidth = 8")
    code, out, _ = spoken(capsys, *old, "--shadows", 2, "--config", tmp_path / "mine.toml", "--lr", 0.01, "--json")
    assert code == 0 and json.loads(out)["clients"][0]["recipe"] == asdict(Recipe(2, lr=0.01))
    (tmp_path / "mine.toml").write_text("epoch = 2")
    code, _, err = spoken(capsys, *old, "--config", tmp_path / "mine.toml")
    assert code == 2 and "did you mean 'epochs'" in err
    code, out, _ = spoken(capsys, *old, "--shadows", 0, "--json")
    assert code == 0 and json.loads(out)["clients"][0]["recipe"] is None


def test_any_framework_and_any_release_can_be_audited(owner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    mine = np.load(owner / "mine.npz")
    rows = mine["train_x"].reshape(len(mine["train_x"]), -1) / 255
    joblib.dump(RandomForestClassifier(20, random_state=0).fit(rows, mine["train_y"]), owner / "forest.joblib")
    forest = ("--task", owner / "task", "--model", owner / "forest.joblib", "--data", owner / "mine.npz")
    leaks = []
    for release in ((), ("--release", "label")):
        code, out, _ = spoken(capsys, *forest, *release, "--json")
        (client,) = json.loads(out)["clients"]
        assert code == 0 and client["client"] == "forest" and set(client["membership"]) == {"threshold"}
        leaks.append(client["membership"]["threshold"]["auc"])
    assert leaks[0] > 0.9 and leaks[1] < leaks[0]  # a forest knows its images by heart; the class alone tells less
    code, _, err = spoken(capsys, *forest, "--shadows", 2)
    assert code == 2 and "--shadows 0" in err
    code, out, _ = spoken(capsys, *forest, "--release", "label")
    assert "released as label:" in out


def test_shadows_of_a_private_model_are_no_bound() -> None:
    leak = {"auc": 0.5, "tpr_at_1_percent": 0.01, "tpr_at_01_percent": 0.0, "others": 2000}
    found = {"membership": {"likelihood ratio": leak}, "label_mix": {"error": 0.1, "error_of_guessing_evenly": 0.3}}
    found |= {"recipe": asdict(Recipe()), "images": 400}
    promise = {"epsilon": 8.0, "delta": 1e-5, "covers": "any one training example"}
    assert not any("bounds every attacker" in line for line in words({**found, "shadows": 8, "privacy": None}))
    assert any("ε = 8" in line for line in words({**found, "shadows": 8, "privacy": promise}))


def test_an_audit_says_what_it_lacks(owner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = spoken(capsys, "--task", owner / "task", "--model", owner / "mine.safetensors")
    assert code == 2 and "--task, --model and --data" in err
    code, _, err = spoken(capsys, tmp_path, "--batch-size", 9, "--seed", 1)
    assert code == 2 and "--batch-size is for a model of your own" in err
    code, _, err = spoken(capsys, tmp_path, "--config", tmp_path / "mine.toml")
    assert code == 2 and "--config is for a model of your own" in err
    code, _, err = spoken(capsys, tmp_path)
    assert code != 0 and "not a finished run" in err
    for name, content in (("summary", "{}"), ("config", "[]")):
        (tmp_path / f"{name}.json").write_text(content)
    code, _, err = spoken(capsys, tmp_path)
    assert code == 2 and "config.json is damaged" in err.replace("\n", "")
    few = {key: value[:5] if key.startswith("test") else value for key, value in np.load(owner / "mine.npz").items()}
    np.savez(tmp_path / "few.npz", **few)
    mine = ("--task", owner / "task", "--model", owner / "mine.safetensors", "--data", tmp_path / "few.npz")
    code, _, err = spoken(capsys, *mine, "--shadows", 0)
    assert code == 2 and "at least 10" in err


def test_what_is_no_codec_or_release_is_said_before_shadows_are_trained(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedol.privacy.audit.fit", lambda *given: pytest.fail("trained"))
    for codec, release, said in (("flaot16", None, "no codec 'flaot16'"), (None, "nosie:1", "no release 'nosie:1'")):
        with pytest.raises(InputError, match=said):
            run_audit(trained, 1, codec, 2, release=release)
