"""Optimisers: Adam and SGD as fused kernels that fit a CUDA graph, and any of PyTorch's or yours around them.

What all have: a learning rate that may change, state per parameter that can be kept and put back, and a step.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedol.code import describe, imported
from fedol.errors import InputError, cause, unknown

Moments = Mapping[str, Mapping[str, Tensor]]
"""An optimiser's state: parameter name -> part -> tensor."""
State = list[tuple[Tensor, dict[str, Tensor]]]
MOMENTUM = 0.9  # of SGD
BUILT_IN = ("adam", "adamw", "sgd", "muon")


class Optimiser(ABC):
    """``lr`` may be a tensor, which a CUDA graph then reads. Weights decay by themselves, not through the gradient."""

    def __init__(self, parameters: Sequence[Tensor], lr: float | Tensor, weight_decay: float = 0.0) -> None:
        self.lr, self._decay = lr, weight_decay
        self.state: State = [(p, self._begin(p)) for p in parameters]

    @abstractmethod
    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        """A parameter's state on the first day: zeros, which lie in memory as the parameter does."""

    @abstractmethod
    def step(self) -> None:
        """Update every parameter that has a gradient."""

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p, _ in self.state:
            p.grad = None

    def moments(self, model: nn.Module) -> Moments:
        """The state by the model's names for its parameters."""
        names = {id(p): name for name, p in model.named_parameters()}
        return {names[id(p)]: moments for p, moments in self.state}

    def prepare(self, model: nn.Module, kept: Mapping[str, Tensor]) -> None:
        """Make room for the state that is about to be put back (named ``part/parameter``); here it is there already."""
        return


class Adam(Optimiser):
    """Adam by PyTorch's fused kernel; AdamW, where weights decay.

    ``torch.optim.AdamW`` (``Adam``, where no weight decays) computes the same bits with the same kernel, but its first
    use imports PyTorch's compiler, which takes seconds, and for a small model its bookkeeping takes longer than the
    update. ``piece``: the kernel gives 65,536 elements to one multiprocessor, so that a small model in one long tensor
    would keep few of them busy; it is told of a tensor every so many elements instead.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float | Tensor, weight_decay: float = 0.0, piece: int | None = None
    ) -> None:
        super().__init__(parameters, lr, weight_decay)
        self._piece = piece

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        # The moments lie in memory as the parameter does: the kernel goes through both as they are.
        moments = {part: torch.zeros_like(parameter) for part in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.zeros((), device=parameter.device), **moments}

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        live = [(p, p.grad, *moments.values()) for p, moments in self.state if p.grad is not None]
        torch._foreach_add_([step for _, _, step, _, _ in live], 1)
        if self._piece is not None:
            live = [piece for tensors in live for piece in _cut(self._piece, *tensors)]
        self._fused(live)

    def _fused(self, live: Sequence[tuple[Tensor, ...]]) -> None:
        """One kernel for parameters with their gradients and states."""
        values, gradients, steps, first, second = (list(column) for column in zip(*live, strict=True))
        torch._fused_adamw_(
            values, gradients, first, second, [], steps,
            lr=self.lr, beta1=0.9, beta2=0.999, weight_decay=self._decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip


def _cut(size: int, value: Tensor, gradient: Tensor, step: Tensor, *moments: Tensor) -> list[tuple[Tensor, ...]]:
    """A parameter, its gradient and state as many; they share the count of steps."""
    pieces = zip(*(torch.split(tensor, size) for tensor in (value, gradient, *moments)), strict=True)
    return [(v, g, step, first, second) for v, g, first, second in pieces]


class Sgd(Optimiser):
    """v ← 0.9 v + gradient, w ← w − lr · v: ``torch.optim.SGD`` with momentum, where no weight decays."""

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(parameter)}

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        live = [(p, p.grad, moments["momentum"]) for p, moments in self.state if p.grad is not None]
        values, gradients, momenta = (list(column) for column in zip(*live, strict=True))
        if self._decay:
            torch._foreach_mul_(values, 1 - self.lr * self._decay)
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, gradients)
        torch._foreach_sub_(values, torch._foreach_mul(momenta, self.lr))


class Theirs(Optimiser):
    """An optimiser of PyTorch's, or your own; it trains in the plain loop, on a GPU too.

    ``make`` is handed the parameters, and ``lr`` and ``weight_decay`` where its signature names them.
    """

    def __init__(
        self, make: Callable[..., Any], parameters: Sequence[Tensor], lr: float, weight_decay: float = 0.0
    ) -> None:
        known = inspect.signature(make).parameters
        asked = {"lr": lr, "weight_decay": weight_decay} if weight_decay else {"lr": lr}
        try:
            self._inner = make(parameters, **{name: value for name, value in asked.items() if name in known})
        except Exception as error:  # other people's code
            raise InputError(f"The optimiser '{describe(make)}' cannot be made: {cause(error)}.") from error
        if not isinstance(self._inner, torch.optim.Optimizer):
            raise InputError(f"'{describe(make)}' makes a {type(self._inner).__name__}, no torch.optim.Optimizer.")
        self._parameters = list(parameters)
        super().__init__(parameters, lr, weight_decay)

    @property
    def lr(self) -> float:
        """Of all groups."""
        return float(self._inner.param_groups[0]["lr"])

    @lr.setter
    def lr(self, rate: float) -> None:
        for group in self._inner.param_groups:
            group["lr"] = rate

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {}

    def step(self) -> None:
        """Its own."""
        self._inner.step()

    def moments(self, model: nn.Module) -> Moments:
        """What it has kept so far; what is not a tensor becomes one."""
        names = {id(p): name for name, p in model.named_parameters()}
        return {names[id(p)]: _tensors(self._inner.state[p]) for p in self._parameters if p in self._inner.state}

    def prepare(self, model: nn.Module, kept: Mapping[str, Tensor]) -> None:
        """It makes its state in its first step, so give it what is kept."""
        named = dict(model.named_parameters())
        for key, tensor in kept.items():
            part, _, name = key.partition("/")
            if part not in ("model", "average") and name in named:
                self._inner.state[named[name]][part] = tensor.to(
                    named[name].device if tensor.dim() else "cpu", copy=True
                )


def _tensors(state: dict[str, Any]) -> dict[str, Tensor]:
    numbers = {part: value for part, value in state.items() if isinstance(value, Tensor | int | float)}
    for part, value in numbers.items():
        state[part] = value if isinstance(value, Tensor) else torch.tensor(value)
    return {part: state[part] for part in numbers}


class Paced(Optimiser):
    """One optimiser for most parameters, and one whose rate is a fixed share of its rate for the others."""

    def __init__(self, most: Optimiser, others: Optimiser, share: float) -> None:
        self.lr, self._most, self._others, self._share = most.lr, most, others, share
        self.state = most.state + others.state

    def _begin(self, parameter: Tensor) -> dict[str, Tensor]:
        return {}

    def step(self) -> None:
        """Both, each at its rate."""
        self._most.lr, self._others.lr = self.lr, self.lr * self._share
        self._most.step()
        self._others.step()

    def moments(self, model: nn.Module) -> Moments:
        """Both."""
        return {**self._most.moments(model), **self._others.moments(model)}

    def prepare(self, model: nn.Module, kept: Mapping[str, Tensor]) -> None:
        """Both."""
        self._most.prepare(model, kept)
        self._others.prepare(model, kept)


def check_optimiser(optimiser: str | Callable[..., Any]) -> None:
    """Refuse what names no optimiser."""
    if callable(optimiser) or optimiser in BUILT_IN or ":" in optimiser:
        return
    if not isinstance(getattr(torch.optim, optimiser, None), type):
        named = [name for name, value in vars(torch.optim).items() if isinstance(value, type) and name != "Optimizer"]
        raise unknown("optimiser", optimiser, (*BUILT_IN, *named))


def optimiser_of(
    optimiser: str | Callable[..., Any],
    parameters: Sequence[Tensor],
    lr: float | Tensor,
    weight_decay: float,
    piece: int | None = None,
    cut: Callable[[Tensor], list[Tensor]] | None = None,
) -> Optimiser:
    """The optimiser of this name or class; ``piece`` is Adam's, ``cut`` Muon's, where one tensor holds all weights."""
    if optimiser == "muon":
        from fedol.training.muon import Muon  # which is made of Adam

        return Muon(parameters, lr, weight_decay, cut)
    if optimiser == "sgd":
        return Sgd(parameters, lr, weight_decay)
    if optimiser in BUILT_IN:
        return Adam(parameters, lr, weight_decay, piece)
    return Theirs(_found(optimiser), parameters, float(lr), weight_decay)


def _found(optimiser: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(optimiser, str):
        return optimiser
    found: Callable[..., Any] = imported(optimiser, "optimiser") if ":" in optimiser else vars(torch.optim)[optimiser]
    return found
