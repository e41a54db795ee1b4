"""FedAvg's round and a one-shot distillation by four engines, side by side on two CPU cores: seconds, memory, lines.

    python benchmarks/peers.py --python pfl_research=/tmp/pfl/bin/python --json benchmarks/results/peers.json

A plain loop in PyTorch, Flower's simulation engine, pfl-research and FedOL do the same: ten clients hold the same
digits, start from the same weights, and see the same batches in the same order. In the first work the server averages
their weights; in the second it learns the mean of their predictions on public images. The results must be the plain
loop's but for rounding, or this stops. What a user writes for each is a file in ``benchmarks/peers``. Every turn is a
process of its own, and one thread trains a model; "x1" and "x2" say how many are trained at once where that was chosen.

The start is everything until the clients' data are there: Python, imports, Ray. The work is the rest, Ray's end
included. Memory is the peak of the whole process tree, each shared page counted once (PSS). A run that was stopped
continues: finished turns are kept beside the record until it is written.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import tokenize
from dataclasses import replace
from pathlib import Path
from shutil import which
from statistics import median
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil
import torch
from _record import ROOT, script, table, write

from fedol.config import configure
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario
from fedol.runs.provenance import commit
from fedol.seeding import derive
from fedol.training import Job

FIGURES = ("start", "work", "total", "memory")  # seconds and bytes
FOLDER = Path(__file__).resolve().parent / "peers"
# Who takes part: the file of its user, and how many clients train at once.
PEERS = {
    "plain": ("plain", 1),
    "flower": ("flower", 2),
    "pfl_research": ("pfl_research", 1),
    "pfl_research x2": ("pfl_research", 2),
    "ours x1": ("ours", 1),
    "ours": ("ours", 2),
}
NEEDS = {"plain": "torch", "flower": "flwr,ray", "pfl_research": "pfl", "ours": "fedol"}
SHARED = {"clients": 10, "partition": "dirichlet:0.3", "batch_size": 32, "lr": 0.01, "optimiser": "sgd"}
# What is public is not trained on, and ours alone evaluates, on the development images: this keeps the work short.
FEDERATIONS: dict[str, dict[str, Any]] = {
    "digits": {**SHARED, "dataset": "digits", "public": 400, "development": 0, "epochs": 30},
    "fashion-mnist": {**SHARED, "dataset": "fashion-mnist", "public": 50_000, "development": 500, "epochs": 2},
}
TASKS = {"digits": ("fedavg", "distill"), "fashion-mnist": ("fedavg",)}
SEED = 0
CORES = 2
TOLERANCE = 1e-5  # of weights and of probabilities: float32's rounding makes some 1e-7 of it
PAUSE = 0.2  # seconds between two looks at the memory
PATIENCE = 300  # seconds that a turn may take
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def prepare(folder: Path, settings: dict[str, Any]) -> None:
    """Write what ``peers/work.py`` reads: the data and the order of the batches, as ``fedol.run`` has them."""
    here = Scenario(configure(overrides={**settings, "client_models": ("mlp",), "device": "cpu"}))
    epochs = range(1, here.config.epochs + 1)
    arrays = {"raw_public": here.public.array()}
    for k in range(here.config.clients):
        architecture = here.client(k)
        job = here.job(k, architecture)
        arrays[f"x{k}"], arrays[f"y{k}"] = _prepared(job), job.targets.numpy()
        arrays[f"orders{k}"] = np.stack([job.order(epoch).numpy() for epoch in epochs])
    server = replace(job, inputs=here.public, targets=torch.zeros(len(here.public)), seed=derive(SEED, "server", 1))
    arrays["public"] = _prepared(server)
    arrays["public_orders"] = np.stack([server.order(epoch).numpy() for epoch in epochs])
    np.savez(folder / "work.npz", **arrays)
    (folder / "work.json").write_text(json.dumps(settings))


def _prepared(job: Job) -> np.ndarray:
    """All of a job's samples as its model takes them."""
    (values,) = job.prepare.stream(job.inputs, [slice(None)], torch.device("cpu"))
    return values.contiguous().numpy()


def turn(peer: str, task: str, python: str, folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One turn in a new process: its figures, and what it found."""
    file, at_once = PEERS[peer]
    out, mark, log = (folder / f"turn.{end}" for end in ("npz", "mark", "log"))
    for path in (out, mark):
        path.unlink(missing_ok=True)
    threads = at_once if file == "ours" else 1  # which trains clients side by side on so many cores, each on one thread
    where = {**os.environ, **QUIET, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": f"{ROOT}{os.pathsep}{FOLDER}"}
    where |= {"PEERS_WORK": str(folder), "PEERS_MARK": str(mark), "PEERS_BEGINS": "model" if file == "ours" else "data"}
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={at_once}"]
    command = [python, *(several if file == "pfl_research" and at_once > 1 else []), str(FOLDER / "turn.py")]
    started = time.time()
    peaks, over = list[int](), Event()
    with open(log, "wb") as told:
        process = psutil.Popen([*command, file, task, str(out)], env=where, stdout=told, stderr=told)
        watcher = Thread(target=_watch, args=(process, over, peaks))
        watcher.start()
        try:
            process.wait(PATIENCE)
        except psutil.TimeoutExpired:
            log.write_text(f"It took longer than {PATIENCE} s.")
        finally:
            over.set()
            _end(process)
    ended = time.time()
    watcher.join()
    if process.returncode or not out.exists():
        last = log.read_text(errors="replace").strip()[-2000:]
        raise FedolError(f"{peer} did not finish {task} (exit code {process.returncode}). It last said:\n{last}")
    told = json.loads(out.with_suffix(".json").read_text())
    began, finished = float(mark.read_text()), told["finished"]
    figures = {"start": began - started, "work": finished - began, "total": ended - started, "memory": max(peaks)}
    return {**figures, "versions": told["versions"]}, dict(np.load(out))


def _watch(process: psutil.Popen, over: Event, peaks: list[int]) -> None:
    """Look again and again at the bytes that a process and its children have together."""
    while not over.wait(PAUSE):
        peaks.append(sum(map(_bytes, [process, *_children(process)])))


def _end(process: psutil.Popen) -> None:
    """Of a process that still runs, and of those that it started."""
    if process.returncode is None:
        for one in [*_children(process), process]:
            one.kill()
        process.wait()


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _bytes(process: psutil.Process) -> int:
    """Its share of memory; nothing of one that has just ended."""
    try:
        return process.memory_full_info().pss
    except (psutil.Error, OSError):
        return 0


def difference(found: dict[str, np.ndarray], plain: dict[str, np.ndarray], who: str) -> float:
    """The largest between a peer's numbers and the plain loop's; one beyond rounding stops everything."""
    if {name: value.shape for name, value in found.items()} != {name: value.shape for name, value in plain.items()}:
        raise FedolError(f"{who} found {sorted(found)}, but the plain loop {sorted(plain)}; they do not do the same.")
    gaps = {name: float(np.abs(found[name] - value).max()) for name, value in plain.items()}
    for name, gap in gaps.items():
        if not gap <= TOLERANCE:  # also where it is not a number
            raise FedolError(f"{who}: {name} differs from the plain loop's by {gap:.2g}, which is not rounding.")
    return max(gaps.values())


def lines(peer: str) -> int:
    """Of code in the peer's file, and in the loops if it imports them; without comments, docstrings and blank lines."""
    source = (FOLDER / f"{PEERS[peer][0]}.py").read_text(encoding="utf-8")
    return _lines(source) + (_lines((FOLDER / "loop.py").read_text(encoding="utf-8")) if "from loop" in source else 0)


def _lines(source: str) -> int:
    told = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def installed(peer: str, python: str) -> bool:
    """Whether a peer's packages are there for this Python; one that is missing is said and left out."""
    needs = NEEDS[PEERS[peer][0]]
    check = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(n) is None for n in '{needs}'.split(',')))"
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    there = which(python) is not None and subprocess.run([python, "-c", check], env=where).returncode == 0
    if not there:
        print(f"{peer} is left out: {python} has no {needs}; benchmarks/README.md says how to install it.", flush=True)
    return there


def run(folder: Path, peers: dict[str, str], settings: dict[str, Any], kept: Path | None) -> list[dict[str, Any]]:
    """All turns, in another order each time; ``kept`` has those of an earlier start, same commit and settings."""
    settings = {**settings, "commit": commit()}
    before = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    done = {(row["task"], row["repeat"], row["peer"]): row for row in before if row.pop("settings") == settings}
    rows = []
    for task in TASKS[settings["federation"]["dataset"]]:
        plain = None
        for repeat in range(settings["repeats"]):
            order = list(peers)[:: -1 if repeat % 2 else 1]
            for peer in order:  # the plain loop comes first of all, for the others are compared with it
                row = done.get((task, repeat, peer))
                if row is None or plain is None:
                    figures, found = turn(peer, task, peers[peer], folder)
                    plain = found if plain is None else plain
                    gap = difference(found, plain, f"{peer}, {task}")
                    row = {"task": task, "repeat": repeat, "peer": peer, **figures, "difference": gap}
                    row["load"] = os.getloadavg()[0]
                    if kept:
                        with open(kept, "a") as file:
                            file.write(json.dumps({**row, "settings": settings}) + "\n")
                print(f"{task} {repeat + 1}/{settings['repeats']} {peer}: {row['total']:.1f} s", flush=True)
                rows.append(row)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each task and peer the medians, and the medians of the ratios to the plain loop's turn of the same repeat."""
    plain = {(row["task"], row["repeat"]): row for row in rows if row["peer"] == "plain"}
    found = []
    for task, peer in dict.fromkeys((row["task"], row["peer"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["peer"]) == (task, peer)]
        found.append(
            {
                "task": task,
                "peer": peer,
                "n": len(mine),
                "at once": PEERS[peer][1],
                **{name: median(row[name] for row in mine) for name in FIGURES},
                "ratios": {
                    name: median(row[name] / plain[task, row["repeat"]][name] for row in mine) for name in FIGURES
                },
                "lines": lines(peer),
                "difference": max(row["difference"] for row in mine),
                "versions": mine[0]["versions"],
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="FILE=PYTHON", help="of one peer's file")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", choices=list(FEDERATIONS), default="digits")
    parser.add_argument("--epochs", type=int, help="default: those of the record")
    parser.add_argument("--only", help="of the peers, with commas between; plain always takes part")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pythons = dict(given.split("=", 1) for given in options.python)
    if unknown := set(pythons) - set(NEEDS):
        raise FedolError(f"There is no peer {', '.join(sorted(unknown))}; there are {', '.join(NEEDS)}.")
    wanted = set(options.only.split(",")) | {"plain"} if options.only else set(PEERS)
    if unknown := wanted - set(PEERS):
        raise FedolError(f"There is no peer {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}.")
    chosen = {peer: pythons.get(file, sys.executable) for peer, (file, _) in PEERS.items() if peer in wanted}
    peers = {peer: python for peer, python in chosen.items() if installed(peer, python)}
    federation = FEDERATIONS[options.data]
    federation = {**federation, "epochs": options.epochs or federation["epochs"]}
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)  # every turn inherits it
    settings = {"federation": federation, "cores": len(cores), "repeats": options.repeats}
    kept = options.json.with_suffix(".turns.jsonl") if options.json else None
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), federation)
        rows = run(Path(name), peers, settings, kept)
    found = summary(rows)
    columns = ["task", "peer", "start s", "work s", "ratio", "total s", "memory MB", "lines", "difference"]
    table(columns, [_row(row) for row in found])
    if options.json and kept:
        write(
            options.json,
            seed=SEED,
            settings={**settings, "tolerance": TOLERANCE},
            results={"summary": found, "turns": rows},
        )
        kept.unlink()


def _row(row: dict[str, Any]) -> list[str]:
    """Its cells."""
    numbers = [f"{value:.2f}" for value in (row["start"], row["work"], row["ratios"]["work"], row["total"])]
    return [
        row["task"],
        row["peer"],
        *numbers,
        f"{row['memory'] / 1e6:,.0f}",
        str(row["lines"]),
        f"{row['difference']:.0e}",
    ]


if __name__ == "__main__":
    script(main)
