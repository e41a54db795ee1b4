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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import write
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
from fedol.runs.provenance import provenance
from fedol.seeding import derive
from fedol.training import Job, fit, predict

STARTED = time.monotonic()


MUON: dict[str, Any] = {
    "optimiser": "muon",
    "schedule": "one-cycle",
    "lr": 0.005,
    "batch_size": 128,
    "client_weight_decay": 1.5,
    "client_patch": "cutmix",
    "grow": 0.6,
}


@dataclass(frozen=True)
class Variant:
    """What the clients train, in epochs: one net on their own data alone, and nets with the public class, per fold."""

    closed: int = 0
    opened: tuple[int, ...] = (30,)
    settings: Mapping[str, Any] = field(default_factory=lambda: MUON)


VARIANTS = {
    "adam60": Variant(opened=(60,), settings={"client_patch": "cutmix"}),  # and else as `best` was
    "muon20": Variant(opened=(20,)),
    "muon30": Variant(),
    "muon60": Variant(opened=(60,)),
    "parts": Variant(closed=30, opened=(15,)),
}


# What differs from `best`'s server.
PLAIN = {
    "optimiser": "muon",
    "schedule": "one-cycle",
    "batch_size": 256,
    "lr": 0.01,
    "weight_decay": 0.5,
    "average": 0.0,
    "epochs": 100,
    "patch": "none",
}
SERVERS: dict[str, dict[str, Any]] = {
    "adam": {},
    "plain": PLAIN,
    "cutmix": {**PLAIN, "patch": "cutmix", "weight_decay": 0.1},
    "plain-b128": {**PLAIN, "batch_size": 128, "lr": 0.005},
    "plain-e50": {**PLAIN, "epochs": 50},
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
            **variant.settings,
            **options.settings,
        },
    )
    return Scenario(config)


def train_clients(here: Scenario, variant: Variant, place: Path) -> dict[str, Any]:
    """All trainings at once. Kept per kind of net: answers [K, N, C] on the public and on the held-out images."""
    jobs: list[Job] = []
    nets: dict[str, list[Any]] = {}
    for k in range(here.config.clients):
        for epochs in variant.opened:
            architecture = replace(here.client(k), folds=2)
            model = architecture.build(derive(here.config.seed, f"client {k}", "init", epochs))
            assert isinstance(model, OpenSet)
            private = here.job(k, architecture, model)
            private = replace(private, recipe=replace(private.recipe, epochs=epochs))
            nets.setdefault(f"open{epochs}", []).append((architecture, model))
            jobs += folds_of(private, model, here.public, len(architecture.classes))
        if variant.closed:
            job = here.job(k, here.client(k))
            nets.setdefault("closed", []).append((here.client(k), job.model))
            jobs.append(replace(job, recipe=replace(job.recipe, epochs=variant.closed)))
    started = time.monotonic()
    work = {id(job): len(job.inputs) * job.recipe.epochs for job in jobs}
    for result in fit(sorted(jobs, key=lambda job: -work[id(job)]), here.device):
        if result.error:
            raise SystemExit(result.error)
    seconds = time.monotonic() - started
    print(f"clients: {seconds:.0f} s, {sum(work.values()) / seconds:,.0f} images/s", flush=True)
    place.mkdir(parents=True)
    test = here.data.test.samples
    for kind, found in nets.items():
        public, held = [], []
        for architecture, model in found:
            if isinstance(model, OpenSet):
                public.append(answers(model, here.public, architecture, here.device))
                parts = [predict(net, test, architecture.prepare, here.device) for net in model.nets]
                held.append(torch.stack([part[:, :-1] - part[:, -1:] for part in parts]).mean(0))
            else:
                public.append(predict(model, here.public, architecture.prepare, here.device))
                held.append(predict(model, test, architecture.prepare, here.device))
        np.savez_compressed(place / f"{kind}-public.npz", torch.stack(public).half().numpy())
        np.savez_compressed(place / f"{kind}-held.npz", torch.stack(held).half().numpy())
    return {"seconds": seconds, "images": sum(work.values())}


def parts_of(place: Path, where: str) -> dict[str, Tensor]:
    """The answers of each kind of net, float64 [K, N, C]."""
    found = {}
    for file in sorted(place.glob(f"*-{where}.npz")):
        with np.load(file) as kept:
            found[file.stem.removesuffix(f"-{where}")] = torch.from_numpy(kept["arr_0"].astype(np.float64))
    return found


def targets_of(place: Path, where: str) -> dict[str, Tensor]:
    """What a server may learn from these answers, by name: whose mass, whose predictions."""
    parts = parts_of(place, where)
    predictions = {kind: torch.log_softmax(logs, 2) for kind, logs in parts.items()}
    if "closed" in parts:
        for kind in [kind for kind in parts if kind != "closed"]:
            both = predictions["closed"] + predictions[kind]
            predictions[f"closed+{kind}"] = torch.log_softmax(both / 2, 2)
    masses = {kind: torch.logsumexp(logs, 2) for kind, logs in parts.items() if kind != "closed"}
    if len(masses) > 1:  # several nets a fold
        all_logs = torch.stack([logs for kind, logs in parts.items() if kind != "closed"]).mean(0)
        predictions["all"], masses["all"] = torch.log_softmax(all_logs, 2), torch.logsumexp(all_logs, 2)
    found = {}
    for who, log_probs in predictions.items():
        pool, mixture = Pool(), Mixture()
        for client in log_probs:
            pool.add(client)
            mixture.add(client.exp())
        nats = shannon(mixture.mean()).mean().item()
        found[f"pool/{who}"], found[f"mixture/{who}"] = pool.pooled().soft, mixture.mean()
        for whose, mass in masses.items():
            union = Union()
            for client, own in zip(log_probs, mass, strict=True):
                union.add(client + own[:, None])
            soft = union.posterior()
            found[f"{whose}*{who}"] = soft
            found[f"{whose}*{who}~"] = torch.softmax(tempered(soft.clamp_min(1e-12).log(), nats), 1)
            print(f"  {whose}*{who}: {shannon(soft).mean().item():.2f} nats, mixture {nats:.2f}", flush=True)
    return found


def train_servers(here: Scenario, found: dict[str, Tensor], names: list[str]) -> dict[str, float]:
    """Held-out accuracy of a server on each target."""
    jobs = []
    for name in names:
        target, _, how = name.partition("@")  # the target's name, @, the server's
        recipe = configure("best").distillation.recipe
        jobs.append(
            Job(
                name=name,
                model=here.server.build(derive(here.config.seed, "server", "init")),
                inputs=here.public,
                targets=found[target].float(),
                prepare=here.server.prepare,
                recipe=replace(recipe, **SERVERS[how]),
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
    parser.add_argument("what", nargs="*", help="PARTITION/SEED/VARIANT[/TARGET,TARGET]")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--until", type=float, default=1e9)
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--pack", type=Path, help="write what has been measured as a record, and do nothing else")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.pack:
        lines = (options.out / "records.jsonl").read_text().splitlines()
        write(options.pack, seed=0, settings={"development": 5000}, results=list(map(json.loads, lines)))
        return
    for what in options.what:
        partition, seed, name, *wanted = what.split("/")
        place = options.out / f"{partition.replace(':', '-')}_{seed}_{name}"
        here = scenario_of(partition, int(seed), VARIANTS[name], options)
        record: dict[str, Any] = {**provenance(int(seed), here.device), "what": what}
        if not place.exists():
            if time.monotonic() - STARTED > options.until:
                break
            record |= train_clients(here, VARIANTS[name], place)
        teachers = targets_of(place, "held")
        record["teacher"] = {t: accuracy(soft.float(), here.data.test.y) for t, soft in teachers.items()}
        for target, score in record["teacher"].items():
            if not target.endswith("~"):
                print(f"  teacher {target}: {100 * score:.1f}", flush=True)
        targets = [target for target in (wanted[0].split(",") if wanted else []) if target]
        if targets and time.monotonic() - STARTED < options.until:
            record["server"] = train_servers(here, targets_of(place, "public"), targets)
        with (options.out / "records.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
