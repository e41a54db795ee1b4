"""Rounds go on after the last one that is over, and what clients hear in them is the method's to say."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from small_bench import SMOKE, Silent, results, run

from fedol.bench import rounds as rounds_module
from fedol.bench.runner import Bench
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.federation.scenario import Lesson, Scenario
from fedol.files import write_json
from fedol.methods import METHODS, find


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


def test_rounds_go_on_after_the_hundredth(tmp_path):
    wanted = Spec.from_json({**SMOKE, "kind": "rounds", "rounds": 101, "methods": "fedavg"})
    bench = Bench(wanted, tmp_path)
    (cell,) = wanted.cells()
    for number in (99, 100):
        write_json(bench.folder.rounds(cell) / f"{number:02d}" / "history.json", [{"accuracy": 0.5}] * number)
    assert rounds_module.Course(cell, bench._scenario, bench.folder).round == 101


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
