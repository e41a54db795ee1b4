"""The event log at the command line, and what a server tells: levels, JSON lines, notifications, metrics."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Command
from small_federation import SMALL, Federation

from fedol.cli.logs import Notifier, telling
from fedol.errors import FedolError, InputError
from fedol.report.metrics import Metrics
from fedol.runs.eventlog import EVENTS, EventLog


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return Federation(tmp_path_factory.mktemp("federation"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What a test tells is not told by the next."""
    logger = logging.getLogger("fedol")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_server_tells_notifies_and_writes_down(federation: Federation, tmp_path: Path, command: Command) -> None:
    inbox = federation.inbox(tmp_path / "inbox", "alice", "bob")
    (inbox / "mallory.fedol").write_bytes(b"\0" * 100)
    (tmp_path / "notify.sh").write_text(f"#!/bin/sh\ncat >> {tmp_path / 'told'}\n")
    (tmp_path / "notify.sh").chmod(0o755)
    words = ["serve", federation.task_dir, "--inbox", inbox, "--quorum", 2, "--out", tmp_path / "run", *SMALL]
    more = ["--json-logs", "--log-level", "info", "--notify", tmp_path / "notify.sh", "--metrics", "127.0.0.1:0"]
    said = command(*words, *more, "--quiet")
    assert said.code == 0
    kinds = ["started", "accepted", "accepted", "refused", "closed", "trained"]
    told = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
    assert [event["kind"] for event in told] == kinds
    assert [event["level"] for event in told] == ["info"] * 3 + ["warning", "info", "info"]
    assert told[3]["file"] == "mallory.fedol" and told[1]["client"] == "alice" and len(told[1]["sha256"]) == 64
    kept = [json.loads(line) for line in (tmp_path / "run" / EVENTS).read_text().splitlines()]
    assert [line["kind"] for line in kept] == kinds
    checked = command("log", "verify", tmp_path / "run", "--head", told[4]["hash"], "--json")
    assert checked.code == 0 and json.loads(checked.out)["events"] == 6
    shown = command("log", "show", tmp_path / "run").out
    assert "refused" in shown and "mallory.fedol" in shown
    assert len(command("log", "show", tmp_path / "run", "--json").out.splitlines()) == 6


def test_a_log_that_was_changed_is_refused_by_the_command(tmp_path: Path, command: Command) -> None:
    log = EventLog(tmp_path)
    log.append("accepted", client="alice")
    (tmp_path / EVENTS).write_text((tmp_path / EVENTS).read_text().replace("alice", "carol"))
    said = command("log", "verify", tmp_path)
    assert said.code == 2 and "line 1: its facts were changed" in said.err
    assert command("log", "verify", tmp_path / "none").code == 2


def test_lines_for_people_and_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    telling("warning", False)
    log = EventLog(tmp_path)
    log.append("accepted", client="alice")
    log.append("refused", file="x\x1b[2J", why="it is no good")
    (line,) = capsys.readouterr().err.splitlines()
    assert "warning refused: file x\\x1b[2J, why it is no good" in line and "\x1b" not in line
    with pytest.raises(InputError, match="no log level 'loud'"):
        telling("loud", False)


def test_notifications_come_in_order_and_one_that_fails_costs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "notify"
    script.write_text(f'#!/bin/sh\nread line\necho "$line" >> {tmp_path}/told\ncase $line in *refused*) exit 3; esac\n')
    script.chmod(0o755)
    tell = Notifier(str(script))
    with caplog.at_level(logging.WARNING, "fedol.notify"):
        for n, kind in enumerate(("started", "refused", "closed")):
            tell({"n": n, "kind": kind})
        tell.close()
    assert [json.loads(line)["n"] for line in (tmp_path / "told").read_text().splitlines()] == [0, 1, 2]
    assert [record.getMessage()[:28] for record in caplog.records] == ["event 1 was not notified: Ca"]


@pytest.mark.parametrize("command", ["", "no-such-program-here --now", "'"])
def test_a_notification_by_nothing(command: str) -> None:
    with pytest.raises(InputError, match="names no program"):
        Notifier(command)


def fetch(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_metrics_for_prometheus(tmp_path: Path) -> None:
    metrics = Metrics.at("127.0.0.1:0")
    assert 'fedol_events_total{kind="accepted"} 0' in fetch(metrics.port)
    log = EventLog(tmp_path, [metrics.event])
    log.append("accepted", client="alice", bytes=1234)
    log.append("refused", file="x", bytes=99)
    metrics.stage("server", 6)
    text = fetch(metrics.port)
    for line in ('fedol_events_total{kind="refused"} 1', "fedol_received_bytes_total 1234", "fedol_epochs_expected 6"):
        assert line in text.splitlines()
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    assert names == {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(metrics.port, "/other")
    with pytest.raises(FedolError, match="cannot be served"):
        Metrics.at(f"127.0.0.1:{metrics.port}")


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="is no address for metrics"):
        Metrics.at(address)
