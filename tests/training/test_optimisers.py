"""Any optimiser and any schedule of PyTorch: the same training as in a loop of PyTorch's own, kept and continued."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, optim
from torch.optim import lr_scheduler
from training_jobs import CPU, HARD, NORMALISE, job, train

from fedol.errors import InputError
from fedol.training import Job, Recipe, Snapshot, fit


def theirs(task: Job, optimiser: optim.Optimizer, schedule: Any = None) -> list[Tensor]:
    """The training of a job as a user of PyTorch writes it."""
    model, batches = task.model.to(memory_format=torch.channels_last).train(), task.inputs.on(CPU, NORMALISE)
    for epoch in range(1, task.recipe.epochs + 1):
        for index in task.order(epoch).split(task.recipe.batch_size):
            optimiser.zero_grad()
            F.cross_entropy(model(batches(index, None)), HARD[index]).backward()
            optimiser.step()
            if schedule is not None:
                schedule.step()
    return [value.clone() for value in model.state_dict().values()]


MAKERS: dict[str, tuple[Any, Callable[..., optim.Optimizer]]] = {
    "a name of torch.optim": ("NAdam", optim.NAdam),
    "an address": ("torch.optim:RMSprop", optim.RMSprop),
    "a class": (optim.RAdam, optim.RAdam),
    "a partial": (partial(optim.SGD, momentum=0.5, nesterov=True), partial(optim.SGD, momentum=0.5, nesterov=True)),
    "a state of a lazy kind": (optim.Adadelta, optim.Adadelta),
}


@pytest.mark.parametrize("name", MAKERS)
def test_an_optimiser_of_pytorch_trains_as_in_pytorch(name: str) -> None:
    asked, make = MAKERS[name]
    ours = train(job(HARD, optimiser=asked, lr=0.01))
    task = job(HARD)
    expected = theirs(task, make(task.model.parameters(), lr=0.01))
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MAKERS)
def test_it_goes_on_exactly_after_an_interruption(name: str) -> None:
    asked, _ = MAKERS[name]
    kept: list[Snapshot] = []
    whole = job(HARD, epochs=4, optimiser=asked, lr=0.01)
    expected = train(Job(**{**vars(whole), "checkpoint": kept.append}))
    again = job(HARD, epochs=4, seed=3, optimiser=asked, lr=0.01)
    assert all(map(torch.equal, train(Job(**{**vars(again), "resume": kept[1]})), expected))


def test_weights_decay_where_it_knows_how() -> None:
    ours = train(job(HARD, optimiser="AdamW", lr=0.01, weight_decay=0.3))
    task = job(HARD)
    expected = theirs(task, optim.AdamW(task.model.parameters(), lr=0.01, weight_decay=0.3))
    for mine, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, other)


def test_adamw_by_its_built_in_name_is_the_fused_one() -> None:
    decayed = {"lr": 0.01, "weight_decay": 0.3}
    assert all(map(torch.equal, train(job(optimiser="adamw", **decayed)), train(job(optimiser="adam", **decayed))))


SCHEDULES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "cosine": ("CosineAnnealingLR", lambda inner: lr_scheduler.CosineAnnealingLR(inner, 12)),
    "one cycle": ("OneCycleLR", lambda inner: lr_scheduler.OneCycleLR(inner, 0.05, 12, cycle_momentum=False)),
    "a partial": (
        partial(lr_scheduler.StepLR, step_size=5, gamma=0.1),
        lambda inner: lr_scheduler.StepLR(inner, 5, 0.1),
    ),
    "an address": ("torch.optim.lr_scheduler:PolynomialLR", lambda inner: lr_scheduler.PolynomialLR(inner)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_scheduler_of_pytorch_is_stepped_once_a_batch(name: str) -> None:
    asked, make = SCHEDULES[name]
    sgd = partial(optim.SGD, momentum=0.0)
    ours = train(job(HARD, optimiser=sgd, schedule=asked, lr=0.05))
    task = job(HARD)
    inner = optim.SGD(task.model.parameters(), lr=0.05)
    for mine, other in zip(ours, theirs(task, inner, make(inner)), strict=True):
        torch.testing.assert_close(mine, other)


def test_a_schedule_of_pytorch_with_an_optimiser_of_ours() -> None:
    """12 steps: 16 + 16 + 16 + 2 images, three epochs."""
    rates = job(schedule="CosineAnnealingLR", lr=0.01).rates
    inner = optim.SGD([torch.zeros(1)], lr=0.01)
    schedule, expected = lr_scheduler.CosineAnnealingLR(inner, 12), []
    for _ in range(12):
        expected.append(inner.param_groups[0]["lr"])
        inner.step()
        schedule.step()
    assert rates == pytest.approx(expected)
    by_theirs, constant = train(job(schedule="CosineAnnealingLR", lr=0.01)), train(job(lr=0.01))
    assert not all(map(torch.equal, by_theirs, constant))


def test_what_a_partial_has_chosen_stays() -> None:
    asked = partial(lr_scheduler.OneCycleLR, total_steps=30, max_lr=0.5)
    inner = optim.SGD([torch.zeros(1)], lr=0.01)
    schedule, expected = lr_scheduler.OneCycleLR(inner, 0.5, 30, cycle_momentum=False), []
    for _ in range(12):
        expected.append(inner.param_groups[0]["lr"])
        inner.step()
        schedule.step()
    assert job(schedule=asked, lr=0.01).rates == pytest.approx(expected)


def broken(parameters: Any) -> Any:
    raise ZeroDivisionError("of mine")


def nothing(parameters: Any) -> Any:
    return 3


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"optimiser": "NAdm"}, "There is no optimiser 'NAdm'; did you mean 'NAdam'"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"optimiser": broken}, "The optimiser 'broken' cannot be made: ZeroDivisionError: of mine."),
        ({"optimiser": nothing}, "'nothing' makes a int, no torch.optim.Optimizer"),
        ({"optimiser": "torch.optim:Nothing"}, "does not exist"),
        ({"schedule": "ReduceLROnPlateau"}, "The schedule 'ReduceLROnPlateau' cannot give a rate per step"),
    ],
)
def test_mistakes(recipe: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        list(fit([job(**recipe)], CPU))


def test_a_recipe_is_plain_values_whatever_it_holds() -> None:
    plain = Recipe(optimiser=optim.RAdam, schedule=lr_scheduler.LinearLR).as_json()
    assert plain["optimiser"].endswith(":RAdam") and plain["schedule"].endswith(":LinearLR") and plain["epochs"] == 50
