"""A thousand clients on one machine: validation, voting and targets, one client's file in memory at a time.

    python benchmarks/scale.py --json benchmarks/results/scale.json

For each K it writes K knowledge files (50,000 images x 100 classes, small codec), then in a process of its own takes
them from an inbox into a run as `fedol serve` does, hears them as FedOL does, and votes. Time is without making the
files; memory is the peak resident size. What stays per client is its ballot, 6 bytes per image (the vote needs every
model's rank and class): "flat" is meant beside the K x N x C x 4 bytes that holding all predictions would take. The
share of memory bandwidth counts the bytes that must move at least once (file read, copied, read again, float32
predictions written and read) against a copy of a large array on the same machine; of the disk likewise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _record import script, seconds, table, write

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


def cell(folder: str, clients: int, samples: int, classes: int) -> dict[str, Any]:
    """Validate, hear and vote in this process; seconds of each and the peak memory."""
    import torch

    from fedol.federation.roster import Roster
    from fedol.federation.transports import Inbox
    from fedol.knowledge.upload import knowledge_files
    from fedol.methods import Distillation
    from fedol.methods.fedol import FedOL

    torch.set_num_threads(1)
    path, task = Path(folder), make_task(samples, classes)
    before, start = peak_bytes(), time.perf_counter()
    roster = Inbox(path / "inbox").scan(Roster(0.0), task, path / "run" / "clients", path / "run" / "roster.json")
    assert len(roster.clients) == clients, roster.refused
    validated = time.perf_counter()
    teacher = FedOL(
        knowledge_files([path / "run" / "clients" / f"{name}.fedol" for name in roster.clients], task), Distillation()
    )
    heard = time.perf_counter()
    targets = teacher.targets(1, None)
    assert targets.soft.shape == (samples, classes)
    end = time.perf_counter()
    return {
        "clients": clients,
        "file_bytes_mean": float(np.mean([arrival.bytes for arrival in roster.clients.values()])),
        "seconds": {"validate": validated - start, "hear": heard - validated, "vote": end - heard, "all": end - start},
        "peak_bytes": peak_bytes(),
        "peak_bytes_above_start": peak_bytes() - before,
    }


def peak_bytes() -> int:
    """The peak resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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


def main() -> None:
    """Run every K, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where the files go for the time being; a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(cell(**json.loads(options.cell))))
        return
    from fedol.knowledge.codecs import SMALL

    settings = {"samples": options.samples, "classes": options.classes, "codec": SMALL}
    results = []
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        speed = bandwidth(Path(scratch))
        for clients in options.clients:
            folder = Path(scratch) / str(clients)
            start = time.perf_counter()
            make_files(folder / "inbox", clients, options.samples, options.classes, SMALL)
            print(f"{clients:,} files made in {seconds(time.perf_counter() - start)}", file=sys.stderr)
            task = {key: settings[key] for key in ("samples", "classes")} | {"folder": str(folder), "clients": clients}
            command = [sys.executable, __file__, "--cell", json.dumps(task)]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            shutil.rmtree(folder)
            files, dense = found["file_bytes_mean"] * clients, 4.0 * clients * options.samples * options.classes
            found["bytes_of_all_predictions"] = dense
            found["share_of_memory_bandwidth"] = (4 * files + 2 * dense) / found["seconds"]["all"] / speed["memory"]
            found["share_of_disk_bandwidth"] = files / found["seconds"]["validate"] / speed["disk_write"]
            results.append(found)
    rows = [
        [
            f"{r['clients']:,}",
            f"{r['file_bytes_mean']:,.0f}",
            *(seconds(r["seconds"][stage]) for stage in ("validate", "hear", "vote", "all")),
            seconds(r["seconds"]["all"] / r["clients"]),
            f"{r['peak_bytes'] / 2**20:,.0f} MiB",
            f"{r['bytes_of_all_predictions'] / 2**20:,.0f} MiB",
            f"{r['share_of_memory_bandwidth']:.1%}",
            f"{r['share_of_disk_bandwidth']:.1%}",
        ]
        for r in results
    ]
    columns = ["clients", "bytes/file", "validate", "hear", "vote", "all", "per client", "peak", "all predictions"]
    table([*columns, "of memory", "of disk"], rows)
    few, many = results[0], results[-1]
    growth = [many["seconds"]["all"] / few["seconds"]["all"], many["peak_bytes"] / few["peak_bytes"]]
    print(f"\nFrom {few['clients']} to {many['clients']} clients: time x{growth[0]:.1f}, memory x{growth[1]:.2f}.")
    if options.json:
        write(options.json, seed=0, settings=settings | {"threads": 1, "bandwidth": speed}, results=results)


if __name__ == "__main__":
    script(main)
