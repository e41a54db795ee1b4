"""The event log: whatever was removed, changed or cut short shows; what was erased is accounted for."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedol.errors import FedolError
from fedol.runs.eventlog import EVENTS, HEAD, EventLog, read, verify


def lines(folder: Path) -> list[str]:
    return (folder / EVENTS).read_text().splitlines(keepends=True)


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    log = EventLog(tmp_path)
    log.append("opened", task="t", quorum=3)
    log.append("accepted", client="alice", file="alice.fedol", key="ab" * 32, bytes=17)
    log.append("refused", file="bob.fedol", why="it is not signed")
    log.append("closed", why="deadline", clients=1)
    return log


def test_what_was_written_is_read_and_holds(log: EventLog, tmp_path: Path) -> None:
    told = log.append("trained", seconds=1.5)
    assert [line["kind"] for line in read(tmp_path)] == ["opened", "accepted", "refused", "closed", "trained"]
    assert read(tmp_path)[1]["facts"] == {"client": "alice", "file": "alice.fedol", "key": "ab" * 32, "bytes": 17}
    found = verify(tmp_path, told["hash"])
    assert (found.events, found.hash, found.erased) == (5, told["hash"], ())
    assert (tmp_path / EVENTS).stat().st_mode & 0o77 == 0


def changed_fact(text: list[str]) -> list[str]:
    return [text[0], text[1].replace("alice", "carol"), *text[2:]]


def changed_time(text: list[str]) -> list[str]:
    line = json.loads(text[1])
    return [text[0], json.dumps({**line, "time": "2020-01-01T00:00:00+00:00"}) + "\n", *text[2:]]


def erased_by_hand(text: list[str]) -> list[str]:
    line = json.loads(text[1])
    del line["facts"], line["salt"]
    return [text[0], json.dumps(line) + "\n", *text[2:]]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (changed_fact, "line 2: its facts were changed"),
        (changed_time, "line 3: a line before it was removed, moved or changed"),
        (erased_by_hand, "line 2: its facts are gone, and no withdrawal says why"),
        (lambda text: [text[0], *text[2:]], "line 2: a line before it was removed"),
        (lambda text: [text[1], text[0], *text[2:]], "line 1: a line before it"),
        (lambda text: text[:-1], "has 3 lines, but there were 4: it was cut short"),
        (lambda text: [*text[:-1], "{}\n"], "holds a line that is no event"),
        (lambda text: [*text[:-1], "\0\n"], "holds a line that is no event"),
    ],
)
def test_a_log_that_somebody_changed(
    damage: Callable[[list[str]], list[str]], words: str, log: EventLog, tmp_path: Path
) -> None:
    (tmp_path / EVENTS).write_text("".join(damage(lines(tmp_path))))
    with pytest.raises(FedolError, match=words):
        verify(tmp_path)


def test_another_log_under_the_same_name(log: EventLog, tmp_path: Path) -> None:
    kept = verify(tmp_path).hash
    for file in (EVENTS, HEAD):
        (tmp_path / file).unlink()
    EventLog(tmp_path).append("opened", task="t")
    assert verify(tmp_path).events == 1  # by itself it is whole
    with pytest.raises(FedolError, match="it is another log"):
        verify(tmp_path, kept)


def test_no_log(tmp_path: Path) -> None:
    with pytest.raises(FedolError, match="There is no event log"):
        verify(tmp_path)


def test_erasing_a_name_leaves_the_chain(log: EventLog, tmp_path: Path) -> None:
    head = verify(tmp_path).hash
    log.append("accepted", client="alicea", file="x.fedol")
    gone = log.erase("alice")
    assert gone == [2]
    log.append("withdrawn", client_sha256="00", erased=gone)
    found = verify(tmp_path, head)
    assert (found.events, found.erased) == (6, (2,))
    assert '"alice"' not in (tmp_path / EVENTS).read_text() and "alice.fedol" not in (tmp_path / EVENTS).read_text()


def test_what_a_kill_left_of_a_line_is_no_line(log: EventLog, tmp_path: Path) -> None:
    with open(tmp_path / EVENTS, "a") as file:
        file.write('{"n": 5, "ti')
    assert verify(tmp_path).events == 4
    EventLog(tmp_path).append("opened", task="t")
    assert verify(tmp_path).events == 5


def test_a_kill_between_a_line_and_the_head(log: EventLog, tmp_path: Path) -> None:
    head = (tmp_path / HEAD).read_bytes()
    log.append("trained")
    (tmp_path / HEAD).write_bytes(head)
    assert verify(tmp_path).events == 5


def test_many_at_once(tmp_path: Path) -> None:
    logs = [EventLog(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: logs[k % 4].append("accepted", client=f"c{k}", why="x" * (k % 7) * 1000), range(60)))
    assert verify(tmp_path).events == 60
    assert {line["facts"]["client"] for line in read(tmp_path)} == {f"c{k}" for k in range(60)}


def test_a_strangers_words_are_on_one_line(tmp_path: Path) -> None:
    EventLog(tmp_path).append("refused", file="a\nb\ud800\x1b[2J", why="y" * 5000)
    (line,) = read(tmp_path)
    assert line["facts"]["file"] == "a b\\ud800\\x1b[2J" and len(line["facts"]["why"]) <= 300
    assert verify(tmp_path).events == 1


def test_everybody_who_listens_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[dict[str, object]] = []
    with caplog.at_level(logging.DEBUG, "fedol.events"):
        log = EventLog(tmp_path, [heard.append])
        log.append("refused", file="x")
        log.append("accepted", file="y")
    assert [(event["kind"], event["n"]) for event in heard] == [("refused", 1), ("accepted", 2)]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
