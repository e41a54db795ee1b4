"""The nodes of a Flower federation as an inbox: what ``Coordinator.watch`` reads files from, it reads replies from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flwr.serverapp import Grid

from fedol.federation.roster import Roster
from fedol.federation.transports.flower.exchange import FOREVER, Exchange
from fedol.federation.transports.nodes import Nodes
from fedol.federation.transports.transport import Transport
from fedol.files import write_json
from fedol.knowledge.container import Incomplete
from fedol.knowledge.task import Task
from fedol.text import MOST, printable

GRACE = 30.0  # seconds that a message outlives the deadline, so that its end is the server's decision


class GridInbox(Transport):
    """Takes each node's answer once; a node that fails, hangs or vanishes costs itself alone."""

    def __init__(self, grid: Grid, task: Task, deadline: float | None = None, expected: Sequence[str] = ()) -> None:
        ttl = FOREVER if deadline is None else deadline + GRACE
        self._exchange = Exchange(grid, {"task": task.id, "public": task.fingerprint}, ttl)
        self._expected, self._bytes = expected, 0
        self.state = Nodes()
        self._names: dict[int, str] = {}

    @property
    def arriving(self) -> dict[str, str]:
        """The nodes that have not answered, and what to say of them if it stays so."""
        gone = "the node went away before it answered"
        asked = {
            self._name(node): "no answer so far" if node in self._exchange.nodes else gone
            for node in sorted(self._exchange.waiting)
        }
        never = set(self._expected) - set(self._names.values())
        return asked | dict.fromkeys(sorted(never), "the node has not connected")

    def scan(self, roster: Roster, task: Task, into: Path) -> Iterator[Roster]:
        """Take all that has come: an answer that has been fetched is with nobody else any more."""
        for node, answer in self._exchange.look():
            roster = self._take(roster, node, answer, task, into)
        self._describe(roster, into.with_name("nodes.json"))
        yield roster

    def _take(self, roster: Roster, node: int, answer: dict[str, object] | str, task: Task, into: Path) -> Roster:
        if isinstance(answer, str):
            return roster.refuse(self._name(node), f"the node failed: {_said(answer)}")
        self._names.setdefault(node, _said(answer.get("client"))[:64])
        data, name = answer.get("knowledge"), self._name(node)
        if not isinstance(data, bytes):
            return roster.refuse(name, _said(answer.get("error")) or "its answer holds no knowledge")
        self._bytes += len(data)
        try:
            return roster.take(data, name, task, into, self._exchange.nodes.get(node, ""))
        except Incomplete as error:  # a message comes whole: nothing more will arrive
            return roster.refuse(name, str(error))

    def _name(self, node: int) -> str:
        known = self._exchange.nodes.get(node) or self._names.get(node)
        if known:  # a node that goes away keeps its name
            self._names[node] = known
        return f"{known} (node {node})" if known else f"node {node}"

    def _describe(self, roster: Roster, keep: Path) -> None:
        connected = tuple(sorted(self._name(node) for node in self._exchange.nodes))
        training = tuple(sorted(self._name(node) for node in self._exchange.waiting))
        state = Nodes(connected, training, len(roster.clients), len(roster.refused), self._bytes)
        if state != self.state:
            self.state = state
            write_json(keep, state.as_json())


def _said(words: object) -> str:
    """A node's own words, as far as they are worth reading."""
    return printable(words or "", MOST)
