"""A node sends nothing that its site has not approved, unless the site's policy says so; the server waits, and asks."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_federation import Federation

from fedol.data import load
from fedol.federation.deploy import new_deployment
from fedol.federation.policy import Policy
from fedol.federation.record import record_of
from fedol.federation.releasing import kept, looked_at
from fedol.federation.taskfolder import TaskFolder
from fedol.files import write_json
from fedol.knowledge import signing

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")
pytest.importorskip("cryptography", reason="approvals are signed, which needs the package cryptography")

from local_grid import LocalGrid

from fedol.cli.serverapp import federate
from fedol.federation.transports import flower_inbox
from fedol.federation.transports.flower_client import answer, app

TINY = {"server-model": "mlp", "iterations": 2, "epochs": 3, "batch-size": 16, "device": "cpu"}


@pytest.fixture
def node(federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A node whose file is made, and that has the policy which ``fedol deploy new`` writes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FEDOL_POLICY", raising=False)
    new_deployment(tmp_path / "deployment", 1, "localhost", 9092)
    file = tmp_path / "alice.fedol"
    file.write_bytes(federation.file("alice").read_bytes())
    policy = tmp_path / "deployment" / "client-1" / "policy.toml"
    return {"task": str(federation.task_dir), "client": "alice", "knowledge": str(file), "policy": str(policy)}


def asked(federation: Federation, node: dict[str, Any]) -> dict[str, Any]:
    return answer({"task": federation.task.id, "public": federation.task.fingerprint}, node)


def approve(federation: Federation, node: dict[str, Any], tmp_path: Path) -> None:
    """What the site does with ``fedol client release --approve``."""
    digits, own = load("digits"), tmp_path / "own.npz"
    parts = {"train_x": digits.train.x[:50], "train_y": digits.train.y[:50]}
    np.savez(own, **parts, test_x=digits.test.x[:50], test_y=digits.test.y[:50])
    public = signing.new_key(tmp_path / "dpo.key")
    policy = Path(node["policy"])
    policy.write_text(policy.read_text() + f'dpo = "{public}"\n')
    record = looked_at(Path(node["knowledge"]), TaskFolder.open(federation.task_dir), str(own))
    write_json(record_of(Path(node["knowledge"])), kept(record.approved("dpo", tmp_path / "dpo.key")))


def test_a_new_deployment_wants_every_file_approved(
    federation: Federation, node: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert Policy.read(Path(node["policy"])).approval
    with caplog.at_level(logging.WARNING, "fedol.node"):
        reply = asked(federation, node)
    assert reply == {"client": "alice", "error": "its file waits for the site's approval", "waiting": True}
    assert "fedol client release" in caplog.text and str(tmp_path) not in str(reply)  # where it lies is the site's own
    approve(federation, node, tmp_path)
    assert asked(federation, node)["knowledge"] == federation.file("alice").read_bytes()


def test_without_a_policy_nothing_leaves(federation: Federation, node: dict[str, Any]) -> None:
    del node["policy"]
    reply = asked(federation, node)
    assert "has no policy, so nothing leaves it" in str(reply["error"]) and "knowledge" not in reply


def test_what_the_policy_forbids_is_not_sent_and_not_explained(federation: Federation, node: dict[str, Any]) -> None:
    Path(node["policy"]).write_text("approval = false\ncodecs = ['top10']\n")
    reply = asked(federation, node)
    assert reply == {"client": "alice", "error": "the site's policy does not let its file leave"}


def test_a_node_says_less_where_its_policy_wants_that(
    federation: Federation, node: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef load():\n    return lambda x: np.tile(np.eye(10)[3] * 0.5 + 0.05, (len(x), 1))\n"
    )
    Path(node["policy"]).write_text("approval = false\nreleases = ['label']\n")
    del node["knowledge"]
    node |= {"model": f"{tmp_path / 'mine.py'}:load", "cache": str(tmp_path / "cache")}
    assert "does not let its file leave" in str(asked(federation, node)["error"])
    assert not list((tmp_path / "cache").glob("*.fedol"))  # nor was it made
    assert "waits" in str(asked(federation, {**node, "release": "label"})["error"])  # made, but there is no record yet
    assert list((tmp_path / "cache").glob("*.fedol"))
    assert "There is no release" in str(asked(federation, {**node, "release": "lable"})["error"])


def test_the_server_waits_for_an_approval(
    federation: Federation, node: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flower_inbox, "AGAIN", 0.3)
    free = tmp_path / "free.toml"
    free.write_text("approval = false\n")
    other = {**node, "client": "bob", "knowledge": str(federation.file("bob")), "policy": str(free)}
    config = {**TINY, "task": str(federation.task_dir)}
    summary = federate(LocalGrid(app, {1: node, 2: other}), {**config, "out": str(tmp_path / "one"), "deadline": "2s"})
    assert [client["client"] for client in summary["clients"]] == ["bob"]
    assert [entry["reason"] for entry in summary["refused"]] == ["its file waits for the site's approval"]
    approve(federation, node, tmp_path)
    summary = federate(LocalGrid(app, {1: node, 2: other}), {**config, "out": str(tmp_path / "two"), "quorum": 2})
    assert [client["client"] for client in summary["clients"]] == ["alice", "bob"]


def test_it_is_asked_again_until_it_is_approved(
    federation: Federation, node: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flower_inbox, "AGAIN", 0.1)
    grid = LocalGrid(app, {1: node})
    exchange = flower_inbox.Exchange(grid, {"task": federation.task.id, "public": federation.task.fingerprint})

    def until(key: str) -> dict[str, object]:
        for _ in range(2000):
            time.sleep(0.01)
            for _, reply in exchange.look():
                assert isinstance(reply, dict)
                if key in reply:
                    return reply
        raise AssertionError(f"nobody answered with {key}")

    assert until("waiting")["waiting"] is True and not exchange.done
    approve(federation, node, tmp_path)
    assert until("knowledge")["client"] == "alice" and exchange.done == {1}
