"""Schedules, patches, averages and the proximal term: each against a loop written out, and off unless asked for."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_jobs import CPU, HARD, IMAGES, NORMALISE, SOFT, job, train

from fedol.data.images import ImageBatches, Images
from fedol.errors import InputError
from fedol.training import Job, Recipe, Snapshot
from fedol.training.loop import batch_loss
from fedol.training.optimisers import Sgd

ALL = {"augment": True, "patch": "cutmix", "schedule": "one-cycle", "average": 0.9}


def plain_loop(task: Job) -> list[Tensor]:
    """The same training from its tables, as one would write it first."""
    recipe, model = task.recipe, task.model.to(memory_format=torch.channels_last).train()
    optimiser: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=recipe.lr, fused=True)
    if recipe.optimiser == "sgd":
        optimiser = torch.optim.SGD(model.parameters(), lr=recipe.lr, momentum=0.9)
    batches, steps, averages = ImageBatches(Images(IMAGES), NORMALISE, CPU), 0, None
    start = [p.detach().clone() for p in model.parameters()]
    total = recipe.epochs * 4  # 16 + 16 + 16 + 2
    for epoch in range(1, recipe.epochs + 1):
        rows = torch.arange(50).split(recipe.batch_size)
        order, views, patches = task.order(epoch), task.views(epoch), task.patches(epoch)
        for row in rows:
            x = batches(order[row], views[row] if recipe.augment else None).clone()
            y = F.one_hot(task.targets, 4).float() if task.targets.dim() == 1 else task.targets
            y = y[order[row]].clone()
            for n, (other, top, bottom, left, right) in enumerate(patches[row].tolist()):
                if recipe.patch == "cutout":
                    x[n, :, top:bottom, left:right] = 0
                if recipe.patch == "cutmix":
                    view = views[row][n : n + 1] if recipe.augment else None
                    theirs = batches(torch.tensor([other]), view)[0]
                    x[n, :, top:bottom, left:right] = theirs[:, top:bottom, left:right]
                    share = (bottom - top) * (right - left) / 64
                    whole = F.one_hot(task.targets, 4).float() if task.targets.dim() == 1 else task.targets
                    y[n] = (1 - share) * y[n] + share * whole[other]
            done = steps / total
            if recipe.schedule == "cosine":
                rate = recipe.lr * 0.5 * (1 + math.cos(math.pi * done))
            elif recipe.schedule == "one-cycle":
                fall = 0.5 * (1 + math.cos(math.pi * (done - 0.2) / 0.8))
                rate = recipe.lr * (done / 0.2 if done < 0.2 else fall)
            else:
                rate = recipe.lr
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x), y)
            for p, origin in zip(model.parameters(), start, strict=True):
                loss = loss + recipe.proximal / 2 * (p - origin).square().sum()
            loss.backward()
            optimiser.step()
            steps += 1
            state = [value.clone() for value in model.state_dict().values()]
            weight = max(1 - recipe.average, 10 / (9 + steps))
            if averages is None:
                averages = state
            pairs = zip(averages, state, strict=True)
            averages = [a + weight * (s - a) if s.is_floating_point() else s for a, s in pairs]
    assert averages is not None
    return averages if recipe.average else [value.clone() for value in model.state_dict().values()]


@pytest.mark.parametrize(
    "recipe",
    [
        {"schedule": "cosine"},
        {"schedule": "one-cycle"},
        {"patch": "cutout"},
        {"patch": "cutmix"},
        {"patch": "cutmix", "augment": True},
        {"average": 0.9},
        {"proximal": 5.0},
        {"optimiser": "sgd", "lr": 0.05},
        {"optimiser": "sgd", "lr": 0.05, **ALL},
        ALL,
    ],
    ids=lambda recipe: "+".join(map(str, recipe.values())),
)
@pytest.mark.parametrize("targets", [HARD, SOFT], ids=["classes", "soft"])
def test_equals_a_loop_written_out(recipe: dict[str, Any], targets: Tensor) -> None:
    found, expected = train(job(targets, **recipe)), plain_loop(job(targets, **recipe))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)
    # And the ingredient is no decoration: without it the weights are elsewhere.
    without = train(job(targets))
    assert max((a.double() - b).abs().max().item() for a, b in zip(found, without, strict=True)) > 2e-3


def test_switched_off_they_draw_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = train(job())

    def forbidden(self: Job, epoch: int) -> Tensor:
        raise AssertionError("a table was drawn that nobody asked for")

    monkeypatch.setattr(Job, "patches", forbidden)
    monkeypatch.setattr(Job, "views", forbidden)
    assert all(map(torch.equal, train(job(schedule="constant", patch="none", average=0.0)), expected))


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
def test_a_schedule_ends_near_zero_and_reaches_the_rate(schedule: str) -> None:
    task = job(schedule=schedule, epochs=40, lr=0.01)
    rates = torch.cat([task.pace(epoch)[:, 0] for epoch in range(1, 41)])
    assert rates.shape == (160,)
    assert rates.max().item() == pytest.approx(0.01, rel=0.01) and 0 <= rates[-1] < 1e-5
    assert (rates[:32].diff() > 0).all() if schedule == "one-cycle" else (rates.diff() < 0).all()
    assert (rates[33:].diff() < 0).all()


def test_an_average_reaches_back_a_tenth_of_the_way_at_first() -> None:
    assert job(average=0.99).pace(1)[:, 1].tolist() == pytest.approx([1, 10 / 11, 10 / 12, 10 / 13])
    assert job(average=0.25).pace(2)[:, 1].tolist() == pytest.approx([3 / 4] * 4)


def test_patches_lie_within_the_image_and_are_drawn_per_epoch_and_job() -> None:
    for patch in ("cutout", "cutmix"):
        boxes = torch.cat([job(patch=patch).patches(epoch) for epoch in range(1, 41)])
        other, top, bottom, left, right = boxes.unbind(1)
        assert other.min() >= 0 and other.max() == 49
        assert (top >= 0).all() and (left >= 0).all() and (bottom <= 8).all() and (right <= 8).all()
        assert (top <= bottom).all() and (left <= right).all()
        area = (bottom - top) * (right - left)
        if patch == "cutout":
            assert area.max() == 16 and area.min() >= 4
        else:
            assert 0.4 < (area == 0).double().mean() < 0.6 and area.max() > 40
            # A side of √share of the image, clipped at its border: a third of the image; a side of the share: a fifth.
            assert 0.26 < (area[area > 0].double().mean() / 64) < 0.34
    assert torch.equal(job(patch="cutmix").patches(1), job(patch="cutmix").patches(1))
    assert not torch.equal(job(patch="cutmix").patches(1), job(patch="cutmix").patches(2))
    assert not torch.equal(job(patch="cutmix").patches(1), job(patch="cutmix", seed=4).patches(1))


def test_weights_decay_by_themselves_with_momentum_too() -> None:
    for lr in (0.1, torch.tensor(0.1)):  # a graph has the rate in a tensor
        start = torch.randn(5, generator=torch.Generator().manual_seed(0))
        weight, expected, momentum = start.clone(), start.clone(), torch.zeros(5)
        optimiser = Sgd([weight], lr, weight_decay=0.5)
        for step in range(1, 4):  # in the first one decay through the gradient would be the same
            weight.grad = torch.full((5,), float(step))
            optimiser.step()
            momentum = 0.9 * momentum + step
            expected = expected - 0.1 * 0.5 * expected - 0.1 * momentum
        torch.testing.assert_close(weight, expected)


def test_the_loss_of_a_mixed_image_is_that_of_the_mixed_target() -> None:
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([4, 7, 9])
    patch = torch.tensor([[1, 0, 4, 0, 8], [2, 0, 0, 0, 0], [3, 0, 8, 0, 8]])  # half, nothing, all
    mixed = torch.stack([(SOFT[4] + SOFT[1]) / 2, SOFT[7], SOFT[3]])
    torch.testing.assert_close(batch_loss(logits, SOFT, index, patch, 64), F.cross_entropy(logits, mixed))
    torch.testing.assert_close(batch_loss(logits, SOFT, index, None, 64), F.cross_entropy(logits, SOFT[index]))


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_training_that_was_interrupted_goes_on_exactly(optimiser: str) -> None:
    kept: list[Snapshot] = []
    whole = job(epochs=4, optimiser=optimiser, **ALL)
    expected = train(Job(**{**vars(whole), "checkpoint": kept.append}))
    again = job(epochs=4, seed=3, optimiser=optimiser, **ALL)
    nn.init.zeros_(next(again.model.parameters()))  # what it starts from comes from the snapshot
    assert all(map(torch.equal, train(Job(**{**vars(again), "resume": kept[1]})), expected))


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"patch": "cutmax"}, "cutmix"),
        ({"schedule": "cosin"}, "cosine"),
        ({"optimiser": "sdg"}, "There is no optimiser 'sdg'; did you mean 'sgd'"),
        ({"average": 1.0}, r"average must lie in \[0, 1\)"),
        ({"average": math.nan}, r"average must lie in \[0, 1\)"),
    ],
)
def test_mistakes(recipe: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Recipe(**recipe)
