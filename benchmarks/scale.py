"""A thousand clients on one machine: validation, voting and targets, one client's file in memory at a time.

    git worktree add /tmp/before COMMIT
    python benchmarks/scale.py --before /tmp/before --json benchmarks/results/scale.json

For each K it writes K knowledge files (50,000 images x 100 classes, small codec), then in a process of its own takes
them from an inbox into a run as `fedol serve` does, hears them as FedOL does, and votes. Time is without making the
files; memory is the peak resident size. What stays per client is its ballot, 6 bytes per image (the vote needs every
model's rank and class): "flat" is meant beside the K x N x C x 4 bytes that holding all predictions would take. The
share of memory bandwidth counts the bytes that must move at least once (file read, copied, read again, float32
predictions written and read) against a copy of a large array on the same machine; of the disk likewise. Then it screens
clients that are made up, of whom each is freed before the next: what stays of one is its class, its order and its
weights, 12 bytes per image.

With another version's working tree each cell is run by both, one after the other, and both must give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _record import ROOT, script, seconds, table, write

STAGES = "validate", "hear", "vote"
SCREENED = (20, 100, 200), 20_000, 50  # clients, samples, classes
DISTINCT = 8  # models whose predictions are drawn; the others are these with the samples rotated


def make_files(inbox: Path, clients: int, samples: int, classes: int, codec: str) -> None:
    """Files of ``clients`` different clients. Drawing and packing each would take an hour: some are rotations."""
    import torch
    import zstandard

    from fedol.knowledge.codecs import find
    from fedol.knowledge.container import Container
    from fedol.knowledge.header import Header
    from fedol.knowledge.plain import Zstd

    task = make_task(samples, classes)
    packed = find(codec)
    assert isinstance(packed, Zstd)
    labels = torch.randint(classes, (samples, 1), generator=torch.Generator().manual_seed(0))
    plain = []
    for model in range(min(DISTINCT, clients)):
        noise = torch.randn(samples, classes, generator=torch.Generator().manual_seed(1 + model))
        logits = (3 * noise).scatter_add_(1, labels, torch.full((samples, 1), 3.0 + model / 4))
        data = np.frombuffer(packed.inner.encode(torch.log_softmax(logits, 1)), np.uint8)
        plain.append(data.reshape(classes + 2, samples))  # every row of it runs over the samples
    compressor = zstandard.ZstdCompressor(level=1)
    inbox.mkdir(parents=True)
    for client in range(clients):
        rows = np.roll(plain[client % DISTINCT], client // DISTINCT, axis=1)
        header = Header(task.ref, samples, classes, f"client-{client:04d}", codec)
        data = Container(header.as_json(), compressor.compress(rows.tobytes())).pack()
        (inbox / f"{header.client}.fedol").write_bytes(data)


def make_task(samples: int, classes: int) -> Any:
    from fedol import Task

    return Task(tuple(f"class {c}" for c in range(classes)), samples, "0" * 64, "scale")


def cell(folder: str, clients: int, samples: int, classes: int, code: str) -> dict[str, Any]:
    """Validate, hear and vote in this process by the code that it imports; seconds of each and the peak memory."""
    from fedol.federation.roster import Roster
    from fedol.federation.transports import Inbox
    from fedol.methods import Distillation
    from fedol.methods.fedol import FedOL

    try:
        from fedol.knowledge.ahead import knowledge_files
    except ImportError:  # where versions to compare with have it
        from fedol.knowledge.upload import knowledge_files

    path, task = Path(folder), make_task(samples, classes)
    before, times = peak_bytes(), [clocks()]
    for roster in Inbox(path / "inbox").scan(Roster(0.0), task, path / "run" / "clients"):  # noqa: B007
        pass
    assert len(roster.clients) == clients, roster.refused
    times.append(clocks())
    teacher = FedOL(
        knowledge_files([path / "run" / "clients" / f"{name}.fedol" for name in roster.clients], task), Distillation()
    )
    times.append(clocks())
    targets = teacher.targets(1, None)
    assert targets.soft.shape == (samples, classes)
    times.append(clocks())
    wall, cpu = ({**dict(zip(STAGES, np.diff(clock).tolist(), strict=True)), "all": clock[-1] - clock[0]}
                 for clock in zip(*times, strict=True))  # fmt: skip
    return {
        "code": code,
        "targets": hashlib.sha256(targets.soft.numpy().tobytes()).hexdigest(),
        "cpu": cpu,
        "clients": clients,
        "file_bytes_mean": float(np.mean([arrival.bytes for arrival in roster.clients.values()])),
        "seconds": wall,
        "peak_bytes": peak_bytes(),
        "peak_bytes_above_start": peak_bytes() - before,
    }


def screened(clients: int, samples: int, classes: int, code: str) -> dict[str, Any]:
    """Screen clients that are made one after the other, in this process; its verdict and the peak memory."""
    import torch

    from fedol import Knowledge
    from fedol.robust import screen

    truth = 2 * torch.randn(samples, classes, generator=torch.Generator().manual_seed(0))

    def known() -> Iterator[Knowledge]:
        for client in range(clients):
            own = torch.randn(samples, classes, generator=torch.Generator().manual_seed(1 + client))
            yield Knowledge.from_logits(truth + 1.5 * own, client=f"client-{client:04d}")

    next(known())
    before, start = peak_bytes(), clocks()
    verdict = json.dumps(screen(known()).as_json())
    wall, cpu = (end - begin for begin, end in zip(start, clocks(), strict=True))
    return {
        "code": code, "clients": clients, "verdict": hashlib.sha256(verdict.encode()).hexdigest(), "seconds": wall,
        "cpu": cpu, "peak_bytes": peak_bytes(), "peak_bytes_above_start": peak_bytes() - before,
    }  # fmt: skip


def clocks() -> tuple[float, float]:
    """Now, and the CPU time that all threads of this process have had."""
    return time.perf_counter(), time.process_time()


def peak_bytes() -> int:
    """The peak resident size of this process so far; getrusage would give that of whoever started it, if larger."""
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def bandwidth(folder: Path) -> dict[str, float]:
    """Bytes per second of copying a large array in memory (read and write counted) and of reading a fresh file."""
    source = np.ones(1 << 27, np.uint8)
    target = np.empty_like(source)
    np.copyto(target, source)
    start = time.perf_counter()
    for _ in range(4):
        np.copyto(target, source)
    memory = 4 * 2 * source.nbytes / (time.perf_counter() - start)
    file = folder / "bandwidth"
    start = time.perf_counter()
    with open(file, "wb") as stream:
        stream.write(source)
        stream.flush()
        os.fsync(stream.fileno())
    disk = source.nbytes / (time.perf_counter() - start)
    file.unlink()
    return {"memory": memory, "disk_write": disk}


def apart(tree: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """A cell in a process of its own, with the code of a working tree."""
    command, environment = (
        [sys.executable, __file__, "--cell", json.dumps(asked)],
        {**os.environ, "PYTHONPATH": str(tree)},
    )
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Run every K, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the files go for the time being; a temporary folder")
    parser.add_argument("--before", type=Path, help="another version's working tree, to compare with")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        asked = json.loads(options.cell)
        print(json.dumps((cell if "folder" in asked else screened)(**asked)))
        return
    from fedol.knowledge.codecs import SMALL

    settings = {"samples": options.samples, "classes": options.classes, "codec": SMALL}
    trees = {"now": ROOT} if options.before is None else {"before": options.before.resolve(), "now": ROOT}
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        speed = bandwidth(Path(scratch))
        for clients in options.clients:
            folder = Path(scratch) / str(clients)
            start = time.perf_counter()
            make_files(folder / "inbox", clients, options.samples, options.classes, SMALL)
            print(f"{clients:,} files made in {seconds(time.perf_counter() - start)}", file=sys.stderr)
            task = {key: settings[key] for key in ("samples", "classes")} | {"folder": str(folder), "clients": clients}
            for code, tree in trees.items():
                found = apart(tree, {**task, "code": code})
                shutil.rmtree(folder / "run")
                files, dense = found["file_bytes_mean"] * clients, 4.0 * clients * options.samples * options.classes
                found["bytes_of_all_predictions"] = dense
                found["share_of_memory_bandwidth"] = (4 * files + 2 * dense) / found["seconds"]["all"] / speed["memory"]
                found["share_of_disk_bandwidth"] = files / found["seconds"]["validate"] / speed["disk_write"]
                results.append(found)
            shutil.rmtree(folder)
    judged = [
        apart(tree, {"clients": clients, "samples": SCREENED[1], "classes": SCREENED[2], "code": code})
        for clients in SCREENED[0]
        for code, tree in trees.items()
    ]
    rows = [
        [
            f"{r['clients']:,}",
            r["code"],
            f"{r['file_bytes_mean']:,.0f}",
            *(seconds(r["seconds"][stage]) for stage in ("validate", "hear", "vote", "all")),
            seconds(r["seconds"]["all"] / r["clients"]),
            *(seconds(r["cpu"][stage] / r["clients"]) for stage in STAGES[:2]),
            f"{r['peak_bytes'] / 2**20:,.0f} MiB",
            f"{r['bytes_of_all_predictions'] / 2**20:,.0f} MiB",
            f"{r['share_of_memory_bandwidth']:.1%}",
            f"{r['share_of_disk_bandwidth']:.1%}",
        ]
        for r in results
    ]
    columns = ["clients", "code", "bytes/file", "validate", "hear", "vote", "all", "a client"]
    columns += ["validating, CPU", "hearing, CPU", "peak", "all predictions"]
    table([*columns, "of memory", "of disk"], rows)
    for clients in options.clients if options.before else ():
        old, new = (r for r in results if r["clients"] == clients)
        assert old["targets"] == new["targets"], "the two versions' targets differ"
        faster = old["seconds"]["all"] / new["seconds"]["all"], old["cpu"]["all"] / new["cpu"]["all"]
        print(f"{clients:,} clients: the same targets to the last bit, {faster[0]:.2f} times as fast, "
              f"with 1/{faster[1]:.2f} of the CPU time.")  # fmt: skip
    for clients in SCREENED[0]:
        found = [r for r in judged if r["clients"] == clients]
        assert len({r["verdict"] for r in found}) == 1, "the two versions' verdicts differ"
        grown = ", ".join(f"{r['code']} {r['peak_bytes_above_start'] / 2**20:,.0f} MiB" for r in found)
        print(f"Screening {clients:,} clients takes beyond the start: {grown}.")
    few, many = results[len(trees) - 1], results[-1]
    growth = [many["seconds"]["all"] / few["seconds"]["all"], many["peak_bytes"] / few["peak_bytes"]]
    print(f"\nFrom {few['clients']} to {many['clients']} clients: time x{growth[0]:.1f}, memory x{growth[1]:.2f}.")
    if options.json:
        write(
            options.json,
            seed=0,
            settings=settings | {"bandwidth": speed},
            results={"hearing": results, "screening": judged},
        )


if __name__ == "__main__":
    script(main)
