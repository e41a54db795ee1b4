"""What a benchmark finds: every cell from its own data and settings, each client trained once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_bench import ONE_ROUND, ROUNDS, SMOKE, TINY, Silent, report, results, run

from fedol.bench import one_round
from fedol.bench.evaluation import ceiling
from fedol.bench.spec import Spec
from fedol.bench.store import BenchFolder
from fedol.core.voting import entropy
from fedol.data import load
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario


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
    for image, label in zip(scenario.public.array(), truth.argmax(1), strict=True):
        assert label in whole.train.y[(whole.train.x == image).all((1, 2, 3))]


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
    shares = [share for share, *_ in smoke[1].told]
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
