"""What an optimiser is here: state per parameter that can be kept and put back, and a step that fits a CUDA graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

Moments = Mapping[str, Mapping[str, Tensor]]
"""An optimiser's state: parameter name -> part -> tensor."""
State = list[tuple[Tensor, dict[str, Tensor]]]


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
