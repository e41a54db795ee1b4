"""A model's weights in one piece of memory: one kernel where a list of tensors would take many."""

from __future__ import annotations

import torch
from torch import Tensor, nn

ALIGNED = 64  # elements that every weight begins at a multiple of, so that vector loads fit
PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Weights:
    """The trainable weights as views of one float32 tensor, and bf16 copies of those that products read.

    The optimiser then updates one tensor. Autocast would cast each weight and each gradient in a kernel of its own;
    here one kernel casts all weights, and one all gradients.
    """

    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        in_products = {id(p) for m in model.modules() if type(m) in PRODUCTS for p in m.parameters(recurse=False)}
        trainable = [p for p in named.values() if p.requires_grad]
        low = [p for p in trainable if id(p) in in_products]
        high = [p for p in trainable if id(p) not in in_products]
        begins, end, half = [], 0, 0
        for p in [*low, *high]:
            begins.append(end)
            end += -(-p.numel() // ALIGNED) * ALIGNED
            half = end if len(begins) == len(low) else half
        device = trainable[0].device
        self.flat = nn.Parameter(torch.zeros(end, device=device))
        self.flat.grad = torch.zeros(end, device=device)
        self._half = torch.zeros(half, device=device, dtype=torch.bfloat16)
        places = list(zip([*low, *high], begins, strict=True))
        gradients = [self.flat.grad.as_strided(p.shape, p.stride(), begin) for p, begin in places]
        self._low_gradients, self._high_gradients = gradients[: len(low)], gradients[len(low) :]
        halves = [self._half.as_strided(p.shape, p.stride(), begin) for p, begin in places[: len(low)]]
        self._low = [half.requires_grad_() for half in halves]
        self._high = high
        for p, begin in places:
            view = self.flat.detach().as_strided(p.shape, p.stride(), begin)
            view.copy_(p.detach())
            p.data = view
        names = {id(p): name for name, p in named.items()}
        self._places = [(names[id(p)], p.shape, p.stride(), begin) for p, begin in places]
        copy_of = {id(p): copy for p, copy in zip(low, self._low, strict=True)}
        self.by_name = {name: copy_of.get(id(p), p) for name, p in named.items()}
        self._addresses = [p.data_ptr() for p in named.values()]

    def hold(self, model: nn.Module) -> bool:
        """Whether the model's weights are still these."""
        return [p.data_ptr() for p in model.parameters()] == self._addresses

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """A tensor that lies like the weights (Adam's moments), seen as one per weight."""
        return {name: flat.as_strided(shape, stride, begin) for name, shape, stride, begin in self._places}

    def cut(self, flat: Tensor) -> list[Tensor]:
        """The same in the order in which they lie."""
        return list(self.named(flat).values())

    def share(self, pieces: int) -> int:
        """How many elements make at most so many pieces that vector loads fit."""
        return -(-len(self.flat) // (pieces * ALIGNED)) * ALIGNED

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the copies up to date."""
        self._half.copy_(self.flat[: len(self._half)])

    def backward(self, loss: Tensor, side: torch.cuda.Stream) -> None:
        """Gradients of all weights, as float32; some of them come from the other stream."""
        gradients = torch.autograd.grad(loss, [*self._low, *self._high], allow_unused=True)
        torch.cuda.current_stream().wait_stream(side)
        split = len(self._low)
        for homes, found in ((self._low_gradients, gradients[:split]), (self._high_gradients, gradients[split:])):
            given = [(home, gradient) for home, gradient in zip(homes, found, strict=True) if gradient is not None]
            if given:
                torch._foreach_copy_([home for home, _ in given], [gradient for _, gradient in given])
