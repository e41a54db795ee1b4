"""One training step as a CUDA graph: gather, augment, normalise, forward, loss, backward and update in one launch.

The model's weights lie in one piece of memory: one kernel where a list of tensors would take many.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fedol.data.samples import Batches
from fedol.models.nets import fused_kernels
from fedol.models.overlap import weight_gradients_on
from fedol.training.job import Job
from fedol.training.loop import batch_loss, pull
from fedol.training.optimisers import BUILT_IN, Moments, optimiser_of
from fedol.training.snapshot import Average, Snapshot
from fedol.training.weights import Weights

PIECES = 36  # of the weights for Adam: as many as PyTorch's kernel takes at once
_TRIED: set[Hashable] = set()  # kinds of steps that have run once in this process


class NotCapturable(Exception):
    """Why a model's step cannot be a graph."""


class Step:
    """A model's training step on memory that stays where it is.

    Convolutions and matrix products run in bf16; norms, loss, weights and optimiser are float32.
    """

    def __init__(self, job: Job, batches: Batches, device: torch.device) -> None:
        self._model = job.model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        if any(p.dtype != torch.float32 for p in self._model.parameters()):
            raise NotCapturable("its weights are not all float32")
        if job.recipe.optimiser not in BUILT_IN:
            raise NotCapturable("its optimiser is not one of FedOL's own")
        self._batches, self._recipe = batches, job.recipe
        self._weights = Weights(self._model)
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._targets = job.targets.to(device, copy=True)
        self._tables = {name: table.to(device) for name, table in job.tables(1).items()}
        self._kind_of_data, self._places = (job.inputs.kind, job.inputs.shape), job.inputs.places
        self._next = torch.zeros(1, dtype=torch.int64, device=device)  # the device itself knows which batch is next
        self._start = [self._weights.flat.detach().clone()]
        self.loss = torch.zeros(1, device=device)  # summed over the samples of the epoch
        self._average = Average(self._model) if job.recipe.average else None  # its tensors are views of the weights
        self._rate = torch.tensor(job.recipe.lr, device=device)
        self._optimiser = optimiser_of(
            job.recipe.optimiser,
            [self._weights.flat],
            self._rate,
            job.recipe.weight_decay,
            self._weights.share(PIECES),
            self._weights.cut,
        )
        if kernels := fused_kernels():
            kernels.prepare(self._model)
        self._graphs: dict[tuple[int, float], torch.cuda.CUDAGraph] = {}  # by batch size and scale of the images
        self._smaller = job.inputs.smaller
        self.scale = job.scale(1)  # of the epoch that is being queued
        self._pool = torch.cuda.graph_pool_handle()
        full, rest = min(job.recipe.batch_size, job.samples), job.samples % job.recipe.batch_size
        self.capture(full)
        if 0 < rest < full and self._kind(rest) is None:  # else the last batch of an epoch has time until it comes
            self.capture(rest)

    def capture(self, size: int) -> None:
        """Make the graph for batches of this size, also in the middle of an epoch."""
        # A trial compiles and chooses kernels, and finds out what no graph can hold: a capture that fails in the
        # middle cannot be undone. A model of the same kind has been through that already.
        kind = self._kind(size)
        if kind is None or kind not in _TRIED:
            with self._unchanged(), _no_drawing(self._next.device):
                self._try(size)
            _TRIED.add(kind)
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._run(size)
        except torch.OutOfMemoryError:
            here = torch.cuda.current_stream(self._next.device)
            self._side.wait_stream(here)  # a capture can only end when all its streams are together again
            here.wait_stream(self._side)
            raise
        finally:
            graph.capture_end()
        self._graphs[size, self.scale] = graph

    def captured(self, size: int) -> bool:
        """Whether there is a graph for this size, at the present scale of the images."""
        return (size, self.scale) in self._graphs

    def _try(self, size: int) -> None:
        """A step in which a model that makes the host wait for the GPU (``.item()``, a boolean mask) is an error.

        PyTorch's error for that is like any other. So the step is run again where waiting is allowed: what else is
        wrong goes wrong there, too.
        """
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            self._run(size)
            return
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            failed = error
        finally:
            torch.cuda.set_sync_debug_mode(before)
        self._run(size)
        raise NotCapturable("it makes the host wait for the GPU") from failed

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """A step within trains; afterwards everything is as before."""
        moments = [tensor for _, parts in self._optimiser.state for tensor in parts.values()]
        average = self._average.named.values() if self._average else ()
        state = [self._weights.flat, *self._model.buffers(), *moments, *average, self.loss, self._next, self._rate]
        before = [tensor.detach().clone() for tensor in state]
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, old in zip(state, before, strict=True):
                    tensor.copy_(old)

    def _kind(self, size: int) -> Hashable | None:
        """What decides which kernels a step of this size runs: every layer's shapes, the data, the recipe.

        None where a layer is neither PyTorch's nor ours: its description need not show all that it does.
        """
        if not all(type(module).__module__.startswith(("torch.nn.", "fedol.")) for module in self._model.modules()):
            return None
        data = self._next.device, *self._kind_of_data, self._targets.shape[1:], self._targets.dtype
        return str(self._model), data, replace(self._recipe, epochs=1, lr=1.0), size, self.scale

    def _run(self, size: int) -> None:
        """One step on ``size`` samples."""
        place = self._next + torch.arange(size, device=self._next.device)
        rows = {name: table[place] for name, table in self._tables.items() if name != "pace"}
        index, view, patch = rows["order"], rows.get("views"), rows.get("patches")
        recipe, mix = self._recipe, self._recipe.patch == "cutmix"
        inputs = self._batches(index, view, patch, mix)
        if self.scale < 1:
            inputs = self._smaller(inputs, self.scale)
        self._weights.refresh()
        with torch.autocast("cuda", torch.bfloat16), weight_gradients_on(self._side):
            logits = functional_call(self._model, self._weights.by_name, (inputs,))
        loss = batch_loss(logits.float(), self._targets, index, patch if mix else None, self._places)
        self._weights.backward(loss, self._side)
        if self._recipe.proximal:
            pull([self._weights.flat], self._start, self._recipe.proximal)
        if recipe.schedule != "constant":
            self._rate.copy_(self._now()[0])
        self._optimiser.step()
        if self._average:
            self._average.update(self._now()[1])
        with torch.no_grad():
            self.loss += loss * size
            self._next += size

    def _now(self) -> Tensor:
        """This step's row of ``Job.pace``."""
        return self._tables["pace"][self._next // self._recipe.batch_size][0]

    def reset(self, job: Job) -> None:
        """Another job with this model: new targets, and the optimiser as on the first day."""
        self._model.train()  # a batch size may still be to be captured
        self._targets.copy_(job.targets)
        for _, moments in self._optimiser.state:
            for moment in moments.values():
                moment.zero_()
        self._start[0].copy_(self._weights.flat.detach())
        if job.resume:
            with torch.no_grad():
                job.resume.restore(self._model, self._moments(), self._average)
        self._batches_before = [counter.clone() for counter in _batch_counters(self._model)]

    def _moments(self) -> Moments:
        """The optimiser's moments of the one tensor, by the names of the weights in it; they share Adam's count."""
        ((flat, state),) = self._optimiser.state
        names = self._weights.named(flat)
        parts = {part: self._weights.named(moment) for part, moment in state.items() if moment.dim()}
        shared = {part: moment for part, moment in state.items() if not moment.dim()}
        return {name: {**shared, **{part: moments[name] for part, moments in parts.items()}} for name in names}

    def snapshot(self, losses: Sequence[float]) -> Snapshot:
        """The state between two epochs."""
        return Snapshot.take(self._model, self._moments(), losses, self._average)

    def new_epoch(self, tables: Mapping[str, Tensor]) -> None:
        """The order of an epoch's samples and what else changes with it, from pinned memory."""
        for name, table in tables.items():
            self._tables[name].copy_(table, non_blocking=True)
        self._next.zero_()
        self.loss.zero_()

    def replay(self, size: int) -> None:
        """Queue one step."""
        self._graphs[size, self.scale].replay()

    def finish(self) -> None:
        """After the last epoch: the averaged weights, where there are some, take the place of the last ones."""
        if self._average:
            self._average.apply()

    def count_batches(self, steps: int) -> None:
        """Set the norms' batch counters, which no step moves: nothing reads them, and each would be a kernel a step."""
        for counter, before in zip(_batch_counters(self._model), self._batches_before, strict=True):
            counter.copy_(before + steps)

    def holds(self, model: nn.Module) -> bool:
        """Whether the model's weights are still where the graphs expect them."""
        return self._weights.hold(model)


@contextmanager
def _no_drawing(device: torch.device) -> Iterator[None]:
    """Within, a model that draws random numbers is an error: streams would share one generator, or freeze its draws."""

    def state() -> list[object]:
        return [torch.get_rng_state().tolist(), torch.cuda.get_rng_state(device).tolist(), random.getstate()]

    before = state()
    yield
    if state() != before:
        raise NotCapturable("its layers draw random numbers")


def _batch_counters(model: nn.Module) -> list[Tensor]:
    norms = (module for module in model.modules() if isinstance(module, nn.modules.batchnorm._NormBase))
    return [norm.num_batches_tracked for norm in norms if norm.num_batches_tracked is not None]
