"""What each ingredient of the CUDA engine buys: milliseconds per training step with one of them left out.

And with one that it does without: cuDNN's own search for the fastest kernels.

    python benchmarks/steps.py --json benchmarks/results/steps-h200.json
    python benchmarks/steps.py --works "four resnet56, width 64" "ten clients, width 64"

Steady throughput of ``fedol.training.fit`` (side by side, after the first epoch of each), batch 64, 32×32 images.
Needs a CUDA GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from _record import gpu, script, table, write
from training import NORMALISE, SEED, pytorch_norms, side_by_side

from fedol.data import Images
from fedol.models import create
from fedol.training import Epoch, Job, Recipe, cuda, fit, graph

STEPS, BATCH, EPOCHS = 70, 64, 12


@contextmanager
def idle(side: torch.cuda.Stream) -> Iterator[None]:
    """In the place of ``weight_gradients_on``: they stay in the chain with the others."""
    side.wait_stream(torch.cuda.current_stream())  # the step waits for this stream in the end
    yield


# Some by the name of what they change: those modules can only be loaded where there is a GPU.
VARIANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "ours": nullcontext,
    "PyTorch's norms": pytorch_norms,
    "no overlap": lambda: patch.object(graph, "weight_gradients_on", idle),
    "no priority": lambda: patch.object(cuda, "URGENT", 0),
    "no dependent launch": lambda: patch.dict("fedol.models.kernels.LAUNCH", launch_pdl=False),
    "Adam in one piece": lambda: patch.object(graph, "PIECES", 1),
    "no large sums": lambda: patch("fedol.models.fused.LARGE", 1 << 62),
    "cuDNN's benchmark": lambda: torch.backends.cudnn.flags(enabled=True, benchmark=True),
}
WORKS = {
    "resnet56, width 16": (["resnet56"], 16),
    "ten clients, width 16": (["resnet11", "resnet20"] * 5, 16),
    "resnet56, width 64": (["resnet56"], 64),
    "four resnet56, width 64": (["resnet56"] * 4, 64),
    "ten clients, width 64": (["resnet11", "resnet20"] * 5, 64),
}


def milliseconds(models: list[str], width: int) -> float:
    """Per step and model."""
    generator = torch.Generator().manual_seed(SEED)
    inputs = Images(torch.randint(256, (BATCH * STEPS, 3, 32, 32), dtype=torch.uint8, generator=generator))
    labels = torch.randint(100, (BATCH * STEPS,), generator=generator)

    built = [create(m, classes=100, shape=(3, 32, 32), width=width, seed=k) for k, m in enumerate(models)]
    jobs = [Job(str(k), m, inputs, labels, NORMALISE, Recipe(EPOCHS, BATCH), k) for k, m in enumerate(built)]
    ends: list[tuple[float, Epoch]] = []
    graph._TRIED.clear()  # a variant runs other kernels than the one before
    for result in fit(jobs, torch.device("cuda"), lambda epoch: ends.append((time.perf_counter(), epoch))):
        assert result.path.startswith("CUDA graph"), result.path
    return 1e3 * BATCH / side_by_side(ends)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), metavar="WORK", help="by name")
    options = arguments.parse_args()
    device = gpu()
    results = []
    for work in options.works:
        models, width = WORKS[work]
        for variant, changed in VARIANTS.items():
            with changed():
                results.append({"work": work, "variant": variant, "ms_per_step": milliseconds(models, width)})
            print(results[-1], flush=True)
            if options.json:  # after every line: a lease may end before the last one
                settings = {"device": torch.cuda.get_device_name(), "batch": BATCH, "epochs": EPOCHS}
                write(options.json, seed=SEED, settings=settings, results=results, device=device)
    rows = [[r["work"], r["variant"], f"{r['ms_per_step']:.3f}"] for r in results]
    table(["work", "variant", "ms per step and model"], rows)


if __name__ == "__main__":
    script(main)
