"""``fedol.compare``: the same cells as ``fedol bench``, as tables, frames and figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import exit_code
from observing import Seen

import fedol
from fedol import methods
from fedol.bench.store import BenchFolder
from fedol.data import Iid, load
from fedol.errors import FedolError, InputError, MissingExtra
from fedol.methods import Method
from fedol.training import Epoch

SMALL: dict[str, Any] = {"clients": 3, "public": 60, "epochs": 1, "iterations": 2, "device": "cpu", "width": 4}
METHODS = ["local", "fedol", "fedol+", "pooled", "feddf", "union", "ceiling"]
PARTITIONS = ["iid", "classes:5"]
TAU = [0.1, 0.5]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fedol.Comparison:
    """Seven methods, two partitions, two seeds, two values of τ."""
    out = tmp_path_factory.mktemp("compare")
    return fedol.compare("digits", METHODS, PARTITIONS, seeds="0-1", out=out, observer=Seen(), tau=TAU, **SMALL)


def test_a_row_is_a_method_with_the_values_that_it_depends_on(found: fedol.Comparison) -> None:
    rows = [(row.method, row.values["tau"]) for row in found.table.rows]
    assert rows == [
        ("local", None),
        *(("fedol", tau) for tau in TAU),
        *(("fedol+", tau) for tau in TAU),
        *((name, None) for name in ("pooled", "feddf", "union", "ceiling")),
    ]
    assert repr(found).startswith("Comparison(9 rows × 2 partitions, n = 2; iid: ") and len(repr(found)) < 200


def test_numbers_are_those_of_the_cells(found: fedol.Comparison) -> None:
    cells = list(BenchFolder(found.out).results())
    for record in found.table.records():
        mine = [
            cell["accuracy"]
            for cell in cells
            if cell["method"] == record["method"]
            and cell["settings"].get("partition", record["partition"]) == record["partition"]
            and (record["tau"] is None or cell["settings"]["tau"] == record["tau"])
        ]
        assert record["n"] == len(mine) == 2
        assert record["accuracy"] == pytest.approx(np.mean(mine)) and record["std"] == pytest.approx(
            np.std(mine, ddof=1)
        )


def test_differences_are_paired_by_seed_at_the_same_value(found: fedol.Comparison) -> None:
    runs = {(run["method"], run["tau"], run["partition"], run["seed"]): run for run in found.table.runs()}
    for (method, tau, partition, seed), run in runs.items():
        # What does not depend on τ is compared with its first value.
        base = runs["fedol", TAU[0] if tau is None else tau, partition, seed]["accuracy"]
        assert run["difference"] == (None if method == "fedol" else pytest.approx(run["accuracy"] - base))
    for record in found.table.records():
        ours = [runs[record["method"], record["tau"], record["partition"], seed]["difference"] for seed in (0, 1)]
        if record["method"] != "fedol":
            assert record["difference"] == pytest.approx(np.mean(ours)) and record["difference_n"] == 2
            assert record["difference_std"] == pytest.approx(np.std(ours, ddof=1))
    turned = found.against("union")
    pair = [
        next(r for r in each.table.records() if r["method"] == name and r["tau"] in (None, TAU[0]))
        for each, name in ((found, "union"), (turned, "fedol"))
    ]
    assert pair[0]["difference"] == pytest.approx(-pair[1]["difference"])
    assert "Above Union" in str(turned) and "Above FedOL" in str(found)


def test_the_best_is_bold_and_a_control_never_is(found: fedol.Comparison) -> None:
    text, html, latex = found.to_markdown(), found._repr_html_(), found.to_latex()
    for partition in PARTITIONS:
        records = [r for r in found.table.records() if r["partition"] == partition]
        best = max(record["accuracy"] for record in records if record["method"] != "ceiling")
        word = f"{100 * best:.1f} ± "
        assert f"**{word}" in text and f"<b>{word}" in html and rf"\textbf{{{100 * best:.1f} $\pm$" in latex
    assert all("**" not in line for line in text.splitlines() if "true public labels" in line)
    for line in latex.splitlines():
        if line.endswith(r"\\") and "&" in line:
            assert line.count("&") == 1 + len(PARTITIONS), line
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2
    assert latex.isascii()


def test_frames(found: fedol.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas", reason="frames need pandas (fedol[frame])")
    frame, runs = found.to_frame(), found.to_frame(per_seed=True)
    columns = ["method", "tau", "partition", "accuracy", "std", "n", "difference", "difference_std", "difference_n"]
    assert list(frame.columns) == columns and len(frame) == 9 * 2
    means = runs.groupby(["method", "tau", "partition"], dropna=False)["accuracy"].mean()
    merged = frame.set_index(["method", "tau", "partition"])["accuracy"]
    pandas.testing.assert_series_equal(means.sort_index(), merged.sort_index(), check_names=False)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedol\[frame\]'"):
        found.to_frame()


def test_figures_and_the_page(found: fedol.Comparison, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib (fedol[plot])")
    curves = found.plot(tmp_path / "curves.png")
    assert len(curves.axes) == 2 and (tmp_path / "curves.png").read_bytes()[1:4] == b"PNG"
    bars = fedol.compare("digits", METHODS, PARTITIONS, 2, out=found.out, observer=Seen(), tau=0.1, **SMALL).plot()
    assert len(bars.axes[0].patches) == len(METHODS)
    assert "Union" in found.report().read_text()


def test_the_same_call_again_trains_nothing_and_the_command_line_finds_the_same(
    found: fedol.Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = Seen()
    again = fedol.compare("digits", METHODS, PARTITIONS, [0, 1], out=found.out, observer=seen, tau=TAU, **SMALL)
    assert again.table.records() == found.table.records() and seen.jobs == [] and seen.stages == [("training", 0)]
    words = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    words += ["--methods", ",".join(METHODS), "--partitions", ",".join(PARTITIONS), "--seeds", "0-1"]
    assert exit_code("bench", *words, "--set", "tau=0.1,0.5", "--out", found.out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["comparison"] == found.table.records()
    assert exit_code("bench", *words, "--set", "tau=0.1,0.5", "--out", found.out, "--latex") == 0
    assert capsys.readouterr().out.strip() == found.to_latex().strip()


def test_clients_and_data_may_differ_within_a_grid(tmp_path: Path) -> None:
    found = fedol.compare(
        "digits", "feddf", "iid", 1, out=tmp_path, observer=Seen(), **{**SMALL, "clients": [2, 4], "public": [60, 90]}
    )
    points = [(row.values["clients"], row.values["public"]) for row in found.table.rows]
    assert points == [(2, 60), (2, 90), (4, 60), (4, 90)]
    for cell in BenchFolder(tmp_path).results():
        settings = cell["settings"]
        assert len(cell["clients"]) == settings["clients"]
        private = len(load("digits").train) - settings["public"]
        assert sum(client["samples"] for client in cell["clients"]) == private
    several = found.table.records()
    assert len({record["accuracy"] for record in several}) > 1


def test_models_dealt_in_turn_are_one_value_and_lists_of_them_several(tmp_path: Path) -> None:
    one = fedol.compare(
        "digits", "feddf", "iid", 1, out=tmp_path, observer=Seen(), client_models=["mlp", "cnn"], **SMALL
    )
    assert len(one.table.rows) == 1
    two = fedol.compare(
        "digits", "feddf", "iid", 1, out=tmp_path, observer=Seen(), client_models=[["mlp"], ["mlp", "cnn"]], **SMALL
    )
    assert [row.named for row in two.table.rows] == [["FedDF", "mlp"], ["FedDF", "mlp,cnn"]]
    assert two.table.records()[1]["accuracy"] == one.table.records()[0]["accuracy"]


@pytest.mark.parametrize("form", ["dataset", "pair", "grey", "path"])
def test_data_in_every_form(form: str, tmp_path: Path) -> None:
    digits = load("digits")
    given: Any = digits
    if form == "path":
        np.savez(
            tmp_path / "mine.npz",
            train_x=digits.train.x,
            train_y=digits.train.y,
            test_x=digits.test.x,
            test_y=digits.test.y,
        )
        given = tmp_path / "mine.npz"
    elif form != "dataset":
        given = (
            digits.train.x if form == "pair" else digits.train.x[:, 0],
            np.array(list("abcdefghij"))[digits.train.y],
        )
    found = fedol.compare(given, "feddf", Iid(), 1, out=tmp_path / "out", observer=Seen(), **SMALL)
    again = fedol.compare(given, "feddf", "iid", 1, out=tmp_path / "out", observer=(seen := Seen()), **SMALL)
    assert seen.jobs == [] and again.table.records() == found.table.records()
    if form in ("pair", "grey"):
        run = fedol.run(dataset=given, out=tmp_path / "run", progress=False, **SMALL)
        assert run.summary["server"] is not None


def test_a_pair_keeps_a_fifth_of_each_class_for_the_test() -> None:
    from fedol.data import from_pair

    digits = load("digits")
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    made = from_pair(digits.train.x, words[digits.train.y])
    assert made.classes == tuple(sorted(words)) and made.name == "data"
    everyone = np.bincount(digits.train.y)
    tested = {made.classes[c]: count for c, count in enumerate(np.bincount(made.test.y))}
    assert tested == {word: everyone[k] // 5 for k, word in enumerate(words)}
    assert made.fingerprint == from_pair(digits.train.x.copy(), words[digits.train.y]).fingerprint
    numbers = from_pair(digits.train.x, digits.train.y + 3)
    assert numbers.classes == tuple(str(number) for number in range(3, 13))


class Stopping(Seen):
    """Is interrupted after some epochs."""

    def epoch(self, epoch: Epoch) -> None:
        super().epoch(epoch)
        if len(self.jobs) == 9:
            raise KeyboardInterrupt


def test_a_call_that_was_stopped_continues_to_the_same_numbers(found: fedol.Comparison, tmp_path: Path) -> None:
    stopped, rest = Stopping(), Seen()
    with pytest.raises(KeyboardInterrupt):
        fedol.compare("digits", METHODS, PARTITIONS, 2, out=tmp_path, observer=stopped, tau=TAU, **SMALL)
    again = fedol.compare("digits", METHODS, PARTITIONS, 2, out=tmp_path, observer=rest, tau=TAU, **SMALL)
    assert again.table.records() == found.table.records()
    ((_, wanted),) = rest.stages
    assert wanted == len(rest.jobs)


def test_what_fails_is_said_and_stops_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("no idea")

    monkeypatch.setitem(methods.METHODS, "broken", Method("broken", "Broken", broken))
    with pytest.warns(UserWarning, match="no idea"):
        found = fedol.compare("digits", "broken,feddf", "iid", 1, out=tmp_path, observer=Seen(), **SMALL)
    assert found.table.against == "broken" and len(found.failed) == 1
    assert [record["n"] for record in found.table.records()] == [0, 1]
    assert "1 failed" in repr(found) and "no idea" in found._repr_html_()
    with pytest.raises(FedolError, match="no idea"):
        fedol.compare("digits", "broken", "iid", 1, out=tmp_path, observer=Seen(), **SMALL)


LARGE = np.zeros((50, 50))
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "array as data": (lambda: fedol.compare(LARGE), "not|but are ndarray of shape"),
    "table": (lambda: fedol.compare((LARGE, np.zeros(50))), "y must be 50 labels, numbers or names"),
    "labels": (lambda: fedol.compare((np.zeros((5, 8, 8), np.uint8), LARGE)), "Y must be zeros and ones"),
    "methods": (lambda: fedol.compare("digits", LARGE), "or a list, not ndarray of shape"),  # type: ignore[arg-type]
    "method": (lambda: fedol.compare("digits", ["fedoll"]), "did you mean 'fedol'"),
    "partitions": (lambda: fedol.compare("digits", "fedol", [LARGE]), "not ndarray of shape"),  # type: ignore[list-item]
    "seeds": (lambda: fedol.compare("digits", "fedol", "iid", LARGE), "seeds must be"),  # type: ignore[arg-type]
    "span": (lambda: fedol.compare("digits", "fedol", "iid", "4-0"), "seeds must be"),
    "against": (lambda: fedol.compare("digits", "fedol,union", against="pooled"), "no method in this comparison"),
    "value": (lambda: fedol.compare("digits", "fedol", tau=LARGE), "'tau' must be a number, but is ndarray of"),  # type: ignore[arg-type]
    "values": (lambda: fedol.compare("digits", "fedol", tau=[0.1, LARGE]), "'tau' must be a number"),  # type: ignore[list-item]
    "idle": (lambda: fedol.compare("digits", "union", tau=[0.1, 0.2]), "None of these methods depends on tau"),
    "empty": (lambda: fedol.compare("digits", "union", tau=[]), "must be a list of one or more"),
    "name": (lambda: fedol.compare("digits", "fedol", taau=[1]), "did you mean 'tau'"),  # type: ignore[call-arg]
    "preset": (lambda: fedol.compare("digits", "fedol", preset=LARGE), "no preset 'ndarray of shape"),  # type: ignore[arg-type]
    "models": (lambda: fedol.compare("digits", "fedol", client_models=LARGE), "not ndarray of shape"),  # type: ignore[arg-type]
    "run, data": (lambda: fedol.run(dataset=LARGE), "but are ndarray of shape"),  # type: ignore[arg-type]
    "run, config": (lambda: fedol.run("digits"), "data go in dataset="),  # type: ignore[arg-type]
    "run, value": (lambda: fedol.run(server_model=LARGE), "not ndarray of shape"),  # type: ignore[arg-type]
    "run, list": (lambda: fedol.run(tau=list(range(5000))), "'tau' must be a number, but is a list of 5,000"),  # type: ignore[arg-type]
    "distill": (lambda: fedol.distill([LARGE], LARGE[0]), "public samples must be uint8"),
    "distill, method": (
        lambda: fedol.distill([np.full((50, 2), 0.5)], np.zeros((50, 1, 8, 8), np.uint8), method=LARGE),
        "'method'",
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_wrong_is_one_short_sentence(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    work, words = CALLS[call]
    with pytest.raises(InputError, match=words) as error:
        work()
    assert len(str(error.value)) < 900 and "[[" not in str(error.value) and "0." not in str(error.value)[:20]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "preset"),
    [
        ({"dataset": "digits"}, "quick"),
        ({}, "quick"),
        ({"dataset": "cifar100"}, "paper"),
        ({"data_dir": "DATA"}, "paper"),
        ({"dataset": "mine.npz", "data_dir": "DATA"}, "quick"),
    ],
)
def test_the_preset_fits_the_data(settings: dict[str, Any], preset: str) -> None:
    from fedol.bench.spec import usual_preset

    assert usual_preset(settings) == preset
