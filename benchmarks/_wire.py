"""What a deployed node really sends and receives: a SuperLink and a SuperNode with TLS, and a relay that counts."""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from _record import ROOT

from fedol import Knowledge, Task
from fedol.federation.taskfolder import TaskFolder

sys.path.insert(0, str(ROOT / "tests" / "federation"))
from real_deployment import Deployment


class Relay:
    """Passes bytes on to a port of this machine and counts them: ``sent`` by the node, and ``received`` by it."""

    def __init__(self, port: int) -> None:
        self.sent = self.received = 0
        self._to, self._door = port, socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            node, server = self._door.accept()[0], socket.create_connection(("127.0.0.1", self._to))
            for pair in ((node, server, "sent"), (server, node, "received")):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, name: str) -> None:
        try:
            while data := source.recv(65_536):
                setattr(self, name, getattr(self, name) + len(data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has gone, and the other will notice


def on_the_wire(samples: int, classes: int, folder: Path) -> dict[str, int]:
    """Bytes between a node and the server in one whole run, from connecting to the end, and of its knowledge file."""
    random = np.random.default_rng(0)
    public = random.integers(0, 256, (samples, 1, 8, 8), np.uint8)
    task = Task.of(public, [str(c) for c in range(classes)], "wire")
    TaskFolder.create(folder / "task", task, public)
    logits = torch.from_numpy(random.normal(0, 3, (samples, classes)).astype(np.float32))
    file = folder / "client-1.fedol"
    Knowledge.from_logits(logits, task, "client-1").save(file)
    with Deployment(folder, SimpleNamespace(task_dir=folder / "task"), clients=1) as there:
        there.superlink()
        there.register()
        relay = Relay(there.port)
        ready = {"FEDOL_DATA": "", "FEDOL_TRAINING": f"knowledge='{file}'"}
        there.node("client-1", FEDOL_SUPERLINK=f"localhost:{relay.port}", **ready)
        printed = there.run("run")
        arrived = there.folder / "server" / "run" / "clients" / "client-1.fedol"
        assert arrived.exists(), printed
        payload = arrived.stat().st_size
    return {"samples": samples, "classes": classes, "payload": payload, "sent": relay.sent, "received": relay.received}
