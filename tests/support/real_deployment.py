"""A real Flower federation on loopback, from the scripts that ``fedol deploy new`` writes; every process is ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT
from small_federation import Federation

from fedol.data import load, split
from fedol.federation.deploy import behind_proxy, new_deployment

PATIENCE = 300.0  # seconds after which something that should have happened has not
SETTINGS = "server-model='mlp' iterations=2 epochs=3 batch-size=16 device='cpu'"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports() -> tuple[int, int]:
    """One for nodes, and the SuperLink's own behind a proxy there."""
    while True:
        port = free_port()
        if not listens("127.0.0.1", behind_proxy(port)):
            return port, behind_proxy(port)


def listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def until(done: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := done():
            return result
        time.sleep(0.2)
    raise AssertionError(f"waited in vain for {what}")


def whole_nginx(folder: Path) -> Path:
    """nginx's main file around the one that ``fedol deploy new`` wrote; all that nginx writes stays in ``folder``."""
    site = folder / "server" / "nginx.conf"
    assert "/srv/fedol" in site.read_text()
    site.write_text(site.read_text().replace("/srv/fedol", str(folder)))
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{place}_temp_path {folder}/nginx-{place}; " for place in places)
    whole = folder / "whole.conf"
    whole.write_text(
        f"pid {folder}/nginx.pid; error_log stderr; events {{}} http {{ access_log off; {own} include {site}; }}"
    )
    return whole


def tool(*names: str) -> str:
    """The first of these programs that is here; else the test is skipped."""
    everywhere = f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin"
    found = [path for name in names if (path := shutil.which(name, path=everywhere))]
    return found[0] if found else pytest.skip(f"not installed here: {', '.join(names)}")


class Deployment:
    """The folder, and the processes that were started from it."""

    def __init__(self, folder: Path, federation: Federation, clients: int = 3, host: str = "localhost") -> None:
        self.folder, self.federation, self.host = folder / "deployment", federation, host
        self.port, behind = free_ports()
        self.control = self.port if host == "localhost" else behind  # where the SuperLink listens
        self.names = new_deployment(self.folder, clients, host, self.port)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for place in ("server", *self.names):
            shutil.copytree(federation.task_dir, self.folder / place / "task")
        for name in self.names:
            policy = self.folder / name / "policy.toml"
            policy.write_text(policy.read_text().replace("approval = true", "approval = false"))
        self.data()

    def data(self) -> None:
        """Each client's share of the digits."""
        import numpy as np

        private, test = split(load("digits"), 80, seed=0).private, load("digits").test
        for number, name in enumerate(self.names):
            mine = slice(200 * number, 200 * number + 200)
            arrays = {"train_x": private.x[mine], "train_y": private.y[mine], "test_x": test.x[:40]}
            np.savez(self.folder / name / "data.npz", **arrays, test_y=test.y[:40])

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self.processes):
            self.end(name)

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        training = "epochs=2 batch-size=32 device='cpu'"
        ours = {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        ours |= {"FEDOL_MODEL": "mlp", "FEDOL_TRAINING": training}
        return {**os.environ, **ours, **more}

    def start(self, name: str, command: list[str | Path], **more: str) -> subprocess.Popen[bytes]:
        log = open(self.log(name), "ab")  # noqa: SIM115 - the process has it
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=self.environment(**more), start_new_session=True
        )
        log.close()
        self.processes[name] = process
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace") if self.log(name).exists() else ""

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one process, and those it started itself: they are its own group."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        process.wait(PATIENCE)

    def superlink(self) -> None:
        self.start("superlink", [self.folder / "server" / "superlink.sh"])
        until(lambda: listens("127.0.0.1", self.control), "the SuperLink")

    def nginx(self, program: str) -> None:
        """The proxy in front, from the file that is there for it."""
        self.start("nginx", [program, "-c", whole_nginx(self.folder), "-g", "daemon off;"])
        until(lambda: listens(self.host, self.port), "nginx")

    def register(self) -> None:
        done = self.call("register.sh")
        assert done.splitlines() == [f"{name}: registered" for name in self.names], done

    def node(self, name: str, **more: str) -> subprocess.Popen[bytes]:
        more = {"FEDOL_LOCAL_PORT": str(free_port()), **more}
        return self.start(name, [self.folder / name / "supernode.sh"], **more)

    def node_again(self, name: str, **more: str) -> None:
        """Start a killed node until it is let in, as its systemd unit does.

        Flower refuses its key (2004) for as long as it believes the killed one to be alive: about a minute.
        """
        before = self.said(name).count("SuperNode ID")

        def alive() -> bool:
            if name not in self.processes or self.processes[name].poll() is not None:
                if name in self.processes:
                    self.end(name)
                self.node(name, **more)
            return self.said(name).count("SuperNode ID") > before

        until(alive, f"{name} to be let in again")

    def call(self, script: str, *arguments: str, **more: str) -> str:
        command = [self.folder / "server" / script, *arguments]
        done = subprocess.run(
            command,
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        return done.stdout

    def begin(self, out: str, more: str) -> subprocess.Popen[bytes]:
        """`run.sh` in the background."""
        return self.start("run", [self.folder / "server" / "run.sh", "--run-config", self.config(out, more)])

    def run(self, out: str, more: str = "") -> str:
        """`run.sh` to its end; what it printed."""
        return self.call("run.sh", "--run-config", self.config(out, more))

    def config(self, out: str, more: str) -> str:
        return f"out='{self.folder / 'server' / out}' {SETTINGS} {more}"
