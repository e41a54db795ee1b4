"""What fails is named in a sentence and stops nothing else."""

import re

import numpy as np
import pytest
from small_bench import SMOKE, TINY, Silent, results, run

from fedol.bench import one_round
from fedol.bench.plan import OutOfTime
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.data import load, split
from fedol.errors import FedolError
from fedol.methods import METHODS, Method


def test_a_partition_that_cannot_be_is_said_before_the_others_are_computed(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "partitions": "iid,classes:3", "methods": "local"}), tmp_path)
    with pytest.raises(FedolError, match="cannot hold all 10 classes"):
        bench.plans()  # the dry run
    with pytest.raises(FedolError, match="cannot hold all 10 classes"):
        bench.run(progress := Silent())
    assert not progress.jobs and not list(tmp_path.rglob("*.json"))


def test_a_seed_that_cannot_be_dealt_stops_no_other(tmp_path):
    y = np.arange(400) % 2
    y[:22] = 2  # so few that with some seeds too many of them are public
    x = np.random.default_rng(0).integers(0, 256, (400, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "rare.npz", train_x=x, train_y=y, test_x=x[:9], test_y=y[:9])
    settings = {**TINY, "dataset": str(tmp_path / "rare.npz"), "public": 200}
    values = {**SMOKE, "partitions": "classes:1", "methods": "local", "settings": settings}
    data = load(settings["dataset"])
    fits = {seed: (split(data, 200, seed).private.y == 2).sum() >= 10 for seed in range(40)}
    bad, good = ([seed for seed, fit in fits.items() if fit is np.bool_(kind)][:2] for kind in (0, 1))
    out = tmp_path / "bench"
    for seeds in ([bad[0], *good], [good[0], bad[0], good[1]]):  # the second time only the bad one is left to compute
        summary = Bench(Spec.from_json({**values, "seeds": seeds}), out).run(Silent())
        assert (summary["cells"], summary["finished"]) == (3, 2)
        (failure,) = summary["failed"]
        assert failure.startswith(f"classes:1, seed {bad[0]}: ") and "samples" in failure
    again = {**values, "partitions": "classes:1,iid", "seeds": [bad[0], good[0]], "methods": "ceiling"}
    summary = Bench(Spec.from_json(again), out).run(Silent())  # which has no partition, though it is the first's
    assert summary["finished"] == summary["cells"] == 2 and not summary["failed"]
    with pytest.raises(FedolError, match="samples"):  # where no seed can be dealt, nothing begins
        Bench(Spec.from_json({**values, "partitions": "iid,classes:1", "seeds": bad}), out).plans()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedolError, match="cannot be written"):
        run(tmp_path / "file", methods="local")
    with pytest.raises(FedolError, match="cannot be written"):
        Bench(Spec.from_json({**SMOKE, "methods": "local"}), tmp_path / "file").estimates()  # the dry run


def test_a_folder_to_read_only_is_an_error_before_anything_is_trained(tmp_path):
    (tmp_path / "cells").symlink_to("/proc")  # where even root cannot write
    progress = Silent()
    with pytest.raises(FedolError, match="cannot be written"):
        run(tmp_path, progress, methods="local")
    assert progress.jobs == []


def test_a_method_that_fails_is_reported_and_stops_no_other(tmp_path):
    summary = run(tmp_path, methods="local,feddf,fedavg", settings={**TINY, "parameter_model": "bad_model:NaN"})
    assert summary["finished"] == 2 and len(summary["failed"]) == 1
    assert re.match(r"FedAvg, dirichlet:0\.5, seed 0: client \d diverged", summary["failed"][0])


def test_clients_that_fail_take_no_ceiling_with_them(tmp_path):
    settings = {**TINY, "client_models": ["mlp", "bad_model:NaN"]}
    summary = run(tmp_path, methods="feddf,ceiling", settings=settings)
    assert summary["finished"] == 1 and ("ceiling", 1) in results(tmp_path)
    assert re.match(r"FedDF, dirichlet:0\.5, seed 0: client 1 diverged", summary["failed"][0])


def test_what_failed_is_said_although_the_time_is_over(tmp_path):
    class Over(Silent):
        def epoch(self, epoch):
            if epoch.job.name.startswith("feddf"):
                raise OutOfTime

    bad = {**TINY, "parameter_model": "bad_model:NaN"}
    summary = run(tmp_path, Over(), time_limit=1000, methods="fedavg,feddf", settings=bad)
    assert summary["finished"] == 0 and len(summary["failed"]) == 1 and "FedAvg" in summary["failed"][0]


def test_a_method_of_yours_that_raises_stops_no_other(tmp_path, monkeypatch):
    def broken(knowledge, settings):
        return 1 / 0

    monkeypatch.setitem(METHODS, "broken", Method("broken", targets=broken))
    summary = run(tmp_path, methods="broken,feddf")
    (failure,) = summary["failed"]
    assert summary["finished"] == 1
    assert re.search(
        r"'broken' failed \(test_failures\.py, line \d+\): ZeroDivisionError: division by zero\.$", failure
    )


def test_clients_that_failed_before_the_time_was_over_are_named(tmp_path, monkeypatch):
    def cut(processes, device, on_epoch):
        yield 0, FedolError("client 0 is no more.")
        raise OutOfTime

    monkeypatch.setattr(one_round, "drive", cut)
    summary = run(tmp_path, time_limit=1000, methods="feddf")
    assert summary["failed"] == ["FedDF, dirichlet:0.5, seed 0: client 0 is no more."]


def test_rounds_that_failed_before_the_time_was_over_are_named(tmp_path, monkeypatch):
    class Over(Silent):
        def epoch(self, epoch):
            if epoch.job.name.startswith("feddf"):
                raise OutOfTime

    monkeypatch.setitem(METHODS, "broken", Method("broken", targets=lambda knowledge, settings: 1 / 0))
    wanted = {"kind": "rounds", "rounds": 2, "feedback_epochs": 1, "methods": "broken,feddf"}
    (failure,) = run(tmp_path, Over(), time_limit=1000, **wanted)["failed"]
    assert "ZeroDivisionError" in failure
