"""The inbox and the roster: one bad file never stops the others."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from small_federation import Federation

from fedol import Knowledge
from fedol.errors import FedolError
from fedol.federation import transports
from fedol.federation.roster import Roster
from fedol.federation.transports import Inbox, Scan
from fedol.knowledge.container import Container


class Desk:
    """An inbox, a place for copies and the roster of one collection."""

    def __init__(self, federation: Federation, tmp_path: Path) -> None:
        self.federation, self.out = federation, tmp_path / "run"
        self.path = federation.inbox(tmp_path / "inbox")
        self.inbox, self.roster = Inbox(self.path), Roster(0.0)

    def put(self, name: str, data: bytes) -> None:
        (self.path / name).write_bytes(data)

    def scan(self) -> Roster:
        for roster in self.inbox.scan(self.roster, self.federation.task, self.out / "clients"):
            self.roster = roster
        self.roster.write(self.out / "roster.json")
        assert Roster.read(self.out / "roster.json", 1.0) == self.roster
        return self.roster


@pytest.fixture
def desk(federation: Federation, tmp_path: Path) -> Desk:
    return Desk(federation, tmp_path)


def test_good_and_bad_side_by_side(desk: Desk, federation: Federation) -> None:
    good = federation.file("alice").read_bytes()
    desk.put("alice.fedol", good)
    desk.put("broken.fedol", b"\0" * 100)
    desk.put("notes.txt", b"not for us")
    desk.put(".hidden.fedol", b"being copied")
    os.symlink(federation.file("bob"), desk.path / "link.fedol")
    os.mkfifo(desk.path / "pipe.fedol")
    (desk.path / "folder.fedol").mkdir()
    roster = desk.scan()
    assert list(roster.clients) == ["alice"]
    assert (desk.out / "clients" / "alice.fedol").read_bytes() == good
    assert set(roster.refused) == {"broken.fedol", "link.fedol", "pipe.fedol", "folder.fedol"}
    assert "symbolic link" in roster.refused["link.fedol"]
    assert "regular file" in roster.refused["pipe.fedol"]


def test_a_file_that_is_still_arriving(desk: Desk, federation: Federation) -> None:
    good = federation.file("bob").read_bytes()
    for part in (0, 5, 300, len(good) - 1):
        desk.put("bob.fedol", good[:part])
        roster = desk.scan()
        assert not roster.clients and not roster.refused and list(desk.inbox.arriving) == ["bob.fedol"]
    desk.put("bob.fedol", good)
    assert list(desk.scan().clients) == ["bob"] and not desk.inbox.arriving


def test_the_first_file_counts(desk: Desk, federation: Federation) -> None:
    first = federation.file("alice").read_bytes()
    other = Knowledge.from_probabilities(np.full((80, 10), 0.1), federation.task, "alice")
    desk.put("alice.fedol", first)
    desk.scan()
    desk.put("again.fedol", first)
    desk.put("alice.fedol", other.encode())
    desk.put("ALICE.fedol", Knowledge(other.log_probs, other.task, "ALICE").encode())
    roster = desk.scan()
    assert list(roster.clients) == ["alice"] and (desk.out / "clients" / "alice.fedol").read_bytes() == first
    assert "already sent" in roster.refused["again.fedol"]
    assert "replaced after" in roster.refused["alice.fedol"]
    assert "already sent" in roster.refused["ALICE.fedol"]


def test_the_first_file_counts_though_another_is_read_before_it(
    desk: Desk, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are read at once, in whatever order they are done."""
    done: list[str] = []
    read, second = transports.read_bounded, Event()

    def slow(path: Path, limit: int, follow: bool) -> bytes:
        if path.name == "1.fedol":
            assert second.wait(10)
        data = read(path, limit, follow=follow)
        done.append(path.name)
        second.set()
        return data

    monkeypatch.setattr(transports, "read_bounded", slow)
    for name in ("1.fedol", "2.fedol"):
        desk.put(name, federation.file("alice").read_bytes())
    roster = desk.scan()
    assert done == ["2.fedol", "1.fedol"]
    assert roster.clients["alice"].file == "1.fedol" and "already sent" in roster.refused["2.fedol"]


def test_a_refused_file_may_be_mended(desk: Desk, federation: Federation) -> None:
    desk.put("alice.fedol", b"\0" * 10)
    assert "alice.fedol" in desk.scan().refused
    desk.put("alice.fedol", federation.file("alice").read_bytes())
    roster = desk.scan()
    assert list(roster.clients) == ["alice"] and not roster.refused


def test_more_than_the_limit_is_not_read(desk: Desk, federation: Federation) -> None:
    with open(desk.path / "huge.fedol", "wb") as file:
        file.truncate(10**12)  # sparse: a terabyte that takes no space
    assert "more than" in desk.scan().refused["huge.fedol"]


def test_known_again_after_a_restart(desk: Desk, federation: Federation) -> None:
    desk.put("alice.fedol", federation.file("alice").read_bytes())
    before = desk.scan()
    desk.inbox, desk.roster = Inbox(desk.path), Roster.read(desk.out / "roster.json", 9.0)
    assert desk.scan() == before


def test_an_inbox_that_is_not_there(federation: Federation, tmp_path: Path) -> None:
    with pytest.raises(FedolError, match="cannot be read"):
        list(Inbox(tmp_path / "none").scan(Roster(0.0), federation.task, tmp_path))


def test_a_damaged_roster(tmp_path: Path) -> None:
    (tmp_path / "roster.json").write_text("{}")
    with pytest.raises(FedolError, match="damaged"):
        Roster.read(tmp_path / "roster.json", 0.0)


def test_a_stranger_cannot_choose_a_path(desk: Desk, federation: Federation) -> None:
    container = Container.unpack(federation.file("alice").read_bytes())
    desk.put("x.fedol", Container({**container.header, "client": "../../evil"}, container.body).pack())
    assert "cannot be named" in desk.scan().refused["x.fedol"]
    assert not (desk.out.parent / "evil.fedol").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_whose_permissions_are_mended_is_looked_at_again(
    desk: Desk, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.put("alice.fedol", federation.file("alice").read_bytes())
    place, real = desk.path / "alice.fedol", os.open
    place.chmod(0o000)

    def opened(path: object, flags: int, mode: int = 0o777) -> int:
        if str(path) == str(place) and not place.stat().st_mode & 0o400:
            raise PermissionError(13, "Permission denied")  # which root, who runs this suite somewhere, never gets
        return real(path, flags, mode)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "open", opened)
    assert "Permission denied" in desk.scan().refused["alice.fedol"]
    before = place.stat().st_mtime_ns
    place.chmod(0o600)
    assert place.stat().st_mtime_ns == before
    roster = desk.scan()
    assert list(roster.clients) == ["alice"] and not roster.refused


def test_a_look_that_takes_its_time_tells_how_far_it_is(
    desk: Desk, federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Scan] = []
    desk.inbox.on_scan = told.append
    sizes = []
    for name in ("alice", "bob", "carol"):
        desk.put(f"{name}.fedol", data := federation.file(name).read_bytes())
        sizes.append(len(data))
    clock = itertools.count(100.0, 1.5)  # seconds that each file takes
    monkeypatch.setattr(transports, "steady", lambda: next(clock))
    assert list(desk.scan().clients) == ["alice", "bob", "carol"]
    second, third = told  # after the first nobody waited yet
    assert (second.files, second.of_files, second.seconds) == (2, 3, 3.0)
    assert (second.bytes, second.of_bytes) == (sizes[0] + sizes[1], sum(sizes))
    assert second.left == pytest.approx(3.0 * sizes[2] / (sizes[0] + sizes[1])) and third.left == 0.0
    desk.scan()  # nothing is new
    assert len(told) == 2
