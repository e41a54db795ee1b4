"""Damaged files in a benchmark's folder: computed again where that is safe, else named with what to do."""

import json
import shutil

import pytest
from small_bench import SMOKE, Silent, report, results, run

from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.errors import FedolError
from fedol.files import write_json


def test_a_damaged_client_stops_only_the_methods_that_read_it(tmp_path):
    run(tmp_path, methods="local")
    (damaged, _, _) = sorted(tmp_path.glob("clients/*/*.safetensors"))
    damaged.write_text("junk")
    summary = run(tmp_path, kind="rounds", rounds=2, feedback_epochs=1, methods="fedavg,feddf")
    assert (summary["cells"], summary["finished"]) == (2, 1)
    (failure,) = summary["failed"]
    assert failure.startswith("FedDF") and failure.endswith("Remove that file, and the same command makes it again.")
    damaged.unlink()
    assert run(tmp_path, kind="rounds", rounds=2, feedback_epochs=1, methods="fedavg,feddf")["finished"] == 2


def test_a_damaged_cell_is_not_finished_and_computed_again(tmp_path):
    run(tmp_path, methods="local,feddf")
    cells = sorted(tmp_path.glob("cells/*.json"))
    whole = [json.loads(path.read_text())["accuracy"] for path in cells]
    cells[0].write_text('{"hash": "x')
    cells[1].write_text("{}")
    bench = Bench(Spec.from_json({**SMOKE, "methods": "local,feddf"}), tmp_path)
    assert [len(group.cells) for group in bench.plans()] == [2]
    assert run(tmp_path, methods="local,feddf")["finished"] == 2
    assert [json.loads(path.read_text())["accuracy"] for path in cells] == whole


@pytest.mark.parametrize(
    "change",
    [
        {"accuracy": "high"},
        {"accuracy": None},
        {"seed": "zero"},
        {"method": 3},
        {"clients": [{"accuracy": "x"}]},
        {"clients": [{"accuracy": None}]},
        {"clients": 3},
    ],
)
def test_a_cell_with_values_of_another_kind_is_computed_again(change, tmp_path):
    run(tmp_path, methods="local")
    (cell,) = (tmp_path / "cells").iterdir()
    whole = json.loads(cell.read_text())
    write_json(cell, {**whole, **change})
    with pytest.raises(FedolError, match="is no result of a benchmark; move it out"):
        report(tmp_path)
    run(tmp_path, methods="local")
    assert json.loads(cell.read_text())["accuracy"] == whole["accuracy"]


def test_a_copy_of_a_cell_is_no_further_seed(tmp_path):
    run(tmp_path, methods="local,feddf")
    first, second = sorted((tmp_path / "cells").iterdir())
    copy = first.with_name(f"{first.stem} (1).json")  # as "keep both" names it
    shutil.copy(first, copy)
    with pytest.raises(FedolError, match=rf"\(1\).json is not named as the result in it, {first.stem}; move it out"):
        report(tmp_path)
    copy.unlink()
    before = json.loads(second.read_text())["method"]
    shutil.copy(first, second)  # over another's, which is then computed again
    assert run(tmp_path, methods="local,feddf")["finished"] == 2
    assert json.loads(second.read_text())["method"] == before


def test_a_damaged_record_is_named(tmp_path):
    run(tmp_path, methods="local")
    (record, *_) = sorted(tmp_path.glob("clients/*/*.json"))
    for content in ("[]", '{"accuracy": 0.5}', json.dumps({**json.loads(record.read_text()), "accuracy": "x"})):
        record.write_text(content)
        (failure,) = run(tmp_path, methods="feddf")["failed"]
        assert f"{record} is no record of a client. Remove that file" in failure


def test_a_damaged_history_of_rounds_is_named(tmp_path):
    wanted = Spec.from_json({**SMOKE, "kind": "rounds", "rounds": 3, "feedback_epochs": 1, "methods": "feddf,mine"})
    bench = Bench(wanted, tmp_path)
    path = bench.folder.rounds(wanted.cells()[0]) / "01" / "history.json"
    cure = f"Remove the folder {path.parents[1]}, and the same command begins its rounds again."
    none = [(content, "is no history of rounds. ") for content in ("{}", '["x"]', "[{}]", '[{"accuracy": "x"}]')]
    for content, words in (*none, ("{", "). ")):
        write_json(path, {})
        path.write_text(content)
        (failure,) = bench.run(Silent())["failed"]
        assert failure.startswith("FedDF") and f"{path}" in failure and failure.endswith(words + cure)
        assert failure.lower().count("remove") == 1


@pytest.mark.parametrize("damaged", ["server.safetensors", "01.fedol", "02.safetensors"])
def test_what_is_said_of_a_damaged_round_helps(damaged, tmp_path):
    wanted = {"kind": "rounds", "rounds": 3, "feedback_epochs": 1, "methods": "feddf"}
    whole = Bench(Spec.from_json({**SMOKE, **wanted}), tmp_path / "whole")
    whole.run(Silent())
    bench = Bench(Spec.from_json({**SMOKE, **wanted}), tmp_path / "cut")
    (cell,) = bench.spec.cells()
    killed = []

    class Killed(Silent):
        def epoch(self, epoch):
            if bench.folder.last_round(cell) == 2:
                killed.append(epoch)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(Killed())
    (bench.folder.rounds(cell) / "03 (2)").mkdir()  # a copy that somebody made is no round
    write_json(bench.folder.rounds(cell) / "03 (2)" / "history.json", [])
    (bench.folder.rounds(cell) / "02" / damaged).write_bytes(b"")
    (failure,) = bench.run(Silent())["failed"]
    assert failure.endswith(
        f"Remove the folder {bench.folder.rounds(cell)}, and the same command begins its rounds again."
    )
    shutil.rmtree(bench.folder.rounds(cell))
    assert bench.run(Silent())["failed"] == []
    first, second = (results(folder)["feddf", 3]["history"] for folder in (tmp_path / "whole", tmp_path / "cut"))
    assert killed and first == second
