"""What the public objects show of themselves: short, without their arrays, and nothing of it is read as markup."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedol
from fedol.data import Labelled
from fedol.progress import Observer
from fedol.report.result import RunResult
from fedol.runs.folder import read_summary
from fedol.training import Epoch

EVIL = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture
def result(finished: Path, tmp_path: Path) -> RunResult:
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    return RunResult(folder, read_summary(folder / "summary.json"))


def dataset(name: str) -> fedol.Dataset:
    images = np.zeros((6, 1, 4, 4), np.uint8)
    return fedol.Dataset.from_arrays(images, [0, 1] * 3, images, [0, 1] * 3, name=name, groups=["a", "b", "b"] * 2)


def test_each_says_what_it_is_in_a_line(result: RunResult) -> None:
    data = dataset("mine")
    assert repr(data) == "Dataset(name='mine', kind='images', train=6, test=6, shape='1x4x4', sites=2, classes=2)"
    assert repr(data.test) == "Labelled(kind='images', samples=6, shape='1x4x4')"
    sent = fedol.Knowledge.from_probabilities(np.full((5, 2), 0.5), client="alice")
    assert repr(sent) == "Knowledge(client='alice', samples=5, classes=2, masses=False)"
    task = fedol.Task(tuple("abc"), 9, "f" * 64, "pets", clients={"alice": None, "bob": None})
    assert repr(task) == f"Task(name='pets', id='{task.id[:12]}', samples=9, classes=3, clients=2)"
    assert "clients='anyone'" in repr(fedol.Task(tuple("abc"), 9, "f" * 64))
    shown = repr(result.model)
    assert shown.startswith("ServerModel(model='mlp', parameters=") and "classes=10" in shown and len(shown) < 120
    assert repr(result).startswith("RunResult(out=") and f"accuracy='{100 * result.accuracy:.1f} %'" in repr(result)


def test_an_epoch_says_how_it_went(tmp_path: Path, tiny: dict[str, Any]) -> None:
    seen: list[Epoch] = []

    class Watch(Observer):
        def epoch(self, epoch: Epoch) -> None:
            seen.append(epoch)

    fedol.run(out=tmp_path / "run", observer=Watch(), **tiny)
    assert repr(seen[0]) == f"Epoch(job='client 0', epoch='1/1', loss={seen[0].loss:.4g})"
    assert "<td" in seen[0]._repr_html_()


def test_in_a_notebook_it_is_a_table_that_nobody_can_write_into(result: RunResult) -> None:
    evil = RunResult(Path(EVIL), {**result.summary, "config": {**result.summary["config"], "dataset": EVIL}})
    data = dataset(EVIL)
    named = Labelled(data.train.samples, data.train.y)
    sent = fedol.Knowledge.from_probabilities(np.full((5, 2), 0.5))
    for shown in (evil, data, named, result.model, sent):
        html = shown._repr_html_()
        assert html.startswith("<table>") and "<script" not in html and "\x1b" not in html
        assert "\x1b" not in repr(shown)
    assert "&lt;script&gt;" in evil._repr_html_() and "&lt;script&gt;" in data._repr_html_()


def test_the_result_as_a_frame_a_figure_and_a_page(result: RunResult) -> None:
    pytest.importorskip("pandas", reason="needs the package pandas")
    pytest.importorskip("matplotlib", reason="needs the package matplotlib")
    frame = result.to_frame()
    assert list(frame.index) == ["client 0", "client 1", "ensemble", "server"]
    assert frame.accuracy["server"] == result.accuracy == result.summary["server"]["accuracy"]
    assert frame.parameters["client 1"] == result.summary["clients"][1]["parameters"]
    figure = result.plot()
    bars, losses = figure.axes
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(list(100 * frame.accuracy))
    drawn = [line for line in losses.lines if len(line.get_xdata())]
    assert len(drawn) == 4  # two clients, two iterations
    figure.canvas.draw()
    assert all(label.get_text().isdigit() for label in losses.get_xticklabels()), "no half epochs"
    assert all("$" not in label.get_text() for label in losses.get_yticklabels(which="both"))
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert result.report().read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_that_is_gone_is_made_again(result: RunResult) -> None:
    before = result.report().read_bytes()
    result.report().unlink()
    assert result.report().read_bytes() == before
