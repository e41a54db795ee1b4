"""What one step on a few images does to a trained client: the smaller batch that may end an epoch.

    python benchmarks/last_batch.py --data-dir DATA --json benchmarks/results/last-batch-width16.json

Two clients of ``classes:20``, seed 3, a ResNet-11 and a ResNet-20, train in the paper's recipe on whole batches of 64
images. From there, with Adam's moments, they take one more step on some of these images, drawn anew each time. What
that does to their accuracy on the public images, whose labels choose nothing, and what it does with the norms' running
statistics from before the step, so by the weights alone. At ``--width 64``, the width of the tables, this wants a GPU.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from _record import ROOT, script, table, write
from torch import nn

from fedol.bench.spec import read_spec
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.runs.evaluation import accuracy
from fedol.seeding import derive
from fedol.training import Job, Snapshot, fit, predict

SEED, CLIENTS = 3, (8, 9)
SIZES, DRAWS = (2, 3, 4, 8, 16, 64), 10


def whole(job: Job) -> Job:
    """The job without the images of its last, smaller batch."""
    count = len(job.inputs) - len(job.inputs) % job.recipe.batch_size
    return replace(job, inputs=job.inputs.take(slice(count)), targets=job.targets[:count])


def stepped(job: Job, end: Snapshot, size: int, draw: int, device: torch.device) -> nn.Module:
    """The client after one more step, on ``size`` of its images."""
    generator = torch.Generator().manual_seed(derive(SEED, job.name, size, draw))
    own = torch.randperm(len(job.inputs), generator=generator)[:size]
    model, recipe = copy.deepcopy(job.model), replace(job.recipe, epochs=job.recipe.epochs + 1)
    more = replace(job, model=model, inputs=job.inputs.take(own), targets=job.targets[own], recipe=recipe, resume=end)
    (result,) = fit([replace(more, checkpoint=None)], device)
    if result.error:
        raise FedolError(result.error)
    return model


def changes(job: Job, end: Snapshot, scenario: Scenario) -> dict[str, Any]:
    """Points that a step changes, by the number of its images: of the whole model, and by its weights alone."""

    def right(model: nn.Module) -> float:
        log_probs = predict(model, scenario.public, job.prepare, scenario.device)
        return 100 * accuracy(log_probs, scenario.data.public_labels)

    before, statistics = right(job.model), copy.deepcopy(dict(job.model.named_buffers()))
    rows = []
    for size in SIZES:
        points: dict[str, list[float]] = {"model": [], "weights": []}
        for draw in range(DRAWS):
            model = stepped(job, end, size, draw, scenario.device)
            points["model"].append(right(model) - before)
            model.load_state_dict(statistics, strict=False)
            points["weights"].append(right(model) - before)
        spread = {what: {"mean": mean(found), "std": stdev(found), "all": found} for what, found in points.items()}
        rows.append({"size": size, **spread})
        print(job.name, size, *(f"{what} {found['mean']:+.2f}" for what, found in spread.items()), flush=True)
    network = str(scenario.client(int(job.name.split()[-1])).model)
    return {"client": job.name, "network": network, "images": len(job.inputs), "before": before, "steps": rows}


def main() -> None:
    """Train, take the steps, write after every client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, help="where CIFAR-100 is")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = {"epochs": options.epochs, "width": options.width, "seed": SEED, "partition": "classes:20"}
    spec = read_spec(ROOT / "results" / "specs" / "1-table-width64.json", data_dir=options.data_dir)
    scenario = Scenario(replace(spec.config, device=options.device, **settings))
    ends: dict[str, Snapshot] = {}
    keep = {f"client {k}": partial(ends.__setitem__, f"client {k}") for k in CLIENTS}
    jobs = [whole(scenario.job(k, scenario.client(k))) for k in CLIENTS]
    results = []
    for result in fit([replace(job, checkpoint=keep[job.name]) for job in jobs], scenario.device):
        results.append(changes(result.job, ends[result.job.name], scenario))
        if options.json:
            about = {**settings, "draws": DRAWS}
            write(options.json, seed=SEED, settings=about, results=results, device=scenario.device)
    header = ["client", "before", "what", *(f"{size} images" for size in SIZES)]
    rows = []
    for client in results:
        for what in ("model", "weights"):
            spreads = [f"{step[what]['mean']:+.2f} ± {step[what]['std']:.2f}" for step in client["steps"]]
            rows.append([client["network"], f"{client['before']:.1f} %", what, *spreads])
    table(header, rows)


if __name__ == "__main__":
    script(main)
