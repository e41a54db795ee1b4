"""Training throughput: the loop a researcher would write, the same with its data on the device, and ours.

    python benchmarks/training.py --device cuda --json benchmarks/results/training-h200.json
    python benchmarks/training.py --device cpu --json benchmarks/results/training-cpu.json

All three train the same models on the same images for the same epochs, one after another in this process:

  (a) plain     DataLoader, transforms on the CPU, eager float32, one model after another
  (b) resident  images on the device, eager float32, one model after another (fedol's plain loop, PyTorch's own norms)
  (c) ours      fedol.training.fit on all models at once

Every version first trains one short job that is not timed (libraries load, kernels are compiled). "all in" then
counts everything, also the capture of graphs. "steady" is what most of 50 epochs see: on CUDA, counted from the moment
on when every model has finished its first epoch (ours trains four times as long for it); on the CPU, where not all
models are under way at once, the throughput of the further epochs of a run four times as long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _record import script, seconds, table, write
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from fedol.data import Images, Normalisation
from fedol.models import create, nets
from fedol.training import Epoch, Job, Recipe, fit, resolve_device
from fedol.training.cpu import threads
from fedol.training.loop import train

NORMALISE = Normalisation((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))
SEED = 0
LONGER = 4  # times the epochs, for the steady throughput of ours
REPEATS = 15  # on a CPU, where the work is short and other programs disturb it: all three in turn, medians count


class Loaded(Dataset[tuple[Tensor, Tensor]]):
    """uint8 images with the usual per-sample transform."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.mean = torch.tensor(job.prepare.mean)[:, None, None]
        self.std = torch.tensor(job.prepare.std)[:, None, None]

    def __len__(self) -> int:
        return len(self.job.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return (self.job.inputs.values[index].float() / 255 - self.mean) / self.std, self.job.targets[index]


def plain(jobs: list[Job], device: torch.device, on_epoch: Callable[[Epoch], None]) -> None:
    """(a)"""
    cuda = device.type == "cuda"
    for job in jobs:
        loader = DataLoader(
            Loaded(job), job.recipe.batch_size, shuffle=True, num_workers=4 if cuda else 0, pin_memory=cuda,
            persistent_workers=cuda,
        )  # fmt: skip
        model = job.model.to(device).train()
        optimiser = torch.optim.Adam(model.parameters(), lr=job.recipe.lr)
        for epoch in range(1, job.recipe.epochs + 1):
            total = 0.0
            for images, targets in loader:
                images, targets = images.to(device, non_blocking=True), targets.to(device, non_blocking=True)
                optimiser.zero_grad()
                loss = F.cross_entropy(model(images), targets)
                loss.backward()
                optimiser.step()
                total += loss.item()
            on_epoch(Epoch(job, epoch, total, len(job.inputs)))


def resident(jobs: list[Job], device: torch.device, on_epoch: Callable[[Epoch], None]) -> None:
    """(b)"""
    for job in jobs:
        train(job, device, on_epoch, Event())


def ours(jobs: list[Job], device: torch.device, on_epoch: Callable[[Epoch], None]) -> None:
    """(c)"""
    for result in fit(jobs, device, on_epoch):
        assert result.error is None, result.error


@contextmanager
def pytorch_norms() -> Iterator[None]:
    """Without our fused kernels, for the two versions that are not ours."""
    kernels, nets.fused_kernels = nets.fused_kernels, lambda: None  # type: ignore[assignment]
    try:
        yield
    finally:
        nets.fused_kernels = kernels


def measure(version: Callable[..., None], make: Callable[[int], list[Job]], device: torch.device) -> dict[str, float]:
    """Seconds of the work, and from a longer run the throughput that no set-up is counted in."""
    short = [replace(job, inputs=job.inputs.take(slice(200)), targets=job.targets[:200]) for job in make(1)[:2]]
    version(short, device, lambda epoch: None)

    def run(jobs: list[Job]) -> tuple[float, int, list[tuple[float, Epoch]]]:
        """Seconds and images in all, and when each epoch ended."""
        ends: list[tuple[float, Epoch]] = []
        _wait(device)
        start = time.perf_counter()
        version(jobs, device, lambda epoch: ends.append((time.perf_counter(), epoch)))
        _wait(device)
        return time.perf_counter() - start, sum(job.samples * job.recipe.epochs for job in jobs), ends

    jobs = make(1)
    elapsed, images, ends = run(jobs)
    steady = images / elapsed  # of ten plain trainings after one another, which have no set-up to speak of
    if version is ours:
        longer, more, ends = run(make(LONGER))
        steady = (more - images) / (longer - elapsed)
    if device.type == "cuda" and (version is ours or len(jobs) == 1):
        # Not the difference: while some models' graphs are captured, others already train.
        steady = side_by_side(ends)
    return {"seconds": elapsed, "images": images, "all_in": images / elapsed, "steady": steady}


def side_by_side(ends: Iterable[tuple[float, Epoch]]) -> float:
    """Images a second from the last end of a first epoch until the first of the models still in training ends.

    The models start one after the other, so that epochs reach beyond this time: of those the part within counts.
    """
    models: dict[str, list[tuple[float, int]]] = {}
    for when, epoch in ends:
        models.setdefault(epoch.job.name, []).append((when, epoch.samples))
    start = max(course[0][0] for course in models.values())
    live = [course for course in models.values() if course[-1][0] > start]
    stop = min(course[-1][0] for course in live)
    images = 0.0
    for course in live:
        when, each = np.array(course).T
        images += np.diff(np.interp([start, stop], when, np.cumsum(each)))[0]
    return images / (stop - start)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def works(device: torch.device, width: int, epochs: int) -> dict[str, Callable[[int], list[Job]]]:
    generator = torch.Generator().manual_seed(SEED)
    if device.type == "cpu":  # the quick job
        shape, classes, clients, server = (1, 8, 8), 10, ("mlp", "cnn"), "cnn-large"
        sizes, public, batch, normalise = [104] * 10, 400, 32, Normalisation((0.3,), (0.38,))
    else:
        shape, classes, clients, server = (3, 32, 32), 100, ("resnet11", "resnet20"), "resnet56"
        sizes, public, batch, normalise = [4500] * 10, 5000, 64, NORMALISE
    images = torch.randint(256, (max(*sizes, public), *shape), dtype=torch.uint8, generator=generator)
    labels = torch.randint(classes, (len(images),), generator=generator)

    def job(spec: str, count: int, seed: int, times: int) -> Job:
        model: nn.Module = create(spec, classes=classes, shape=shape, width=width, seed=seed)
        recipe = Recipe(epochs=epochs * times, batch_size=batch)
        return Job(
            f"{spec} {seed}",
            model,
            Images(images[:count]),
            labels[:count],
            normalise,
            recipe,
            seed,
            alone=spec == server,
        )

    return {
        "ten clients": lambda times: [job(clients[k % 2], size, k, times) for k, size in enumerate(sizes)],
        "server": lambda times: [job(server, public, 0, times)],
    }


def ceilings(device: torch.device) -> dict[str, float]:
    """Copy bandwidth (bytes read plus written) and matrix rate, measured: of a card in bf16, of one core in float32."""
    cuda = device.type == "cuda"
    half, side = (1 << 30, 8192) if cuda else (1 << 28, 1024)
    block = torch.empty(2 * half, dtype=torch.uint8, device=device)
    kind = torch.bfloat16 if cuda else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    rates = {}
    for name, call, amount in (
        ("copy_bytes_per_s", lambda: block[:half].copy_(block[half:]), 2 * half),
        ("matrix_flops_per_s", lambda: a @ b, 2 * side**3),
    ):
        with threads(1):
            for _ in range(3):
                call()
            _wait(device)
            start = time.perf_counter()
            for _ in range(10):
                call()
            _wait(device)
        rates[name] = 10 * amount / (time.perf_counter() - start)
    return rates


def flops_per_image(job: Job) -> float:
    """Forward and backward, taken as three times the forward pass."""
    with FlopCounterMode(display=False) as counter:
        job.model.cpu().eval()(torch.zeros(1, *job.inputs.shape))
    return 3 * counter.get_total_flops()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", choices=("cpu", "cuda"), required=True)
    arguments.add_argument("--widths", default="16,64", help="on CUDA; the CPU job has width 16")
    arguments.add_argument("--epochs", type=int, help="default: 2 on CUDA, 10 on the CPU")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    device = resolve_device(options.device)
    cuda = device.type == "cuda"
    epochs = options.epochs or (2 if cuda else 10)
    limits = ceilings(device)
    results: list[dict[str, Any]] = []
    for width in [int(width) for width in options.widths.split(",")] if cuda else [16]:
        for work, make in works(device, width, epochs).items():
            turns = []
            for _ in range(1 if cuda else REPEATS):
                with pytorch_norms():
                    turn = {"plain": measure(plain, make, device), "resident": measure(resident, make, device)}
                turns.append({**turn, "ours": measure(ours, make, device)})
            rows = {v: {key: median(turn[v][key] for turn in turns) for key in turns[0][v]} for v in turns[0]}
            flops = sum(flops_per_image(job) * len(job.inputs) for job in make(1)) / sum(len(j.inputs) for j in make(1))
            for version, row in rows.items():
                row["ratio_all_in"] = row["all_in"] / rows["plain"]["all_in"]
                row["ratio_steady"] = row["steady"] / rows["plain"]["steady"]
                row["share_of_matrix_rate"] = row["steady"] * flops / limits["matrix_flops_per_s"]
                results.append({"width": width, "work": work, "version": version, **row})
                print(width, work, version, {key: round(value, 3) for key, value in row.items()}, flush=True)
            if options.json:  # after every work: a lease may end before the last one
                name = torch.cuda.get_device_name() if cuda else "cpu"
                settings = {"device": name, "epochs": epochs, "repeats": len(turns), "ceilings": limits}
                write(options.json, seed=SEED, settings=settings, results=results, device=device)
    table(
        ["width", "work", "version", "time", "images/s all in", "ratio", "images/s steady", "ratio", "of matrix rate"],
        [
            [str(r["width"]), r["work"], r["version"], seconds(r["seconds"]), f"{r['all_in']:,.0f}",
             f"{r['ratio_all_in']:.1f}x", f"{r['steady']:,.0f}", f"{r['ratio_steady']:.1f}x",
             f"{100 * r['share_of_matrix_rate']:.2f} %"]
            for r in results
        ],
    )  # fmt: skip


if __name__ == "__main__":
    script(main)
