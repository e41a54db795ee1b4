"""One training step as a CUDA graph: gather, augment, normalise, forward, loss, backward and Adam in one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedol.models.overlap import weight_gradients_on
from fedol.training.batch import Batches
from fedol.training.job import Job
from fedol.training.loop import pull


class Step:
    """A model's training step on memory that stays where it is.

    Convolutions and matrix products run in bf16; norms, loss, weights and Adam are float32.
    """

    def __init__(self, job: Job, batches: Batches, device: torch.device) -> None:
        self._model = job.model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._batches, self._recipe = batches, job.recipe
        self._weights = Weights(self._model)
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._targets = job.targets.to(device, copy=True)
        self._order = torch.zeros(job.samples, dtype=torch.int64, device=device)
        self._views = torch.zeros(job.samples, 3, dtype=torch.int64, device=device)
        self._next = torch.zeros(1, dtype=torch.int64, device=device)  # the device itself knows which batch is next
        self._start = [p.detach().clone() for p in self._weights.trainable] if job.recipe.proximal else []
        self.loss = torch.zeros(1, device=device)  # summed over the samples of the epoch
        self._adam = torch.optim.Adam(
            self._weights.trainable,
            lr=torch.tensor(job.recipe.lr, device=device),
            weight_decay=job.recipe.weight_decay,
            fused=True,
            capturable=True,
        )
        full, rest = min(job.recipe.batch_size, job.samples), job.samples % job.recipe.batch_size
        self._graphs = self._captured([full, rest] if 0 < rest < full else [full])

    def _captured(self, sizes: Sequence[int]) -> dict[int, torch.cuda.CUDAGraph]:
        """A graph per batch size. Warming up trains, so the state before it is put back."""
        state = [*self._model.parameters(), *self._model.buffers()]
        before = [tensor.detach().clone() for tensor in state]
        graphs, pool = {}, torch.cuda.graph_pool_handle()
        try:
            for size in sizes:
                self._run(size)  # compiles and chooses kernels, allocates workspaces
                self._next.zero_()
                with _no_waiting():  # a capture that fails cannot be undone, so what would fail must fail here
                    self._run(size)
                self._next.zero_()
                graphs[size] = torch.cuda.CUDAGraph()
                graphs[size].capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    self._run(size)
                finally:
                    graphs[size].capture_end()
        finally:
            with torch.no_grad():
                for tensor, old in zip(state, before, strict=True):
                    tensor.copy_(old)
        return graphs

    def _run(self, size: int) -> None:
        """One step on ``size`` samples."""
        place = self._next + torch.arange(size, device=self._next.device)
        index = self._order[place]
        images = self._batches(index, self._views[place] if self._recipe.augment else None)
        self._weights.refresh()
        with torch.autocast("cuda", torch.bfloat16), weight_gradients_on(self._side):
            logits = functional_call(self._model, self._weights.by_name, (images,))
        loss = F.cross_entropy(logits.float(), self._targets[index])
        self._weights.backward(loss, self._side)
        if self._recipe.proximal:
            pull(self._weights.trainable, self._start, self._recipe.proximal)
        self._adam.step()
        with torch.no_grad():
            self.loss += loss * size
            self._next += size

    def reset(self, job: Job) -> None:
        """Another job with this model: new targets, and Adam as on the first day."""
        self._targets.copy_(job.targets)
        for moments in self._adam.state.values():
            for moment in moments.values():
                moment.zero_()
        with torch.no_grad():
            for origin, p in zip(self._start, self._weights.trainable, strict=bool(self._start)):
                origin.copy_(p)
        self._batches_before = [counter.clone() for counter in _batch_counters(self._model)]

    def new_epoch(self, order: Tensor, views: Tensor) -> None:
        """The order of an epoch's samples, from pinned memory."""
        self._order.copy_(order, non_blocking=True)
        if self._recipe.augment:
            self._views.copy_(views, non_blocking=True)
        self._next.zero_()
        self.loss.zero_()

    def replay(self, size: int) -> None:
        """Queue one step."""
        self._graphs[size].replay()

    def count_batches(self, steps: int) -> None:
        """Set the norms' batch counters, which no step moves: nothing reads them, and each would be a kernel a step."""
        for counter, before in zip(_batch_counters(self._model), self._batches_before, strict=True):
            counter.copy_(before + steps)

    def holds(self, model: nn.Module) -> bool:
        """Whether the model's weights are still where the graphs expect them."""
        return [p.data_ptr() for p in model.parameters()] == self._weights.addresses


class Weights:
    """float32 weights, and bf16 copies of those that convolutions and matrix products read.

    Autocast would cast each of them in a kernel of its own, forward and backward; here one kernel casts them all.
    """

    def __init__(self, model: nn.Module) -> None:
        named = dict(model.named_parameters())
        self.trainable: list[Tensor] = [p for p in named.values() if p.requires_grad]
        self.addresses = [p.data_ptr() for p in named.values()]
        products = [m for m in model.modules() if type(m) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)]
        low = {id(p) for m in products for p in m.parameters(recurse=False) if p.requires_grad}
        self._masters = [p for p in self.trainable if id(p) in low]
        self._copies = [p.detach().to(torch.bfloat16).requires_grad_() for p in self._masters]
        copy_of = {id(p): copy for p, copy in zip(self._masters, self._copies, strict=True)}
        self.by_name = {name: copy_of.get(id(p), p) for name, p in named.items()}
        self._others = [p for p in self.trainable if id(p) not in low]

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the copies up to date."""
        torch._foreach_copy_(self._copies, self._masters)

    def backward(self, loss: Tensor, side: torch.cuda.Stream) -> None:
        """Gradients of all weights, as float32; some of them come from the other stream."""
        gradients = torch.autograd.grad(loss, [*self._copies, *self._others], allow_unused=True)
        torch.cuda.current_stream().wait_stream(side)
        wide: list[Tensor] = []
        narrow: list[Tensor] = []
        for p, gradient in zip([*self._masters, *self._others], gradients, strict=True):
            if gradient is None or gradient.dtype == p.dtype:
                p.grad = gradient
            else:
                p.grad = torch.empty_like(p)
                wide.append(p.grad)
                narrow.append(gradient)
        if wide:
            torch._foreach_copy_(wide, narrow)


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Within, a model that makes the host wait for the GPU (``.item()``, a boolean mask) is an error."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _batch_counters(model: nn.Module) -> list[Tensor]:
    norms = (module for module in model.modules() if isinstance(module, nn.modules.batchnorm._NormBase))
    return [norm.num_batches_tracked for norm in norms if norm.num_batches_tracked is not None]
