"""``fedol.run``: the whole federation, what decides its result, and what must not."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from observing import Seen
from torch import nn

import fedol
from fedol.data import Dataset, Labelled, load, split
from fedol.data.dataset import Split
from fedol.data.samples import samples
from fedol.errors import FedolError
from fedol.knowledge import Knowledge
from fedol.report.result import RunResult
from fedol.runs.folder import read_kept
from fedol.runs.provenance import commit, versions

SMALL: dict[str, Any] = {"epochs": 8, "iterations": 4, "device": "cpu"}  # the quick job, shortened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return fedol.run(out=tmp_path_factory.mktemp("small") / "run", **SMALL)


def test_the_server_beats_every_client(small: RunResult) -> None:
    accuracies = [client["accuracy"] for client in small.summary["clients"]]
    assert len(accuracies) == 10
    assert small.summary["server"]["accuracy"] > max(accuracies)
    assert small.summary["server"]["parameters"] > max(client["parameters"] for client in small.summary["clients"])


def test_the_summary_says_what_happened(small: RunResult) -> None:
    summary = small.summary
    assert summary == json.loads((small.out / "summary.json").read_text())
    accuracies = [client["accuracy"] for client in summary["clients"]]
    assert summary["local"]["mean"] == pytest.approx(np.mean(accuracies))
    assert summary["local"]["std"] == pytest.approx(np.std(accuracies, ddof=1))
    sizes = [(small.out / "clients" / f"{k:02d}.fedol").stat().st_size for k in range(len(accuracies))]
    assert summary["upload_bytes_per_client"] == pytest.approx(np.mean(sizes))
    assert sum(client["samples"] for client in summary["clients"]) == 1438 - 400
    assert {client["model"] for client in summary["clients"][::2]} == {"mlp"}
    assert {client["model"] for client in summary["clients"][1::2]} == {"cnn"}
    assert not summary["resumed"]
    assert not small.already_finished


@pytest.mark.parametrize("method", ["fedkt", "feddf", "fedavg", "local"])
def test_as_many_epochs_of_clients_are_announced_as_there_are(
    method: str, tiny: dict[str, Any], tmp_path: Path
) -> None:
    fedol.run(out=tmp_path / "run", observer=(seen := Seen()), **{**tiny, "method": method, "epochs": 2})
    assert dict(seen.stages)["clients"] == sum(name.startswith("client") for name in seen.jobs) > 0


def test_the_numbers_are_those_of_the_stored_models(small: RunResult) -> None:
    test = load("digits").test
    mixture = fedol.Mixture()
    for client in small.summary["clients"]:
        model = fedol.load(small.out / "clients" / f"{client['client']:02d}.safetensors")
        assert (model.predict(test.x) == test.y).mean() == client["accuracy"]
        mixture.add(torch.from_numpy(model.predict_proba(test.x)))
    assert (mixture.mean().argmax(1).numpy() == test.y).mean() == small.summary["ensemble"]["accuracy"]
    assert (small.model.predict(test.x) == test.y).mean() == small.summary["server"]["accuracy"]


def test_history_and_its_diagnostics(small: RunResult) -> None:
    history = small.summary["history"]
    assert [record["iteration"] for record in history] == [1, 2, 3, 4]
    for record in history:
        assert set(record) == {"iteration", "rho", "coverage", "voters", "score", "loss", "prior", "diagnostics"}
        assert set(record["diagnostics"]) == {"test_accuracy", "pseudo_label_accuracy"}  # what needed labels, apart
        assert 0 <= record["diagnostics"]["pseudo_label_accuracy"] <= 1
    assert [record["rho"] for record in history] == [0.1, 0.15, 0.2, 0.25]
    assert history[-1]["diagnostics"]["test_accuracy"] == small.summary["server"]["accuracy"]
    assert all("diagnostics" not in record for record in small.model.history)  # the model never heard of labels


def test_the_stored_votes_are_algorithm_1_on_the_uploads(small: RunResult) -> None:
    probs = torch.stack([Knowledge.load(path).probabilities() for path in sorted(small.out.glob("clients/*.fedol"))])
    assert probs.shape == (10, 400, 10)
    votes = read_kept(small.out / "server" / "01.votes.safetensors")
    expected = fedol.pseudo_labels(probs, 0.1)
    assert torch.equal(votes["labels"], expected.labels)
    assert torch.equal(votes["voters"], expected.voters)
    truth = split(load("digits"), 400, 0).public_labels
    right = (expected.labels.numpy() == truth)[expected.labels.numpy() >= 0].mean()
    assert small.summary["history"][0]["diagnostics"]["pseudo_label_accuracy"] == pytest.approx(right)


def test_the_commit_is_that_of_the_code_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    commit.cache_clear()
    before = commit()
    assert before or not (Path(__file__).parents[2] / ".git").exists()
    monkeypatch.setattr("fedol.runs.provenance._git", lambda *arguments: "another")
    assert commit() == before


def test_a_version_names_the_build_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "9.9+cu999")
    assert versions("numpy")["torch"] == "9.9+cu999"


def test_provenance(small: RunResult) -> None:
    provenance = small.summary["provenance"]
    assert set(provenance) == {"command", "commit", "code", "versions", "machine", "device", "seed", "date"}
    assert provenance["versions"]["torch"] == torch.__version__
    assert (provenance["seed"], provenance["device"]) == (0, "cpu")


def server(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


def test_the_seed_decides_everything(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    assert server(fedol.run(out=tmp_path / "same", **tiny).out) == server(finished)
    assert server(fedol.run(out=tmp_path / "other", **{**tiny, "seed": 1}).out) != server(finished)


def test_withheld_labels_and_the_test_set_reach_no_training(
    finished: Path, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(data: Dataset, public: int, seed: int, development: int = 0) -> Split:
        honest = split(data, public, seed, development)
        test = Labelled(samples(255 - honest.test.x), 9 - honest.test.y)
        return dataclasses.replace(honest, public_labels=9 - honest.public_labels, test=test)

    monkeypatch.setattr("fedol.federation.scenario.split", poisoned)
    result = fedol.run(out=tmp_path / "run", **tiny)
    assert server(result.out) == server(finished)
    for client in ("00.fedol", "01.fedol"):
        assert (result.out / "clients" / client).read_bytes() == (finished / "clients" / client).read_bytes()
    honest = json.loads((finished / "summary.json").read_text())
    assert result.summary["history"] != honest["history"]  # the diagnostics did notice: the poison was there


class Client(nn.Module):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(x)
        return logits


class Server(Client):
    pass


def test_models_and_data_of_ones_own(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=300)
    x = (rng.random((300, 10, 12, 3)) * 0.5 + y[:, None, None, None] * 0.2).clip(0, 1)  # floats, channels last
    data = Dataset.from_arrays(x[:250], y[:250], x[250:], y[250:], classes=("a", "b", "c"), name="mine")
    settings = {**tiny, "client_models": (Client, "mlp"), "server_model": Server, "epochs": 10}
    result = fedol.run(dataset=data, **settings)
    assert result.out.parent == Path("runs")
    assert [client["model"] for client in result.summary["clients"]] == ["Client", "mlp"]
    assert isinstance(fedol.load(result.out).module, Server)
    assert result.summary["server"]["accuracy"] > 0.6
    assert result.model.predict(data.test.x).shape == (50,)
    assert fedol.run(dataset=data, **settings).already_finished  # found again by its configuration


def test_other_data_of_the_same_name_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    def save(seed: int) -> None:
        rng = np.random.default_rng(seed)
        x, y = rng.integers(0, 256, size=(200, 6, 6), dtype=np.uint8), rng.integers(0, 2, size=200)
        np.savez(tmp_path / "data.npz", train_x=x, train_y=y, test_x=x[:20], test_y=y[:20])

    save(0)
    settings = {**tiny, "dataset": str(tmp_path / "data.npz")}
    fedol.run(out=tmp_path / "run", **settings)
    save(1)
    with pytest.raises(FedolError, match="holds a run on other data"):
        fedol.run(out=tmp_path / "run", **settings)


def test_a_config_object_and_changes_to_it(tiny: dict[str, Any], tmp_path: Path) -> None:
    config = fedol.RunConfig(**tiny)
    result = fedol.run(config, out=tmp_path / "run", iterations=1, dataset="digits")
    assert result.summary["config"] == {**config.as_json(), "iterations": 1}


def test_progress_is_told(tiny: dict[str, Any], tmp_path: Path) -> None:
    fedol.run(out=tmp_path / "run", observer=(first := Seen()), **tiny)
    assert first.stages == [("clients", 2), ("server", 2)] and first.folders == [tmp_path / "run"]
    assert sorted(first.jobs) == ["client 0", "client 1", "server 1/2", "server 2/2"]
    for made in ("summary.json", "server/02.safetensors"):
        (tmp_path / "run" / made).unlink()
    fedol.run(out=tmp_path / "run", observer=(second := Seen()), **tiny)
    assert second.stages == [("clients", 0), ("server", 1)]  # what is left, by which the time left is reckoned
