"""What ``fedol deploy new`` writes for other programs, checked by those programs where they are installed."""

from __future__ import annotations

import http.client
import http.server
import os
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Command
from real_deployment import free_ports, listens, tool, until, whole_nginx

from fedol.federation.deploy import behind_proxy, new_deployment

pytest.importorskip("cryptography", reason="certificates need the package cryptography")
not_on_windows = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither these scripts nor modes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    before = os.umask(0o022)  # what most systems set: others may read
    new_deployment(tmp_path / "federation", 2, "fedol.example.org", 9092)
    os.umask(before)
    return tmp_path / "federation"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@not_on_windows
def test_no_other_account_looks_into_the_folders(folder: Path) -> None:
    folders = [folder, *(folder / name for name in ("authority", "server", "client-1", "client-2"))]
    assert {path.name: mode(path) for path in folders} == {path.name: 0o700 for path in folders}
    keys = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.key"))
    assert keys == ["authority/ca.key", "client-1/client.key", "client-2/client.key", "server/server.key"]
    assert {mode(folder / key) for key in keys} == {0o600}


def git(place: Path, *arguments: str) -> list[str]:
    command = [tool("git"), "-C", place, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


SCRIPTS = {"connection.sh", "nginx.conf", "register.sh", "run.sh", "superlink.sh"}
SCRIPTS |= {"fedol-superlink.service", "fedol-serve.service"}
KEPT = {
    "": {".gitignore", "Dockerfile", "README.md", "compose.yaml"},
    "authority": {".gitignore"},
    "server": {".gitignore", "app/pyproject.toml", *SCRIPTS},
    "client-1": {".gitignore", "fedol-supernode.service", "supernode.sh"},
    "client-2": {".gitignore", "fedol-supernode.service", "supernode.sh"},
}


@pytest.mark.parametrize("place", KEPT)
def test_git_takes_scripts_and_settings_alone(folder: Path, place: str) -> None:
    """No key, whoever made it and whatever it is called, no state, no data, no upload."""
    for name in (
        "server/flower/state.db",
        "server/run/clients/client-1.fedol",
        "server/run/report.html",
        "server/task/public.npz",
        "client-1/cache/made.fedol",
        "client-1/data.npz",
        "client-1/of-my-own",  # ssh-keygen -f of-my-own
        "client-1/my.pem",
        ".env",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("-----BEGIN OPENSSH PRIVATE KEY-----")
    git(folder / place, "init", "-q")
    git(folder / place, "add", "-A")
    inside = {f"{sub}/{name}" for sub, names in KEPT.items() if sub for name in names}
    assert set(git(folder / place, "ls-files")) == KEPT[place] | (set() if place else inside)


def pretend(program: str, folder: Path, script: Path, **more: str) -> str:
    """Run a script with another program in Flower's place, which says how it was called and leaves a file."""
    place = folder / "bin" / program
    place.parent.mkdir(exist_ok=True)
    place.write_text(
        f'#!/bin/sh\necho "$@"; touch "{folder}/left-by-{program}"; cat "$FLWR_HOME/config.toml"; exit 0\n'
    )
    place.chmod(0o755)
    environment = {**os.environ, "PATH": f"{place.parent}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(
        ["/bin/sh", "-c", f'umask 022; exec "{script}"'], env=environment, capture_output=True, text=True
    )
    return done.stdout


@not_on_windows
@pytest.mark.parametrize(
    "host, port, own",
    [("fedol.example.org", 9092, 19092), ("10.0.0.7", 60000, 50000), ("localhost", 9092, 9092)],
)
def test_the_superlink_listens_on_its_own_machine_only(tmp_path: Path, host: str, port: int, own: int) -> None:
    """Also for somebody who still sets what used to open it; and the scripts that submit look where it is."""
    new_deployment(tmp_path / "federation", 1, host, port)
    server = tmp_path / "federation" / "server"
    called = pretend("flower-superlink", tmp_path, server / "superlink.sh", FEDOL_BIND="0.0.0.0")
    assert f"--host 127.0.0.1 --port {own} " in called
    assert f'address = "127.0.0.1:{own}"' in pretend("flwr", tmp_path, server / "run.sh")
    node = pretend("flower-supernode", tmp_path, tmp_path / "federation" / "client-1" / "supernode.sh")
    assert f"--superlink {host}:{port} " in node and "--host 127.0.0.1 " in node
    everything = [path.read_text() for path in (tmp_path / "federation").rglob("*") if path.is_file()]
    assert not [text for text in everything if "0.0.0.0" in text]


@not_on_windows
def test_what_flower_writes_is_its_owners_alone(folder: Path) -> None:
    """Its database has every upload in it, its logs have names."""
    for program, script in (
        ("flower-superlink", "server/superlink.sh"),
        ("flwr", "server/run.sh"),
        ("flower-supernode", "client-1/supernode.sh"),
    ):
        pretend(program, folder, folder / script)
        assert mode(folder / f"left-by-{program}") == 0o600, script
    for place in ("server", "client-1"):
        assert mode(folder / place / "flower") == 0o700


class Backend(http.server.BaseHTTPRequestHandler):
    """In the SuperLink's place: remembers what came through to it."""

    came: list[str]

    def do_POST(self) -> None:
        self.came.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def front(tmp_path: Path) -> Iterator[tuple[Path, int, list[str]]]:
    """nginx as the folder has it; behind it a server that notes the paths that reach it."""
    program, folder, (port, behind) = tool("nginx"), tmp_path / "federation", free_ports()
    new_deployment(folder, 1, "127.0.0.2", port)
    came: list[str] = []
    server = http.server.HTTPServer(("127.0.0.1", behind), type("Noting", (Backend,), {"came": came}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server" / "server.crt", folder / "server" / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nginx = subprocess.Popen([program, "-c", whole_nginx(folder), "-g", "daemon off;"])
    try:
        until(lambda: listens("127.0.0.2", port), "nginx")
        yield folder, port, came
    finally:
        nginx.terminate()
        nginx.wait()
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has 127.0.0.2 without being asked")
def test_nginx_lets_nodes_through_and_nothing_else(front: tuple[Path, int, list[str]]) -> None:
    folder, port, came = front
    trusted = ssl.create_default_context(cafile=folder / "client-1" / "ca.crt")

    def post(path: str) -> int:
        asked = http.client.HTTPSConnection("127.0.0.2", port, context=trusted)
        asked.request("POST", path)
        return asked.getresponse().status

    assert post("/v1/fleet/pull-messages?x=1") == 200
    assert came == ["/v1/fleet/pull-messages?x=1"]
    for path in (
        "/v1/control/start-run",
        "/v1/control/list-runs",
        "/v1/runtime/acquire-task",
        "/v1/responses",
        "/docs",
        "/",
        "//v1//control/start-run",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/..%2fcontrol/start-run",
        "/v1/fleet/..%2Fcontrol/start-run?/../fleet/",
        "/v1/control/start-run#/../../fleet/x",
        "/v1/control/start-run;/v1/fleet/",
        "https://127.0.0.2/v1/control/start-run",
    ):
        assert post(path) in (400, 403), path
    assert len(came) == 1
    for path in ("/v1/control/../fleet/x", "/v1/control/start-run%3f/../../fleet/x", "/v1/control/%2e%2e/fleet/x"):
        assert post(path) == 200, path  # what goes on is the path that was judged
    assert came[1:] == ["/v1/fleet/x", "/v1/fleet/x", "/v1/fleet/x"]


def test_systemd_accepts_the_units(folder: Path) -> None:
    program = tool("systemd-analyze")
    names = ("server/fedol-superlink.service", "server/fedol-serve.service", "client-1/fedol-supernode.service")
    units = [folder / name for name in names]
    (folder / "fedol").symlink_to(sys.executable)
    for unit in units:  # it looks whether the scripts are there
        here = unit.read_text().replace("/srv/fedol", str(folder)).replace("/opt/fedol/bin/fedol", f"{folder}/fedol")
        unit.write_text(here)
    done = subprocess.run([program, "verify", *units], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if "fedol-" in line]  # not what it says of this machine's own
    assert said == [] and done.returncode == 0, done.stderr


def test_the_units_command_is_one(folder: Path, command: Command) -> None:
    """What the unit of ``fedol serve`` starts is understood; it then misses the task, which is not there."""
    unit = (folder / "server" / "fedol-serve.service").read_text()
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = line.replace("/srv/fedol", str(folder)).replace("--metrics 9464", "--metrics 0").split()[1:]
    said = command(*words)
    assert said.code == 2 and "There is no task in" in said.err


def test_nginx_accepts_its_file(folder: Path) -> None:
    program = tool("nginx")
    done = subprocess.run([program, "-t", "-c", whole_nginx(folder)], capture_output=True, text=True)
    assert done.returncode == 0 and "test is successful" in done.stderr, done.stderr


def test_the_compose_file(folder: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="reads the Compose file with the package pyyaml")
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert list(services) == ["superlink", "front", "client-1", "client-2"]
    for name, place in (("superlink", "server"), ("client-1", "client-1")):
        (volume,) = services[name]["volumes"]
        assert volume == f"./{place}:/fedol"
        assert (folder / place / Path(services[name]["command"]).name).exists()
    assert services["client-1"]["environment"] == {"FEDOL_SUPERLINK": "superlink:9092"}
    # Closed as the real one is: the proxy reaches the SuperLink because it shares its loopback; nobody else does.
    assert services["superlink"]["environment"] == {"FEDOL_PORT": str(behind_proxy(9092))}
    assert services["front"]["network_mode"] == "service:superlink"
    assert not [name for name, service in services.items() if "ports" in service]


def test_compose_accepts_it(folder: Path) -> None:
    program = tool("docker-compose")
    done = subprocess.run([program, "config"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and "client-2:" in done.stdout, done.stderr


def test_shellcheck_accepts_the_scripts(folder: Path) -> None:
    program = tool("shellcheck")
    for script in folder.rglob("*.sh"):
        done = subprocess.run([program, "-x", "-P", "SCRIPTDIR", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
