"""Several processes in one folder: they share the work, and sweep up only what nobody is writing."""

import shutil
from contextlib import ExitStack
from types import MethodType

import pytest
from small_bench import SMOKE, Silent, run

from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.files import write_json


def test_several_processes_in_one_folder_share_the_groups(tmp_path):
    settings = {"methods": "feddf,ceiling", "partitions": "dirichlet:0.5,classes:5"}
    bench = Bench(Spec.from_json({**SMOKE, **settings}), tmp_path)
    theirs, ours = bench.plans()  # the ceiling needs no partition: it is the first group's
    with ExitStack() as other:
        assert bench.folder.claim(theirs.cells, other)
        progress = Silent()
        expected = {"cells": 3, "finished": 1, "elsewhere": 2, "failed": []}
        assert run(tmp_path, progress, side_by_side=2, **settings) == expected
        assert progress.jobs.count("client 0") == 1 and bench.folder.cell(ours.cells[0]).exists()
    assert run(tmp_path, **settings) == {"cells": 3, "finished": 3, "elsewhere": 0, "failed": []}


def test_what_others_do_not_work_on_is_not_left_to_them(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine"}), tmp_path)
    with ExitStack() as other:
        assert bench.folder.claim(bench.plans()[0].cells, other)
        expected = {"cells": 3, "finished": 1, "elsewhere": 2, "failed": []}  # FedAvg has clients of its own
        assert run(tmp_path, methods="feddf,mine,fedavg") == expected
    assert run(tmp_path, methods="feddf,mine,fedavg")["finished"] == 3


def test_what_others_finish_leaves_the_time_left(tmp_path, monkeypatch):
    settings = {"methods": "feddf", "partitions": "dirichlet:0.5,classes:5,iid"}
    other = tmp_path / "other"
    run(other, **settings)
    train, totals = Bench._train, []

    def meanwhile(self, batch, progress, failed):
        totals.append(progress.total)
        train(self, batch, progress, failed)
        for path in () if len(totals) > 1 or self.folder.path.name == "alone" else finished:
            shutil.copy(path, self.folder.path / "cells")  # as if by another process

    finished = [other / "cells" / f"{cell.hash}.json" for cell in Spec.from_json({**SMOKE, **settings}).cells()[2:]]
    monkeypatch.setattr(Bench, "_train", meanwhile)
    assert run(tmp_path / "alone", **settings)["finished"] == 3
    assert totals == pytest.approx([totals[0]] * 3, rel=0.05)  # shares differ a little from the average
    totals.clear()
    assert run(tmp_path / "mine", **settings)["finished"] == 3
    assert len(totals) == 2 and totals[1] == pytest.approx(
        2 / 3 * totals[0], rel=0.05
    )  # the third group is done elsewhere


def test_what_another_process_has_finished_meanwhile_is_not_done_again(tmp_path, monkeypatch):
    settings = {"methods": "feddf", "partitions": "dirichlet:0.5,classes:5"}
    claim, progress = BenchFolder.claim, Silent()

    def after_the_other(folder, cells, held):
        if not folder.cell(cells[0]).exists():
            run(tmp_path, **{**settings, "partitions": cells[0].config.partition})
        return claim(folder, cells, held)

    bench = Bench(Spec.from_json({**SMOKE, **settings}), tmp_path)
    monkeypatch.setattr(bench.folder, "claim", MethodType(after_the_other, bench.folder))
    assert bench.run(progress)["finished"] == 2
    assert progress.jobs == []


def test_what_a_killed_process_left_half_written_goes(tmp_path):
    wanted = Spec.from_json({**SMOKE, "methods": "feddf,ceiling"})
    bench, (cell, ceiling) = Bench(wanted, tmp_path), wanted.cells()
    places = bench.folder.record(cell.clients, 0), bench.folder.cell(cell), bench.folder.server(cell)
    others = bench.folder.cell(cell).with_name("z.json"), bench.folder.server(ceiling)  # the latter in other groups too
    left = [path.with_name(f".{path.name}.4711.tmp") for path in (*places, *others)]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    assert bench.run(Silent())["finished"] == 2
    assert [path.exists() for path in left] == [False, False, False, True, True]  # these may be under way


def test_where_nothing_can_be_locked_nothing_is_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("fedol.bench.store.hold", lambda path: None)
    cells = Spec.from_json({**SMOKE, "methods": "feddf"}).cells()
    folder = BenchFolder(tmp_path)
    left = folder.cell(cells[0]).with_name(f".{cells[0].hash}.json.4711.tmp")
    write_json(left, "under way, perhaps")
    with ExitStack() as held:
        assert folder.claim(cells, held) and left.exists()


def test_no_lock_is_kept_of_clients_with_nothing_to_do(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,fedavg"}), tmp_path)
    (group,) = bench.plans()
    feddf, fedavg = group.cells
    with ExitStack() as other, ExitStack() as held, ExitStack() as third:
        assert bench.folder.claim([feddf], other) == [feddf]
        assert list(bench._free([group], {fedavg.hash}, held)) == []  # which has failed
        assert bench.folder.claim([fedavg], third) == [fedavg]


def test_what_others_have_finished_meanwhile_is_not_what_they_work_on(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine"}), tmp_path)
    todo = bench.plans()
    run(tmp_path, methods="feddf")
    with ExitStack() as other:
        assert bench.folder.claim(todo[0].cells, other)
        assert bench._taken(todo) == 1


def test_of_a_group_each_kind_of_clients_is_claimed_alone(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "fedavg,feddf,fedkt,fedprox"}), tmp_path)
    cells = bench.spec.cells()
    for taken in cells:
        with ExitStack() as other, ExitStack() as mine:
            assert bench.folder.claim([taken], other) == [taken]
            half = tmp_path / "clients" / taken.clients / ".00.fedol.1.tmp"  # which the other is writing
            half.write_bytes(b"")
            assert bench.folder.claim(cells, mine) == [cell for cell in cells if cell is not taken]
            assert half.exists()
