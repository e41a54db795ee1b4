"""Time to accuracy: how fast nets of `best` learn under other recipes, clients on their own images, servers from targets.

    python benchmarks/recipes.py --data-dir DATA --out FOLDER --until 400 speed clients:NAMES servers:NAMES

Development: 5,000 private images take the test set's place. Clients are the first two of an iid federation of ten, one of
each kind of net. Servers learn from TARGETS, made of the predictions of real clients. A line of FOLDER/recipes.jsonl for
each; what is there is not done again.
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

from fedol.config import configure
from fedol.federation.scenario import Scenario
from fedol.runs.evaluation import accuracy
from fedol.seeding import derive
from fedol.training import Epoch, Job, Recipe, fit, predict

STARTED = time.monotonic()
CLIENT = Recipe(epochs=60, augment=True, schedule="cosine", patch="cutmix")
SERVER = replace(CLIENT, epochs=200, average=0.999)


def muon(lr: float, weight_decay: float, **others: Any) -> dict[str, Any]:
    own = {"optimiser": "muon", "schedule": "one-cycle", "batch_size": 256, "epochs": 30}
    return {**own, "lr": lr, "weight_decay": weight_decay, **others}


CLIENTS: dict[str, dict[str, Any]] = {
    "wd2": muon(0.01, 2.0),  # again: the noise
    "wd1": muon(0.01, 1.0),
    "wd1.5": muon(0.01, 1.5),
    "wd1.5-plain": muon(0.01, 1.5, patch="none"),
    "wd2.5-plain": muon(0.01, 2.5, patch="none"),
    "wd1.5-cutout": muon(0.01, 1.5, patch="cutout"),
    "wd1.5-b128": muon(0.005, 1.5, batch_size=128),
    "wd1.5-grow": muon(0.01, 1.5, grow=0.6),
    "wd1.5-grow-e45": muon(0.01, 1.5, epochs=45, grow=0.6),
    "wd1.5-e60": muon(0.01, 1.5, epochs=60),
    "wd1-e15": muon(0.01, 1.0, epochs=15),
    "adamw-wd10": {**muon(1e-3, 10.0), "optimiser": "adamw"},
    "adamw-lr.003-wd5": {**muon(3e-3, 5.0), "optimiser": "adamw"},
    "nesterov-lr.2-wd.05": {**muon(0.2, 0.05), "optimiser": "nesterov"},
}
STUDENT = muon(0.01, 0.1, epochs=100, average=0.0)
SERVERS: dict[str, dict[str, Any]] = {
    "grow@soft": {**STUDENT, "grow": 0.6},
    "e200-grow@soft": {**STUDENT, "grow": 0.6, "epochs": 200},
    "@sharp": STUDENT,
    "@softer": STUDENT,
    "plain@soft": {**STUDENT, "patch": "none"},
}


def speed(here: Scenario) -> Iterator[dict[str, Any]]:
    """Images per second of nets in training at once, by batch size, when all are under way."""
    for model, size, grow in [
        ("clients", 64, 0.0),
        ("clients", 256, 0.0),
        ("clients", 256, 0.99),
        ("resnet56", 64, 0.0),
        ("resnet56", 256, 0.0),
    ]:
        recipe = replace(CLIENT, epochs=8, batch_size=size, grow=grow)
        nets = 10 if model == "clients" else 4
        jobs = [client(here, n % 10, recipe, model) for n in range(nets)]
        ends: dict[str, list[float]] = {}

        def note(epoch: Epoch, ends: dict[str, list[float]] = ends) -> None:
            ends.setdefault(epoch.job.name, []).append(time.monotonic())

        jobs = [replace(job, name=f"{job.name} {n}") for n, job in enumerate(jobs)]
        started = time.monotonic()
        done = list(fit(jobs, here.device, note))
        assert not any(each.error for each in done), done[0].error
        begin = max(times[0] for times in ends.values())
        end = min(times[-1] for times in ends.values())
        seen = sum(len(job.inputs) * sum(begin < t <= end for t in ends[job.name]) for job in jobs)
        yield {
            "speed": f"{nets} {model}, batch {size}, grow {grow}",
            "images_per_second": seen / max(end - begin, 1e-9),
            "seconds": time.monotonic() - started,
        }


def client(here: Scenario, k: int, recipe: Recipe, model: str = "clients") -> Job:
    """Client k's training under a recipe."""
    architecture = here.client(k) if model == "clients" else here.architecture(model)
    return replace(here.job(k, architecture), recipe=recipe)


def clients(here: Scenario, names: list[str], who: list[int]) -> Iterator[dict[str, Any]]:
    """Each recipe on two clients."""
    found = [(name, k, replace(CLIENT, **CLIENTS[name])) for name in names for k in who]
    jobs = [replace(client(here, k, recipe), name=f"{name} {k}") for name, k, recipe in found]
    test, started = here.data.test, time.monotonic()
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
            "seconds": result.seconds,
            "all": time.monotonic() - started,
            "recipe": asdict(result.job.recipe),
        }
        result.job.model.cpu()


def servers(here: Scenario, names: list[str], targets: Path) -> Iterator[dict[str, Any]]:
    """Each recipe on a server."""
    with np.load(targets) as kept:
        soft = {name: torch.from_numpy(kept[name].astype(np.float32)) for name in kept.files}
    test = here.data.test
    jobs = [
        Job(
            name=name,
            model=here.server.build(derive(here.config.seed, "server", "init")),
            inputs=here.public,
            targets=soft[name.partition("@")[2]],
            prepare=here.server.prepare,
            recipe=replace(SERVER, **SERVERS[name]),
            seed=derive(here.config.seed, "server", 1),
            alone=True,
        )
        for name in names
    ]
    started = time.monotonic()
    for result in fit(jobs, here.device):
        log_probs = predict(result.job.model, test.samples, here.server.prepare, here.device)
        yield {
            "servers": result.job.name,
            "accuracy": accuracy(log_probs, test.y),
            "loss": result.losses[-1:],
            "error": result.error,
            "seconds": result.seconds,
            "all": time.monotonic() - started,
            "recipe": asdict(result.job.recipe),
        }
        result.job.model.cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="speed, clients:NAME,NAME or clients:all, servers:NAME,NAME")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--targets", type=Path, help="an .npz of targets [N, C] by name")
    parser.add_argument("--who", type=int, nargs="+", default=[0, 1], help="which of the two clients")
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--settings", type=json.loads, default={})
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    overrides = {"partition": "iid", "seed": 100, "development": 5000, "data_dir": str(options.data_dir)}
    here = Scenario(configure("best", overrides={**overrides, **options.settings}))
    file = options.out / "recipes.jsonl"
    there = {line.get(kind) for line in map(json.loads, open(file) if file.exists() else []) for kind in line}
    print(f"{time.monotonic() - STARTED:.0f} s to load", flush=True)
    for what in options.what:
        kind, _, names = what.partition(":")
        known = list({"clients": CLIENTS, "servers": SERVERS}.get(kind, {}))
        wanted = [name for name in (known if names == "all" else names.split(",")) if name not in there]
        found = {
            "speed": lambda: speed(here),
            "clients": lambda wanted=wanted: clients(here, wanted, options.who),
            "servers": lambda wanted=wanted: servers(here, wanted, options.targets),
        }[kind]()
        for record in found:
            with file.open("a") as out:
                out.write(json.dumps(record) + "\n")
            shown = {name: value for name, value in record.items() if name != "recipe"}
            print(f"{time.monotonic() - STARTED:.0f}", json.dumps(shown), flush=True)
            if time.monotonic() - STARTED > options.until:
                return


if __name__ == "__main__":
    main()
