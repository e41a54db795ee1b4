"""What strangers put into an inbox: no file of theirs stops the server, fills its disk or delays its start."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import fedol
from small_federation import HALF, SMALL, Federation, hostile

from fedol import Knowledge
from fedol.config import ServerConfig
from fedol.errors import FedolError
from fedol.federation import coordinator as coordination
from fedol.federation.coordinator import Coordinator
from fedol.federation.roster import MOST_REFUSED, Roster
from fedol.federation.taskfolder import TaskFolder
from fedol.federation.transports import UNSEEN, Inbox
from fedol.files import write_atomically
from fedol.knowledge.container import Container


def server(federation: Federation, out: Path) -> Coordinator:
    config = ServerConfig(federation.task.id, server_model="mlp", iterations=1, epochs=1, batch_size=16, device="cpu")
    return Coordinator(TaskFolder.open(federation.task_dir), config, out)


def fill(inbox: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (inbox / f"{name}.fedol").write_bytes(data)


def check_reasons(refused: dict[str, str]) -> None:
    for name, reason in refused.items():
        assert name.isprintable() and reason.isprintable() and 0 < len(reason) <= 300, (name, reason)


def test_serve_goes_on_with_the_honest_ones(federation: Federation, tmp_path: Path) -> None:
    inbox = federation.inbox(tmp_path / "inbox", "alice", "bob")
    fill(inbox, hostile(federation))
    (inbox / os.fsdecode(b"wild\xff.fedol")).write_bytes(federation.file("carol").read_bytes())
    run = server(federation, tmp_path / "run")
    roster = run.watch(Inbox(inbox), 3, 60.0)
    assert list(roster.clients) == ["alice", "bob", "eve"]  # a privacy note is shown, not obeyed, and refuses nobody
    assert set(roster.refused) >= {"schema.fedol", "codec.fedol", "task.fedol", "client.fedol", "raw.fedol"}
    assert "not UTF-8" in roster.refused[r"wild\udcff.fedol"]
    check_reasons(roster.refused)
    summary = run.run()
    check_reasons({entry["file"]: entry["reason"] for entry in summary["refused"]})
    again = server(federation, tmp_path / "run")  # a restart reads what was written
    assert again.roster == roster and again.run() == summary


def test_distill_and_its_repetition(federation: Federation, tmp_path: Path) -> None:
    fill(tmp_path, hostile(federation))
    wild = tmp_path / os.fsdecode(b"wild\xff.fedol")
    wild.write_bytes(federation.file("carol").read_bytes())
    files = [federation.file("alice"), federation.file("bob"), wild, tmp_path / "task.fedol", tmp_path / "codec.fedol"]
    command = ["distill", federation.task_dir, *files, "--out", tmp_path / "run", "--json", *SMALL]
    for _ in range(2):
        done = fedol(*command)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
        summary = json.loads(done.stdout)
        assert [client["client"] for client in summary["clients"]] == ["alice", "bob"]
        assert len(summary["refused"]) == 3


def test_an_error_nobody_foresaw_refuses_that_file(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decoder is sound as far as we know; should it not be, one file shows it and the others go on."""
    inbox, real = federation.inbox(tmp_path / "inbox", "alice", "bob"), Knowledge.examine

    def fragile(data: bytes, task: Any) -> Any:
        found = real(data, task)
        if found.client == "alice":
            raise ZeroDivisionError(f"as never before {HALF}")
        return found

    monkeypatch.setattr(Knowledge, "examine", staticmethod(fragile))
    roster = server(federation, tmp_path / "run").watch(Inbox(inbox), 1, 60.0)
    assert list(roster.clients) == ["bob"]
    assert roster.refused["alice.fedol"].startswith("it cannot be read (ZeroDivisionError: as never before")
    check_reasons(roster.refused)


def test_junk_costs_one_roster(federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = federation.inbox(tmp_path / "inbox", "bob")
    fill(inbox, {f"junk{number}": b"\0" * 50 for number in range(2 * MOST_REFUSED)})
    run, written, real = server(federation, tmp_path / "run"), [], Roster.write

    def counted(roster: Roster, path: Path) -> None:
        real(roster, path)
        written.append(path.stat().st_size)

    monkeypatch.setattr(Roster, "write", counted)
    roster = run.watch(Inbox(inbox), 1, 60.0)
    assert list(roster.clients) == ["bob"] and len(written) == 2  # after the look, and when it closes
    assert len(roster.refused) == MOST_REFUSED and roster.unnamed == MOST_REFUSED
    assert run.run()["refused"][-1]["file"] == f"{MOST_REFUSED} more"


def test_a_thousand_junk_files_write_little(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 kB each, all of them in a header that says so much that the reason could be as long; it was 6 GB."""
    inbox, written = federation.inbox(tmp_path / "inbox", "dave"), []
    good = Container.unpack(federation.file("alice").read_bytes())
    long = {**good.header, "schema": "s" * 3000, "client": "c" * 3000, "codec": "q" * 3000, "signature": "f" * 3000}
    fill(inbox, {f"{number:04d}" + "n" * 200: Container(long, b"").pack() for number in range(1000)})
    real = write_atomically

    def counted(path: Path, data: bytes, private: bool = False) -> None:
        written.append(len(data))
        real(path, data, private)

    for module in ("fedol.files", "fedol.federation.roster"):
        monkeypatch.setattr(f"{module}.write_atomically", counted)
    run = server(federation, tmp_path / "run")
    roster = run.watch(Inbox(inbox), 1, 60.0)
    assert list(roster.clients) == ["dave"] and sum(written) < 500_000, f"{sum(written):,} bytes were written"


def test_a_restart_counts_each_refused_file_once(federation: Federation, tmp_path: Path) -> None:
    inbox, out = federation.inbox(tmp_path / "inbox", "alice"), tmp_path / "run"
    fill(inbox, {f"junk{number}": b"\0" * 50 for number in range(MOST_REFUSED + 7)})

    class Killed(Exception):
        pass

    def killed(roster: Roster, arriving: dict[str, str]) -> None:
        assert roster.unnamed == 7
        raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            server(federation, out).watch(Inbox(inbox), 2, 60.0, killed)
    federation.inbox(inbox, "bob")
    server(federation, out).watch(Inbox(inbox), 2, 60.0)
    again = server(federation, out)  # a closed one looks at no file any more, and forgets none
    assert again.roster.closed == "quorum" and again.roster.unnamed == 7


def test_a_flood_does_not_delay_the_start(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quorum and deadline count within a look: then it ends after a last while, here none."""
    monkeypatch.setattr(coordination, "LAST_LOOK", -1.0)
    inbox = federation.inbox(tmp_path / "inbox", "alice")
    fill(inbox, {f"junk{number}": b"\0" * 50 for number in range(20)})
    roster = server(federation, tmp_path / "quorum").watch(Inbox(inbox), 1, None)
    assert roster.closed == "quorum" and list(roster.clients) == ["alice"]
    assert list(roster.refused.values()).count(UNSEEN) == 19  # each is named, so nobody wonders
    roster = server(federation, tmp_path / "deadline").watch(Inbox(inbox), None, 0.0)
    assert roster.closed == "deadline" and list(roster.refused.values()).count(UNSEEN) == 19


def test_nobody_in_names_a_few(federation: Federation, tmp_path: Path) -> None:
    inbox = federation.inbox(tmp_path / "inbox")
    fill(inbox, {f"junk{number:03d}": b"\0" * 50 for number in range(300)})
    with pytest.raises(FedolError, match=r"junk004\.fedol.*; and 295 more\)") as error:
        server(federation, tmp_path / "run").watch(Inbox(inbox), None, 0.0)
    assert len(str(error.value)) < 1000


def test_a_clock_that_is_set_back_delays_no_deadline(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox, looks = federation.inbox(tmp_path / "inbox", "alice"), []
    run = server(federation, tmp_path / "run")
    monkeypatch.setattr(time, "time", lambda: run.roster.opened - 3600 * len(looks))

    def looked(roster: Roster, arriving: dict[str, str]) -> None:
        looks.append(roster)
        assert len(looks) < 20, "it waits for a moment that never comes"

    roster = run.watch(Inbox(inbox), None, 1.0, looked)
    assert roster.closed == "deadline" and list(roster.clients) == ["alice"]


def test_more_than_the_first_file_of_a_name(federation: Federation, tmp_path: Path) -> None:
    """A name that only looks like another's takes nobody's place."""
    inbox = federation.inbox(tmp_path / "inbox", "alice")
    (inbox / "bob\x1b.fedol").write_bytes(federation.file("carol").read_bytes())
    federation.inbox(inbox, "bob")
    roster = server(federation, tmp_path / "run").watch(Inbox(inbox), 3, 60.0)
    assert list(roster.clients) == ["alice", "bob", "carol"] and not roster.refused
    assert np.all([Path(tmp_path / "run" / "clients" / f"{name}.fedol").exists() for name in roster.clients])
