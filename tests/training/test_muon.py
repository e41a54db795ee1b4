"""Muon: orthogonal steps for matrices, against PyTorch's own and a singular value decomposition."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from training_jobs import CPU, HARD, IMAGES, NORMALISE, job, train

from fedol.data.images import ImageBatches, Images
from fedol.data.signals import Signals
from fedol.errors import InputError
from fedol.models import create
from fedol.training import Job, Snapshot, fit, loop
from fedol.training.muon import STEPS, A, B, C, Muon, orthogonal

RATE = {"lr": 0.02, "weight_decay": 0.5}


def test_the_nearest_orthogonal_matrix_whatever_the_shapes() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 8, 40), (1, 40, 8), (3, 16, 16), (1, 8, 9), (1, 1, 5)]
    stacks = [torch.randn(*shape, generator=generator) for shape in shapes]
    for stack, found in zip(stacks, orthogonal(stacks), strict=True):
        assert found.shape == stack.shape
        values = torch.linalg.svdvals(found)
        assert values.min() > 0.6 and values.max() < 1.25
        left, _, right = torch.linalg.svd(stack, full_matrices=False)
        cosine = F.cosine_similarity(found.flatten(1), (left @ right).flatten(1))
        assert cosine.min() > 0.97


def test_it_is_the_iteration_on_the_matrices_themselves() -> None:
    x = torch.randn(2, 6, 30, generator=torch.Generator().manual_seed(1))
    expected = x.double() / x.double().norm(dim=(1, 2), keepdim=True)
    for _ in range(STEPS):
        square = expected @ expected.mT
        expected = A * expected + (B * square + C * square @ square) @ expected
    torch.testing.assert_close(orthogonal([x])[0].double(), expected, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(orthogonal([x.mT])[0].double(), expected.mT, atol=1e-4, rtol=1e-3)


def test_a_gradient_of_zeros_moves_nothing() -> None:
    assert torch.equal(orthogonal([torch.zeros(1, 3, 4)])[0], torch.zeros(1, 3, 4))


def by_pytorch(task: Job) -> list[Tensor]:
    """The same training by torch.optim.Muon, on each convolution as a matrix, and Adam on all else."""
    model = task.model.to(memory_format=torch.channels_last).train()
    named = dict(model.named_parameters())
    *hidden, _ = [name for name, p in named.items() if p.dim() > 1]
    matrices = {name: nn.Parameter(named[name].detach().movedim(1, -1).flatten(1).clone()) for name in hidden}
    muon = torch.optim.Muon(matrices.values(), adjust_lr_fn="match_rms_adamw", **RATE)
    adam = torch.optim.AdamW([p for name, p in named.items() if name not in hidden], **RATE)
    batches = ImageBatches(Images(IMAGES), NORMALISE, CPU)
    for epoch in range(1, task.recipe.epochs + 1):
        for index in task.order(epoch).split(task.recipe.batch_size):
            model.zero_grad()
            F.cross_entropy(model(batches(index, None)), HARD[index]).backward()
            for name, matrix in matrices.items():
                gradient = named[name].grad
                assert gradient is not None
                matrix.grad = gradient.movedim(1, -1).flatten(1)
            muon.step()
            adam.step()
            with torch.no_grad():
                for name, matrix in matrices.items():
                    p = named[name]
                    p.copy_(matrix.view(p.movedim(1, -1).shape).movedim(-1, 1))
    return [p.detach().clone() for p in model.parameters()]


def test_it_trains_as_pytorchs_own_does() -> None:
    start = [p.detach().clone() for p in job(HARD, epochs=1).model.parameters()]
    expected = by_pytorch(job(HARD, epochs=1))
    task = job(HARD, epochs=1, optimiser="muon", **RATE)
    train(task)
    for found, wanted, before in zip(task.model.parameters(), expected, start, strict=True):
        away = (found.detach() - wanted).norm() / (wanted - before).norm().clamp_min(1e-12)
        assert away < 0.1  # PyTorch iterates in bf16
    plain = job(HARD, epochs=1, optimiser="adamw", **RATE)
    train(plain)
    first, other = next(task.model.parameters()), next(plain.model.parameters())
    assert (first - other).norm() > 0.1 * (first.detach() - start[0]).norm()


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_the_last_matrix_is_adams(model: str) -> None:
    module = create(model, classes=4, shape=(1, 8, 8), seed=0)
    before = [p.detach().clone() for p in module.parameters()]
    optimiser = Muon(list(module.parameters()), 0.1)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    steps = [(p.detach() - old).abs() for p, old in zip(module.parameters(), before, strict=True)]
    matrices = [step for step in steps if step.dim() > 1]
    torch.testing.assert_close(matrices[-1], torch.full_like(matrices[-1], 0.1), atol=1e-4, rtol=1e-3)
    assert all(step.mean() < 0.09 for step in matrices[:-1])


def test_one_tensor_of_all_weights_is_trained_as_the_weights() -> None:
    """As the CUDA engine has them."""
    shapes = [(4, 3, 3, 3), (4,), (5, 4), (2, 5)]
    generator = torch.Generator().manual_seed(2)
    draws = [torch.randn(shape, generator=generator) for shape in shapes]
    apart = [nn.Parameter(draw.clone()) for draw in draws]
    flat = nn.Parameter(torch.cat([draw.flatten() for draw in draws]))

    def cut(tensor: Tensor) -> list[Tensor]:
        parts = tensor.split([draw.numel() for draw in draws])  # type: ignore[no-untyped-call]
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    one, many = Muon([flat], 0.1, 0.5, cut), Muon(apart, 0.1, 0.5)
    for _ in range(3):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        flat.grad = torch.cat([gradient.flatten() for gradient in gradients])
        for p, gradient in zip(apart, gradients, strict=True):
            p.grad = gradient
        one.step()
        many.step()
    for found, wanted in zip(cut(flat.detach()), apart, strict=True):
        torch.testing.assert_close(found, wanted.detach())


def test_it_goes_on_exactly_after_an_interruption() -> None:
    recipe: dict[str, Any] = {"epochs": 4, "optimiser": "muon", "grow": 0.6, **RATE}
    kept: list[Snapshot] = []
    whole = job(HARD, **recipe)
    expected = train(Job(**{**vars(whole), "checkpoint": kept.append}))
    again = job(HARD, seed=3, **recipe)
    assert all(map(torch.equal, train(Job(**{**vars(again), "resume": kept[1]})), expected))


class Seen(nn.Module):
    """Keeps the sizes of what it is shown in training."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.sizes = net, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.sizes.append(x.shape[-1])
        return self.net(x)  # type: ignore[no-any-return]


def sizes(model: str, **recipe: Any) -> list[int]:
    seen = Seen(create(model, classes=4, shape=(1, 8, 8), width=4, seed=0))
    task = Job(**{**vars(job(HARD, batch_size=50, **recipe)), "model": seen})
    result = loop.train(task, CPU, lambda epoch: None, Event())
    assert result.error is None
    return seen.sizes[-recipe["epochs"] :]  # before them the trial for layers that draw


def test_images_grow_from_half_of_their_side() -> None:
    assert sizes("resnet11", epochs=10, grow=0.8) == [4] * 4 + [6] * 4 + [8] * 2
    assert sizes("resnet11", epochs=4) == [8] * 4


def test_a_net_for_one_size_alone_sees_whole_images() -> None:
    assert sizes("mlp", epochs=4, grow=0.8) == [8] * 4


def test_smaller_images_keep_what_is_in_them() -> None:
    images = Images(IMAGES)
    batch = NORMALISE(IMAGES[:5])
    for scale, side in ((0.5, 4), (0.75, 6)):
        small = images.smaller(batch, scale)
        assert small.shape == (5, 1, side, side)
        torch.testing.assert_close(images.smaller(torch.full_like(batch, 0.7), scale), torch.full_like(small, 0.7))
        torch.testing.assert_close(small.mean((2, 3)), batch.mean((2, 3)), atol=0.2, rtol=0)


def test_growing_is_of_images_alone() -> None:
    waves = Signals.of(np.random.default_rng(0).random((50, 1, 64)), "waves")
    own = {"inputs": waves, "prepare": waves.fit(), "model": create("cnn1d", classes=4, shape=(1, 64))}
    with pytest.raises(InputError, match="There are no smaller signals; leave 'grow' out"):
        list(fit([Job(**{**vars(job(HARD, grow=0.5)), **own})], CPU))
