"""Sums in secret: seconds, bytes and memory of a client and of both helpers, and what the fixed point costs.

    python benchmarks/secret_sum.py speed --json benchmarks/results/secret_sum.json
    python benchmarks/secret_sum.py width noise --json benchmarks/results/secret_sum-width.json

- **Speed.** A client's file of 5,000 x 100 and of 50,000 x 100; a helper's sum over 10 to 1,000 of them, each measured
  in a process of its own. The files on the disk are eight, taken in turn: a helper reads, checks, opens and adds each
  as if it were another. "Reading" is reading the same files alone: from memory, and after the system was told to forget
  them. The machine is shared, so a helper is compared by its CPU time.
- **Width.** Accuracy of the union's targets on the public set against those of plain files, in points, for a task of 10
  to 10,000 clients, of whom the federation's take part: the ring has room for all. Images as in ``union.py`` with
  scikit-learn's models; CIFAR-100 predictions of ten ResNets with masses guessed from their entropy. Cap and default
  width were chosen on the seeds 100 and 101; these are others.
- **Another domain.** The same where the public set is of another domain, and the server has sums alone.
- **Noise.** What an ε costs eighty clients.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import ROOT, script, table, write
from federations import PREDICTIONS, read
from union import LOGISTIC, Case, percent, seen

import fedol
from fedol.core.union import guessed_mass
from fedol.data import partition
from fedol.errors import InputError
from fedol.knowledge import Knowledge, Task, signing
from fedol.knowledge.terms import CAP, Terms
from fedol.methods import Distillation, find
from fedol.methods.union import STRANGE, summed
from fedol.runs.evaluation import summary_statistics
from fedol.secret.encoding import Encoding
from fedol.secret.helper import add
from fedol.secret.keys import HelperKey, new_helper_key, read_public
from fedol.secret.noise import calibrated
from fedol.secret.sealed import seal

SEEDS = (10, 11, 12)
SIZES = {(5_000, 100): (10, 100, 1_000), (50_000, 100): (10, 100, 1_000)}  # and how many files
FILES, MANY_LISTED = 8, 1_000
WIDTHS = (12, 16, 20, 24, 32)
ADMITTED, FEW = (10, 100, 1_000, 10_000), (10, 1_000)  # few where each takes seconds
REAL = ("dirichlet-0.05_plain", "classes-20_plain")
HELPERS = {"A": "ab" * 64, "B": "ac" * 64}
MANY, LEAST = 80, 64  # clients of 12 samples each; those that noise counts on
TIGHT = 16.0  # times n_k / n_u: a cap for whoever knows how many samples clients have
EPSILONS = (4.0, 16.0, 64.0, 256.0)
NORM = 1.0  # of a client's ratios, whose mean is 12 / 400


def names(count: int) -> list[str]:
    return [f"c{number}" for number in range(count)]


def prepared(folder: Path, samples: int, classes: int) -> tuple[Task, list[tuple[float, float]]]:
    """A task, keys, and the files of a few clients in a folder; the task, and each client's seconds."""
    for name in names(FILES):
        signing.new_key(folder / f"{name}.key")
    for helper in HELPERS:
        new_helper_key(folder / f"{helper}.key")
    keys = {name: signing.public_key(folder / f"{name}.key") for name in names(FILES)}
    terms = Terms({helper: read_public(folder / f"{helper}.pub") for helper in HELPERS})
    # As wide as for the largest sum, so that nothing leaves the ring: the others are listed and never come.
    listed = {**keys, **dict.fromkeys(names(MANY_LISTED)[FILES:], keys["c0"])}
    task = Task(tuple(map(str, range(classes))), samples, "none", "speed", clients=listed, secret=terms)
    spent = []
    for number, name in enumerate(names(FILES)):
        rng = np.random.default_rng(number)
        knowledge = Knowledge.from_log_ratios(rng.normal(-3, 3, (samples, classes)), task, name, 1000, 2)
        start = time.perf_counter(), time.process_time()
        data = seal(knowledge, task, folder / f"{name}.key")
        spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        (folder / f"{name}.fedol").write_bytes(data)
    return task, spent


def forgotten(paths: list[Path]) -> None:
    """The system drops what it keeps of these files."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def reading(paths: list[Path], cold: bool) -> float:
    """Seconds to read a file, of all of them on average."""
    if cold:
        forgotten(paths)
    start = time.perf_counter()
    for path in paths:
        path.read_bytes()
    return (time.perf_counter() - start) / len(paths)


def work(folder: Path, helper: str, count: int, samples: int, classes: int) -> dict[str, Any]:
    """One helper's sum over so many files, in this process alone."""
    listed = json.loads((folder / "clients.json").read_text())
    terms = Terms({name: read_public(folder / f"{name}.pub") for name in HELPERS})
    task = Task(tuple(map(str, range(classes))), samples, "none", "speed", clients=listed, secret=terms)
    key, total = HelperKey.read(folder / f"{helper}.key"), Encoding.of(task).nothing()
    known = names(FILES)
    add(Encoding.of(task).nothing(), known[0], folder / f"{known[0]}.fedol", task, key)  # imports, first touches
    start, before = time.perf_counter(), time.process_time()
    for number in range(count):
        name = known[number % FILES]
        add(total, name, folder / f"{name}.fedol", task, key)
    took, busy = time.perf_counter() - start, time.process_time() - before
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"seconds": took, "cpu": busy, "peak_mb": int(peak.split()[1]) / 1024}


def speed() -> Iterator[dict[str, Any]]:
    """Seconds, bytes and memory."""
    for (samples, classes), counts in SIZES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            task, spent = prepared(folder, samples, classes)
            (folder / "clients.json").write_text(json.dumps(dict(task.clients)))
            paths = [folder / f"{name}.fedol" for name in names(FILES)]
            size = paths[0].stat().st_size
            cold, warm = (min(reading(paths, cold) for _ in range(3)) for cold in (True, False))
            shared = {"samples": samples, "classes": classes, "bytes": size}
            wall, busy = (float(value) for value in np.median(spent, 0))
            yield {**shared, "who": "client", "seconds": wall, "cpu": busy}
            for helper in HELPERS:
                for count in counts:
                    asked = ["--work", str(folder), helper, str(count), str(samples), str(classes)]
                    done = subprocess.run(
                        [sys.executable, __file__, *asked], capture_output=True, text=True, check=True
                    )
                    found = json.loads(done.stdout)
                    each = found["cpu"] / count
                    yield {
                        **shared, "who": f"helper {helper}", "clients": count, **found, "cpu_each": each,
                        "reading_warm": warm, "reading_cold": cold, "speed_over_reading_cold": cold / each,
                    }  # fmt: skip


def encoding(clients: int, bits: int, samples: int, classes: int, cap: float = CAP) -> Encoding:
    terms = Terms(HELPERS, cap=cap)
    object.__setattr__(terms, "bits", bits)  # 12 and 20 bits are no widths of a file, but of a number
    return Encoding(terms, clients, samples, classes)


def in_secret(known: list[Knowledge], code: Encoding, seed: int) -> Any:
    """The server's targets from the sum of these clients."""
    total = code.nothing()
    for number, knowledge in enumerate(known):
        total.add(code.encode(knowledge, np.random.default_rng([seed, number])))
    return summed(code.decode(total, len(known))).targets(1, None)


def in_the_open(known: list[Knowledge]) -> Any:
    """Those from plain files."""
    return find("union").teacher(known, Distillation(method="union")).targets(1, None)


def federations(options: argparse.Namespace) -> Iterator[tuple[str, int, list[Knowledge], torch.Tensor]]:
    """Every federation's name and seed, its clients' knowledge, and the public labels that score."""
    skews, models = ("dirichlet:0.05", "dirichlet:0.3", "iid"), ("logistic", "forest")
    cases = [(Case("digits", skew), "logistic", 10) for skew in skews]
    cases += [
        (Case(data, skews[0]), model, 10) for data, model in (("digits", "forest"), ("fashion-mnist", "logistic"))
    ]
    cases += [(Case("digits", "iid"), "logistic", MANY)]
    cases += [(Case("digits", skew, "another domain"), model, 10) for skew in skews[:2] for model in models]
    for case, model, clients in cases:
        for seed in SEEDS:
            problem = case.problem(ROOT, seed)
            shares = partition(problem.private.y, case.partition, clients, seed, problem.classes)
            x, public = seen(problem.private, model), seen(problem.public, model)
            known = []
            for share in shares:
                one = fedol.OpenSet(problem.models[model])
                known.append(one.fit(x[share], problem.private.y[share], public, range(problem.classes)).knowledge())
            name = f"{case.data}, {case.partition}, {model}, {clients} clients"
            name += ", another domain" if case.public != "alike" else ""
            yield name, seed, known, torch.from_numpy(problem.public.y)
    for name, logits, truth in read(options.predictions):
        if name not in REAL:
            continue
        sizes = np.load(options.predictions / f"{name}.npz")["sizes"]
        known = []
        for one, size in zip(logits, sizes.tolist(), strict=True):
            knowledge = Knowledge.from_logits(one)
            mass = guessed_mass(knowledge.probabilities(), size / len(one))
            known.append(knowledge.with_mass(mass, size, 2))
        yield f"CIFAR-100, {name}, guessed masses", 0, known, truth


def loss(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Points lost by each width and each number of clients that a task admits."""
    for name, seed, known, truth in federations(options):
        plain = in_the_open(known)
        score = percent(plain.soft, truth)
        shared = {"federation": name, "seed": seed, "open": score, "familiarity": plain.record["familiarity"]}
        samples, classes = known[0].log_probs.shape
        elsewhere = plain.record["familiarity"] < STRANGE
        tight = TIGHT * float(np.mean([one.ratios.private for one in known if one.ratios])) / samples
        for bits in (24,) if elsewhere else WIDTHS:
            for admitted in (len(known),) if elsewhere else FEW if name.startswith("CIFAR") else ADMITTED:
                for cap, value in (("64", CAP), ("16 n_k / n_u", tight)):
                    code = encoding(admitted, bits, samples, classes, value)
                    if admitted < len(known) or not room(code):
                        continue
                    found = in_secret(known, code, seed)
                    yield {
                        **shared, "cap": cap, "bits": bits, "admitted": admitted,
                        "loss": score - percent(found.soft, truth),
                        "moved": 50 * (found.soft - plain.soft).abs().sum(1).mean().item(),
                        "steps_to_one": code.scale, "bytes": 16 + code.size * bits / 8,
                    }  # fmt: skip


def room(code: Encoding) -> bool:
    """Whether the ring holds so many clients at all."""
    try:
        return code.scale > 0
    except InputError:
        return False


def noise() -> Iterator[dict[str, Any]]:
    """Accuracy of many clients' sum at an ε that counts on most of them."""
    for seed in SEEDS:
        problem = Case("digits", "iid").problem(ROOT, seed)
        shares = partition(problem.private.y, "iid", MANY, seed, problem.classes)
        x, public = seen(problem.private, "logistic"), seen(problem.public, "logistic")
        truth = torch.from_numpy(problem.public.y)
        known = []
        for share in shares:
            one = fedol.OpenSet(LOGISTIC).fit(x[share], problem.private.y[share], public, range(problem.classes))
            known.append(one.knowledge())
        keys = dict.fromkeys((f"c{number}" for number in range(MANY)), "ab" * 32)
        classes = tuple(map(str, range(problem.classes)))
        for epsilon in (None, *EPSILONS):
            task = Task(classes, len(truth), "none", clients=keys, secret=Terms(HELPERS, bits=32, least=LEAST))
            if epsilon:
                task = calibrated(task, epsilon, 1e-5, NORM)
            found = in_secret(known, Encoding.of(task), seed)
            yield {"seed": seed, "epsilon": epsilon, "accuracy": percent(found.soft, truth)}


def over_seeds(rows: list[dict[str, Any]], keys: tuple[str, ...], value: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Mean and deviation of a value of all rows that share the keys."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row[value])
    return {key: summary_statistics(values) for key, values in found.items()}


def told(what: str, rows: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        print(what, *(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)
        found.append(row)
    return found


def main() -> None:
    """Measure, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("parts", nargs="*", help="what to measure; all of it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.work:
        folder, helper, *numbers = options.work
        print(json.dumps(work(Path(folder), helper, *map(int, numbers))))
        return
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "speed": speed, "width": lambda: loss(options), "noise": noise,
    }  # fmt: skip
    results = {name: told(name, part()) for name, part in parts.items() if name in (options.parts or parts)}
    width = [row for row in results.get("width", ()) if row["familiarity"] >= STRANGE]
    lines = [
        [cap, str(bits), str(admitted), f"{row['mean']:.3f}", f"{row['std'] or 0:.3f}", str(row["n"])]
        for (cap, bits, admitted), row in sorted(over_seeds(width, ("cap", "bits", "admitted"), "loss").items())
    ]
    table(["cap", "bits", "clients admitted", "points lost", "std", "n"], lines)
    if options.json:
        settings = {
            "seeds": list(SEEDS),
            "sizes": [[*size, *counts] for size, counts in SIZES.items()],
            "widths": WIDTHS,
            "admitted": ADMITTED,
        }
        write(options.json, seed=SEEDS[0], settings=settings, results=results)


if __name__ == "__main__":
    script(main)
