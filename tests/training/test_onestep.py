"""Estimators in the training loop's place: beside networks, by their jobs alone, told in one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info

from fedol.data.samples import samples
from fedol.model import Architecture
from fedol.training import Epoch, Job, Recipe, drive, fit
from fedol.training.job import ALL_CORES
from fedol.training.onestep import PATH

IMAGES = samples(np.random.default_rng(1).integers(0, 256, (80, 1, 4, 4)).astype(np.uint8))
LABELS = torch.from_numpy((IMAGES.floats()[:, 0, 1, 1] * 2.999).astype(np.int64))
CPU = torch.device("cpu")


def job(spec: Any, name: str = "client", **settings: Any) -> Job:
    architecture = Architecture.on(IMAGES, spec, ["a", "b", "c"], 4)
    model, recipe = architecture.build(5), Recipe(epochs=3, batch_size=16)
    return Job(name, model, IMAGES, LABELS, architecture.prepare, recipe, seed=1, **settings)


def state(done: Job) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in done.model.state_dict().values())


def test_they_train_beside_networks_and_by_their_jobs_alone() -> None:
    seen: list[Epoch] = []
    names = ("logistic", "mlp", "xgboost", "forest", "hist-boosting", "lightgbm")
    beside = {done.job.name: done for done in fit([job(name, name) for name in names], CPU, seen.append)}
    assert all(done.error is None for done in beside.values())
    steps = {name: sum(epoch.steps for epoch in seen if epoch.job.name == name) for name in names}
    assert steps == dict.fromkeys(names, 3)  # what a display counts
    assert {name: done.path for name, done in beside.items()} == {**dict.fromkeys(names, PATH), "mlp": "plain loop"}
    assert [len(beside[name].losses) for name in ("forest", "mlp")] == [1, 3]
    for name in names[:4]:
        (alone,) = fit([job(name, name)], CPU)
        assert state(alone.job) == state(beside[name].job) and alone.losses == beside[name].losses
        loss = torch.nn.functional.cross_entropy(alone.job.model(alone.job.prepare(IMAGES.batch(slice(None)))), LABELS)
        assert name == "mlp" or alone.losses[0] == loss.item()


def test_a_server_may_use_all_cores_and_nobody_keeps_what_it_was_given(monkeypatch: Any) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found: list[tuple[int | None, int]] = []

    class Watched(LogisticRegression):
        n_jobs = None

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {**super().get_params(deep), "n_jobs": self.n_jobs}

        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            threads = {each["num_threads"] for each in threadpool_info() if each["user_api"] == "openmp"}
            found.append((self.n_jobs, threads.pop()))
            return LogisticRegression.fit(self, X, y, sample_weight)

    before = [(each["prefix"], each["num_threads"]) for each in threadpool_info() if each["user_api"] == "blas"]
    soft = torch.nn.functional.one_hot(LABELS, 3).float()
    server = replace(job(Watched()), alone=True, targets=soft)
    assert server.threads == ALL_CORES and job(Watched()).threads == 1
    for one in (server, job(Watched())):
        (done,) = fit([one], CPU)
        assert done.error is None and one.model.learner.estimator.n_jobs is None  # type: ignore[union-attr]
    assert found == [(3, 3), (1, 1)]
    after = [(each["prefix"], each["num_threads"]) for each in threadpool_info() if each["user_api"] == "blas"]
    assert before == after


def test_one_that_fails_says_so_and_stops_no_other() -> None:
    class Failing(LogisticRegression):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise RuntimeError("no idea")

    failed, done = fit([job(Failing(), "client 3"), job("logistic")], CPU)
    if failed.error is None:
        failed, done = done, failed
    assert failed.error == "client 3: The model 'Failing' cannot learn: RuntimeError: no idea." and done.error is None


def test_a_second_training_forgets_the_first() -> None:
    def twice() -> Any:
        first = job("logistic")
        yield first
        done = yield replace(first, targets=(LABELS + 1) % 3)
        return done.job.model

    ((_, model),) = drive([twice()], CPU)
    (once,) = fit([replace(job("logistic"), targets=(LABELS + 1) % 3)], CPU)
    assert torch.equal(model(torch.ones(2, 1, 4, 4)), once.job.model(torch.ones(2, 1, 4, 4)))
