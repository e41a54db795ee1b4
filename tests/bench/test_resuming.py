"""The same command again: what is finished stays, what is lost comes back, and nothing is done twice."""

import shutil

import pytest
from small_bench import ONE_ROUND, SMOKE, TINY, Silent, results, run

from fedol.bench import plan as work
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder


def test_a_finished_benchmark_computes_nothing(smoke):
    progress = Silent()
    assert run(smoke[0], progress)["finished"] == len(ONE_ROUND)
    assert progress.jobs == [] and Bench(Spec.from_json(SMOKE), smoke[0]).plans() == []


def test_a_lost_cell_is_computed_again_from_the_same_clients(smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    before = results(out)["feddf", 1]
    (out / "cells" / f"{before['hash']}.json").unlink()
    progress = Silent()
    run(out, progress)
    assert progress.jobs == ["feddf 1/1"]
    assert results(out)["feddf", 1]["accuracy"] == before["accuracy"]


def test_uploads_without_their_models_are_enough_for_a_server_but_not_for_an_ensemble(smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    for path in [*out.glob("clients/*/*.safetensors"), *out.glob("cells/*.json")]:
        path.unlink()
    progress = Silent()
    run(out, progress, methods="local,feddf")
    assert progress.jobs == ["feddf 1/1"]
    run(out, progress, methods="ensemble")
    assert sorted(progress.jobs[1:]) == ["client 0", "client 1", "client 2"]


@pytest.mark.parametrize("ending", ["fedol", "json"])
def test_a_client_of_which_a_file_is_missing_trains_again(ending, smoke, tmp_path):
    out = shutil.copytree(smoke[0] / "clients", tmp_path / "bench" / "clients").parent
    for path in out.glob(f"clients/*/01.{ending}"):
        path.unlink()
    progress = Silent()
    run(out, progress, methods="ensemble")
    assert progress.jobs == []  # it has the models
    assert run(out, progress, methods="feddf")["failed"] == []
    assert progress.jobs == ["client 1", "feddf 1/1"]


def test_folders_of_two_machines_merge_by_copying(smoke, tmp_path):
    for machine, methods in (("one", "feddf,local"), ("two", "fedavg,ceiling")):
        run(tmp_path / machine, methods=methods)
    shutil.copytree(tmp_path / "two", tmp_path / "one", dirs_exist_ok=True)
    progress = Silent()
    assert run(tmp_path / "one", progress, methods="feddf,local,fedavg,ceiling")["finished"] == 4
    assert progress.jobs == []
    ours, theirs = results(tmp_path / "one"), results(smoke[0])
    assert all(ours[key]["accuracy"] == theirs[key]["accuracy"] for key in ours)  # the same seed, the same number


def test_out_of_time_is_a_clean_end_and_the_server_continues_after_its_last_iteration(smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    finished = results(out)["fedol", 1]
    (out / "cells" / f"{finished['hash']}.json").unlink()

    class Short(Silent):
        def epoch(self, epoch):
            if epoch.job.name == "fedol 2/2":
                self.deadline = 0.0  # long ago
            super().epoch(epoch)

    every = len(ONE_ROUND)
    assert run(out, Short(), time_limit=1000) == {"cells": every, "finished": every - 1, "elsewhere": 0, "failed": []}
    progress = Silent()
    assert run(out, progress)["finished"] == every
    assert progress.jobs == ["fedol 2/2"]
    assert results(out)["fedol", 1]["accuracy"] == finished["accuracy"]


def test_what_is_finished_is_there_in_a_folder_to_read_only(smoke, monkeypatch):
    monkeypatch.setattr(BenchFolder, "open", lambda folder: pytest.fail("nothing is to be written"))
    assert run(smoke[0], methods="local")["finished"] == 1


def test_iterations_that_are_finished_are_no_work_to_come(tmp_path):
    wanted = Spec.from_json({**SMOKE, "settings": {**TINY, "iterations": 4}, "methods": "fedol"})
    bench = Bench(wanted, tmp_path)
    (before,) = bench.plans()

    class Killed(Silent):
        def epoch(self, epoch):
            if bench.folder.iterations(bench.spec.cells()[0]) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(Killed())
    (after,) = bench.plans()
    server = work.server_work(bench.spec.cells()[0], bench._scenario)
    assert after.clients == 0 and after.work == pytest.approx(server / 4) and after.work < before.work
    assert list((tmp_path / "timing").glob("*")) == []  # of no work nothing is kept
