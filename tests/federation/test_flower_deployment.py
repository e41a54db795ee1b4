"""Real SuperLink and SuperNodes on loopback, TLS and node authentication on."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_federation import Federation

pytest.importorskip("flwr", reason="these tests need Flower: pip install 'fedol[flower]'")

from commands import ENV
from commands import fedol as fedol_command
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from real_deployment import PATIENCE, Deployment, listens, tool, until

import fedol
from fedol.federation.deploy import new_deployment
from fedol.federation.taskfolder import TaskFolder
from fedol.knowledge import signing


def test_three_nodes_with_tls_and_authentication(federation: Federation, tmp_path: Path) -> None:
    with Deployment(tmp_path, federation) as there:
        began = time.time()
        there.superlink()
        there.register()
        for name in there.names:
            there.node(name)
        printed = there.run("run", "deadline='200s'")
        out = there.folder / "server" / "run"
        assert (out / "summary.json").exists(), printed
        summary = json.loads((out / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == there.names, summary["refused"]
        assert summary["refused"] == [] and summary["closed"] == "quorum"
        assert "3 connected" in printed and "3 done, 0 refused" in printed
        assert fedol.load(out).predict(federation.public).shape == (80,)
        # What arrived is what each node keeps on its own disk.
        for name in there.names:
            (kept,) = (there.folder / name / "cache").glob("*.fedol")
            assert kept.read_bytes() == (out / "clients" / f"{name}.fedol").read_bytes()
        # All that was written since, Flower's database and its copies of the uploads too, is its owner's alone.
        written = [path for path in there.folder.rglob("*") if path.stat().st_mtime > began and path.is_file()]
        ours = [path for path in written if path.parent != there.folder]  # the logs are this test's
        assert there.folder / "server" / "flower" / "state.db" in ours
        assert [path for path in ours if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


@pytest.mark.slow
def test_strangers_are_refused_and_the_run_is_unharmed(federation: Federation, tmp_path: Path) -> None:
    """Wrong CA, unregistered key, no key, wrong public set; one honest node."""
    with Deployment(tmp_path, federation, clients=5) as there:
        honest, unknown, nameless, misled, other = there.names
        there.superlink()
        there.register()
        elsewhere = tmp_path / "elsewhere"
        new_deployment(elsewhere, 1, "localhost", there.port)
        (there.folder / unknown / "client.key").write_bytes((elsewhere / "client-1" / "client.key").read_bytes())
        script = there.folder / nameless / "supernode.sh"
        without = [line for line in script.read_text().splitlines() if "auth-supernode" not in line]
        script.write_text("\n".join(without) + "\n")
        (there.folder / misled / "ca.crt").write_bytes((elsewhere / "authority" / "ca.crt").read_bytes())
        shutil.rmtree(there.folder / other / "task")
        TaskFolder.create(there.folder / other / "task", federation.task, federation.public[::-1].copy())
        for name in there.names[1:]:
            there.node(name)
        for name, word in ((unknown, "2004"), (nameless, "2001"), (misled, "certificate verify failed")):
            until(lambda name=name, word=word: word.lower() in there.said(name).lower(), f"{name} to be refused")
        there.begin("run", "quorum=1 deadline='200s'")
        until(lambda: seen(there, "run")["refused"], "the wrong public set to be refused")
        there.node(honest)
        until(lambda: (there.folder / "server" / "run" / "summary.json").exists(), "the run with the honest node")
        summary = json.loads((there.folder / "server" / "run" / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == [honest]
        reasons = {entry["file"].split()[0]: entry["reason"] for entry in summary["refused"]}
        assert "are not the task's" in reasons.pop(other)
        assert reasons == dict.fromkeys((unknown, nameless, misled), "the node has not connected")


THIEF = """
from pathlib import Path
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    Path("{loot}").write_text(Path("{key}").read_text())
"""


class Stranger:
    """Has the CA's certificate, as every client does, and an app that takes the server's key."""

    def __init__(self, there: Deployment, folder: Path) -> None:
        self.there, self.home, self.loot = there, folder, folder / "loot"
        shutil.copytree(there.folder / "server" / "app", folder / "app")
        settings = folder / "app" / "pyproject.toml"
        text = settings.read_text().replace("fedol.cli.serverapp:app", "thief:app")
        settings.write_text(text)
        key = there.folder / "server" / "server.key"
        (folder / "app" / "thief.py").write_text(THIEF.format(loot=self.loot, key=key))

    def submits(self, address: str) -> str:
        """What ``flwr run`` says to it."""
        certificate = self.there.folder / self.there.names[0] / "ca.crt"
        connection = f'[superlink.theirs]\naddress = "{address}"\nroot-certificates = "{certificate}"\n'
        (self.home / "config.toml").write_text(f'[superlink]\ndefault = "theirs"\n{connection}')
        environment = self.there.environment(FLWR_HOME=str(self.home), FLWR_TELEMETRY_ENABLED="0")
        command = ["flwr", "run", self.home / "app", "theirs"]
        done = subprocess.run(command, env=environment, stdout=-1, stderr=-2, text=True, timeout=PATIENCE)
        return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.2 without being asked")
def test_nodes_come_in_from_outside_and_nobody_else(federation: Federation, tmp_path: Path) -> None:
    """The folder as it is written. 127.0.0.2 is the server's address for others, 127.0.0.1 what it has for itself."""
    with Deployment(tmp_path, federation, clients=2, host="127.0.0.2") as there:
        stranger = Stranger(there, tmp_path / "stranger")
        there.superlink()
        assert listens("127.0.0.1", there.control)
        for port in (there.port, there.control):  # without nginx nobody is let in
            assert not listens("127.0.0.2", port)
            assert "Successfully started run" not in stranger.submits(f"127.0.0.2:{port}")
        there.nginx(tool("nginx"))
        there.register()
        for name in there.names:
            there.node(name)
        said = stranger.submits(f"127.0.0.2:{there.port}")
        assert "403" in said and "Successfully started run" not in said, said
        printed = there.run("run", "deadline='200s'")
        summary = json.loads((there.folder / "server" / "run" / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == there.names, printed
        assert not stranger.loot.exists()
        # What that would have cost, and what an account on the server itself still can do.
        assert "Successfully started run" in stranger.submits(f"127.0.0.1:{there.control}")
        until(stranger.loot.exists, "the thief's app to run as the server's user")


@pytest.mark.slow
def test_what_a_site_must_approve_and_code_that_it_does_not_trust(federation: Federation, tmp_path: Path) -> None:
    """One node as it is, one by whose policy somebody must approve, one that runs only apps of a listed signer."""
    with Deployment(tmp_path, federation) as there:
        free, careful, strict = there.names
        own = there.folder / careful
        policy, officer = own / "policy.toml", tmp_path / "dpo.key"
        policy.write_text(policy.read_text().replace("approval = false", "approval = true"))
        policy.write_text(policy.read_text() + f'dpo = "{signing.new_key(officer)}"\n')
        signer = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        (there.folder / strict / "trusted.yaml").write_text(f"fpk_ours: '{signer} ours'\n")
        script = there.folder / strict / "supernode.sh"
        trusting = 'exec flower-supernode --trusted-entities "$here/trusted.yaml" '
        script.write_text(script.read_text().replace("exec flower-supernode ", trusting))
        there.superlink()
        there.register()
        for name in there.names:
            there.node(name)
        there.begin("run", "quorum=2 deadline='250s'")
        until(lambda: "fedol client release" in there.said(careful), "the file that waits for its approval")
        until(lambda: "not supported by the connected SuperLink" in there.said(strict), "the app to be refused")
        assert not list((there.folder / "server" / "run" / "clients").glob(f"{careful}.fedol"))
        (file,) = (own / "cache").glob("*.fedol")
        approving = ["--data", "data.npz", "--approve", "dpo", "--key", officer]  # as the policy's own comment says
        done = fedol_command("client", "release", f"cache/{file.name}", *approving, cwd=own, env=ENV)
        assert done.returncode == 0, done.stderr
        until(lambda: (there.folder / "server" / "run" / "summary.json").exists(), "the run with what was approved")
        summary = json.loads((there.folder / "server" / "run" / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == [free, careful]
        (refused,) = summary["refused"]
        assert refused["file"].startswith(strict)


@pytest.mark.slow
def test_submitters_are_not_asked_who_they_are_in_the_flower_that_anybody_can_install(
    federation: Federation, tmp_path: Path
) -> None:
    """Where a later one has accounts, docs/deploy.md and SECURITY.md are to say so."""
    with Deployment(tmp_path, federation, clients=1) as there:
        said = there.call("superlink.sh", FLWR_OIDC_ENABLED="1")
        assert "OIDC account authentication is unavailable in this Flower distribution" in said


def kept(there: Deployment, name: str) -> list[tuple[str, int]]:
    """The files that a node has made, and when."""
    return [(path.name, path.stat().st_mtime_ns) for path in (there.folder / name / "cache").glob("*.fedol")]


def seen(there: Deployment, out: str) -> dict[str, Any]:
    """What the server says of its nodes at this moment."""
    file = there.folder / "server" / out / "nodes.json"
    return json.loads(file.read_text()) if file.exists() else {"done": 0, "refused": 0, "training": []}


def busy(there: Deployment, out: str, done: int) -> None:
    """Wait until so many nodes are done and one is training."""

    def state() -> bool:
        now = seen(there, out)
        return now["done"] == done and len(now["training"]) == 1

    until(state, "a node that trains while the others are done")


@pytest.mark.slow
def test_node_and_superlink_killed_while_a_node_trains(federation: Federation, tmp_path: Path) -> None:
    """Each costs the run under way, at most; the next one is answered from disk where a client was done."""
    with Deployment(tmp_path, federation) as there:
        first, second, third = there.names
        endless = {"FEDOL_TRAINING": "epochs=1000000 batch-size=32 device='cpu'"}
        there.superlink()
        there.register()
        there.node(first)
        there.node(second)
        there.node(third, **endless)
        run = there.begin("one", "deadline='90s'")
        busy(there, "one", done=2)
        there.end(third)
        until(lambda: (there.folder / "server" / "one" / "summary.json").exists(), "the run without the killed node")
        summary = json.loads((there.folder / "server" / "one" / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == [first, second]
        (refused,) = summary["refused"]
        assert refused["file"].startswith(third) and summary["closed"] == "deadline"
        run.wait(PATIENCE)
        made = kept(there, first), kept(there, second)

        there.node_again(third, **endless)
        there.begin("two", "deadline='200s'")
        busy(there, "two", done=2)
        there.end("superlink")
        there.end("run")
        there.end(third)
        assert not (there.folder / "server" / "two" / "summary.json").exists()
        there.superlink()
        there.node_again(third)
        printed = there.run("three", "deadline='200s'")
        summary = json.loads((there.folder / "server" / "three" / "summary.json").read_text())
        assert [client["client"] for client in summary["clients"]] == there.names, printed
        assert (kept(there, first), kept(there, second)) == made  # nobody trained twice
        assert len(kept(there, third)) == 1
