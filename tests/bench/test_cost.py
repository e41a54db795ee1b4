"""The cost table: bytes, FLOPs and seconds, measured where there is a cell and computed where there is none."""

import re
import shutil
from dataclasses import replace

import pytest
from small_bench import ONE_ROUND, SMOKE, TINY, results, rewritten, run

from fedol.bench import plan as work
from fedol.bench.cells import Cell
from fedol.bench.cost import cost, cost_sheet, explanation, printed
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.federation.scenario import Scenario


def test_cost_counts_what_is_sent(smoke):
    scenario = Scenario(Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config)
    rows = {row["method"]: row for row in cost(scenario, BenchFolder(smoke[0]))["rows"]}
    measured = [c["upload_bytes"] for c in results(smoke[0])["feddf", 1]["clients"]]
    assert rows["feddf"]["up_bytes"] == sum(measured) / 3 and rows["feddf"]["measured"]
    assert rows["local"]["up_bytes"] == 0
    assert 2 * 60 <= rows["fedkt"]["up_bytes"] < rows["feddf"]["up_bytes"] < rows["fedavg"]["up_bytes"]
    assert rows["fedavg"]["down_bytes_first"] == rows["fedavg"]["up_bytes"] and rows["feddf"]["down_bytes_first"] == 0
    assert rows["feddf"]["down_bytes_later"] > 0 and rows["fedol"]["down_bytes_later"] is None
    assert rows["fedol"]["server_flops"] == 2 * rows["feddf"]["server_flops"] and rows["fedavg"]["server_flops"] == 0
    assert rows["fedkt"]["client_flops"] > 2 * rows["feddf"]["client_flops"]
    assert (
        rows["feddf"]["client_flops_later"] > 2 * rows["feddf"]["client_flops"]
    )  # 20 epochs on feedback after the one
    assert rows["fedavg"]["client_flops_later"] == rows["fedavg"]["client_flops"]
    assert rows["fedol"]["client_flops_later"] is None
    trained = [record["seconds"] for record in results(smoke[0])["fedol", 1]["history"]]
    assert rows["fedol"]["server_seconds"] == sum(trained) and rows["fedavg"]["server_seconds"] is not None
    assert rows["fedol"]["seconds_on"] == results(smoke[0])["fedol", 1]["device"]


def test_cost_takes_what_was_measured_with_another_partition_and_seed(smoke, tmp_path):
    out = shutil.copytree(smoke[0] / "cells", tmp_path / "cells").parent
    config = Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config
    asked, other = (
        cost(Scenario(changed), BenchFolder(out))["rows"]
        for changed in (config, replace(config, partition="iid", seed=7))
    )
    assert [row["client_seconds"] for row in asked] == [row["client_seconds"] for row in other]
    assert all(row["measured"] for row in other)
    moved = results(out)["feddf", 1]  # of another partition there is one cell only: all are taken from the first
    moved["settings"]["partition"], moved["clients"] = "iid", [{"accuracy": 0.5, "seconds": 1e9, "upload_bytes": 1}]
    rewritten(out, moved)
    table = cost(Scenario(replace(config, partition="iid")), BenchFolder(out))
    assert [row["up_bytes"] for row in table["rows"]] == [row["up_bytes"] for row in asked]
    assert table["explanation"].startswith("Measured with dirichlet:0.5, seed 0.")
    longer = cost(Scenario(replace(config, epochs=2)), BenchFolder(out))["rows"]
    assert not any(row["measured"] for row in longer if row["method"] != "local")


def test_cost_knows_the_clients_that_methods_share(tmp_path):
    run(tmp_path, methods="feddf")
    scenario = Scenario(Spec.from_json({**SMOKE, "methods": "feddf"}).cells()[0].config)
    table = cost(scenario, BenchFolder(tmp_path))
    rows = {row["method"]: row for row in table["rows"]}
    for name in ("up_bytes", "client_seconds", "seconds_on"):
        assert rows["mine"][name] == rows["fedol"][name] == rows["feddf"][name] is not None
    assert rows["mine"]["server_seconds"] is None and not rows["fedkt"]["measured"]
    sheet = cost_sheet({**table, "settings": {**table["settings"], "clients": 1}}, 1)
    assert "Uploads are files as they would be sent in FedAvg, " in sheet.note and "FedKT, else measured;" in sheet.note
    assert "1 client, 60 public samples, 1 epoch, batches" in sheet.title  # and no word of the usual optimiser


def test_cost_without_any_cell_is_the_size_of_the_files_it_would_send(smoke, tmp_path):
    scenario = Scenario(Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config)
    fresh, sent = (
        {row["method"]: row["up_bytes"] for row in cost(scenario, BenchFolder(folder))["rows"]}
        for folder in (tmp_path, smoke[0])
    )
    assert all(fresh[method] == pytest.approx(sent[method], rel=0.05) for method in fresh)
    many = replace(scenario.config, public=1000)
    whole, half = (cost(Scenario(replace(many, codec=c)), BenchFolder(tmp_path)) for c in ("float32", "float16"))
    for name in ("up_bytes", "down_bytes_later"):
        sizes = [next(row[name] for row in table["rows"] if row["method"] == "feddf") for table in (whole, half)]
        assert sizes[1] == pytest.approx(sizes[0] / 2, rel=0.1)


def test_cost_is_the_mean_over_clients(tmp_path):
    run(tmp_path, methods="feddf")
    (result,) = BenchFolder(tmp_path).results()
    for client, number in zip(result["clients"], (1, 2, 6), strict=True):
        client |= {"upload_bytes": 1_000_000 * number, "seconds": number}
    rewritten(tmp_path, result)
    (cell,) = Spec.from_json({**SMOKE, "methods": "feddf"}).cells()
    table = cost(Scenario(cell.config), BenchFolder(tmp_path))
    (row,) = (row for row in table["rows"] if row["method"] == "feddf")
    assert (row["up_bytes"], row["client_seconds"]) == (3_000_000, 3)
    assert "3.000" in next(row for row in cost_sheet(table, 1).rows if row[0] == "FedDF")


def test_cost_from_two_machines_is_one_table(tmp_path):
    config = Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config
    for data in (None, str(tmp_path)):
        cost(Scenario(replace(config, data_dir=data)), BenchFolder(tmp_path / "bench"))
    assert len(list((tmp_path / "bench" / "cost").iterdir())) == 1


def test_the_papers_own_figures_are_explained_by_ten_classes():
    assert "0.3815 MiB" in explanation() and "17,075,274" in explanation() and "65.137 MiB" in explanation()
    assert "neither the downlink nor the feedback of later rounds" in explanation()


def test_the_papers_figures_stand_beside_its_own_dataset_and_methods():
    figures = {method: printed("cifar100", method) for method in ONE_ROUND}
    assert {method: value for method, value in figures.items() if value} == {
        **dict.fromkeys(("local", "fedavg"), 65.14),
        **dict.fromkeys(("feddf", "fedet", "fedkt", "fedol"), 0.38),
    }
    assert not any(printed("digits", method) for method in ONE_ROUND)


def test_a_cost_table_says_its_units_and_leaves_out_what_it_has_not(smoke):
    scenario = Scenario(Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config)
    table = cost(scenario, BenchFolder(smoke[0]))
    measured, _, sizes = table["explanation"].partition(" Parameters: ")
    assert measured == "Measured with dirichlet:0.5, seed 0."  # the paper's figures are not for this
    assert re.fullmatch(r"mlp [\d,]+, cnn [\d,]+, cnn-large [\d,]+\.", sizes)
    sheet = cost_sheet(table, 1)
    heads = ["", "up, MB", "down, MB", "down later, MB", "client FLOPs", "client FLOPs later", "server FLOPs"]
    assert sheet.columns == [*heads, "client s", "server s"]
    assert next(row for row in sheet.rows if row[0] == "FedOL")[3:6:2] == ["–", "–"]
    for row in table["rows"]:
        row["paper_mb"] = printed("cifar100", row["method"])
        del row["client_flops_later"]  # which tables of before have not
    assert cost_sheet(table, 1).columns[4:7] == ["paper, MiB", "client FLOPs", "server FLOPs"]


def test_cost_says_where_weights_are_the_smaller_upload(tmp_path):
    narrow = {**TINY, "width": 1, "public": 900, "parameter_model": "mlp"}
    scenario = Scenario(Spec.from_json({**SMOKE, "settings": narrow, "methods": "local"}).cells()[0].config)
    table = cost(scenario, BenchFolder(tmp_path))
    sent = next(row["up_bytes"] for row in table["rows"] if row["method"] == "fedavg")
    assert f"FedAvg's {sent / 1e6:.3g} MB a round, against 0.036 MB" in table["explanation"]


def test_the_flops_of_a_known_network():
    from fedol.bench.plan import forward_flops
    from fedol.data import Normalisation
    from fedol.model import Architecture

    mlp = Architecture("mlp", tuple("abc"), (1, 4, 4), 2, Normalisation((0.0,), (1.0,)))
    assert forward_flops(mlp) == 2 * (16 * 8 + 8 * 3)


def test_a_servers_work_is_three_passes_a_sample_in_each_epoch_of_each_iteration():
    config = Spec.from_json({**SMOKE, "methods": "fedol", "settings": {**TINY, "server_epochs": 7}}).cells()[0].config
    here = Scenario(config)
    assert work.server_work(Cell.of("fedol", config), here) == 3 * work.forward_flops(here.server) * 60 * 7 * 2


def test_an_average_predicts_with_its_own_model():
    cells = Spec.from_json({**SMOKE, "methods": "fedavg,feddf"}).cells()
    scenario = Scenario(cells[0].config)
    small, large = (work.server_predictions(cell, scenario) for cell in cells)
    images = cells[0].config.public + len(scenario.dataset.test)
    assert small == 2 * images * work.forward_flops(scenario.architecture(cells[0].config.parameter_model)) < large
