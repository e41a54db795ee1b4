"""How far a federation is, as the pages of a server that listens show it: plain values, from one moment to the next."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from fedol.knowledge.task import Task
from fedol.progress import Observer
from fedol.text import Deadline

if TYPE_CHECKING:
    from fedol.federation.roster import Roster
    from fedol.training import Epoch

TURNED_AWAY = 50  # requests that the page names; before them are only counted


class Status(Observer):
    """Who is in, who is missing, how long is left, how far the training is. Told by one thread, asked by another."""

    def __init__(
        self, task: Task, quorum: int | None, deadline: float | None, sending: Mapping[str, tuple[int, int]]
    ) -> None:
        self._task, self._quorum, self._deadline = task, quorum or len(task.clients) or None, deadline
        self._sending = sending  # who is sending now: bytes that are here, and of how many
        self._ends: Deadline | None = None
        self._roster: Roster | None = None
        self._arriving: dict[str, str] = {}
        self._turned: deque[tuple[str, str, str, str]] = deque(maxlen=TURNED_AWAY)
        self._turned_away = 0
        self._lock = Lock()  # of what is told by several threads
        self._total = self._done = 0
        self._began = 0.0
        self.close_now = Event()  # set when the coordinator closes the intake
        self.folder: Path | None = None  # of the run, once it is finished

    def show(self, roster: Roster, arriving: dict[str, str]) -> None:
        """The state after a look at the inbox."""
        if self._ends is None and self._deadline is not None:
            self._ends = Deadline(self._deadline, roster.opened)
        self._roster, self._arriving = roster, dict(arriving)

    def turned_away(self, address: str, client: str, sentence: str) -> bool:
        """A request was refused; whether that is news, and not the same again."""
        told = (address, client, sentence)
        with self._lock:
            news = told not in {entry[1:] for entry in self._turned}
            self._turned.appendleft((datetime.now(UTC).strftime("%H:%M:%S"), *told))
            self._turned_away += 1
        return news

    def stage(self, name: str, epochs: int) -> None:
        """The training begins."""
        with self._lock:
            self._total, self._done, self._began = epochs, 0, time.monotonic()

    def epoch(self, epoch: Epoch) -> None:
        """An epoch has finished."""
        with self._lock:
            self._done += 1

    def finished(self, folder: Path) -> None:
        """The run is finished."""
        self.folder = folder

    @property
    def ready(self) -> bool:
        """Whether the intake is open and somebody is in, so that it could be closed."""
        return self._roster is not None and not self._roster.closed and bool(self._roster.clients)

    def view(self, names: bool) -> dict[str, Any]:
        """What the page shows; without ``names`` nothing of single clients."""
        roster = self._roster
        inside = len(roster.clients) if roster else 0
        # Who is missing at the end is among the refused, too, but has a row of its own.
        refused = [pair for pair in roster.refused.items() if pair[0] not in self._task.clients] if roster else []
        with self._lock:
            turned = list(self._turned)
        view = {
            "task": self._task.name or self._task.id,
            "inside": inside,
            "wanted": self._quorum,
            "closed": roster.closed if roster else "",
            "left": self._ends.left if self._ends and roster and not roster.closed else None,
            "training": self._training(),
            "finished": self.folder is not None,
            "refused_count": len(refused) + roster.unnamed if roster else 0,
            "ready": self.ready,
            "names": names,
            "clients": self._clients() if names else [],
            "refused": refused if names else [],
            "unnamed": roster.unnamed if roster else 0,
            "turned": turned if names else [],
            "turned_more": max(0, self._turned_away - TURNED_AWAY),
        }
        return {**view, "news": _news(view)}

    def _training(self) -> dict[str, Any] | None:
        """Epochs done, how many there are, and the time left; None before it begins."""
        with self._lock:
            done, total, began = self._done, self._total, self._began
        if not total:
            return None
        left = (time.monotonic() - began) * (total - done) / done if done else None
        return {"done": min(done, total), "total": total, "left": left}

    def _clients(self) -> list[dict[str, Any]]:
        """A row per client: who is in, who is on the way, who is awaited; then files of nobody known yet."""
        roster, sending = self._roster, dict(self._sending)
        rows = []
        for name, arrival in roster.clients.items() if roster else ():
            rows.append({"name": name, "state": "in", "file": arrival.file, "bytes": arrival.bytes})
        inside = {row["name"] for row in rows}
        for name in sorted((set(self._task.clients) | set(sending)) - inside):
            here, of = sending.get(name, (0, 0))
            state = f"sending, {100 * here / of:.0f} %" if of else "missing" if roster and roster.closed else "awaited"
            rows.append({"name": name, "state": state, "file": "", "bytes": None})
        if roster is None or not roster.closed:
            for file, reason in self._arriving.items():
                rows.append({"name": "", "state": f"awaited: {reason}", "file": file, "bytes": None})
        return rows


def _news(view: dict[str, Any]) -> str:
    """The state in a sentence: what a screen reader says when it changes, so nothing in it ticks."""
    inside, wanted = view["inside"], view["wanted"]
    there = f"{inside:,} of {wanted:,} clients are in" if wanted else f"{inside:,} clients are in"
    if view["finished"]:
        return f"Finished: {there}, and the model is trained."
    if view["training"] or view["closed"]:
        why = {"quorum": "the quorum", "deadline": "the deadline", "coordinator": "the coordinator"}
        closed = why.get(view["closed"], "the server")
        return f"The intake was closed by {closed}: {there}, and the server trains."
    waits = "waiting for the deadline" if wanted is None else f"waiting for {max(0, wanted - inside):,} more"
    return f"The intake is open: {there}, {waits}."


def client_view(
    client: str, task: Task, state: str | None, receipt: Mapping[str, Any] | None, closed: str
) -> dict[str, Any]:
    """What one client's own page shows, and nothing of the others."""
    told = {
        None: "Nothing has come from you yet.",
        "waiting": "Your file is here, whole, and waits to be looked at.",
        "accepted": "Your file is in.",
        "refused": "Your file was refused.",
        "elsewhere": "Another file of yours counts.",
        "late": "Your file came too late.",
    }
    facts = (
        [("File, SHA-256", receipt["sha256"]), ("Bytes", f"{receipt['size']:,}"), ("Received", receipt["received"])]
        if receipt
        else []
    )
    if receipt and receipt["reason"]:
        facts.append(("Why", receipt["reason"]))
    if receipt:
        facts.append(("Signed by the server", receipt["server"]))
    return {"client": client, "task": task.name or task.id, "news": told[state], "facts": facts, "closed": bool(closed)}
