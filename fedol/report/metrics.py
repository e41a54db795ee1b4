"""A server's state for Prometheus: the events of its log by kind, and how far the training is, as text over HTTP."""

from __future__ import annotations

import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from fedol.errors import FedolError, InputError
from fedol.progress import Observer

if TYPE_CHECKING:
    from fedol.training import Epoch

HERE = "127.0.0.1"
# Shown also before there is one.
KINDS = ("started", "received", "accepted", "refused", "turned_away", "incomplete", "closed", "trained")
HELP = {
    "fedol_events_total": ("counter", "Events of the run's log since this process began, by kind."),
    "fedol_received_bytes_total": ("counter", "Bytes of accepted files since this process began."),
    "fedol_last_event_timestamp_seconds": ("gauge", "When the last event was, as Unix time; 0 before the first."),
    "fedol_epochs_expected": ("gauge", "Epochs that the training of the server takes; 0 before it begins."),
    "fedol_epochs_done": ("gauge", "Epochs that it has finished."),
    "fedol_finished": ("gauge", "1 where the run is finished."),
}


class Metrics(Observer):
    """Counts what it is told; whoever asks gets the figures as Prometheus's text format, version 0.0.4."""

    def __init__(self) -> None:
        self._lock, self._events = Lock(), Counter(dict.fromkeys(KINDS, 0))
        self._values = dict.fromkeys([name for name in HELP if name != "fedol_events_total"], 0.0)

    @classmethod
    def at(cls, address: str) -> Metrics:
        """Metrics that are served at HOST:PORT; at a port alone to this machine only."""
        host, _, port = address.rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            raise InputError(f"'{address}' is no address for metrics; give HOST:PORT or a port, for instance 9464.")
        metrics = cls()
        try:
            server = ThreadingHTTPServer((host.strip("[]") or HERE, int(port)), _handler(metrics))
        except OSError as error:
            raise FedolError(f"Metrics cannot be served at {address} ({error.strerror}); choose another.") from None
        metrics.port = server.server_address[1]
        Thread(target=server.serve_forever, daemon=True).start()
        return metrics

    port = 0  # where they are served

    def event(self, event: dict[str, Any]) -> None:
        """Of the run's log."""
        with self._lock:
            self._events[event["kind"]] += 1
            self._values["fedol_received_bytes_total"] += event.get("bytes", 0) if event["kind"] == "accepted" else 0
            self._values["fedol_last_event_timestamp_seconds"] = time.time()

    def stage(self, name: str, epochs: int) -> None:
        """The training begins."""
        with self._lock:
            self._values["fedol_epochs_expected"] = epochs

    def epoch(self, epoch: Epoch) -> None:
        """One more."""
        with self._lock:
            self._values["fedol_epochs_done"] += 1

    def finished(self, folder: Any) -> None:
        """The run is."""
        with self._lock:
            self._values["fedol_finished"] = 1

    def text(self) -> str:
        """The figures now."""
        with self._lock:
            events, values = dict(self._events), dict(self._values)
        lines = []
        for name, (kind, words) in HELP.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            if name in values:
                lines.append(f"{name} {values[name]:.15g}")
            else:
                lines += [f'{name}{{kind="{which}"}} {number}' for which, number in events.items()]
        return "\n".join(lines) + "\n"


def _handler(metrics: Metrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers /metrics and nothing else."""

        timeout = 10  # seconds for a request to come whole

        def do_GET(self) -> None:
            """The figures."""
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = metrics.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: a scrape every few seconds is no news."""

    return Handler
