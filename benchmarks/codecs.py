"""Every codec on real predictions: bytes per client, and what it costs the targets that a server learns from.

    python benchmarks/codecs.py --json benchmarks/results/codecs.json
    python benchmarks/codecs.py --made FOLDER --data-dir DATA --codecs lattice10 lattice20 lattice40 \\
        --json benchmarks/results/codecs-rate.json
    python benchmarks/codecs.py --servers 3 --made FOLDER --json benchmarks/results/codecs-servers.json

"Stored": ten clients' predictions on 5,000 CIFAR-100 images (100 classes) in each of four federations. The lattice's
constants were set on these. "Made": federations trained here on a CPU; ``--made`` says where they are kept, and
CIFAR-100's need ``--data-dir``. Nothing was decided on cutmix-cifar, the forests and the 1,000 classes; the others were
in view when the default's 0.02 nats were chosen, and when rows that become alike were forbidden.

A loss is the accuracy with float32 minus the accuracy with the codec, in points: the mean over federations and the
worst; for Algorithm 1 over ten values of rho. "changed" is the worst share of labels that differ at all: a codec can be
lucky in its loss, but not in this. "nats" is the mean KL divergence of a file. "log mean" is the mean of
log-probabilities (FedDF), "pool" that of `fedol.core.pooling`, "union" that of `fedol.core.union`, with masses where
clients send them and else with guessed ones. "chosen without" leaves each stored federation out, takes the smallest
lattice that keeps the mean loss of all targets of the others under 0.1 points, and scores it on the one left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from _targets import accuracy, labels
from federations import PREDICTIONS, read
from sklearn.ensemble import RandomForestClassifier

import fedol
from fedol.config import RunConfig
from fedol.data import load
from fedol.federation.scenario import Scenario
from fedol.knowledge import Knowledge, codecs
from fedol.knowledge.lattice import divergence
from fedol.knowledge.plain import Zstd
from fedol.runs.evaluation import accuracy as scored

LATTICES = [f"lattice{loss}" for loss in (10, 20, 40)]
NAMES = [
    *("float32", "float16+zstd", "q8c60+zstd", "q7c60+zstd", "q6c60+zstd", "q5c60+zstd", "q4c60+zstd", "q4c20+zstd"),
    *("q3c20+zstd", "q3c12+zstd", "q2c20+zstd", "top20+zstd", "top10+zstd", "top5+zstd", *LATTICES),
]
GOAL = 0.1  # points of mean loss

# What is trained here: settings of ``fedol run``.
_SHORT = {"device": "cpu", "codec": "float32", "iterations": 1}
_FASHION = {**_SHORT, "dataset": "fashion-mnist", "public": 5000, "epochs": 3, "server_epochs": 1}
_FASHION |= {"client_models": ("cnn",), "server_model": "cnn", "width": 8}
_CIFAR = {**_FASHION, "dataset": "cifar100", "width": 16, "partition": "dirichlet:0.3"}
MADE: dict[str, dict[str, Any]] = {
    "union-digits": {**_SHORT, "method": "union"},
    "union-fashion": {**_FASHION, "method": "union", "clients": 3, "partition": "dirichlet:0.3"},
    "fashion10": {**_FASHION, "partition": "dirichlet:0.1"},
    "union-cifar": {**_CIFAR, "method": "union", "clients": 4, "epochs": 8},
    "cutmix-cifar": {**_CIFAR, "epochs": 6, "augment": True, "client_patch": "cutmix"},
}
QUICK = {"device": "cpu", "codec": "float32", "iterations": 1, "server_epochs": 1}
SERVERS = ("float32", "q7c60+zstd", "lattice5", "lattice20", "lattice80")
METHODS = ("fedol", "pooled", "union")


@dataclass(frozen=True)
class Federation:
    """Its clients' knowledge, and the labels that only scoring sees."""

    name: str
    clients: list[Knowledge]
    truth: torch.Tensor
    stored: bool = False


def stored(folder: Path) -> Iterator[Federation]:
    """Those that the lattice's constants were set on."""
    for name, logits, truth in read(folder):
        yield Federation(name, [Knowledge.from_logits(each) for each in logits], truth, True)


def trained(name: str, settings: dict[str, Any], folder: Path) -> tuple[Federation, Scenario]:
    """One of ``fedol run``; a folder that is there already is only read."""
    out = folder / name
    if not (out / "summary.json").exists():
        fedol.run(**settings, out=out)
    config = RunConfig(**settings)
    here = Scenario(config, load(config.dataset, config.data_dir))
    files = sorted(out.glob("clients/[0-9]*.fedol"))
    truth = torch.from_numpy(np.asarray(here.data.public_labels)).long()
    return Federation(name, [Knowledge.read(file)[0] for file in files], truth), here


def made(folder: Path, data_dir: str | None) -> Iterator[Federation]:
    """Those beside them."""
    for name, settings in MADE.items():
        if settings.get("dataset") != "cifar100" or data_dir:
            where = {"data_dir": data_dir} if settings.get("dataset") == "cifar100" else {}
            yield trained(name, {**settings, **where}, folder)[0]
    yield forests()
    yield many_classes()


def forests() -> Federation:
    """Five forests of 100 trees on digits, each on 200 images of six classes: zeros, and few distinct values."""
    digits, rng = load("digits"), np.random.default_rng(0)
    x, y = digits.train.x.reshape(len(digits.train.y), -1), digits.train.y
    clients = []
    for _ in range(5):
        own = rng.choice(np.flatnonzero(np.isin(y[400:], rng.choice(10, 6, replace=False))) + 400, 200)
        probs = np.zeros((400, 10))
        forest = RandomForestClassifier(100, random_state=0).fit(x[own], y[own])
        probs[:, forest.classes_] = forest.predict_proba(x[:400])
        clients.append(Knowledge.from_probabilities(probs))
    return Federation("forests on digits", clients, torch.from_numpy(y[:400]).long())


def many_classes() -> Federation:
    """Two made-up nets of 1,000 classes: 64 features of which each sees its own noise."""
    generator = torch.Generator().manual_seed(0)
    centres, truth = torch.randn(1000, 64, generator=generator), torch.randint(1000, (500,), generator=generator)
    clients = []
    for _ in range(2):
        seen = centres[truth] + 2.0 * torch.randn(500, 64, generator=generator)
        noise = 0.5 * torch.randn(1000, 64, generator=generator)
        clients.append(Knowledge.from_logits(0.25 * seen @ (centres + noise).T))
    return Federation("1,000 classes", clients, truth)


@dataclass(frozen=True)
class Plain:
    """log p / -clip, companded by a root, on 2^bits levels."""

    bits: int
    root: int
    clip: int = 60

    @property
    def name(self) -> str:
        return f"plain {self.bits} bit root {self.root}"

    def size(self, samples: int, classes: int) -> int:
        return samples * classes

    def encode(self, log_probs: torch.Tensor) -> bytes:
        scaled = (-log_probs / self.clip).clamp(0, 1) ** (1 / self.root) * (2**self.bits - 1)
        return scaled.round().to(torch.uint8).T.contiguous().numpy().tobytes()

    def decode(self, data: bytes, samples: int, classes: int) -> torch.Tensor:
        codes = torch.from_numpy(np.frombuffer(data, np.uint8).reshape(classes, samples).T.astype(np.float32))
        return -self.clip * (codes / (2**self.bits - 1)) ** self.root


KINDS = {"mixture": "mixture", "algorithm_1": "Algorithm 1", "log_mean": "log mean", "pool": "pool", "union": "union"}


def measure(codec: Any, federation: Federation, reference: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Sizes, times and nats of the files of one codec, and of every target the loss and the labels changed."""
    sizes, nats, seconds, decoded = [], [], [], []
    for client in federation.clients:
        shape = client.log_probs.shape
        started = time.process_time()
        data = codecs.pack(codec, client.log_probs, client.log_mass)
        packed = time.process_time()
        logits, mass = codecs.unpack(codec, data, *shape, has_masses=client.log_mass is not None)
        seconds.append((packed - started, time.process_time() - packed))
        read = Knowledge.from_logits(logits)
        decoded.append(read if mass is None else read.with_mass(mass))
        sizes.append(len(data))
        nats.append(divergence(client.log_probs, logits))
    found, truth = labels(decoded), federation.truth
    targets = {
        name: {
            "accuracy": accuracy(before, truth),
            "loss": accuracy(before, truth) - accuracy(found[name], truth),
            "changed": 100 * (found[name] != before).double().mean().item(),
        }
        for name, before in reference.items()
    }
    return {
        "codec": codec.name,
        "federation": federation.name,
        "stored": federation.stored,
        "bytes": sizes,
        "nats": nats,
        "encode_seconds": max(s for s, _ in seconds),
        "decode_seconds": max(s for _, s in seconds),
        "targets": targets,
    }


def summed_up(results: list[dict[str, Any]]) -> dict[str, Any]:
    """One codec over several federations."""
    sizes = [size for r in results for size in r["bytes"]]
    found: dict[str, Any] = {"bytes_mean": float(np.mean(sizes)), "bytes_largest": max(sizes)}
    found["nats"] = float(np.mean([n for r in results for n in r["nats"]]))
    for kind, prefix in KINDS.items():
        of = [t for r in results for name, t in r["targets"].items() if name.startswith(prefix)]
        found[kind] = {"mean": float(np.mean([t["loss"] for t in of])), "worst": max(t["loss"] for t in of)}
        found[kind]["changed"] = max(t["changed"] for t in of)
    found["mean_loss"] = float(np.mean([found[kind]["mean"] for kind in KINDS]))
    return found


def chosen_without(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each stored federation under the lattice that the others would choose."""
    names, found = sorted({r["federation"] for r in results if r["stored"]}), []
    for left_out in names if len(names) > 1 and {r["codec"] for r in results} >= {*LATTICES} else ():
        others = [r for r in results if r["stored"] and r["federation"] != left_out]
        fits = [n for n in LATTICES if summed_up([r for r in others if r["codec"] == n])["mean_loss"] < GOAL]
        if not fits:
            continue
        (own,) = [r for r in results if r["federation"] == left_out and r["codec"] == fits[-1]]
        found.append({"left_out": left_out, "codec": fits[-1], **summed_up([own])})
    return found


def show(title: str, summaries: dict[str, dict[str, Any]]) -> None:
    """One set of federations as a table."""
    print(f"\n{title}; points and percent.\n")
    rows = []
    for name, found in summaries.items():
        mark = {codecs.DEFAULT: " (default)", codecs.SMALL: " (small)"}.get(name, "")
        losses = [f"{found[kind]['mean']:.2f} / {found[kind]['worst']:.2f}" for kind in KINDS]
        changed = f"{max(found[kind]['changed'] for kind in KINDS):.1f}"
        sizes = [f"{found['bytes_mean']:,.0f}", f"{found['bytes_largest']:,}"]
        rows.append([name + mark, *sizes, f"{found['nats']:.4f}", *losses, changed])
    table(
        ["codec", "mean bytes", "largest", "nats", *(f"{name}: mean / worst" for name in KINDS.values()), "chg"], rows
    )


def servers(seeds: int, folder: Path) -> list[dict[str, Any]]:
    """Servers trained on what codecs make of the quick job's clients: three methods, a net each."""
    results = []
    for seed in range(seeds):
        settings = {**QUICK, "seed": seed, "method": "union"}
        federation, here = trained(f"servers-{seed}", settings, folder)
        test, config = here.data.test, RunConfig(**settings)
        for codec in SERVERS:
            packed = [client.encode(codec) for client in federation.clients]
            heard = [Knowledge.decode(data)[0] for data in packed]
            for method in METHODS:
                plain = heard if method == "union" else [client.without_mass() for client in heard]
                how: dict[str, Any] = {"method": method, "iterations": 2, "epochs": 20, "seed": seed, "device": "cpu"}
                how |= {"model": config.server_model, "width": config.width, "batch_size": config.batch_size}
                server = fedol.distill(plain, here.public, **how)
                score = 100 * scored(server.predict_log_proba(test.samples), test.y)
                size = float(np.mean([len(data) for data in packed]))
                results.append({"seed": seed, "codec": codec, "method": method, "accuracy": score, "bytes": size})
        print(json.dumps(results[-1]), flush=True)
    return results


def show_servers(results: list[dict[str, Any]]) -> None:
    """Mean and standard deviation over seeds, and the loss, seed by seed, against float32."""
    rows = []
    for codec in SERVERS:
        cells = [f"{np.mean([r['bytes'] for r in results if r['codec'] == codec]):,.0f}"]
        for method in METHODS:
            own, exact = (
                np.array([r["accuracy"] for r in results if (r["codec"], r["method"]) == (name, method)])
                for name in (codec, "float32")
            )
            cells.append(f"{own.mean():.1f} ({(exact - own).mean():+.2f} ± {(exact - own).std(ddof=1):.2f})")
        rows.append([codec, *cells])
    table(["codec", "file", *(f"{m}: accuracy (loss)" for m in METHODS)], rows)


def main() -> None:
    """Run all codecs, print the tables, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--codecs", nargs="+", help="these alone")
    parser.add_argument("--made", type=Path, help="where federations that are trained here are kept")
    parser.add_argument("--data-dir", help="CIFAR-100, for two of these")
    parser.add_argument("--servers", type=int, default=0, help="train servers on digits instead, with so many seeds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.servers:
        trials = servers(options.servers, options.made)
        show_servers(trials)
        if options.json:
            write(options.json, seed=0, settings={"seeds": options.servers}, results=trials)
        return
    federations = chain(stored(options.predictions), made(options.made, options.data_dir) if options.made else ())
    plain = [] if options.codecs else [Zstd(Plain(bits, root)) for bits, root in ((8, 2), (7, 3), (7, 2), (6, 3))]
    candidates = [*map(codecs.find, options.codecs or NAMES), *plain]
    results: list[dict[str, Any]] = []
    for federation in federations:
        reference = labels(federation.clients)
        results += [measure(codec, federation, reference) for codec in candidates]
        print(f"{federation.name} done", flush=True)
        if options.json:
            settings = {"codecs": [codec.name for codec in candidates], "zstd_level": 19}
            write(options.json, seed=0, settings=settings, results={**finished(results), "files": results})
    for title, found in finished(results)["summaries"].items():
        show(title, found)
    for one in finished(results)["chosen_without"]:
        losses = f"{one['bytes_largest']:,} bytes, loss {one['mean_loss']:.2f}"
        print(f"\nwithout {one['left_out']}: {one['codec']}, {losses}")


def finished(results: list[dict[str, Any]]) -> dict[str, Any]:
    """What is said of all files so far: codec by codec, of those stored and of those made here."""
    titles = {"stored": [r for r in results if r["stored"]], "made": [r for r in results if not r["stored"]]}
    names = dict.fromkeys(r["codec"] for r in results)
    summaries = {
        title: {name: summed_up([r for r in some if r["codec"] == name]) for name in names}
        for title, some in titles.items()
        if some
    }
    return {"summaries": summaries, "chosen_without": chosen_without(results)}


if __name__ == "__main__":
    script(main)
