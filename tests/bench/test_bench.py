"""The smoke size of every benchmark on digits, resuming after a kill, merging, and the report."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MethodType, SimpleNamespace

import numpy as np
import pytest
import torch

from fedol.bench import one_round, work
from fedol.bench import rounds as rounds_module
from fedol.bench.cells import Cell, digest
from fedol.bench.cost import cost, explanation, printed
from fedol.bench.cost_sheet import cost_sheet
from fedol.bench.evaluation import ceiling
from fedol.bench.progress import OutOfTime, Progress
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.bench.worker import main
from fedol.core.voting import entropy
from fedol.data import load, split
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.federation.scheme import Lesson
from fedol.files import write_json
from fedol.methods import METHODS, Method, compared, find
from fedol.report.bench_tables import collect, sheets, write

TINY = {"clients": 3, "public": 60, "epochs": 1, "iterations": 2, "device": "cpu", "width": 4, "codec": "float32"}
ONE_ROUND, ROUNDS = compared("one-round"), compared("rounds")
SMOKE = {"kind": "one-round", "preset": "quick", "partitions": "dirichlet:0.5", "settings": TINY}


class Silent(Progress):
    """Remembers what it was told."""

    def __init__(self):
        super().__init__(lambda *told: self.told.append(told), every=0.0)
        self.told = []
        self.jobs = []

    def epoch(self, epoch):
        self.jobs.append(epoch.job.name)
        super().epoch(epoch)


def run(out, progress=None, time_limit=None, side_by_side=1, **changes):
    bench = Bench(Spec.from_json({**SMOKE, **changes}), out)
    return bench.run(progress or Silent(), time_limit, side_by_side)


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


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One round of all methods, then two rounds, once for all tests here."""
    out = tmp_path_factory.mktemp("bench")
    progress = Silent()
    every = len(ONE_ROUND)
    assert run(out, progress) == {"cells": every, "finished": every, "elsewhere": 0, "failed": []}
    assert run(out, kind="rounds", rounds=2, feedback_epochs=1)["finished"] == 7
    return out, progress


def report(out):
    numbers = collect(out)
    write(out, numbers)
    return sheets(numbers), numbers


def results(out):
    return {(r["method"], r["settings"].get("rounds", 1)): r for r in BenchFolder(out).results()}


def test_one_round_has_every_method_and_says_where_each_number_is_from(smoke):
    found = results(smoke[0])
    assert {method for method, several in found if several == 1} == set(ONE_ROUND)
    for result in found.values():
        assert 0 <= result["accuracy"] <= 1
        assert {"command", "commit", "device", "versions", "date", "seed", "settings", "hash"} <= set(result)
    assert [r["diagnostics"]["test_accuracy"] for r in found["fedol", 1]["history"]][-1] == found["fedol", 1][
        "accuracy"
    ]
    assert 0 <= found["fedkt", 1]["history"][0]["fallback"] <= 1
    ensemble = found["ensemble", 1]
    assert set(ensemble["ensembles"]) == {"fedhkt-k", "feddf", "feddf-probs", "mine", "pooled"}
    assert ensemble["accuracy"] == ensemble["ensembles"]["fedhkt-k"]  # the λ mixture, as tables say


def test_controls_are_what_their_names_say(smoke):
    found, folder = results(smoke[0]), BenchFolder(smoke[0])
    local, ensemble = found["local", 1], found["ensemble", 1]
    accuracies = [client["accuracy"] for client in local["clients"]]
    assert local["accuracy"] == pytest.approx(np.mean(accuracies)) == local["over_clients"]["mean"]
    assert local["over_clients"]["std"] == pytest.approx(np.std(accuracies, ddof=1)) and np.std(accuracies) > 0

    (cell,) = Spec.from_json({**SMOKE, "methods": "ensemble"}).cells()
    scenario = Scenario(cell.config)
    clients = one_round.trained_clients(cell, scenario, folder)
    test = scenario.data.test
    p = np.array([client.predict_log_proba(test.x).double().exp().numpy() for client in clients])
    assert [(q.argmax(1) == test.y).mean() for q in p] == pytest.approx(accuracies)
    surer = np.exp(-entropy(p))[..., None]
    pooled = {"fedhkt-k": surer * p, "feddf": np.log(p), "feddf-probs": p}
    assert len(p) == 3 and {name: (q.sum(0).argmax(1) == test.y).mean() for name, q in pooled.items()} == pytest.approx(
        {name: ensemble["ensembles"][name] for name in pooled}
    )

    truth = ceiling(scenario).targets(1, None).soft
    assert torch.equal(truth, torch.eye(10)[torch.from_numpy(scenario.data.public_labels)])
    whole = load("digits")
    for image, label in zip(scenario.public, truth.argmax(1), strict=True):
        assert label in whole.train.y[(whole.train.x == image.numpy()).all((1, 2, 3))]


def test_every_cell_is_of_its_own_partition_and_seed(tmp_path):
    run(tmp_path, partitions="iid,dirichlet:0.5,classes:5", seeds=2, methods="local")
    (base,) = Spec.from_json({**SMOKE, "methods": "local"}).cells()
    data, dealt = load("digits"), {}
    for result in BenchFolder(tmp_path).results():
        config = replace(base.config, partition=result["settings"]["partition"], seed=result["seed"])
        here = Scenario(config, data)
        dealt[config.partition, config.seed] = here.shares
        assert [client["samples"] for client in result["clients"]] == list(map(len, here.shares))
        if config.partition == "classes:5":
            assert {len(np.unique(here.data.private.y[share])) for share in here.shares} == {5}
    assert len(dealt) == 6
    for partition in ("iid", "dirichlet:0.5", "classes:5"):
        assert not all(map(np.array_equal, dealt[partition, 0], dealt[partition, 1]))


def test_every_cell_trains_with_its_own_settings(tmp_path):
    variants = [{"settings": {"server_epochs": epochs}} for epochs in (1, 3)]
    run(tmp_path, progress := Silent(), methods="feddf,ceiling", variants=variants)
    assert progress.jobs.count("feddf 1/1") == progress.jobs.count("ceiling 1/1") == 1 + 3


def test_clients_are_trained_once_and_shared(smoke):
    jobs = smoke[1].jobs
    # For the knowledge methods, FedAvg (with its recalibrated twin) and FedProx: three kinds, one epoch each.
    assert jobs.count("client 0") == 3
    assert jobs.count("client 0 student 1") == 1 and jobs.count("client 0 teacher 2.5") == 1
    assert len(list((smoke[0] / "clients").iterdir())) == 4


def test_progress_counts_all_the_work(smoke):
    shares = [share for share, _, _ in smoke[1].told]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.0, abs=0.05)


def test_the_first_of_many_rounds_is_the_one_round_result(smoke):
    found = results(smoke[0])
    for method in ROUNDS:
        history = found[method, 2]["history"]
        assert [r["round"] for r in history] == [1, 2]
        assert history[0]["accuracy"] == found[method, 1]["accuracy"]
        assert found[method, 2]["accuracy"] == history[1]["accuracy"]


def test_nothing_is_left_of_unfinished_work(smoke):
    for leftover in ("servers", "rounds"):
        assert not (smoke[0] / leftover).exists() or not list((smoke[0] / leftover).iterdir())


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


def save_digits(path, count):
    digits, path = load("digits"), Path(path)
    arrays = {"train_x": digits.train.x, "train_y": digits.train.y, "test_x": digits.test.x, "test_y": digits.test.y}
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{name: array[:count] for name, array in arrays.items()})
    return str(path)


@pytest.mark.parametrize("named", [True, False])
def test_results_on_other_data_in_the_same_file_are_other_cells(named, tmp_path):
    path, out = str(tmp_path / "mine.npz"), tmp_path / "bench"
    data = {"dataset": path} if named else {"dataset": "npz", "data_dir": path}
    wanted = {"settings": {**TINY, **data}, "methods": "local,feddf,ceiling"}
    jobs = []
    for count in (400, 300, 400):
        save_digits(path, count)
        progress = Silent()
        assert run(out, progress, **wanted)["finished"] == 3
        jobs.append(sorted(progress.jobs))
    assert jobs[0] == jobs[1] == ["ceiling 1/1", "client 0", "client 1", "client 2", "feddf 1/1"] and jobs[2] == []
    found, _ = report(out)
    assert [len(sheet.rows) for sheet in found] == [3, 3] and all("mine@" in sheet.title for sheet in found)


def test_your_data_are_the_same_wherever_they_lie(tmp_path):
    for place in ("here", "there"):
        progress = Silent()
        mine = save_digits(tmp_path / place / "mine.npz", 400)
        run(tmp_path / "bench", progress, methods="local", settings={**TINY, "dataset": mine})
    assert progress.jobs == []


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


def test_interrupted_rounds_continue_after_the_last_one(smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    several = {"kind": "rounds", "methods": "feddf,fedavg", "feedback_epochs": 1}
    folder, config = BenchFolder(out), Spec.from_json({**SMOKE, **several}).cells()[0].config
    scenario = Scenario(config)

    class Enough(Exception):
        pass

    def until_round_two(epoch):
        if epoch.job.name == "feddf round 2 1/1":
            raise Enough

    cells = [cell for cell in Spec.from_json({**SMOKE, **several, "rounds": 3}).cells() if cell.rounds == 3]
    with pytest.raises(Enough):
        list(rounds_module.run([(cell, scenario) for cell in cells], folder, until_round_two))
    progress, bench = Silent(), Bench(Spec.from_json({**SMOKE, **several, "rounds": 3}), out)
    left = sum(group.work for group in bench.plans())
    assert run(out, progress, **several, rounds=3)["finished"] == 2
    assert progress.done == pytest.approx(left, rel=0.05)  # what was finished of a round is no work to come
    # Round 2's clients had finished; of the first two rounds only FedDF's second server is done again.
    assert "feddf round 1 1/1" not in progress.jobs and progress.jobs.count("client 0 feedback") == 1
    found = results(out)
    for method in ("feddf", "fedavg"):
        assert [r["accuracy"] for r in found[method, 3]["history"]][:2] == [
            r["accuracy"] for r in found[method, 2]["history"]
        ]


@pytest.mark.parametrize("further", [0, 1])  # as many rounds too many as a start of an earlier version has made
def test_rounds_that_are_over_wait_for_the_others_of_their_last(further, smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    found = results(out)
    wanted = {"kind": "rounds", "methods": "fedavg,feddf", "rounds": 2, "feedback_epochs": 1}
    folder = BenchFolder(out)
    for cell in Spec.from_json({**SMOKE, **wanted}).cells():
        folder.cell(cell).unlink()

    class Killed(Silent):
        def epoch(self, epoch):
            if epoch.job.name == "feddf round 2 1/1":  # FedAvg's server of that round, an average, is there already
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out, Killed(), **wanted)
    fedavg = folder.rounds(Spec.from_json({**SMOKE, **wanted}).cells()[0])
    assert [path.name for path in fedavg.iterdir()] == ["02"]
    if further:
        history = json.loads((fedavg / "02" / "history.json").read_text())
        write_json(fedavg / "03" / "history.json", [*history, {"round": 3, "accuracy": 0.0}])
        (cell, *_) = Spec.from_json({**SMOKE, **wanted}).cells()
        assert Bench(Spec.from_json({**SMOKE, **wanted}), out)._plan([cell]).work == 0
    assert run(out, **wanted)["finished"] == 2
    again = results(out)
    for method in ("fedavg", "feddf"):
        assert again[method, 2]["history"] == found[method, 2]["history"]
        assert again[method, 2]["accuracy"] == found[method, 2]["accuracy"]


def test_clients_heed_the_feedback_that_the_method_lets_through(smoke, tmp_path, monkeypatch):
    out = shutil.copytree(smoke[0] / "clients", tmp_path / "bench" / "clients").parent
    deaf = replace(find("feddf"), feedback=lambda server, targets: server.argmax(1) < 0)
    monkeypatch.setitem(METHODS, "feddf", deaf)
    progress = Silent()
    run(out, progress, kind="rounds", rounds=2, methods="feddf,mine", feedback_epochs=1)
    assert progress.jobs.count("client 0 feedback") == 1 and progress.jobs.count("client 0") == 2


def test_clients_may_learn_the_servers_target_instead_of_its_predictions(smoke, tmp_path, monkeypatch):
    out, learnt = shutil.copytree(smoke[0] / "clients", tmp_path / "bench" / "clients").parent, {}

    def lesson(round, model, feedback, heeded, epochs):
        learnt[len(learnt)] = feedback
        return Lesson(round, model, feedback, heeded, epochs)

    monkeypatch.setattr(rounds_module, "Lesson", lesson)
    for feedback in ("server", "teacher"):
        run(out, kind="rounds", rounds=2, methods="fedet", feedback_epochs=1, feedback=feedback)
    assert all(torch.allclose(q.sum(1), torch.ones(len(q))) for q in learnt.values())
    # Fed-ET's target is one class and a twentieth of what dissenters say; a server after one epoch is not so sure.
    assert learnt[0].max() < 0.9 and learnt[3].amax(1).min() > 0.95 and len(learnt) == 6


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


def test_what_is_finished_is_there_in_a_folder_to_read_only(smoke, monkeypatch):
    monkeypatch.setattr(BenchFolder, "open", lambda folder: pytest.fail("nothing is to be written"))
    assert run(smoke[0], methods="local")["finished"] == 1


def test_after_the_time_limit_nothing_new_begins(smoke, tmp_path):
    summary = run(tmp_path, time_limit=0.0, methods="local,feddf", seeds=2)
    assert summary == {"cells": 4, "finished": 0, "elsewhere": 0, "failed": []}


def test_groups_side_by_side_give_the_same_results_as_one_after_another(tmp_path):
    both = {"partitions": "iid,dirichlet:0.5", "methods": "local,fedavg,feddf,fedol,ceiling", "seeds": 2}
    several = {
        "kind": "rounds",
        "rounds": 2,
        "feedback_epochs": 1,
        "partitions": "iid,dirichlet:0.5",
        "methods": "mine",
    }
    found = []
    for groups in (1, 3):
        out, progress = tmp_path / str(groups), Silent()
        assert run(out, progress, side_by_side=groups, **both)["finished"] == 18  # two ceilings: one a seed
        assert run(out, side_by_side=groups, **several)["finished"] == 2
        assert progress.done == pytest.approx(progress.total, rel=0.02)
        found.append({r["hash"]: (r["method"], r["accuracy"]) for r in BenchFolder(out).results()})
    assert found[0] == found[1] and len({accuracy for _, accuracy in found[0].values()}) > 5


def test_no_group_at_a_time_is_an_error(tmp_path):
    with pytest.raises(FedolError, match="At least one group"):
        run(tmp_path, methods="local", side_by_side=0)


def test_no_more_groups_begin_than_end_in_time(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "local", "seeds": 4}), tmp_path)
    plans = bench.plans()
    assert len(plans) == 4
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: plans[0].total / 10)  # ten seconds a group
    in_time = {seconds: bench._in_time(plans, time.monotonic() + seconds, least=0) for seconds in (5, 25, 100)}
    assert [len(batch) for batch in in_time.values()] == [0, 2, 4]
    assert bench._in_time(plans, time.monotonic(), least=1) == plans[:1] and bench._in_time(plans, None, 0) == plans


def test_of_a_group_that_is_too_long_some_cells_begin(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine,fedet"}), tmp_path)
    (group,) = bench.plans()
    two = bench._plan(group.cells[:2]).total
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: two / 1000)  # far more than the test takes
    now = time.monotonic()
    in_time = {seconds: bench._in_time([group], now + seconds, least=1) for seconds in (0, 1100, 9000)}
    assert [[cell.method for cell in batch[0].cells] for batch in in_time.values()] == [
        ["feddf"], ["feddf", "mine"], ["feddf", "mine", "fedet"],
    ]  # fmt: skip
    assert bench._in_time([group], now, least=0) == []
    # It was faster than expected, so that the rest begins too, without its clients, which are there.
    batches, run_batch = [], bench._run
    monkeypatch.setattr(bench, "_run", lambda batch, *rest: batches.append(batch) or run_batch(batch, *rest))
    assert bench.run(Silent(), time_limit=1100)["finished"] == 3
    assert [[len(part.cells), part.clients] for (part,) in batches] == [[2, TINY["clients"]], [1, 0]]


def test_rounds_all_begin_because_they_go_on_where_they_stopped(tmp_path, monkeypatch):
    bench = Bench(Spec.from_json({**SMOKE, "kind": "rounds", "rounds": 2, "methods": "feddf,mine"}), tmp_path)
    (group,) = bench.plans()
    monkeypatch.setattr(bench.folder, "speed", lambda device, width: group.total / 1000)
    assert len(group.cells) == 2 and bench._in_time([group], time.monotonic() + 1, least=1) == [group]


def test_an_estimate_goes_by_models_of_the_same_width(tmp_path):
    run(tmp_path, methods="feddf")
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf"}), tmp_path)
    device, width = "cpu", bench.spec.config.width
    known = bench.folder.speed(device, width)
    assert known and bench._known_speed() == known and bench.folder.speed(device, width + 1) is None
    bench.folder.time("wide", device, width + 1, work=6e9, seconds=3.0)
    for number, broken in enumerate(["[]", "{}", f'{{"device": "cpu", "width": {width}, "work": "much"}}', "{"]):
        (tmp_path / "timing" / f"{number}.json").write_text(broken)  # an estimate is not worth an error
    assert (bench.folder.speed(device, width), bench.folder.speed(device, width + 1)) == (known, 2e9)
    bench.folder.time("none", device, width + 2, work=0.0, seconds=0.0)
    assert bench.folder.speed(device, width + 2) is None


def test_models_of_several_widths_say_nothing_about_one(tmp_path):
    wide = {"settings": {"width": 2 * Spec.from_json(SMOKE).config.width}}
    assert run(tmp_path, methods="feddf", variants=[{}, wide])["finished"] == 2
    assert not list((tmp_path / "timing").glob("*.json"))


def test_variants_share_clients_and_stand_in_one_table(tmp_path):
    progress = Silent()
    variants = [{}, {"settings": {"patch": "cutout"}}, {"settings": {"server_epochs": 2}}]
    assert run(tmp_path, progress, methods="feddf", variants=variants)["finished"] == 3
    assert sum(name.startswith("client") for name in progress.jobs) == TINY["clients"]
    (sheet,) = report(tmp_path)[0]
    assert [row[0] for row in sheet.rows] == ["FedDF (1 epoch)", "FedDF (1 epoch, cutout)", "FedDF (2 epochs)"]


def test_a_cell_that_two_variants_share_is_computed_once(tmp_path):
    progress = Silent()
    summary = run(tmp_path, progress, methods="feddf,fedol", variants=[{}, {"settings": {"tau": 0.5}}])
    assert summary == {"cells": 3, "finished": 3, "elsewhere": 0, "failed": []}  # FedDF knows no τ
    assert progress.jobs.count("feddf 1/1") == 1


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


def test_a_start_out_of_time_knows_how_fast_it_went(tmp_path):
    class Slow(Silent):
        def epoch(self, epoch):
            super().epoch(epoch)
            if self.done > 0.5 * self.total:
                raise OutOfTime

    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine"}), tmp_path)
    progress = Slow()
    assert bench.run(progress)["finished"] < 2
    (timing,) = (json.loads(path.read_text()) for path in (tmp_path / "timing").iterdir())
    assert timing["work"] == progress.done > 0 and bench.estimates()[0]["timed"]


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


def test_a_damaged_record_is_named(tmp_path):
    run(tmp_path, methods="local")
    (record, *_) = sorted(tmp_path.glob("clients/*/*.json"))
    for content in ("[]", '{"accuracy": 0.5}', json.dumps({**json.loads(record.read_text()), "accuracy": "x"})):
        record.write_text(content)
        (failure,) = run(tmp_path, methods="feddf")["failed"]
        assert f"{record} is no record of a client. Remove that file" in failure


def test_rounds_go_on_after_the_hundredth(tmp_path):
    wanted = Spec.from_json({**SMOKE, "kind": "rounds", "rounds": 101, "methods": "fedavg"})
    bench = Bench(wanted, tmp_path)
    (cell,) = wanted.cells()
    for number in (99, 100):
        write_json(bench.folder.rounds(cell) / f"{number:02d}" / "history.json", [{"accuracy": 0.5}] * number)
    assert rounds_module.Course(cell, bench._scenario, bench.folder).round == 101


def test_the_time_is_estimated_where_there_is_one_public_image(tmp_path):
    few = {**TINY, "public": 1}
    assert Bench(Spec.from_json({**SMOKE, "settings": few, "methods": "local"}), tmp_path).estimates()[0]["seconds"] > 0


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
    for held_out, measure, columns in ((50, "Accuracy on 50 images held out", 2), (0, "Test accuracy in %", 4)):
        result = json.loads(cell.read_text())
        result["settings"] |= {"dataset": "cifar100", "partition": "classes:20", "development": held_out}
        result["settings"] |= {"client_models": ["resnet11", "resnet20"], "server_model": "resnet56"}
        cell.unlink()
        cell = rewritten(tmp_path, result)
        (sheet,) = report(tmp_path)[0]
        assert sheet.note.startswith(measure) and len(sheet.columns) == columns
        assert sheet.title.endswith("1 epoch, flips and crops, SGD, cosine schedule, batches of 32")


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
    assert re.search(r"'broken' failed \(test_bench\.py, line \d+\): ZeroDivisionError: division by zero\.$", failure)


SCRIPT = "import sys; from fedol.bench.worker import main; sys.exit(main())"


def test_a_killed_benchmark_resumes_without_doing_finished_cells_again(tmp_path):
    spec = tmp_path / "spec.json"
    slow = {**TINY, "iterations": 25}
    spec.write_text(json.dumps({**SMOKE, "settings": slow, "methods": "local,feddf,fedol"}))
    command = [sys.executable, "-c", SCRIPT, "--spec", str(spec), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    cells, servers = tmp_path / "out" / "cells", tmp_path / "out" / "servers"
    while process.poll() is None and not (len(list(cells.glob("*.json"))) == 2 and list(servers.glob("[!.]*"))):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
    before = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(before) == 2
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert json.loads(again.stdout) == {"cells": 3, "finished": 3, "elsewhere": 0, "failed": []}
    after = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert {name: after[name] for name in before} == before
    run(tmp_path / "straight", settings=slow, methods="fedol")
    assert results(tmp_path / "out")["fedol", 1]["accuracy"] == results(tmp_path / "straight")["fedol", 1]["accuracy"]


def test_the_worker_dry_runs_and_reports_errors_in_a_sentence(tmp_path, capsys):
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({**SMOKE, "methods": "local,feddf"}))
    assert main(["--spec", str(spec), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    assert "dirichlet:0.5, seed 0: 3 clients, Local, FedDF (1 epoch); about 0:" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert main(["--spec", str(tmp_path / "no.json"), "--out", str(tmp_path / "out")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["--spec", str(spec), "--out", str(tmp_path / "out"), "--time-limit", "0"]) == 3


def test_a_dry_run_of_what_is_finished_measures_nothing(smoke, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(Bench, "_measured_speed", lambda bench: pytest.fail("the speed matters to nobody"))
    (tmp_path / "spec.json").write_text(json.dumps(SMOKE))
    assert main(["--spec", str(tmp_path / "spec.json"), "--out", str(smoke[0]), "--dry-run"]) == 0
    assert capsys.readouterr().out == ""


def test_the_worker_needs_neither_typer_nor_rich_nor_scikit_learn(tmp_path):
    code = (
        "import sys\n"
        "for name in ('typer', 'rich', 'sklearn', 'scipy', 'matplotlib'): sys.modules[name] = None\n"
        "import fedol.bench.worker, fedol.report.bench_tables, fedol.bench.cost\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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


def test_a_time_limit_is_a_number_of_seconds(tmp_path):
    for limit in (float("nan"), -1):
        with pytest.raises(FedolError, match="time limit must be at least 0 seconds"):
            run(tmp_path, methods="local", time_limit=limit)


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
    from fedol.bench.work import forward_flops
    from fedol.model import Architecture
    from fedol.training import Normalisation

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


def test_the_report_in_every_medium(smoke):
    out = smoke[0]
    cost(Scenario(Spec.from_json({**SMOKE, "methods": "local"}).cells()[0].config), BenchFolder(out))
    found, numbers = report(out)
    assert [sheet.name for sheet in found] == ["one-round-1", "over-fedol-1", "rounds-1", "cost-1"]
    written = {path.name for path in (out / "report").iterdir()}
    assert written == {
        "report.md",
        "report.json",
        "one-round-1.csv",
        "over-fedol-1.csv",
        "rounds-1.csv",
        "cost-1.csv",
        "rounds.png",
        "rounds.svg",
    }
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
    assert left == {"report.md", "report.json", "one-round-1.csv", "notes.csv"}


def rewritten(folder, result):
    """A cell with other settings, under their name."""
    result["hash"] = digest(result["settings"])
    write_json(folder / "cells" / f"{result['hash']}.json", result)
    return folder / "cells" / f"{result['hash']}.json"


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


def test_the_ceiling_alone_sees_public_labels(smoke, monkeypatch):
    """With scrambled public labels every method but the ceiling gives the same number."""
    import dataclasses

    import numpy as np

    original = Scenario.__init__

    def scrambled(self, *args):
        original(self, *args)
        wrong = (self.data.public_labels + 1 + np.arange(len(self.data.public_labels)) % 9) % 10
        self.data = dataclasses.replace(self.data, public_labels=wrong)

    monkeypatch.setattr(Scenario, "__init__", scrambled)
    out = smoke[0].parent / "scrambled"
    run(out)  # its clients too: what they learn could hold public labels as well
    ours, theirs = results(out), results(smoke[0])
    assert [m for m in ONE_ROUND if ours[m, 1]["accuracy"] != theirs[m, 1]["accuracy"]] == ["ceiling"]


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


def test_no_lock_is_kept_of_clients_with_nothing_to_do(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,fedavg"}), tmp_path)
    (group,) = bench.plans()
    feddf, fedavg = group.cells
    with ExitStack() as other, ExitStack() as held, ExitStack() as third:
        assert bench.folder.claim([feddf], other) == [feddf]
        assert list(bench._free([group], {fedavg.hash}, held)) == []  # which has failed
        assert bench.folder.claim([fedavg], third) == [fedavg]


def test_rounds_that_are_over_are_kept_without_time_left(smoke, tmp_path):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    wanted = {"kind": "rounds", "methods": "fedavg,feddf", "rounds": 2, "feedback_epochs": 1}
    bench = Bench(Spec.from_json({**SMOKE, **wanted}), out)
    fedavg, feddf = bench.spec.cells()
    here = Scenario(fedavg.config, bench._scenario.dataset)
    records = [{"round": 1, "accuracy": 0.1}, {"round": 2, "accuracy": 0.2}]
    write_json(bench.folder.rounds(fedavg) / "02" / "history.json", records)
    write_json(bench.folder.rounds(feddf) / "01" / "history.json", records[:1])
    found = list(rounds_module.run([(fedavg, here), (feddf, here)], bench.folder, lambda epoch: None, deadline=0.0))
    assert found == [(fedavg, {"accuracy": 0.2, "history": records})]


@pytest.mark.parametrize("deadline", [15, 20])
def test_no_round_begins_that_would_end_after_the_deadline(deadline, smoke, tmp_path, monkeypatch):
    out = shutil.copytree(smoke[0], tmp_path / "bench")
    bench = Bench(Spec.from_json({**SMOKE, "kind": "rounds", "methods": "fedavg", "rounds": 3}), out)
    (cell,) = bench.spec.cells()
    times = iter([0, 0, 10, 10, 10, 10])  # a round takes 10: looked at, begun, over, looked at
    monkeypatch.setattr(rounds_module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    pairs = [(cell, Scenario(cell.config, bench._scenario.dataset))]
    assert not list(rounds_module.run(pairs, bench.folder, lambda epoch: None, deadline))
    assert bench.folder.last_round(cell) == 1


def test_what_others_have_finished_meanwhile_is_not_what_they_work_on(tmp_path):
    bench = Bench(Spec.from_json({**SMOKE, "methods": "feddf,mine"}), tmp_path)
    todo = bench.plans()
    run(tmp_path, methods="feddf")
    with ExitStack() as other:
        assert bench.folder.claim(todo[0].cells, other)
        assert bench._taken(todo) == 1


def test_predictions_count_as_work_where_nothing_of_the_batch_failed(tmp_path, monkeypatch):
    failures = iter([True, False])

    def sometimes(knowledge, settings):
        if next(failures):
            raise ValueError("once")
        return find("feddf").targets(knowledge, settings)

    monkeypatch.setitem(METHODS, "sometimes", Method("sometimes", targets=sometimes))
    work = []
    monkeypatch.setattr(BenchFolder, "time", lambda self, name, device, width, done, seconds: work.append(done))
    settings = {**TINY, "client_models": ["mlp"]}
    wanted = {**SMOKE, "methods": "feddf,sometimes", "partitions": "iid,classes:5", "settings": settings}
    bench = Bench(Spec.from_json(wanted), tmp_path)
    failing, whole = bench.plans()
    assert len(bench.run(Silent())["failed"]) == 1
    assert work[0] < failing.work
    assert work[1] == pytest.approx(whole.total)


def test_what_failed_is_not_left_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "broken", Method("broken", targets=lambda knowledge, settings: 1 / 0))
    bench = Bench(Spec.from_json({**SMOKE, "methods": "broken,fedavg", "partitions": "iid,classes:5"}), tmp_path)
    first, second = bench.plans()
    found, train = [], Bench._train

    def watched(self, batch, progress, failed):
        if failed:  # the second batch
            left = [bench._plan([first.cells[1]]), bench._plan(second.cells)]
            found.append((progress.total - progress.done, sum(group.work for group in left)))
        train(self, batch, progress, failed)

    monkeypatch.setattr(Bench, "_train", watched)
    bench.folder.open()
    with ExitStack() as other:
        assert bench.folder.claim([first.cells[1]], other)  # FedAvg's clients: the broken one alone begins
        bench.run(Silent())
    ((left, expected),) = found
    assert left == pytest.approx(expected)


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
