"""``fedol deploy``: the folder that it writes, and the view of a run."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import tomllib
from ipaddress import ip_address
from pathlib import Path

import pytest
from commands import exit_code

from fedol.federation.roster import Arrival, Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports import Nodes
from fedol.files import write_json
from fedol.knowledge.task import Task

x509 = pytest.importorskip("cryptography.x509", reason="certificates need the package cryptography")


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    there = tmp_path / "federation"
    assert exit_code("deploy", "new", there, "--clients", 2, "--host", "fedol.example.org", "--json") == 0
    assert json.loads(capsys.readouterr().out)["clients"] == ["client-1", "client-2"]
    return there


def test_certificates(folder: Path) -> None:
    authority = x509.load_pem_x509_certificate((folder / "authority" / "ca.crt").read_bytes())
    server = x509.load_pem_x509_certificate((folder / "server" / "server.crt").read_bytes())
    server.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fedol.example.org", "localhost", "superlink"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]
    for place in ("server", "client-1", "client-2"):
        assert (folder / place / "ca.crt").read_bytes() == (folder / "authority" / "ca.crt").read_bytes()


def test_a_strict_client_trusts_the_server(folder: Path) -> None:
    """As default contexts are since Python 3.13: a handshake that checks the certificates against all of RFC 5280."""
    client = ssl.create_default_context(cafile=folder / "client-1" / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server" / "server.crt", folder / "server" / "server.key")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(back, there, server_hostname="fedol.example.org")
    answers = server.wrap_bio(there, back, server_side=True)
    for end in (asks, answers):
        with pytest.raises(ssl.SSLWantReadError):  # each has said its part and waits for the other's
            end.do_handshake()
    asks.do_handshake()
    answers.do_handshake()
    assert asks.getpeercert()


def test_keys(folder: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    public = set()
    for name in ("client-1", "client-2"):
        key = s.load_ssh_private_key((folder / name / "client.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp384r1"
        registered = (folder / "server" / "keys" / f"{name}.pub").read_bytes()
        assert registered.startswith(b"ecdsa-sha2-nistp384 ")
        ours = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
        assert ours == registered.strip()
        public.add(ours)
    assert len(public) == 2
    secrets = [folder / "authority" / "ca.key", folder / "server" / "server.key", *folder.glob("client-*/client.key")]
    for path in secrets:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = {path for path in folder.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()}
    assert found == set(secrets)  # none of them lies where it does not belong


def test_scripts_and_settings(folder: Path) -> None:
    for script in folder.rglob("*.sh"):
        assert script.stat().st_mode & stat.S_IXUSR
        subprocess.run(["sh", "-n", script], check=True)
    for path in folder.rglob("*"):
        assert not path.is_file() or b"@NAME@" not in path.read_bytes()
    app = tomllib.loads((folder / "server" / "app" / "pyproject.toml").read_text())
    assert app["project"]["dependencies"] == [] and app["tool"]["flwr"]["app"]["config"]["quorum"] == 2
    assert "--enable-supernode-auth" in (folder / "server" / "superlink.sh").read_text()
    for name in ("client-1", "client-2"):
        script = (folder / name / "supernode.sh").read_text()
        assert f"client='{name}'" in script and "fedol.example.org:9092" in script and "--insecure" not in script
        assert f"  {name}:" in (folder / "compose.yaml").read_text()


def test_every_setting_of_the_server_is_in_the_app(folder: Path) -> None:
    """Flower lets a run change only what the app's own file names."""
    pytest.importorskip("flwr", reason="the settings are those of the Flower app: pip install 'fedol[flower]'")
    from fedol.cli.serverapp import APART, SETTINGS

    config = tomllib.loads((folder / "server" / "app" / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert {key.replace("-", "_") for key in config} == {*APART, *SETTINGS}


def test_a_folder_in_use_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "server" / "server.key").read_bytes()
    assert exit_code("deploy", "new", folder) == 2
    assert "is not empty" in capsys.readouterr().err
    assert (folder / "server" / "server.key").read_bytes() == before
    assert exit_code("deploy", "new", folder / "x", "--clients", 0) == 2
    for host in ("bücher", "two words", "https://fedol.example.org"):
        assert exit_code("deploy", "new", folder / "y", "--host", host) == 2
        assert "not a host name" in capsys.readouterr().err
    assert not (folder / "y").exists()


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.txt").write_text("mine")
    assert exit_code("deploy", "new", tmp_path / "file.txt") == 2
    assert f"Error: {tmp_path / 'file.txt'} cannot be opened (Not a directory); " in capsys.readouterr().err


def test_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("deploy", "watch", tmp_path) == 2
    assert "not a server run" in capsys.readouterr().err
    TaskFolder.create(tmp_path / "task", Task(("a", "b"), 5, "0" * 64, "t"), None)
    write_json(tmp_path / "task.json", {"folder": str(tmp_path / "task")})
    roster = Roster(0.0, "", {"alice": Arrival("alice (node 1)", 500, "float16", "0")}, {"bob (node 2)": "it failed"})
    roster.write(tmp_path / "roster.json")
    nodes = Nodes(("alice (node 1)", "bob (node 2)", "carol (node 3)"), ("carol (node 3)",), 1, 1, 500)
    write_json(tmp_path / "nodes.json", nodes.as_json())
    assert Nodes.read(tmp_path / "nodes.json") == nodes
    assert exit_code("deploy", "watch", tmp_path, "--once") == 0
    shown = capsys.readouterr().out
    for words in ("in: alice", "refused: bob (node 2): it failed", "3 connected, 1 training, 1 done, 1 refused, 500 b"):
        assert words in shown


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"folder": 5}'])
def test_watch_names_what_is_damaged(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Roster(0.0).write(tmp_path / "roster.json")
    (tmp_path / "task.json").write_text(content)
    assert exit_code("deploy", "watch", tmp_path, "--once") == 2
    assert f"Error: {tmp_path / 'task.json'} " in capsys.readouterr().err
