"""What ``fedol deploy new`` writes for other programs, checked by those programs where they are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from real_deployment import tool, whole_nginx

from fedol.federation.deploy.folder import new_deployment

yaml = pytest.importorskip("yaml", reason="reads the Compose file with the package pyyaml")
pytest.importorskip("cryptography", reason="certificates need the package cryptography")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_deployment(tmp_path / "federation", 2, "fedol.example.org", 9092)
    return tmp_path / "federation"


def test_systemd_accepts_the_units(folder: Path) -> None:
    program = tool("systemd-analyze")
    units = [folder / "server" / "fedol-superlink.service", folder / "client-1" / "fedol-supernode.service"]
    for unit in units:  # it looks whether the scripts are there
        unit.write_text(unit.read_text().replace("/srv/fedol", str(folder)))
    done = subprocess.run([program, "verify", *units], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "fedol-" in line]  # not what it says of this machine's own
    assert said == [] and done.returncode == 0, done.stderr


def test_nginx_accepts_its_file(folder: Path) -> None:
    program = tool("nginx")
    whole = whole_nginx(folder / "server" / "nginx.conf", folder)
    done = subprocess.run([program, "-t", "-c", whole], capture_output=True, text=True)
    assert done.returncode == 0 and "test is successful" in done.stderr, done.stderr


def test_the_compose_file(folder: Path) -> None:
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert list(services) == ["superlink", "client-1", "client-2"]
    for name, place in (("superlink", "server"), ("client-1", "client-1")):
        (volume,) = services[name]["volumes"]
        assert volume == f"./{place}:/fedol"
        assert (folder / place / Path(services[name]["command"]).name).exists()
    assert services["client-1"]["environment"] == {"FEDOL_SUPERLINK": "superlink:9092"}


def test_compose_accepts_it(folder: Path) -> None:
    program = tool("docker-compose")
    done = subprocess.run([program, "config"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "client-2:" in done.stdout, done.stderr


def test_shellcheck_accepts_the_scripts(folder: Path) -> None:
    program = tool("shellcheck")
    for script in folder.rglob("*.sh"):
        done = subprocess.run([program, "-x", "-P", "SCRIPTDIR", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
