"""A bad network: passes bytes on between a client and a server, and cuts its first connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any


class Relay:
    """``cuts`` says after how many bytes from the client each of the first connections ends."""

    def __init__(self, url: str, cuts: Sequence[int], scheme: str = "http") -> None:
        self._to = ("127.0.0.1", int(url.rpartition(":")[2]))
        self._cuts, self.cut = list(cuts), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            limit = self._cuts.pop(0) if self._cuts else None
            server = socket.create_connection(self._to)
            threading.Thread(target=self._back, args=(server, client), daemon=True).start()
            threading.Thread(target=self._there, args=(client, server, limit), daemon=True).start()

    def _there(self, client: socket.socket, server: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while limit is None or passed < limit:
                data = client.recv(4096 if limit is None else min(4096, limit - passed))
                if not data:
                    break
                server.sendall(data)
                passed += len(data)
        self.cut += limit is not None
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(4096):
                client.sendall(data)
