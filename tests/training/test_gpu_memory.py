"""A card whose memory does not suffice, pretended: the engine's own decisions need no GPU."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from fedol.data import Images, Normalisation
from fedol.errors import FedolError
from fedol.training import Fit, Job, Recipe, cuda, predict
from fedol.training.cuda import CudaEngine
from fedol.training.graph import NotCapturable

GREY = Normalisation((0.5,), (0.25,))


def job(name: str, samples: int = 8) -> Job:
    images = Images(torch.zeros(samples, 1, 4, 4, dtype=torch.uint8))
    return Job(name, nn.Linear(1, 1), images, torch.zeros(samples, dtype=torch.long), GREY, Recipe(2, 4))


class Card:
    """Room for so many sessions at once; each ends after some steps."""

    def __init__(self, room: int) -> None:
        self.room, self.held, self.most, self.captures = room, set[int](), 0, 0

    def session(self, first: Job, batches: object, device: torch.device) -> "FakeSession":
        return FakeSession(self, first)


class FakeSession:
    def __init__(self, card: Card, first: Job) -> None:
        if "plain" in first.name:
            raise NotCapturable("it cannot")
        if len(card.held) >= card.room or "huge" in first.name:
            raise torch.OutOfMemoryError
        card.held.add(id(self))
        card.captures += 1
        card.most = max(card.most, len(card.held))
        self._card, self._model, self.error = card, first.model, ""

    def __del__(self) -> None:
        if hasattr(self, "_card"):
            self._card.held.discard(id(self))

    def fits(self, job: Job) -> bool:
        return job.model is self._model

    def begin(self, job: Job) -> None:
        self.job, self._steps = job, 5

    @property
    def done(self) -> bool:
        return bool(self.error) or self._steps == 0

    def finished_epochs(self) -> list[object]:
        return []

    def launch(self, capture: bool) -> bool:
        if "remainder" in self.job.name and capture:
            raise torch.OutOfMemoryError
        self._steps -= 1
        return not self.done

    def fail(self, error: str) -> None:
        self.error = error

    def outcome(self) -> Fit:
        return Fit(self.job, (), 0.0, cuda.PATH, self.error or None)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = Card(room=3)
    monkeypatch.setattr(cuda, "Session", card.session)
    monkeypatch.setattr(CudaEngine, "_batches", lambda self, job: None)
    return card


def train(jobs: list[Job]) -> tuple[CudaEngine, dict[str, Fit]]:
    engine = CudaEngine(torch.device("cpu"), lambda epoch: None)
    for each in jobs:
        engine.submit(each)
    return engine, {fit.job.name: fit for fit in (engine.next() for _ in jobs)}


def test_jobs_wait_for_memory_and_all_train(card: Card) -> None:
    _, fits = train([job(f"client {k}") for k in range(10)])
    assert len(fits) == 10 and not any(fit.error for fit in fits.values())
    assert card.most == card.room


@pytest.mark.parametrize("name", ["huge", "remainder"])
def test_one_that_never_fits_stops_alone(card: Card, name: str) -> None:
    _, fits = train([job(f"client {k}") for k in range(4)] + [job(name)])
    assert fits[name].error == f"{name} needs more memory than the GPU has free; try a smaller batch size or width."
    assert not any(fits[f"client {k}"].error for k in range(4))


def test_models_that_wait_for_their_next_job_make_room(card: Card) -> None:
    engine = CudaEngine(torch.device("cpu"), lambda epoch: None)
    for k in range(10):
        engine.submit(job(f"server {k}"))
    names = []
    for _ in range(30):  # three iterations of each, as drive submits them
        fit = engine.next()
        assert fit.error is None
        names.append(fit.job.name)
        if names.count(fit.job.name) < 3:
            engine.submit(fit.job)
    assert sorted(names) == sorted(3 * [f"server {k}" for k in range(10)])


def test_a_graph_that_fits_no_more_makes_room_for_the_next(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    card.room = 1
    monkeypatch.setattr(FakeSession, "fits", lambda self, job: False)
    first = job("client")
    engine = CudaEngine(torch.device("cpu"), lambda epoch: None)
    for _ in range(2):
        engine.submit(first)
        assert engine.next().error is None


def test_after_one_that_never_fits_the_others_train_at_once_again(card: Card) -> None:
    longer, huge = [job(f"longer {k}", samples=16) for k in range(2)], job("huge", samples=12)
    engine = CudaEngine(torch.device("cpu"), lambda epoch: None)
    for each in (*longer, huge):
        engine.submit(each)
    assert [engine.next().job.name for _ in range(3)][-1] == "huge"
    for k in range(6):
        engine.submit(job(f"shorter {k}"))
    card.most = 0
    assert not any(engine.next().error for _ in range(6)) and card.most == card.room


def test_what_no_graph_can_hold_stops_alone_too(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(job: Job, *rest: object) -> Fit:
        assert not card.held  # graphs that nobody needs any more
        if "large" in job.name:
            raise torch.OutOfMemoryError
        return Fit(job, (), 0.0, "plain loop")

    monkeypatch.setattr(cuda, "train", plain)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    with pytest.warns(UserWarning, match="trains in the plain loop"):
        _, fits = train([job("client"), job("plain and large"), job("plain")])
    assert "more memory than the GPU has" in str(fits["plain and large"].error)
    assert fits["plain"].error is fits["client"].error is None
    monkeypatch.setattr(cuda, "teamed", lambda job: True)  # other processes would wait for ever
    with pytest.raises(torch.OutOfMemoryError):
        train([job("large")])


def test_a_graph_is_kept_for_the_models_next_job_and_for_nothing_else(card: Card) -> None:
    engine, _ = train([job("one"), job("two")])
    first = job("three")
    for each in (first, first):  # as a server's iterations: the next job comes when the last one has ended
        engine.submit(each)
        engine.next()
    assert card.captures == 3 and len(card.held) == 1


def test_predictions_take_smaller_batches_where_memory_is_short() -> None:
    sizes: list[int] = []

    class Hungry(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            sizes.append(len(x))
            if len(x) > 30:
                raise torch.OutOfMemoryError
            return x.flatten(1)

    def run(model: nn.Module) -> Tensor:
        return predict(model, images, GREY, torch.device("cpu"), batch=100)

    images = Images(torch.randint(256, (100, 1, 2, 2), dtype=torch.uint8))
    flat: Callable[[], nn.Module] = nn.Flatten
    assert torch.equal(run(Hungry()), run(flat()))
    assert sizes == [100, 50, 25, 25, 25, 25]


def test_where_not_one_image_can_be_predicted_a_sentence_says_so() -> None:
    class Starved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise torch.OutOfMemoryError

    with pytest.raises(FedolError, match="not even the memory"):
        predict(Starved(), Images(torch.zeros(4, 1, 2, 2, dtype=torch.uint8)), GREY, torch.device("cpu"))
