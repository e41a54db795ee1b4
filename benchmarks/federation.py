"""What Flower costs over the in-process run: seconds, and bytes on the wire against the payload, for trivial clients.

    python benchmarks/federation.py --json benchmarks/results/federation.json

The same job with K clients (an mlp, one epoch on a few digits; mixture, one iteration) in this process and as Flower
nodes on Ray, each in a process of its own; the results must be equal to the byte. On the wire: the size of the messages
as Flower sends them (`Message` with its content, serialised) against the knowledge files inside, for the reply of a
deployed node; what TLS and HTTP add to each request is not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _record import seconds, table, write

JOB = {"partition": "iid", "public": 100, "client_models": "mlp", "server_model": "mlp", "width": 4, "device": "cpu"}
JOB |= {"epochs": 1, "method": "mixture", "iterations": 1}


def run(engine: str, clients: int, out: Path) -> float:
    """Wall seconds of one run in a new process, imports and start of the engine included."""
    options = [f"--{key.replace('_', '-')}={value}" for key, value in {**JOB, "clients": clients}.items()]
    command = [sys.executable, "-m", "fedol", "run", *options, "--engine", engine, "--out", str(out), "--json"]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def on_the_wire(files: list[Path]) -> dict[str, float]:
    """Bytes of question and reply as Flower sends them, and of the knowledge inside."""
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.task_identity import TaskIdentity

    from fedol.federation.flower.exchange import pack

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def size(content: Any) -> int:
        message = Message(pack(content), 1, "train")
        return sum(len(item.deflate()) for item in get_all_nested_objects(message).values())

    question = size({"task": "0" * 16, "public": "0" * 64})
    replies = [size({"client": file.stem, "knowledge": file.read_bytes()}) for file in files]
    payload = statistics.mean(file.stat().st_size for file in files)
    return {"payload": payload, "reply": statistics.mean(replies), "question": question}


def main() -> None:
    """Run every K, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for clients in options.clients:
            took: dict[str, list[float]] = {"process": [], "flower": []}
            for repeat in range(options.repeats):
                outs = {engine: Path(scratch) / f"{engine}-{clients}-{repeat}" for engine in took}
                for engine, out in outs.items():
                    took[engine].append(run(engine, clients, out))
                one, two = ((out / "model.safetensors").read_bytes() for out in outs.values())
                assert one == two, "the engines differ"
            median = {engine: statistics.median(times) for engine, times in took.items()}
            wire = on_the_wire(sorted(outs["flower"].glob("clients/*.fedol")))
            load = os.getloadavg()[1]  # of the last five minutes: other work on the machine is in every second here
            results.append(
                {"clients": clients, "seconds": took, "median": median, "bytes_per_client": wire, "load": load}
            )
    rows = [
        [
            str(r["clients"]),
            seconds(r["median"]["process"]),
            seconds(r["median"]["flower"]),
            seconds(r["median"]["flower"] - r["median"]["process"]),
            f"{r['bytes_per_client']['payload']:,.0f}",
            f"{r['bytes_per_client']['reply']:,.0f}",
            f"{r['bytes_per_client']['question']:,.0f}",
            f"{r['load']:.1f}",
        ]
        for r in results
    ]
    table(["clients", "in process", "on Flower", "overhead", "payload", "reply", "question", "load"], rows)
    if options.json:
        write(
            options.json,
            seed=0,
            settings={"job": JOB, "repeats": options.repeats},
            results=json.loads(json.dumps(results)),
        )


if __name__ == "__main__":
    main()
