"""Algorithm 1 three ways: ours (client by client), a straightforward [M, N, C] tensor version, the literal loops.

    python benchmarks/voting.py --json benchmarks/results/voting.json

Every cell runs in a process of its own on one thread. Time excludes making the synthetic predictions; memory is the
peak resident size above what the process had after imports and a warm-up, the predictions a version holds included.
The loops run on fewer samples, and their time and memory are scaled up linearly, which a "~" marks.
Each other version's labels are compared with ours on the same predictions.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _record import script, seconds, table, write

LOOP_STEPS = 2_000_000  # models × samples × classes which the literal loops are given
VERSIONS = ("ours", "tensor", "loops")


def predictions(models: int, samples: int, classes: int, seed: int) -> Iterator[Any]:
    """One model's float32 probabilities [N, C] after the other; all see something of the same hidden labels."""
    import torch

    labels = torch.randint(classes, (samples, 1), generator=torch.Generator().manual_seed(seed))
    for model in range(models):
        noise = torch.randn(samples, classes, generator=torch.Generator().manual_seed(seed + 1 + model))
        yield (3 * noise).scatter_add_(1, labels, torch.full((samples, 1), 3.0)).softmax(1)


class Ours:
    """The streaming version: a model's predictions may be freed as soon as it is added."""

    def __init__(self, models: int, samples: int, classes: int) -> None:
        from fedol.core.voting import Ballots

        self.ballots = Ballots()

    def add(self, probs: Any) -> None:
        self.ballots.add(probs)

    def elect(self, count: int) -> list[int]:
        return self.ballots.elect(count).labels.tolist()


class TensorVersion:
    """What one writes first in PyTorch: all predictions in one tensor, every step of Algorithm 1 on all of it."""

    def __init__(self, models: int, samples: int, classes: int) -> None:
        import torch

        self.probs, self.filled = torch.empty(models, samples, classes), 0

    def add(self, probs: Any) -> None:
        self.probs[self.filled] = probs
        self.filled += 1

    def elect(self, count: int) -> list[int]:
        import torch

        p = self.probs
        entropy = -torch.special.xlogy(p, p).sum(-1)  # [M, N]
        gate = entropy <= entropy.kthvalue(count, dim=1, keepdim=True).values  # [M, N]
        weight = gate[:, :, None] * p.mean(1)[:, None, :]  # [M, N, C]
        votes = torch.where(p.argmax(-1, keepdim=True) == torch.arange(p.shape[-1]), 1.0, -1.0)  # [M, N, C]
        g = ((weight * votes).sum(0) / weight.sum(0)).nan_to_num(-1)
        return torch.where(gate.any(0), g.argmax(-1), -1).tolist()


class Loops:
    """Algorithm 1 as printed: for every sample, for every class, for every reliable model."""

    def __init__(self, models: int, samples: int, classes: int) -> None:
        self.probs: list[list[list[float]]] = []

    def add(self, probs: Any) -> None:
        self.probs.append(probs.tolist())

    def elect(self, count: int) -> list[int]:
        models, samples, classes = range(len(self.probs)), range(len(self.probs[0])), range(len(self.probs[0][0]))
        entropy = [[-sum(p * math.log(p) for p in row if p > 0) for row in model] for model in self.probs]
        baseline = [sorted(row)[count - 1] for row in entropy]
        confidence = [[sum(row[c] for row in model) / len(model) for c in classes] for model in self.probs]
        labels = []
        for x in samples:
            reliable = [m for m in models if entropy[m][x] <= baseline[m]]
            votes = {m: max(classes, key=self.probs[m][x].__getitem__) for m in reliable}
            scores = []
            for c in classes:
                total = sum(confidence[m][c] for m in reliable)
                signed = sum(confidence[m][c] * (1 if votes[m] == c else -1) for m in reliable)
                scores.append(signed / total if total > 0 else -1.0)
            labels.append(max(classes, key=scores.__getitem__) if reliable else -1)
        return labels


def run_once(version: str, models: int, samples: int, classes: int, rho: float, seed: int) -> tuple[float, list[int]]:
    """Seconds and labels of one election; making the predictions is not timed."""
    spent, start = 0.0, time.perf_counter()
    algorithm = {"ours": Ours, "tensor": TensorVersion, "loops": Loops}[version](models, samples, classes)
    spent += time.perf_counter() - start
    for probs in predictions(models, samples, classes, seed):
        start = time.perf_counter()
        algorithm.add(probs)
        spent += time.perf_counter() - start
    start = time.perf_counter()
    labels = algorithm.elect(math.ceil(rho * samples))
    return spent + time.perf_counter() - start, labels


def peak_bytes() -> int:
    """The peak resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def cell(version: str, models: int, samples: int, classes: int, rho: float, seed: int) -> dict[str, Any]:
    """Measure one cell in this process."""
    import torch

    torch.set_num_threads(1)
    used = min(samples, max(20, LOOP_STEPS // (models * classes))) if version == "loops" else samples
    run_once(version, 2, 50, classes, rho, seed)
    before = peak_bytes()
    spent, labels = run_once(version, models, used, classes, rho, seed)
    memory = peak_bytes() - before
    again = range(2 if models < 1000 else 1)  # the same for every version; the best counts
    times = [spent, *(run_once(version, models, used, classes, rho, seed)[0] for _ in again)]
    ours = labels if version == "ours" else run_once("ours", models, used, classes, rho, seed)[1]
    agreement = sum(a == b for a, b in zip(labels, ours, strict=True)) / used
    scale = samples / used
    return {
        "version": version,
        "clients": models,
        "samples_measured": used,
        "extrapolated_by": scale,
        "seconds": min(times) * scale,
        "seconds_measured": times,
        "peak_bytes": memory * scale,
        "peak_bytes_measured": memory,
        "same_labels_as_ours": agreement,
    }


def main() -> None:
    """Run all cells, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--rho", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=float, default=8.0, help="GiB the tensor version may need; fewer samples else")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(**json.loads(options.cell))))
        return

    # The tensor version holds four [M, N, C] float32 tensors at its peak; all versions get the samples it can take.
    fits = int(options.memory * 2**30 / (4 * 4 * max(options.clients) * options.classes))
    samples = min(options.samples, fits)
    settings = {"samples": samples, "classes": options.classes, "rho": options.rho}
    print(f"Algorithm 1 on {samples:,} samples, {options.classes} classes, rho {options.rho:g}; one thread.\n")
    results, rows = [], []
    for models in options.clients:
        cells = {}
        for version in VERSIONS:
            task = settings | {"version": version, "models": models, "seed": options.seed}
            command = [sys.executable, __file__, "--cell", json.dumps(task)]
            cells[version] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        results += cells.values()
        for version, found in cells.items():
            mark = "~" if found["extrapolated_by"] > 1 else ""
            rows.append(
                [
                    f"{models:,}",
                    version,
                    mark + seconds(found["seconds"]),
                    mark + f"{found['seconds'] / cells['ours']['seconds']:.3g}x",
                    mark + f"{found['peak_bytes'] / 2**20:,.0f} MiB",
                    mark + f"{found['peak_bytes'] / cells['ours']['peak_bytes']:.3g}x",
                    f"{found['same_labels_as_ours']:.2%}",
                    f"{found['samples_measured']:,}",
                ]
            )
    table(["clients", "version", "time", "/ ours", "peak memory", "/ ours", "same labels", "N measured"], rows)
    print('\n"~": scaled up linearly from the N measured, not measured.')
    few, many = min(options.clients), max(options.clients)
    for version in VERSIONS:
        a, b = (next(r for r in results if (r["version"], r["clients"]) == (version, k)) for k in (few, many))
        growth = [b[key] / a[key] for key in ("seconds", "peak_bytes")]
        print(f"From {few} to {many} clients, {version}: time x{growth[0]:.3g}, memory x{growth[1]:.3g}.")
    if options.json:
        write(options.json, seed=options.seed, settings=settings | {"threads": 1}, results=results)


if __name__ == "__main__":
    script(main)
