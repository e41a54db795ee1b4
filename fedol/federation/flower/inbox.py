"""The nodes of a Flower federation as an inbox: what ``Coordinator.watch`` reads files from, it reads replies from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flwr.serverapp import Grid

from fedol.admission import Header
from fedol.container import Container, check_size
from fedol.errors import InputError
from fedol.federation.flower.exchange import FOREVER, Exchange
from fedol.federation.nodes import Nodes
from fedol.federation.roster import Roster
from fedol.files import write_json
from fedol.names import printable
from fedol.task import Task

MOST_WORDS = 1000  # characters
GRACE = 30.0  # seconds that a message outlives the deadline, so that its end is the server's decision


class GridInbox:
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

    def scan(self, roster: Roster, task: Task, into: Path, keep: Path) -> Roster:
        """Take what has come; the roster is written to ``keep`` after every change."""
        before = roster
        for node, answer in self._exchange.look():
            roster = self._take(roster, node, answer, task, into)
        if roster != before:
            roster.write(keep)
        self._describe(roster, keep.with_name("nodes.json"))
        return roster

    def _take(self, roster: Roster, node: int, answer: dict[str, object] | str, task: Task, into: Path) -> Roster:
        if isinstance(answer, str):
            return roster.refuse(self._name(node), f"the node failed: {_said(answer)}")
        self._names.setdefault(node, _said(answer.get("client"))[:64])
        data, name = answer.get("knowledge"), self._name(node)
        if not isinstance(data, bytes):
            return roster.refuse(name, _said(answer.get("error")) or "its answer holds no knowledge")
        self._bytes += len(data)
        try:
            self._check(data, node, task)
            return roster.take(data, name, task, into)
        except InputError as error:  # also one that is incomplete: a message comes whole, nothing more will arrive
            return roster.refuse(name, str(error))

    def _check(self, data: bytes, node: int, task: Task) -> None:
        """What only the network knows: the size before anything is read, and who is registered under the node's key."""
        check_size(data, task.limit)
        client, registered = Header.from_json(Container.unpack(data).header).client, self._exchange.nodes.get(node)
        if registered and client != registered:
            raise InputError(f"the node is registered as '{registered}', but its file is in the name of '{client}'")

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
    return printable(words or "")[:MOST_WORDS]
