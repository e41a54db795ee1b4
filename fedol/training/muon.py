"""Muon: matrices step along the orthogonal matrix nearest to their momentum (Jordan 2024); all else steps by Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedol.training.optimisers import Adam

MOMENTUM = 0.95
STEPS = 5  # of the Newton-Schulz iteration
A, B, C = 3.4445, -4.7750, 2.0315  # Jordan's coefficients: a steep start rather than an exact end
Cut = Callable[[Tensor], list[Tensor]]  # a tensor in which many parameters lie, as those


class Muon(Adam):
    """A convolution is a matrix of a row per output; the last matrix makes the logits and is Adam's.

    A step is as large as Adam's usually is (Liu et al. 2025: 0.2 · √ of the longer side), so that the same rates suit.
    ``torch.optim.Muon`` computes the same for a Linear layer's weights alone, one by one.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float | Tensor, weight_decay: float = 0.0, cut: Cut | None = None
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        self._cut: Cut = cut or (lambda tensor: [tensor])

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        live = [(p, p.grad, *moments.values()) for p, moments in self.state if p.grad is not None]
        torch._foreach_add_([step for _, _, step, _, _ in live], 1)
        pieces = [piece for tensors in live for piece in self._pieces(*tensors)]
        matrices = [place for place, piece in enumerate(pieces) if piece[0].dim() > 1][:-1]
        self._fused([piece for place, piece in enumerate(pieces) if place not in matrices])
        shapes: dict[torch.Size, list[tuple[Tensor, ...]]] = {}
        for place in matrices:
            shapes.setdefault(pieces[place][0].shape, []).append(pieces[place])
        ways = orthogonal([self._way(group) for group in shapes.values()])
        for group, way in zip(shapes.values(), ways, strict=True):
            values = [piece[0] for piece in group]
            if self._decay:
                torch._foreach_mul_(values, 1 - self.lr * self._decay)
            scaled = way * (self.lr * (0.2 * max(way.shape[1:]) ** 0.5))
            torch._foreach_sub_(values, [_shaped(each, values[0]) for each in scaled])

    def _pieces(self, value: Tensor, gradient: Tensor, step: Tensor, *moments: Tensor) -> list[tuple[Tensor, ...]]:
        """Each parameter, its gradient and its state; they share the count of steps."""
        cuts = (self._cut(tensor) for tensor in (value, gradient, *moments))
        return [(v, g, step, first, second) for v, g, first, second in zip(*cuts, strict=True)]

    def _way(self, group: Sequence[tuple[Tensor, ...]]) -> Tensor:
        """Parameters of one shape: their gradients looking ahead along the momentum, as matrices [n, rows, columns]."""
        gradients, momenta = [piece[1] for piece in group], [piece[3] for piece in group]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        return torch.stack([_rows(way) for way in torch._foreach_lerp(gradients, momenta, MOMENTUM)])


def _rows(weight: Tensor) -> Tensor:
    """A row per output. Channels go last, as a convolution's weights lie in memory."""
    return weight.movedim(1, -1).flatten(1)


def _shaped(matrix: Tensor, like: Tensor) -> Tensor:
    """What ``_rows`` made a matrix of."""
    return matrix.view(like.movedim(1, -1).shape).movedim(-1, 1)


def orthogonal(stacks: Sequence[Tensor]) -> list[Tensor]:
    """The orthogonal matrix nearest to each, nearly: singular values end between 0.7 and 1.2.

    The iteration x ← (a + b·G + c·G²) x, G = x·xᵀ, is one of G alone. The product of its polynomials is applied once,
    so that the longer side is met twice instead of fifteen times, and matrices of one shorter side go through together.
    """
    wide = [stack if stack.shape[1] <= stack.shape[2] else stack.mT for stack in stacks]
    wide = [x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7) for x in wide]
    squares = [x @ x.mT for x in wide]
    products: dict[int, list[Tensor]] = {}
    for side in {square.shape[1] for square in squares}:
        together = [square for square in squares if square.shape[1] == side]
        products[side] = list(torch.split(_iterated(torch.cat(together)), [len(square) for square in together]))
    found = [products[x.shape[1]].pop(0) @ x for x in wide]
    return [x if x.shape == stack.shape else x.mT for x, stack in zip(found, stacks, strict=True)]


def _iterated(square: Tensor) -> Tensor:
    """The product of all polynomials, each of the G that the ones before have made; they commute."""
    product = None
    for _ in range(STEPS):
        polynomial = torch.baddbmm(square, square, square, beta=B, alpha=C)
        polynomial.diagonal(dim1=1, dim2=2).add_(A)
        product = polynomial if product is None else polynomial @ product
        square = polynomial @ square @ polynomial
    assert product is not None
    return product
