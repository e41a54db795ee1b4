"""Training of an estimator, which knows no epochs: one call, on as many threads as its job has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F

from fedol.errors import InputError
from fedol.models.fitted import Copies, Fitted
from fedol.models.held import Held
from fedol.training.job import ALL_CORES, Epoch, Fit, Job, OnEpoch, cores
from fedol.training.loop import by_question

PATH = "one step"


def train(job: Job, model: Fitted | Copies, on_epoch: OnEpoch) -> Fit:
    """Fit the estimator in a job's model. Its epochs, rates and batches mean nothing; it is told as all of them."""
    started = time.perf_counter()
    (inputs,) = job.prepare.stream(job.inputs, [slice(None)], torch.device("cpu"))
    targets = job.targets.cpu()
    if isinstance(job.model, Held):
        targets = job.model.own(targets)
    try:
        with _on(cores() if job.threads == ALL_CORES else 1, model.estimators):
            model.learn(inputs, targets)
    except InputError as error:
        return Fit(job, (), time.perf_counter() - started, PATH, f"{job.name}: {error}")
    with torch.no_grad():
        loss = F.cross_entropy(*by_question(model(inputs), targets)).item()
    epochs = job.recipe.epochs
    on_epoch(Epoch(job, epochs, loss, len(inputs), steps=epochs))
    return Fit(job, (loss,), time.perf_counter() - started, PATH)


_LOCK, _BESIDE = Lock(), list[Any]()  # the limit that those side by side share, once for each of them


@contextmanager
def _on(threads: int, estimators: Sequence[Any]) -> Iterator[None]:
    """Compute on so many threads: another number could change the last bits, by the order of a sum.

    OpenMP's number is each thread's own, BLAS's the whole process's: the last of those side by side gives it back.
    """
    from threadpoolctl import threadpool_limits

    from fedol.models.soft import named

    # Logistic regression still has the parameter, and warns of who gives it.
    jobs = [(each, name) for each in estimators for name in named(each, "n_jobs") if not _is_logistic(each, name)]
    with _LOCK:
        _BESIDE.append(_BESIDE[0] if _BESIDE else threadpool_limits(threads, "blas"))
    try:
        for each, name in jobs:
            each.set_params(**{name: threads})
        with threadpool_limits(threads, "openmp"):
            yield
    finally:
        for each, name in jobs:
            each.set_params(**{name: None})  # it answers on one thread, so always the same
        with _LOCK:
            limit = _BESIDE.pop()
            if not _BESIDE:
                limit.restore_original_limits()


def _is_logistic(estimator: Any, parameter: str) -> bool:
    owner = estimator.get_params().get(parameter.rpartition("__")[0], estimator)
    return type(owner).__name__.startswith("LogisticRegression")
