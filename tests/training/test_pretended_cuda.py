"""The CUDA engine's own code where there is no GPU: streams and graphs are pretended, a replay runs the step again.

What a card would do (kernels, real graphs, streams at once) is tested by tests/training/test_training_cuda.py on one.
"""

import contextlib
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
import torch
from torch import nn
from training_jobs import CPU
from training_jobs import bright as job

import fedol.training as training
from fedol.models import nets
from fedol.training import Fit, Job, Process, Snapshot, cuda, graph, loop
from fedol.training.cuda import CudaEngine

ALL = {"augment": True, "patch": "cutmix", "schedule": "cosine", "average": 0.9, "weight_decay": 0.1}


class Pretended:
    """A stream, an event or a graph."""

    def __init__(self, *arguments: object, **options: object) -> None: ...

    def query(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **options: None


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Stream", "Event", "CUDAGraph", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, Pretended)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    empty_like, autocast = torch.empty_like, torch.autocast
    monkeypatch.setattr(torch, "empty_like", lambda like, pin_memory=False: empty_like(like))
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: autocast("cpu", dtype))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    for module in (nets, graph):
        monkeypatch.setattr(module, "fused_kernels", lambda: None)  # Triton's are for a card
    monkeypatch.setattr(graph, "weight_gradients_on", lambda stream: contextlib.nullcontext())
    # A capture computes nothing, a replay computes the step.
    monkeypatch.setattr(
        graph.Step, "capture", lambda self, size: self._graphs.setdefault((size, self.scale), Pretended())
    )
    monkeypatch.setattr(graph.Step, "replay", lambda self, size: self._run(size))
    monkeypatch.setattr(training, "engine", CudaEngine)
    monkeypatch.setattr(CudaEngine, "__exit__", lambda *error: None)


SGD = {"optimiser": "sgd", "lr": 0.02}
MUON = {"optimiser": "muon", "lr": 0.003, "weight_decay": 1.0}
GROWING = {"epochs": 3, "grow": 0.7}


@pytest.mark.parametrize(
    "recipe",
    [{}, ALL, {"batch_size": 299}, {"proximal": 0.1}, SGD, {**ALL, **SGD}, MUON, {**ALL, **GROWING, **MUON}],
    ids=["plain", "all", "one", "μ", "sgd", "all with sgd", "muon", "all with muon, growing"],
)
def test_jobs_beside_each_other_train_as_in_the_plain_loop(recipe: dict[str, Any]) -> None:
    jobs = [job("a", **recipe), job("b", samples=190, seed=1, **recipe), job("c", "resnet20", seed=2, **recipe)]
    found: dict[str, Fit] = {fit.job.name: fit for fit in training.fit(jobs, CPU)}
    plain = loop.train(job("a", **recipe), CPU, lambda epoch: None, Event())
    assert [found[name].error for name in "abc"] == [None] * 3 and found["a"].path == cuda.PATH
    assert found["a"].losses == pytest.approx(plain.losses, rel=0.01)  # bf16


def test_a_models_next_job_goes_on_with_its_weights_in_the_same_session(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    create_session = cuda.Session.__init__

    def counted(self: cuda.Session, job: Job, *arguments: Any) -> None:
        made.append(job.name)
        create_session(self, job, *arguments)

    def iterations(first: Job) -> Process[list[float]]:
        losses = []
        for number in range(3):
            losses.append((yield replace(first, name=f"{first.name}.{number}")).losses[-1])
        return losses

    monkeypatch.setattr(cuda.Session, "__init__", counted)
    results = dict(training.drive([iterations(job("s")), iterations(job("t", seed=1))], CPU))
    assert sorted(made) == ["s.0", "t.0"]
    assert all(losses == sorted(losses, reverse=True) for losses in results.values())


@pytest.mark.parametrize("optimiser", [{}, SGD, {**MUON, **GROWING}], ids=["adam", "sgd", "muon, growing"])
def test_it_resumes_with_the_same_bits(optimiser: dict[str, Any]) -> None:
    snapshots: list[Snapshot] = []
    recipe: dict[str, Any] = {"epochs": 3, **ALL, **optimiser}
    (whole,) = training.fit([replace(job("a", **recipe), checkpoint=snapshots.append)], CPU)
    (again,) = training.fit([replace(job("a", **recipe), resume=snapshots[0])], CPU)
    assert again.losses == whole.losses and len(snapshots) == 3
    states = (fit.job.model.state_dict() for fit in (whole, again))
    assert all(torch.equal(a, b) for a, b in zip(*(state.values() for state in states), strict=True))


def test_a_loss_that_is_no_number_stops_that_model_alone() -> None:
    broken = job("broken")
    with torch.no_grad():
        next(broken.model.parameters()).fill_(float("nan"))
    found = {fit.job.name: fit for fit in training.fit([broken, job("well")], CPU)}
    assert "broken diverged" in str(found["broken"].error) and found["well"].error is None


class Strict(nn.Sequential):
    """Fails while the card is strict, as on a real one whatever makes the host wait; and always, where it is broken."""

    broken = False

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(192, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.broken or torch.cuda.get_sync_debug_mode() == "error":
            raise RuntimeError("whatever it says")
        return super().forward(x)


class Broken(Strict):
    broken = True


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = ["default"]
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: mode[0])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda wanted: mode.__setitem__(0, wanted))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())  # the plain loop's
    capture = graph.Step.capture

    def tried(self: graph.Step, size: int) -> None:
        with self._unchanged():
            self._try(size)
        capture(self, size)

    monkeypatch.setattr(graph.Step, "capture", tried)


@pytest.mark.usefixtures("strict")
def test_what_makes_the_host_wait_is_told_from_what_is_broken() -> None:
    waits, broken = (replace(job("it"), model=made()) for made in (Strict, Broken))
    with pytest.warns(UserWarning, match="Strict trains in the plain loop.*: it makes the host wait for the GPU"):
        results = {fit.job.name: fit for fit in training.fit([waits, job("other")], CPU)}
    assert results["it"].path == "plain loop: it makes the host wait for the GPU" and results["it"].error is None
    assert results["other"].path == cuda.PATH
    with pytest.raises(RuntimeError, match="whatever it says"):
        list(training.fit([broken], CPU))
