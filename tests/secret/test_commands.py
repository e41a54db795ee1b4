"""Sums in secret by the commands: from keys to a trained server, from a folder and from Flower's nodes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command
from sklearn.linear_model import LogisticRegression

from fedol import OpenSet, TaskFolder
from fedol.data import load, partition, split
from fedol.knowledge import signing
from fedol.model import load as load_model

NAMES = ("alice", "bob", "carol", "dave")
TINY = ["--model", "mlp", "--epochs", 3, "--batch-size", 16, "--device", "cpu"]


@dataclass(frozen=True)
class Place:
    """A folder with keys, a task, every client's fitted model and its sealed file."""

    path: Path

    def __call__(self, name: str) -> Path:
        return self.path / name

    @property
    def clients(self) -> list[object]:
        keys = [(name, signing.public_key(self(f"{name}.key"))) for name in NAMES]
        return [word for name, key in keys for word in ("--client", f"{name}={key}")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    from commands import exit_code
    from joblib import dump

    place = Place(tmp_path_factory.mktemp("secret"))
    parts = split(load("digits"), 200, seed=0)
    np.savez(place("public.npz"), public=parts.public)
    np.savez(place("test.npz"), test_x=parts.test.x, test_y=parts.test.y)
    for name in NAMES:
        signing.new_key(place(f"{name}.key"))
    for helper in "AB":
        assert exit_code("keys", "new", place(f"{helper}.key"), "--helper") == 0
    task = ["task", "new", place("task"), "--public", place("public.npz"), "--classes", "0,1,2,3,4,5,6,7,8,9"]
    assert exit_code(*task, "--helpers", f"{place('A.pub')},{place('B.pub')}", *place.clients) == 0
    shared = TaskFolder.open(place("task")).public().reshape(200, -1) / 255
    for name, share in zip(NAMES, partition(parts.private.y, "dirichlet:0.3", 4, 0, 10), strict=True):
        x, y = parts.private.x[share].reshape(len(share), -1) / 255, parts.private.y[share]
        dump(OpenSet(LogisticRegression(max_iter=300)).fit(x, y, shared, classes=range(10)), place(f"{name}.joblib"))
        ask = ["client", "predict", place("task"), "--model", place(f"{name}.joblib"), "--client", name]
        assert exit_code(*ask, "--key", place(f"{name}.key"), "--out", place("inbox") / f"{name}.fedol") == 0
    return place


@pytest.fixture
def place(made: Place, tmp_path: Path) -> Place:
    """A copy of it, with ledgers of its own."""
    return Place(Path(shutil.copytree(made.path, tmp_path / "secret")))


def summing(place: Place, helper: str, clients: object, inbox: str = "inbox") -> list[object]:
    words = ["helper", "sum", place("task"), "--key", place(f"{helper}.key"), "--inbox", place(inbox)]
    return [*words, "--clients", clients, "--out", place(f"{helper}.part")]


def test_from_keys_to_a_server(place: Place, command: Command) -> None:
    code, out, err = command("helper", "list", place("task"), "--inbox", place("inbox"))
    assert (code, out.split()) == (0, list(NAMES)), err
    place("list.txt").write_text(out)
    code, out, err = command(*summing(place, "A", place("list.txt")))
    assert code == 0 and "the sum of 4 clients. It opens only with the other helper's" in out, err
    code, out, err = command(*summing(place, "B", ",".join(NAMES)), "--json")
    assert code == 0 and json.loads(out)["clients"] == list(NAMES), err
    distill = ["distill", place("task"), "--sums", place("A.part"), place("B.part"), *TINY, "--out", place("run")]
    code, out, err = command(*distill, "--test", place("test.npz"))
    assert code == 0 and "Clients were summed in secret by A and B" in out, err
    summary = json.loads(place("run/summary.json").read_text())
    assert [client["client"] for client in summary["clients"]] == list(NAMES) and summary["closed"] == "sums"
    assert summary["secret"] == {"helpers": ["A", "B"], "privacy": ""} and summary["config"]["method"] == "union"
    last = summary["history"][-1]
    assert last["familiarity"] > 0.2 and last["unsure_above"] > 0 and summary["test"]["accuracy"] > 0.5
    card = place("run/MODEL_CARD.md").read_text()
    assert "Clients were summed in secret by A and B" in card and "No client's data" in card
    page = place("run/report-share.html").read_text()
    assert "alice" not in page and place("run/report.html").exists() and not place("run/evidence.json").exists()
    assert load_model(place("run")).known(np.full((1, 10), 0.1)) is not None
    before = place("run/model.safetensors").read_bytes()
    assert command(*distill)[0] == 0 and place("run/model.safetensors").read_bytes() == before
    assert command(*summing(place, "A", "alice,bob,carol"))[0] == 2
    code, _, err = command("distill", "--resume", place("run"), place("inbox/alice.fedol"))
    assert code == 2 and "learnt from a sum, and nobody has its clients' files" in err


def test_the_same_as_in_the_open(place: Place, command: Command) -> None:
    """The server's targets: those of plain files, up to the rounding."""
    from fedol.knowledge import Knowledge
    from fedol.methods import Distillation, find
    from fedol.methods.union import summed
    from fedol.secret.opening import opened, read

    for helper in "AB":
        assert command(*summing(place, helper, ",".join(NAMES)))[0] == 0
    task = TaskFolder.open(place("task")).task
    sums = opened([read(place(f"{helper}.part"), task) for helper in "AB"], task).sums
    from joblib import load as fitted

    clients: list[Knowledge] = [fitted(place(f"{name}.joblib")).knowledge(task, name) for name in NAMES]
    plain = find("union").teacher(clients, Distillation(method="union")).targets(1, None)
    found = summed(sums).targets(1, None)
    assert plain.record["familiarity"] == pytest.approx(found.record["familiarity"], rel=1e-3)
    assert plain.strange == found.strange
    assert (plain.soft.argmax(1) == found.soft.argmax(1)).double().mean() > 0.99
    assert (plain.soft - found.soft).abs().mean() < 1e-3


def test_a_server_that_only_collects(place: Place, command: Command) -> None:
    serve = ["serve", place("task"), "--inbox", place("inbox"), "--quorum", 3, *TINY, "--out", place("run")]
    (place("inbox") / "eve.fedol").write_bytes(b"junk" * 100)
    code, out, err = command(*serve)
    assert code == 0 and "sealed files are in" in out and "fedol distill TASK --sums A.part B.part" in out, err
    kept = sorted(path.name for path in place("run/clients").iterdir())
    assert kept == [f"{name}.fedol" for name in NAMES] and not place("run/model.safetensors").exists()
    code, out, err = command(*serve, "--json")
    assert code == 0 and json.loads(out)["clients"] == list(NAMES), err
    code, out, err = command(*summing(place, "A", "alice,bob,carol", "run/clients"))
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["distill", "{task}", "{inbox}/alice.fedol", "--out", "{out}"], "files are sealed, and only sums of them"),
        (["distill", "{task}", "--sums", "{a}", "{a}", "--out", "{out}"], "Both sums are by the helper 'A'"),
        (["distill", "{task}", "{a}", "--sums", "{a}", "{b}", "--out", "{out}"], "and nothing else"),
        (["distill", "{task}", "--sums", "{a}", "{b}", "--out", "{out}", "--method", "pooled"], "of sums|method union"),
        (["distill", "{task}", "--sums", "{a}", "{b}", "--out", "{out}", "--defence", "trust"], "leave --defence out"),
        (["distill", "{task}", "--sums", "{a}", "{inbox}/bob.fedol", "--out", "{out}"], "it is no helper's sum"),
        (["distill", "{task}", "--sums", "{a}", "{out}/none", "--out", "{out}"], "cannot be read"),
        (["helper", "sum", "{task}", "--key", "{out}", "--inbox", "{inbox}", "--clients", "a", "--out", "x"], "no key"),
        (["helper", "list", "{task}", "--inbox", "{out}"], "There is no folder"),
    ],
)
def test_what_the_commands_refuse(place: Place, command: Command, words: list[str], why: str) -> None:
    for helper in "AB":
        assert command(*summing(place, helper, ",".join(NAMES)))[0] == 0
    names = {"task": "task", "inbox": "inbox", "a": "A.part", "b": "B.part", "out": "none"}
    said = [word.format(**{name: place(file) for name, file in names.items()}) for word in words]
    code, _, err = command(*said)
    assert code == 2 and any(part in err for part in why.split("|")), err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--helpers", "A.pub"], "needs two helpers, but 1 are given"),
        (["--helpers", "A.pub,A.pub"], "Two helpers' files have the same name"),
        (["--helpers", "A.pub,alice.key"], "is no helper's public key"),
        (["--helpers", "A.pub,none.pub"], "cannot be read"),
        (["--bits", "16"], "are about sums in secret; give --helpers"),
        (["--helpers", "A.pub,B.pub", "--bits", "12"], "--bits must be one of 16, 24, 32"),
        (["--helpers", "A.pub,B.pub", "--cap", "0"], "--cap must be a positive number"),
        (["--helpers", "A.pub,B.pub", "--dp-delta", "1e-5"], "alone make nothing private; give --dp-epsilon"),
    ],
)
def test_task_new_refuses(
    place: Place, command: Command, monkeypatch: pytest.MonkeyPatch, options: list[str], why: str
) -> None:
    monkeypatch.chdir(place.path)
    new = ["task", "new", "t", "--public", "public.npz", "--classes", "0,1,2,3,4,5,6,7,8,9", *place.clients]
    code, _, err = command(*new, *options)
    assert code == 2 and why in err and not place("t").exists()


def test_a_task_with_noise_says_what_it_promises(place: Place, command: Command) -> None:
    pytest.importorskip("opacus", reason="accounting needs the package opacus")
    new = ["task", "new", place("t"), "--public", place("public.npz"), "--classes", "0,1,2,3,4,5,6,7,8,9"]
    helpers = ["--helpers", f"{place('A.pub')},{place('B.pub')}", "--bits", 32]
    code, _, err = command(*new, *helpers, *place.clients, "--dp-epsilon", 50, "--dp-delta", 1e-4, "--dp-norm", 3)
    assert code == 0, err
    shutil.rmtree(place("task"))
    place("t").rename(place("task"))
    for name in NAMES:
        ask = ["client", "predict", place("task"), "--model", place(f"{name}.joblib"), "--client", name]
        code, _, err = command(*ask, "--key", place(f"{name}.key"), "--out", place("inbox") / f"{name}.fedol")
        assert code == 0, err
    for helper in "AB":
        assert command(*summing(place, helper, ",".join(NAMES)))[0] == 0
    sums = ["--sums", place("A.part"), place("B.part")]
    code, out, err = command("distill", place("task"), *sums, *TINY, "--out", place("run"))
    assert code == 0 and "Differential privacy of the sum: ε = 50, δ = 0.0001" in out.replace("\n", " "), err
    assert json.loads(place("run/summary.json").read_text())["secret"]["privacy"].startswith("ε = 50, δ = 0.0001")
    assert "ε = 50, δ = 0.0001" in place("run/MODEL_CARD.md").read_text()


def test_inspect_and_predict(place: Place, command: Command) -> None:
    file = place("inbox/alice.fedol")
    code, out, _ = command("inspect", file, "--task", place("task"))
    assert code == 0 and "Sealed: its predictions and masses show to nobody" in out and "yes" in out
    found = json.loads(command("inspect", file, "--json").out)
    assert found["client"] == "alice" and found["bytes"] == file.stat().st_size and found["fits"] is None
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    code, out, _ = command("inspect", file, "--task", place("task"))
    assert code == 2 and "not those that were signed" in out.replace("\n", " ")
    ask = ["client", "predict", place("task"), "--model", place("alice.joblib"), "--client", "alice"]
    code, _, err = command(*ask, "--out", place("x.fedol"))
    assert code == 2 and "sign it with that key" in err
    code, _, err = command(*ask, "--key", place("alice.key"), "--release", "label", "--out", place("x.fedol"))
    assert code == 2 and "The task sums masses, but alice has none" in err


@pytest.mark.usefixtures("free_to_send")
def test_a_node_of_flower_seals(place: Place) -> None:
    pytest.importorskip("flwr", reason="needs Flower")
    from fedol.federation.roster import Roster
    from fedol.federation.transports.flower_client import answer

    task = TaskFolder.open(place("task")).task
    node: dict[str, Any] = {"task": str(place("task")), "client": "bob", "key": str(place("bob.key"))}
    ready = {"model": str(place("bob.joblib")), "cache": str(place("cache"))}
    question = {"task": task.id, "public": task.fingerprint}
    reply = answer(question, {**node, **ready})
    assert Roster(0.0).take(reply["knowledge"], "node 1", task, place("in"), "bob").clients  # type: ignore[arg-type]
    assert answer(question, {**node, **ready}) == reply  # from its cache: no second file of the same client
    given = answer(question, {**node, "knowledge": str(place("inbox/bob.fedol"))})
    assert given["knowledge"] == place("inbox/bob.fedol").read_bytes()
    place("bad.fedol").write_bytes(b"junk")
    assert "bad.fedol is refused" in str(answer(question, {**node, "knowledge": str(place("bad.fedol"))})["error"])


@pytest.mark.usefixtures("free_to_send")
def test_a_flower_server_collects_what_its_nodes_seal(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The real apps over a grid in this process; then the helpers and the sums, from the server's copies."""
    pytest.importorskip("flwr", reason="needs Flower")
    from local_grid import LocalGrid

    from fedol.cli.serverapp import federate
    from fedol.federation.transports.flower_client import app
    from fedol.secret.helper import held

    shared = {"task": str(place("task")), "cache": str(place("cache"))}
    nodes = {
        number: {"client": name, "model": str(place(f"{name}.joblib")), "key": str(place(f"{name}.key")), **shared}
        for number, name in enumerate(NAMES, 100)
    }
    nodes[103]["key"] = str(place("alice.key"))  # dave signs with the wrong one
    config = {"task": str(place("task")), "out": str(place("run")), "quorum": 3, "deadline": "60s"}
    found = federate(LocalGrid(app, nodes), {**config, "server-model": "mlp", "device": "cpu"})
    assert found["clients"] == ["alice", "bob", "carol"]
    assert "sealed files are in" in capsys.readouterr().out
    there, wrong = held(TaskFolder.open(place("task")).task, place("run/clients"))
    assert sorted(there) == ["alice", "bob", "carol"] and not wrong
