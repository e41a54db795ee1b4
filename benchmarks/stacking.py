"""Ten equal clients at once: a graph and a stream each (ours), or stacked into one model by torch.func.

    python benchmarks/stacking.py --json benchmarks/results/stacking-h200.json

Stacking turns every convolution into a grouped one. Both versions run forward and backward in bf16 from a CUDA graph;
ours also gathers its batch and runs Adam, the stacked one does not. Needs a CUDA GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from _record import gpu, script, table, write
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap
from training import NORMALISE, pytorch_norms

from fedol.data import Images
from fedol.models import create
from fedol.training import Job, Recipe, fit

MODELS, BATCH, STEPS = 10, 64, 70


def streams(width: int) -> float:
    """Seconds per step and model: the difference of a long and a short training leaves out the set-up."""
    images = torch.randint(256, (BATCH * STEPS, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(100, (BATCH * STEPS,))

    inputs = Images(images)

    def run(epochs: int) -> float:
        models = [create("resnet20", classes=100, shape=(3, 32, 32), width=width, seed=k) for k in range(MODELS)]
        jobs = [Job(str(k), m, inputs, labels, NORMALISE, Recipe(epochs, BATCH), k) for k, m in enumerate(models)]
        start = time.perf_counter()
        list(fit(jobs, torch.device("cuda")))
        torch.cuda.synchronize()
        return time.perf_counter() - start

    run(1)
    return (run(5) - run(1)) / (4 * STEPS * MODELS)


def stacked(width: int) -> float:
    """Seconds per step and model of one vmapped forward and backward."""
    # All in bf16, also the norms: torch.func and autocast do not go together.
    made = (create("resnet20", classes=100, shape=(3, 32, 32), width=width, seed=k) for k in range(MODELS))
    models = [model.cuda().to(torch.bfloat16) for model in made]
    parameters, buffers = stack_module_state(models)  # type: ignore[arg-type]
    images = torch.randn(MODELS, BATCH, 3, 32, 32, device="cuda", dtype=torch.bfloat16)
    labels = torch.randint(100, (MODELS, BATCH), device="cuda")

    def loss(weights: dict[str, Tensor], state: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(models[0], (weights, state), (x,)).float(), y)

    def step() -> None:
        vmap(grad(loss))(parameters, buffers, images, labels)

    return _graph_seconds(step) / MODELS


def _graph_seconds(step: Callable[[], None]) -> float:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 20


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    device = gpu()
    results = []
    for width in (16, 64):
        ours = streams(width)
        with pytorch_norms():
            theirs = stacked(width)
        results.append({"width": width, "streams_ms": 1e3 * ours, "stacked_ms": 1e3 * theirs, "ratio": theirs / ours})
    table(
        ["width", "streams, ms per step and model", "stacked", "stacked / streams"],
        [[str(r["width"]), f"{r['streams_ms']:.3f}", f"{r['stacked_ms']:.3f}", f"{r['ratio']:.1f}x"] for r in results],
    )
    if options.json:
        settings = {"models": MODELS, "model": "resnet20", "batch": BATCH, "device": torch.cuda.get_device_name()}
        write(options.json, seed=0, settings=settings, results=results, device=device)


if __name__ == "__main__":
    script(main)
