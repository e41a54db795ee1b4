"""What a recipe is worth: nets of `best` on the images of two clients, and servers that learn from given targets.

    python benchmarks/recipes.py --data-dir DATA --out FOLDER --until 400 speed clients:all servers:all
    python benchmarks/recipes.py --out FOLDER --pack benchmarks/results/recipes.json

Development: 5,000 private images take the test set's place. The clients are the first two of an iid federation of ten,
one of each kind of net. ``--targets`` is an .npz of targets [N, C] by name, which a server's name ends with.
FOLDER/recipes.jsonl has a line for each; what is there is not done again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _record import write

from fedol.config import configure
from fedol.federation.scenario import Scenario
from fedol.runs.evaluation import accuracy
from fedol.runs.provenance import provenance
from fedol.seeding import derive
from fedol.training import Epoch, Job, Recipe, fit, predict

STARTED = time.monotonic()
SEED = 100
ADAM = Recipe(epochs=60, augment=True, schedule="cosine", patch="cutmix")
MUON = replace(
    ADAM, epochs=30, batch_size=128, lr=0.005, optimiser="muon", schedule="one-cycle", weight_decay=1.5, grow=0.6
)
CLIENTS = {
    "adam-e100": replace(ADAM, epochs=100),
    "muon": MUON,
    "muon-e15": replace(MUON, epochs=15),
    "muon-e60": replace(MUON, epochs=60),
    "muon-b256": replace(MUON, batch_size=256, lr=0.01),
    "muon-wd.1": replace(MUON, weight_decay=0.1),
    "muon-full-size": replace(MUON, grow=0.0),
    "muon-no-cutmix": replace(MUON, patch="none"),
    "adamw": replace(MUON, optimiser="adamw", lr=0.001, weight_decay=1.0),
}
STUDENT = replace(MUON, epochs=100, weight_decay=0.5, grow=0.0, patch="none")
SERVERS = {
    "adam@soft": replace(ADAM, epochs=200, average=0.999),
    "muon@soft": STUDENT,
    "muon-e50@soft": replace(STUDENT, epochs=50),
    "muon-e200@soft": replace(STUDENT, epochs=200),
    "muon-cutmix@soft": replace(STUDENT, patch="cutmix"),
    "muon-grow@soft": replace(STUDENT, grow=0.6),
}


def speed(here: Scenario) -> Iterator[dict[str, Any]]:
    """Images per second of nets in training at once, by batch size, when all are under way."""
    for model, recipe in [
        ("clients", ADAM),
        ("clients", replace(MUON, grow=0.0)),
        ("clients", replace(MUON, grow=0.99)),
        ("resnet56", ADAM),
        ("resnet56", STUDENT),
    ]:
        jobs = [
            replace(client(here, n % 10, replace(recipe, epochs=8), model), name=f"{n}")
            for n in range(20 if model == "clients" else 4)
        ]
        ends: dict[str, list[float]] = {}

        def note(epoch: Epoch, ends: dict[str, list[float]] = ends) -> None:
            ends.setdefault(epoch.job.name, []).append(time.monotonic())

        started = time.monotonic()
        for result in fit(jobs, here.device, note):
            assert not result.error, result.error
        begin, end = max(times[0] for times in ends.values()), min(times[-1] for times in ends.values())
        seen = sum(len(job.inputs) * sum(begin < t <= end for t in ends[job.name]) for job in jobs)
        yield {
            "speed": f"{len(jobs)} {model}",
            "images_per_second": seen / max(end - begin, 1e-9),
            "seconds": time.monotonic() - started,
            "recipe": asdict(recipe),
        }


def client(here: Scenario, k: int, recipe: Recipe, model: str = "clients") -> Job:
    """Client k's training under a recipe."""
    architecture = here.client(k) if model == "clients" else here.architecture(model)
    return replace(here.job(k, architecture), recipe=recipe)


def clients(here: Scenario, names: list[str]) -> Iterator[dict[str, Any]]:
    """Each recipe on two clients."""
    jobs = [replace(client(here, k, CLIENTS[name]), name=f"{name} {k}") for name in names for k in range(2)]
    test = here.data.test
    for result in fit(jobs, here.device):
        name, k = result.job.name.split()
        log_probs = predict(result.job.model, test.samples, here.client(int(k)).prepare, here.device)
        yield {
            "clients": name,
            "model": here.config.client_model(int(k)),
            "accuracy": accuracy(log_probs, test.y),
            "nats": F.nll_loss(log_probs, torch.from_numpy(test.y)).item(),
            "loss": result.losses[-1:],
            "error": result.error,
            "recipe": asdict(result.job.recipe),
        }
        result.job.model.cpu()


def servers(here: Scenario, names: list[str], targets: Path) -> Iterator[dict[str, Any]]:
    """Each recipe on a server."""
    with np.load(targets) as kept:
        soft = {name: torch.from_numpy(kept[name].astype(np.float32)) for name in kept.files}
    jobs = [
        Job(
            name=name,
            model=here.server.build(derive(here.config.seed, "server", "init")),
            inputs=here.public,
            targets=soft[name.partition("@")[2]],
            prepare=here.server.prepare,
            recipe=SERVERS[name],
            seed=derive(here.config.seed, "server", 1),
            alone=True,
        )
        for name in names
    ]
    test = here.data.test
    for result in fit(jobs, here.device):
        log_probs = predict(result.job.model, test.samples, here.server.prepare, here.device)
        yield {
            "servers": result.job.name,
            "accuracy": accuracy(log_probs, test.y),
            "loss": result.losses[-1:],
            "error": result.error,
            "recipe": asdict(result.job.recipe),
        }
        result.job.model.cpu()


def lines(file: Path) -> list[dict[str, Any]]:
    """What has been measured."""
    return list(map(json.loads, file.read_text().splitlines())) if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="speed, clients:NAME,NAME or clients:all, servers:NAME,NAME")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--targets", type=Path, help="an .npz of targets [N, C] by name")
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--pack", type=Path, help="write what has been measured as a record, and do nothing else")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "recipes.jsonl"
    if options.pack:
        write(options.pack, seed=SEED, settings={"development": 5000}, results=lines(file))
        return
    overrides = {"partition": "iid", "seed": SEED, "development": 5000, "data_dir": str(options.data_dir)}
    here = Scenario(configure("best", overrides={**overrides, **options.settings}))
    about = provenance(SEED, here.device)
    for what in options.what:
        kind, _, names = what.partition(":")
        there = {line.get(kind) for line in lines(file)}
        known: list[str] = list({"clients": CLIENTS, "servers": SERVERS}.get(kind, {}))
        wanted = [name for name in (known if names == "all" else names.split(",")) if name not in there]
        found = (
            speed(here)
            if kind == "speed"
            else clients(here, wanted)
            if kind == "clients"
            else servers(here, wanted, options.targets)
        )
        for record in found:
            with file.open("a") as out:
                out.write(json.dumps({**about, **record}) + "\n")
            shown = {name: value for name, value in record.items() if name != "recipe"}
            print(f"{time.monotonic() - STARTED:.0f}", json.dumps(shown), flush=True)
            if time.monotonic() - STARTED > options.until:
                return


if __name__ == "__main__":
    main()
