"""The nodes of a Flower federation as an inbox: what ``Coordinator.watch`` reads files from, it reads replies from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedol.federation.roster import Roster
from fedol.federation.transports import Nodes, Transport
from fedol.files import write_json
from fedol.knowledge.container import Incomplete
from fedol.knowledge.task import Task
from fedol.text import MOST, printable, steady

FOREVER = 7 * 86_400.0  # seconds that a message lives where no deadline ends the collection
UNAVAILABLE = 5  # the code of a reply that Flower gives for a node whose heartbeats have stopped
BODY = "fedol"
WAITING = "waiting"  # in an answer: there is a file, which the site has not approved yet
AGAIN = 30.0  # seconds after which a node that waits is asked again

Values = dict[str, str | bytes | int | float]


def pack(values: Values) -> RecordDict:
    """Values as the content of a message."""
    return RecordDict({BODY: ConfigRecord(dict(values))})


def unpack(message: Message) -> dict[str, object]:
    """The values that a message brings; none where it is not one of ours."""
    record = message.content.config_records.get(BODY)
    return dict(record) if record is not None else {}


class Exchange:
    """Asks each node that shows up, once; one that went away and came back is asked again (and has its cache).

    A reply is known by the message that it answers: what it says about its sender can be wrong (that of a node that
    vanished names another), and must not decide whose reply it is.
    """

    def __init__(self, grid: Grid, question: Values, ttl: float = FOREVER) -> None:
        self._grid, self._question, self._ttl = grid, question, ttl
        self._asked: dict[str, int] = {}  # message -> node
        self.nodes: dict[int, str] = {}  # those connected now, by their registered names
        self.done: set[int] = set()  # those that have answered, whatever the answer was
        self._later: dict[int, float] = {}  # those that wait for an approval, and when to ask them again

    @property
    def waiting(self) -> set[int]:
        """The nodes that have been asked and have not answered."""
        return set(self._asked.values())

    def look(self) -> Iterator[tuple[int, dict[str, object] | str]]:
        """Ask who is new, and yield (node, answer) for each reply; a string says why there is none."""
        self.nodes = {info.node_id: info.name for info in self._grid.get_nodes()}
        self.done &= set(self.nodes)
        resting = {node for node, then in self._later.items() if then > steady()}
        for node in sorted(set(self.nodes) - self.waiting - self.done - resting):
            message = Message(pack(self._question), node, MessageType.TRAIN, ttl=self._ttl)
            for identity in self._grid.push_messages([message]):
                self._asked[identity] = node
        for reply in self._grid.pull_messages(list(self._asked)) if self._asked else ():
            node = self._asked.pop(reply.metadata.reply_to_message_id)
            answer = f"{reply.error.reason} (code {reply.error.code})" if reply.has_error() else unpack(reply)
            if not isinstance(answer, str) and answer.get(WAITING):
                self._later[node] = steady() + AGAIN
            elif not reply.has_error() or reply.error.code != UNAVAILABLE:  # else: again, as soon as it is back
                self.done.add(node)
            yield node, answer


GRACE = 30.0  # seconds that a message outlives the deadline, so that its end is the server's decision


class GridInbox(Transport):
    """Takes each node's answer once; a node that fails, hangs or vanishes costs itself alone."""

    def __init__(self, grid: Grid, task: Task, deadline: float | None = None, expected: Sequence[str] = ()) -> None:
        ttl = FOREVER if deadline is None else deadline + GRACE
        self._exchange = Exchange(grid, {"task": task.id, "public": task.fingerprint}, ttl)
        self._expected, self._bytes = expected, 0
        self.state = Nodes()
        self._names: dict[int, str] = {}
        self._unapproved: dict[int, str] = {}  # nodes whose site has not approved, and what they say

    @property
    def arriving(self) -> dict[str, str]:
        """The nodes that have not answered, and what to say of them if it stays so."""
        gone = "the node went away before it answered"
        asked = {
            self._name(node): "no answer so far" if node in self._exchange.nodes else gone
            for node in sorted(self._exchange.waiting)
        }
        asked |= {self._name(node): why for node, why in self._unapproved.items()}
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
        self._unapproved.pop(node, None)
        if answer.get(WAITING):
            self._unapproved[node] = _said(answer.get("error"))
            return roster
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
