"""How clients of CIFAR-100 come to good ratios, and how a server best learns from their sum: the study behind `best`.

    python benchmarks/union_cifar100.py --data-dir DATA --out FOLDER --until 560 PARTITION/SEED/VARIANT ...

Development: 5,000 private images take the test set's place. For each federation and variant the clients' answers on the
public and on the held-out images are kept (FOLDER/*.npz), then servers are trained on several targets side by side and
scored on the held-out images. What is there is not done again, and no work begins that would not end in time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.config import configure
from fedol.core.mixture import Mixture
from fedol.core.pooling import Pool, tempered
from fedol.core.union import Union
from fedol.core.voting import shannon
from fedol.federation.scenario import Scenario
from fedol.methods.union import answers, folds_of
from fedol.models.openset import OpenSet
from fedol.runs.evaluation import accuracy
from fedol.seeding import derive
from fedol.training import Job, fit, predict

STARTED = time.monotonic()


@dataclass(frozen=True)
class Variant:
    """How the clients train; the server always as ``best``'s."""

    epochs: int = 60
    batch_size: int = 64
    lr: float = 1e-3
    patch: str = "cutmix"
    folds: int = 2
    weight_decay: float = 0.0
    optimiser: str = "adam"


VARIANTS = {
    "base": Variant(),
    "b256": Variant(batch_size=256, lr=2e-3),
    "b128": Variant(batch_size=128, lr=1.5e-3),
    "same": Variant(epochs=32),  # the client work of today's `best`
    "same-b128": Variant(epochs=32, batch_size=128, lr=1.5e-3),
    "e100-b256": Variant(epochs=100, batch_size=256, lr=2e-3),
    "wd": Variant(optimiser="adamw", weight_decay=0.05),
    "wd-b256": Variant(batch_size=256, lr=2e-3, optimiser="adamw", weight_decay=0.05),
}


def scenario_of(partition: str, seed: int, variant: Variant, options: argparse.Namespace) -> Scenario:
    """The federation, its clients training as the variant says."""
    config = configure(
        "best",
        overrides={
            "method": "union",
            "partition": partition,
            "seed": seed,
            "development": 5000,
            "data_dir": str(options.data_dir),
            "epochs": variant.epochs,
            "batch_size": variant.batch_size,
            "lr": variant.lr,
            "client_patch": variant.patch,
            "folds": variant.folds,
            **options.settings,
        },
    )
    return Scenario(config)


def train_clients(here: Scenario, variant: Variant) -> dict[str, Any]:
    """Every fold of every client at once; answers as float16 [K, N, C + 1] on public and held-out images."""
    jobs: list[Job] = []
    models = []
    for k in range(here.config.clients):
        architecture = replace(here.client(k), folds=variant.folds)
        model = architecture.build(derive(here.config.seed, f"client {k}", "init"))
        assert isinstance(model, OpenSet)
        private = here.job(k, architecture, model)
        recipe = replace(private.recipe, optimiser=variant.optimiser, weight_decay=variant.weight_decay)
        private = replace(private, recipe=recipe)
        models.append((architecture, model))
        jobs += folds_of(private, model, here.public, len(architecture.classes))
    started, losses = time.monotonic(), {}
    for result in fit(sorted(jobs, key=lambda job: -len(job.inputs)), here.device):
        if result.error:
            raise SystemExit(result.error)
        losses[result.job.name] = result.losses[-1]
    seconds = time.monotonic() - started
    public, held = [], []
    for architecture, model in models:
        public.append(answers(model, here.public, architecture, here.device).half().numpy())
        parts = [predict(net, here.data.test.samples, architecture.prepare, here.device) for net in model.nets]
        logs = torch.stack([part[:, :-1] - part[:, -1:] for part in parts]).mean(0)
        held.append(logs.half().numpy())
    images = sum(len(job.inputs) for job in jobs) * variant.epochs
    print(f"clients: {seconds:.0f} s, {images / seconds:,.0f} images/s", flush=True)
    return {
        "public": np.stack(public),
        "held": np.stack(held),
        "sizes": np.array([len(share) for share in here.shares]),
        "seconds": np.array(seconds),
        "images": np.array(images),
    }


def sums(logs: np.ndarray) -> tuple[Union, Pool, Mixture]:
    """The three ways to hear the same answers."""
    union, pool, mixture = Union(), Pool(), Mixture()
    for client in logs:
        own = torch.from_numpy(client.astype(np.float32))
        log_probs = torch.log_softmax(own.double(), 1)
        union.add(own)
        pool.add(log_probs)
        mixture.add(log_probs.exp())
    return union, pool, mixture


def targets_of(logs: np.ndarray) -> dict[str, Tensor]:
    """What a server may learn from these answers."""
    union, pool, mixture = sums(logs)
    own = union.posterior()
    nats = shannon(mixture.mean()).mean().item()
    scores = own.clamp_min(1e-12).log()
    own_nats = shannon(own).mean().item()
    found = {"union": own, "pool": pool.pooled().soft, "mixture": mixture.mean()}
    for wanted in (1.6, 2.1, 2.6):
        found[f"union-{wanted}"] = torch.softmax(tempered(scores, wanted), 1)
    found["union-mix"] = torch.softmax(tempered(scores, nats), 1)
    blend = 0.5 * found["union-mix"] + 0.5 * found["pool"]
    found["half-pool"] = torch.softmax(tempered(blend.log(), nats), 1)
    print(f"nats: union {own_nats:.2f}, mixture {nats:.2f}", flush=True)
    return found


def train_servers(here: Scenario, found: dict[str, Tensor], names: list[str]) -> dict[str, float]:
    """Held-out accuracy of a server on each target."""
    jobs = []
    for name in names:
        jobs.append(
            Job(
                name=name,
                model=here.server.build(derive(here.config.seed, "server", "init")),
                inputs=here.public,
                targets=found[name].float(),
                prepare=here.server.prepare,
                recipe=replace(here.config.distillation.recipe, batch_size=64, lr=1e-3),
                seed=derive(here.config.seed, "server", 1),
                alone=True,
            )
        )
    started, scores = time.monotonic(), {}
    test = here.data.test
    for result in fit(jobs, here.device):
        log_probs = predict(result.job.model, test.samples, here.server.prepare, here.device)
        scores[result.job.name] = accuracy(log_probs, test.y)
        print(f"  server {result.job.name}: {100 * scores[result.job.name]:.1f}", flush=True)
    print(f"servers: {time.monotonic() - started:.0f} s", flush=True)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="PARTITION/SEED/VARIANT[/TARGET,TARGET]")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--settings", type=json.loads, default={})
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for what in options.what:
        partition, seed, name, *wanted = what.split("/")
        place = options.out / f"{partition.replace(':', '-')}_{seed}_{name}.npz"
        here = scenario_of(partition, int(seed), VARIANTS[name], options)
        if place.exists():
            kept = dict(np.load(place))
        elif time.monotonic() - STARTED < options.until:
            kept = train_clients(here, VARIANTS[name])
            np.savez(place, **kept)
        else:
            break
        teacher = {t: accuracy(soft.float(), here.data.test.y) for t, soft in targets_of(kept["held"]).items()}
        print(what, "teacher on held-out:", {t: round(100 * a, 1) for t, a in teacher.items()}, flush=True)
        record = {"what": what, "teacher": teacher, "seconds": float(kept["seconds"]), "images": int(kept["images"])}
        targets = [t for t in (wanted[0].split(",") if wanted else []) if t]
        if targets and time.monotonic() - STARTED < options.until:
            record["server"] = train_servers(here, targets_of(kept["public"]), targets)
        with (options.out / "records.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
