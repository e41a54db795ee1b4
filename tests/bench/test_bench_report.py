"""The report of a benchmark's folder in every medium, and the cells of which none can be made."""

import csv
import json
import shutil

import pytest
from small_bench import SMOKE, TINY, report, rewritten, run

from fedol.bench.cost import cost
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.files import write_json


def test_the_report_in_every_medium(smoke):
    out = smoke[0]
    cost(Scenario(Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config), BenchFolder(out))
    found, numbers = report(out)
    assert [sheet.name for sheet in found] == ["one-round-1", "over-fedol-1", "rounds-1", "cost-1"]
    written = {path.name for path in (out / "report").iterdir()}
    tables = {f"{sheet.name}.{kind}" for sheet in found for kind in ("csv", "tex")}
    assert written == {"report.md", "report.json", *tables, "rounds.png", "rounds.svg"}
    assert json.loads((out / "report" / "report.json").read_text())["one_round"] == numbers["one_round"]
    text = (out / "report" / "report.md").read_text()
    assert "| FedOL (2 × 1 epoch) |" in text and "Server on true public labels (1 epoch)" in text
    assert (out / "report" / "rounds.png").read_bytes()[1:4] == b"PNG"
    tables = {}
    for path in (out / "report").glob("*.csv"):
        with path.open(newline="") as file:
            tables[path.stem] = list(csv.DictReader(file))
    (fedol,) = (row for row in tables["one-round-1"] if row["method"] == "FedOL (2 × 1 epoch)")
    (row,) = (row for row in numbers["one_round"][0]["rows"] if row["method"] == "fedol")
    assert fedol["partition"] == "dirichlet:0.5" and (fedol["n"], fedol["std"], fedol["paper"]) == ("1", "", "")
    assert float(fedol["accuracy"]) == pytest.approx(100 * row["cells"]["dirichlet:0.5"]["mean"], abs=1e-4)
    assert all(row["points"] for row in tables["over-fedol-1"])
    assert {row["round"] for row in tables["rounds-1"]} == {"1", "2"} and tables["rounds-1"][0]["whose"] == "ours"
    assert float(next(row for row in tables["cost-1"] if row["method"] == "FedDF")["up_bytes"]) > 1000


def test_a_report_leaves_no_table_of_the_one_before(smoke, tmp_path):
    out = shutil.copytree(smoke[0] / "cells", tmp_path / "cells").parent
    report(out)
    (out / "report" / "notes.csv").write_text("mine")
    for result in BenchFolder(out).results():
        if result["method"] == "fedol" or result["settings"].get("rounds"):
            (out / result["file"]).unlink()
    report(out)
    left = {path.name for path in (out / "report").iterdir()}
    assert left == {"report.md", "report.json", "one-round-1.csv", "one-round-1.tex", "notes.csv"}


def test_codecs_are_rows_of_their_own_and_named_where_there_are_several(tmp_path):
    run(tmp_path, methods="feddf,fedavg")
    assert [row[0] for row in report(tmp_path)[0][0].rows] == ["FedAvg", "FedDF (1 epoch)"]
    run(tmp_path, methods="feddf", settings={**TINY, "codec": "q7c60+zstd"})
    labels = ["FedAvg", "FedDF (1 epoch), codec float32", "FedDF (1 epoch), codec q7c60+zstd"]
    assert sorted(row[0] for row in report(tmp_path)[0][0].rows) == labels


def test_a_development_table_says_so_and_has_no_paper_beside_it(tmp_path):
    # the paper has numbers for this dataset, partition and method; only the held-out images are not its test set
    run(
        tmp_path,
        methods="feddf",
        settings={**TINY, "development": 50, "augment": True, "schedule": "cosine", "optimiser": "sgd"},
    )
    (cell,) = (tmp_path / "cells").iterdir()
    for held_out, measure, columns in ((50, "Accuracy on 50 samples held out", 2), (0, "Test accuracy in %", 4)):
        result = json.loads(cell.read_text())
        result["settings"] |= {"dataset": "cifar100", "partition": "classes:20", "development": held_out}
        result["settings"] |= {"client_models": ["resnet11", "resnet20"], "server_model": "resnet56"}
        cell.unlink()
        cell = rewritten(tmp_path, result)
        (sheet,) = report(tmp_path)[0]
        assert sheet.note.startswith(measure) and len(sheet.columns) == columns
        assert sheet.title.endswith("1 epoch, flips and crops, SGD, cosine schedule, batches of 32")


def test_a_report_of_nothing_is_an_error(tmp_path):
    with pytest.raises(FedolError, match="no finished cell"):
        report(tmp_path)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "a.json").write_text("{")
    with pytest.raises(FedolError, match=r"cannot be read .*; move it out of this folder"):
        report(tmp_path)


SETTINGS = {"dataset": "digits", "width": 4, "public": 60, "batch_size": 32, "lr": 1e-3, "clients": 3, "epochs": 1}


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({**SETTINGS, "partition": "iid"}, ""),
        ({**SETTINGS, "method": "local", "partition": "weird:3"}, r" \(.*'weird' is not in.*\)"),
        ({"method": "local"}, r" \(KeyError: 'dataset'\)"),
        ([], ""),
    ],
)
def test_a_cell_from_which_no_table_can_be_made_is_named(settings, cause, tmp_path):
    whole = {"method": "local", "settings": {**SETTINGS, "method": "local", "partition": "iid"}, "seed": 0}
    rewritten(tmp_path, {**whole, "accuracy": 0.5})
    assert report(tmp_path)[0][0].rows == [["Local", "50.0"]]
    bad = rewritten(tmp_path, {**whole, "accuracy": 0.5, "settings": settings})
    with pytest.raises(FedolError, match=rf"{bad.name} is (no result of a benchmark|damaged){cause}; move it out"):
        report(tmp_path)


@pytest.mark.parametrize(
    "history", [[{"accuracy": 0.5}], [{"accuracy": 0.5}] * 3, [], None, [{"round": 1}, {"round": 2}]]
)
def test_a_cell_with_other_rounds_than_it_says_is_no_result(history, tmp_path):
    settings = {**SETTINGS, "method": "fedavg", "partition": "iid", "rounds": 2}
    cell = {"method": "fedavg", "settings": settings, "seed": 0, "accuracy": 0.5}
    whole = [{"round": 1, "accuracy": 0.4}, {"round": 2, "accuracy": 0.5}]
    rewritten(tmp_path, {**cell, "history": whole})
    assert len(report(tmp_path)[1]["rounds"][0]["lines"][0]["rounds"]) == 2
    rewritten(tmp_path, {**cell, "history": history})
    with pytest.raises(FedolError, match="is no result of a benchmark; move it out"):
        report(tmp_path)


def test_a_cost_table_from_which_none_can_be_made_is_named(tmp_path):
    write_json(tmp_path / "cost" / "x.json", {})
    with pytest.raises(FedolError, match=r"x\.json is damaged \(KeyError: 'rows'\); move it out"):
        report(tmp_path)
