"""The Flower apps on an in-process grid: the same bytes and the same server as a folder of files."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from small_federation import Federation, hostile

from fedol.config import ServerConfig
from fedol.data import load, split
from fedol.errors import FedolError, InputError
from fedol.federation.coordinator import Coordinator
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports.flower_client import Node

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")

from flwr.app import Error, Message
from local_grid import LocalGrid

from fedol.cli.serverapp import federate
from fedol.federation.transports.flower_client import answer, app
from fedol.federation.transports.flower_inbox import pack

pytestmark = pytest.mark.usefixtures("free_to_send")

TINY = {"server-model": "mlp", "iterations": 2, "epochs": 3, "batch-size": 16, "device": "cpu"}


@pytest.fixture
def nodes(federation: Federation, tmp_path: Path) -> dict[int, dict[str, Any]]:
    """Four nodes that have their knowledge files already."""
    return {
        100 + number: {"task": str(federation.task_dir), "client": name, "knowledge": str(federation.file(name))}
        for number, name in enumerate(("alice", "bob", "carol", "dave"))
    }


def config(federation: Federation, out: Path, **settings: object) -> dict[str, Any]:
    wanted = {"deadline": "40s"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return {**TINY, "task": str(federation.task_dir), "out": str(out), **wanted}


def refusals(summary: dict[str, Any]) -> dict[str, str]:
    return {entry["file"]: entry["reason"] for entry in summary["refused"]}


def test_same_server_as_from_files(federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path) -> None:
    summary = federate(LocalGrid(app, nodes), config(federation, tmp_path / "net", quorum=4))
    names = ["alice", "bob", "carol", "dave"]
    assert [client["client"] for client in summary["clients"]] == names
    assert summary["refused"] == [] and summary["closed"] == "quorum"
    settings = {key.replace("-", "_"): value for key, value in TINY.items()}
    files = Coordinator(
        TaskFolder.open(federation.task_dir), ServerConfig(federation.task.id, **settings), tmp_path / "files"
    )
    files.collect([federation.file(name) for name in names])
    files.run()
    for file in ("model.safetensors", *(f"clients/{name}.fedol" for name in names)):
        assert (tmp_path / "net" / file).read_bytes() == (tmp_path / "files" / file).read_bytes()


def test_nodes_that_fail_hang_or_vanish_cost_only_themselves(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    grid, hang = LocalGrid(app, {**nodes, 104: {"client": "erin"}, 105: {"client": "frank"}}), threading.Event()

    def vanished(message: Message) -> Message:
        grid.offline.add(101)
        reply = Message(Error(5, "Node Unavailable"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = 100  # as measured: such a reply names another node
        return reply

    def hangs(message: Message) -> None:
        hang.wait(60)

    def raises(message: Message) -> Message:
        raise ZeroDivisionError("division by zero")

    def garbage(message: Message) -> Message:
        return Message(pack({"client": "erin", "knowledge": b"\0" * 40}), reply_to=message)

    def nothing(message: Message) -> Message:
        return Message(pack({"note": "hello"}), reply_to=message)

    grid.fate = {101: vanished, 102: hangs, 103: raises, 104: garbage, 105: nothing}
    try:
        summary = federate(grid, config(federation, tmp_path / "run", deadline="3s"))
    finally:
        hang.set()
    assert [client["client"] for client in summary["clients"]] == ["alice"] and summary["closed"] == "deadline"
    reasons = refusals(summary)
    assert "Node Unavailable (code 5)" in reasons["bob (node 101)"]
    assert reasons["carol (node 102)"] == "no answer so far"
    assert "division by zero" in reasons["dave (node 103)"]
    assert "no JSON" in reasons["erin (node 104)"]
    assert reasons["frank (node 105)"] == "its answer holds no knowledge"
    seen = json.loads((tmp_path / "run" / "nodes.json").read_text())
    assert len(seen["connected"]) == 5 and seen["training"] == ["carol (node 102)"]
    assert (seen["done"], seen["refused"]) == (1, 4)
    assert seen["bytes"] == federation.file("alice").stat().st_size + 40


def test_who_is_expected_and_never_connects_is_missed_by_name(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    del nodes[103]
    expected = config(federation, tmp_path / "run", quorum=3, clients="alice bob carol dave")
    assert refusals(federate(LocalGrid(app, nodes), expected)) == {"dave": "the node has not connected"}


def test_the_log_tells_who_is_where(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    federate(LocalGrid(app, nodes), config(federation, tmp_path / "run", quorum=4))
    said = capsys.readouterr().out
    assert "in: alice (alice (node 100)" in said
    assert "nodes: 4 connected, 0 training, 4 done, 0 refused" in said


def test_a_node_speaks_only_for_its_registered_client(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """And what it says goes to the terminal as plain text."""
    nodes[101] |= {"knowledge": nodes[103]["knowledge"]}  # bob sends dave's file
    del nodes[103]
    grid = LocalGrid(app, nodes)
    grid.fate[102] = lambda message: Message(pack({"client": "carol", "error": "\x1b[2Jno\ndata"}), reply_to=message)
    summary = federate(grid, config(federation, tmp_path / "run", deadline="2s"))
    assert [client["client"] for client in summary["clients"]] == ["alice"]
    assert refusals(summary) == {
        "bob (node 101)": "its sender is known as 'bob', but it is in the name of 'dave'",
        "carol (node 102)": r"\x1b[2Jno data",
    }


def test_hostile_answers_are_refused_and_the_others_go_on(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """The same bytes that a stranger can put into an inbox; none of them stops the server, nor its restart."""
    sent = dict(enumerate(hostile(federation).values(), start=200))
    grid = LocalGrid(app, {100: nodes[100], **{number: {} for number in sent}})
    for number, data in sent.items():
        values: dict[str, Any] = {"knowledge": data, "client": "\x1b[2Jeve"}
        grid.fate[number] = lambda message, values=values: Message(pack(values), reply_to=message)
    settings = config(federation, tmp_path / "run", deadline="3s")
    summary = federate(grid, settings)
    assert [client["client"] for client in summary["clients"]] == ["alice", "eve"]
    refused = refusals(summary)
    assert len(refused) == len(sent) - 1  # but for eve's, whose note is strange and whose file is sound
    for name, reason in refused.items():
        assert name.isprintable() and reason.isprintable() and 0 < len(reason) <= 300, (name, reason)
    assert federate(LocalGrid(app, {}), settings) == summary


def test_a_node_that_comes_back_is_asked_again(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    """It vanished while it trained, was reported lost, and reappears: no other node is asked twice."""
    grid = LocalGrid(app, {node: nodes[node] for node in (100, 101)})

    def lost(message: Message) -> Message:
        grid.offline.add(101)
        del grid.fate[101]
        threading.Timer(1.0, grid.offline.clear).start()
        return Message(Error(5, "Node Unavailable"), reply_to=message)

    grid.fate = {101: lost}
    summary = federate(grid, config(federation, tmp_path / "run", quorum=2))
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob"]
    assert sorted(grid.asked) == [100, 101, 101]
    assert summary["refused"] == []


def test_a_wrong_public_set_is_that_nodes_error(
    federation: Federation, nodes: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    other = TaskFolder.create(tmp_path / "other", federation.task, federation.public[::-1].copy())
    nodes[101] = {**nodes[101], "task": str(other.path)}
    nodes[102] = {**nodes[102], "task": str(tmp_path / "nowhere")}
    summary = federate(LocalGrid(app, nodes), config(federation, tmp_path / "run", quorum=2))
    assert {client["client"] for client in summary["clients"]} <= {"alice", "dave"}
    reply = answer({"task": federation.task.id, "public": federation.task.fingerprint}, nodes[101])
    assert "are not the task's, or not in its order" in str(reply["error"]) and "knowledge" not in reply
    reply = answer({"task": federation.task.id, "public": "0" * 64}, nodes[100])
    assert "are not the server's" in str(reply["error"])
    reply = answer({"task": "f" * 16, "public": federation.task.fingerprint}, nodes[100])
    assert "the server asks for ffff" in str(reply["error"])


@pytest.fixture
def data(federation: Federation, tmp_path: Path) -> Path:
    private, test = split(load("digits"), 80, seed=0).private, load("digits").test
    np.savez(
        tmp_path / "mine.npz", train_x=private.x[:200], train_y=private.y[:200], test_x=test.x[:50], test_y=test.y[:50]
    )
    return tmp_path / "mine.npz"


def test_trained_once_then_answered_from_disk(
    federation: Federation, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fedol.federation.transports.flower_client as module

    trained = []
    fit = module.client_fit
    monkeypatch.setattr(module, "client_fit", lambda *given, **named: trained.append(given[1]) or fit(*given, **named))
    node = {"task": str(federation.task_dir), "client": "alice", "data": str(data), "model": "mlp", "epochs": 2}
    node |= {"batch-size": 32, "device": "cpu", "cache": str(tmp_path / "cache")}
    for run in ("one", "two"):  # the second is what a restarted SuperLink asks for
        summary = federate(LocalGrid(app, {1: node}), config(federation, tmp_path / run, quorum=1))
        assert [client["client"] for client in summary["clients"]] == ["alice"]
    assert len(trained) == 1
    one, two = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("one", "two"))
    assert one == two
    question = {"task": federation.task.id, "public": federation.task.fingerprint}
    assert "There is no codec 'flaot16'" in str(answer(question, {**node, "epochs": 3, "codec": "flaot16"})["error"])
    assert len(trained) == 1  # which is said before it trains for that
    assert "knowledge" in answer(question, {**node, "epochs": 3}) and len(trained) == 2  # other settings: trained again
    stored = dict(np.load(data))
    np.savez(data, **{**stored, "train_y": (stored["train_y"] + 1) % 10})
    assert "knowledge" in answer(question, node) and len(trained) == 3  # other data under the same name: likewise


def test_models_of_other_kinds(
    federation: Federation, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = np.load(data)
    model = LogisticRegression(max_iter=200).fit(stored["train_x"].reshape(200, -1) / 255, stored["train_y"])
    joblib.dump(model, tmp_path / "model.joblib")
    (tmp_path / "mine.py").write_text("import numpy\ndef load(): return lambda x: numpy.full((len(x), 10), 0.1)\n")
    question = {"task": federation.task.id, "public": federation.task.fingerprint}
    base = {"task": str(federation.task_dir), "cache": str(tmp_path / "cache"), "device": "cpu"}
    for name, spec in (("joblib", str(tmp_path / "model.joblib")), ("python", f"{tmp_path / 'mine.py'}:load")):
        assert "knowledge" in answer(question, {**base, "client": name, "model": spec})
    names = {**base, "client": "ours", "data": str(data), "model": "fedol.models.nets:mlp", "epochs": 1}
    assert "knowledge" in answer(question, names)
    (tmp_path / "source.py").write_text(
        f"import numpy\ndef images():\n    with numpy.load({str(data)!r}) as f:\n"
        "        return [f[name] for name in ('train_x', 'train_y', 'test_x', 'test_y')]\n"
        "def three(): return 1, 2, 3\n"
    )
    same = answer(question, {**names, "data": f"{tmp_path / 'source.py'}:images"})
    assert same["knowledge"] == answer(question, names)["knowledge"]
    wrong = answer(question, {**names, "data": f"{tmp_path / 'source.py'}:three"})
    assert "must give a fedol.data.Dataset or four arrays" in str(wrong["error"])
    monkeypatch.setenv("HOME", str(tmp_path))
    for spec in ("~/model.joblib", "~/mine.py:load"):
        assert "knowledge" in answer(question, {**base, "client": "home", "model": spec})
    assert same["knowledge"] == answer(question, {**names, "data": "~/source.py:images"})["knowledge"]
    broken = answer(question, {**base, "client": "broken", "model": str(tmp_path / "no.onnx")})
    assert "There is no model file" in str(broken["error"])


def test_a_node_that_was_killed_goes_on_with_its_training(
    federation: Federation, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fedol.federation.client as module

    node = {"task": str(federation.task_dir), "client": "alice", "data": str(data), "model": "mlp", "epochs": 6}
    node |= {"batch-size": 32, "device": "cpu"}
    question = {"task": federation.task.id, "public": federation.task.fingerprint}
    straight = answer(question, {**node, "cache": str(tmp_path / "straight")})
    begun, fit = [], module.fit

    def killed(jobs: list[Any], *rest: Any) -> Any:
        (job,) = jobs
        begun.append(len(job.resume.losses) if job.resume else 0)

        def keep(snapshot: Any) -> None:
            job.checkpoint(snapshot)
            if len(begun) == 1 and len(snapshot.losses) == 4:
                raise KeyboardInterrupt

        return fit([replace(job, checkpoint=keep)], *rest)

    monkeypatch.setattr(module, "fit", killed)
    node["cache"] = str(tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt):
        answer(question, node)
    assert answer(question, node) == straight and begun == [0, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": "mlp"}, "did you mean 'model'"),
        ({"client": ""}, "lacks 'client'"),
        ({"knowledge": ""}, "neither a 'model' nor a 'knowledge'"),
        ({"epochs": "many"}, "must be a whole number"),
    ],
)
def test_node_configs_that_are_wrong(nodes: dict[int, dict[str, Any]], settings: dict[str, Any], message: str) -> None:
    assert message in str(answer({}, {**nodes[100], **settings})["error"])


def test_a_node_answers_anew_when_an_image_changes_its_class(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "data" / "cat" / "a.png").write_bytes(b"pixels")
    node = Node("task", "me", data=str(tmp_path / "data"))
    before = node.digest()
    (tmp_path / "data" / "cat" / "a.png").rename(tmp_path / "data" / "dog" / "a.png")
    assert node.digest() != before


def test_run_configs_that_are_wrong(federation: Federation, tmp_path: Path) -> None:
    grid = LocalGrid(app, {})
    with pytest.raises(InputError, match="did you mean 'quorum'"):
        federate(grid, config(federation, tmp_path / "run", quorom=1))
    with pytest.raises(InputError, match="lacks 'out'"):
        federate(grid, {"task": str(federation.task_dir)})
    for wrong, words in [
        ({"quorum": "3"}, "'quorum' must be a whole number"),
        ({"deadline": 90}, "'90' is not a time"),
        ({"force": "no"}, "'force' must be true or false"),
    ]:
        with pytest.raises(InputError, match=words):
            federate(grid, config(federation, tmp_path / "run", **wrong))
    with pytest.raises(InputError, match="say when to start"):
        federate(grid, config(federation, tmp_path / "run", deadline=""))
    with pytest.raises(FedolError, match="No client is in"):
        federate(grid, config(federation, tmp_path / "run", deadline="1s"))
