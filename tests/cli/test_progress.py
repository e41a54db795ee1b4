"""Every command that may take long shows what it is doing and the time left; a log has a line now and then."""

import io
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from commands import exit_code, on_terminal
from rich.console import Console

from fedol import Task
from fedol.federation.roster import Roster
from fedol.federation.transports import Scan
from fedol.progress import watched, watching
from fedol.report.live import Lines, LiveProgress, RosterView


@pytest.fixture(scope="module")
def place(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a task, images and a benchmark's folder to give commands to."""
    image = pytest.importorskip("PIL.Image", reason="needs the package pillow")
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(finished, folder / "run")
    rng = np.random.default_rng(0)
    np.save(folder / "public.npy", rng.integers(0, 255, (20, 1, 8, 8), dtype=np.uint8))
    for number in range(40):
        (folder / "images" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (8, 8), dtype=np.uint8)
        image.fromarray(pixels).save(folder / "images" / "ab"[number % 2] / f"{number}.png")
    return folder


CLASSES = ",".join("0123456789")
PREDICT = "client predict task --model run/model.safetensors --out alice.fedol"
COST = "bench cost --preset quick --clients 2 --out bench"
ONE = "bench one-round --preset quick --clients 2 --public 50 --partitions iid --methods local --out bench --dry-run"
LOOPS = {
    f"task new task --public public.npy --classes {CLASSES}": set(),
    "task new other --public images --classes a,b": {("reading images", 40)},
    PREDICT: {("predicting", 1)},
    "predict run images": {("reading images", 40), ("predicting", 1)},
    "partition --dataset images --clients 2 --partition iid --public 2": {("reading images", 40)},
    "export run --onnx model.onnx": {("exporting", 3)},
    "attack alice.fedol --attack random --out hostile": {("reading files", 1), ("writing files", 1)},
    "audit run --clients 2 --shadows 2": {("clients", 2), ("predicting", 2)},
    "doctor": {("measuring", 1)},
    COST: {("methods", 14)},
    ONE: {("planning", 1)},
    "bench report bench": {("reading cells", 0)},
    "run --clients 2 --public 60 --width 4 --epochs 1 --iterations 2 --device cpu --out new": {
        ("evaluating", 2),
        ("examining", 2),
        ("iterations", 2),
        ("reading files", 2),
    },
}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int | None]]:
    """The loops that were in view of the progress bars."""
    found: set[tuple[str, int | None]] = set()
    follow = LiveProgress._follow

    def recorded(self: LiveProgress, parts: Iterable[Any], what: str, count: int | None) -> Iterator[Any]:
        found.add((what, count))
        return follow(self, parts, what, count)

    monkeypatch.setattr(LiveProgress, "_follow", recorded)
    return found


@pytest.mark.parametrize("command", LOOPS, ids=lambda command: " ".join(command.split()[:2]))
def test_long_loops_are_in_view(
    command: str, place: Path, seen: set[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("fedol.report.live.EVERY", float("inf"))  # however slow this machine is
    code = exit_code(*command.split())
    assert not code, capsys.readouterr().err
    assert LOOPS[command] <= seen
    assert capsys.readouterr().err == ""  # no bars: not a terminal


def test_a_bar_moves_and_tells_the_time_left() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with LiveProgress(console) as progress:
        assert list(watched("abc", "looking")) == ["a", "b", "c"]
        for part in watched(iter("abcd"), "counting", 4):
            if part == "c":
                progress._progress.refresh()
    assert "counting" in out.getvalue() and "2/4" in out.getvalue() and "0:0" in out.getvalue()


def test_a_job_that_begins_late_or_is_resumed_shows_its_own_images_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, out = iter([50.0, 51.0, 52.0]), io.StringIO()
    monkeypatch.setattr("fedol.report.live.time", SimpleNamespace(monotonic=lambda: next(clock)))
    job = SimpleNamespace(name="server 2/2", recipe=SimpleNamespace(epochs=50))
    with LiveProgress(Console(file=out, force_terminal=True, width=120)) as progress:
        progress.stage("server", 100)
        for number in (41, 42, 43):
            progress.epoch(SimpleNamespace(job=job, epoch=number, loss=1.0, samples=700, steps=1))  # type: ignore[arg-type]
        progress._progress.refresh()
    assert "43/50 epochs  loss 1.000  700 samples/s" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())


def test_a_log_has_a_line_every_fifteen_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, out = 0.0, io.StringIO()
    monkeypatch.setattr("fedol.report.live.time", SimpleNamespace(monotonic=lambda: now))
    job = SimpleNamespace(name="client 0", recipe=SimpleNamespace(epochs=500))
    with LiveProgress(Console(file=out)) as progress:
        progress.stage("clients", 1000)
        for number in range(1, 301):
            now += 0.125
            progress.epoch(SimpleNamespace(job=job, epoch=number, loss=1.0, samples=700, steps=1))  # type: ignore[arg-type]
        for _ in watched(iter("abc"), "reading [images]"):
            now += 10
    assert out.getvalue().splitlines() == [
        "clients, epochs: 120 of 1,000, about 1:50 left",
        "clients, epochs: 240 of 1,000, about 1:35 left",
        "reading [images]: 2",
    ]


def test_a_line_never_tells_of_time_before_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedol.report.live.EVERY", 0.0)
    out = io.StringIO()
    lines = Lines(Console(file=out), "downloading", 3)
    lines.tell(4)
    assert out.getvalue() == "downloading: 4 of 3, about 0:00 left\n"


def test_training_without_a_stage_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedol.report.live.EVERY", 0.0)
    out = io.StringIO()
    job = SimpleNamespace(name="shadow 0", recipe=SimpleNamespace(epochs=5))
    with LiveProgress(Console(file=out)) as progress:  # as in an audit
        progress.epoch(SimpleNamespace(job=job, epoch=1, loss=1.0, samples=700, steps=1))  # type: ignore[arg-type]
    assert out.getvalue() == "epochs: 1\n"


def test_a_quiet_log_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedol.report.live.EVERY", 0.0)
    for quiet in (False, True):
        out = io.StringIO()
        with LiveProgress(Console(file=out), quiet=quiet):
            assert list(watched("abc", "looking")) == ["a", "b", "c"]
        assert bool(out.getvalue()) is not quiet


def test_a_job_is_called_what_it_is_called() -> None:
    out = io.StringIO()
    job = SimpleNamespace(name="[/b]mine[bold]", recipe=SimpleNamespace(epochs=50))
    with LiveProgress(Console(file=out, force_terminal=True, width=120)) as progress:
        progress.stage("server", 50)
        progress.epoch(SimpleNamespace(job=job, epoch=1, loss=1.0, samples=700, steps=1))  # type: ignore[arg-type]
        progress._progress.refresh()
    assert "[/b]mine[bold]" in out.getvalue() and "\x1b[1mserver" in out.getvalue()


def test_where_nobody_watches_a_loop_is_a_loop() -> None:
    parts = [1, 2]
    assert watched(parts, "anything") is parts
    with watching(lambda parts, what, count: [(what, count)]):
        assert watched(parts, "anything") == [("anything", 2)]  # type: ignore[comparison-overlap]
    assert watched(parts, "anything") is parts


def test_a_terminal_sees_it_unless_it_asks_not_to(place: Path) -> None:
    run = str(place / "run")
    shown = on_terminal(["export", run, f"--onnx={place / 'one.onnx'}"])
    assert "exporting" in shown and "/3" in shown
    assert on_terminal(["export", run, f"--onnx={place / 'two.onnx'}", "--quiet"]) == ""


def test_a_server_that_waits_tells_how_long() -> None:
    task = Task.of(np.zeros((4, 1, 8, 8), np.uint8), ["a", "b"], "waiting")
    for deadline, told in ((7000.0, True), (None, False)):
        out = io.StringIO()
        with RosterView(Console(file=out, force_terminal=True, width=100), task, 3, deadline=deadline) as view:
            view.show(Roster(time.time()), {})
        assert "0 of 3 clients are in" in out.getvalue()
        assert bool(re.search(r"are in, 1:56:\d\d left", out.getvalue())) == told


@pytest.mark.parametrize("terminal", [True, False])
def test_a_server_tells_how_far_its_look_at_the_inbox_is(terminal: bool) -> None:
    task = Task.of(np.zeros((4, 1, 8, 8), np.uint8), ["a", "b"], "looking")
    out, quiet = io.StringIO(), io.StringIO()
    for place, silent in ((out, False), (quiet, True)):
        with RosterView(Console(file=place, force_terminal=terminal, width=100), task, 3, silent) as view:
            view.scanning(Scan(20, 200, 1_000_000, 4_000_000, 5.0))
            view.scanning(Scan(21, 200, 1_100_000, 4_000_000, 5.1))  # too soon to be told
    assert "looked at 20 of 200 files, 1.0 MB of 4.0 MB, about 0:15 left" in out.getvalue()
    assert "looked at 21" not in out.getvalue() and "looked at" not in quiet.getvalue()
