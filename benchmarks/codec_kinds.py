"""The default codec on answers of every kind of client: what it breaks, and whether another codec would be smaller.

    python benchmarks/codec_kinds.py --json benchmarks/results/codec-kinds.json

``_answers.py`` makes them: estimators on tables, texts and digits, nets, findings, few classes, and answers made hard,
by ten clients on 200 samples and on CIFAR-100, by five on 2,000, four hospitals, and two on more.
Faults were looked for, and mended, on seed 160. The lattice's constants were set on CIFAR-100's nets.

A row is a federation, its worst client. "nats" is the mean divergence of a file's predictions; "agree" the share of
samples that keep their class, of those whose two likeliest classes differ by more than 0.05; "heard" by how much the
share of samples grows on which Algorithm 1 hears the client, whichever they are, at the worst rho, and "unheard" by how
much it shrinks; "mass" the root mean square error of log masses in nats; "size" the file over the smallest of the other
codecs that loses no more, is wrong of no more classes, and is heard on no more samples; "loss" what the mixture,
Algorithm 1, the pool and the union lose at worst, in points of what their targets have right.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from _answers import Federation, all_kinds
from _record import ROOT, script, table, write
from _targets import accuracy, labels
from federations import PREDICTIONS

from fedol.errors import InputError
from fedol.knowledge import Knowledge, codecs
from fedol.knowledge.lattice import Lattice, described, divergence, heard

OTHERS = ("float16", "q7c60", "q5c60", "q4c20", "q3c20", "q2c20", "top10", "top5", "top1")
MARGIN = 0.05
HEARD = ("heard", "unheard")
LIMITS = {"agree": 0.98, "heard": 0.04, "unheard": 0.04, "size": 1.1, "mass": 0.64, "encode": 1.0, "decode": 0.05}
Clients = list[Knowledge]


def compared(sent: Knowledge, logits: torch.Tensor, log_mass: torch.Tensor | None) -> dict[str, float]:
    """What was lost between a client's knowledge and what is read of it."""
    read = Knowledge.from_logits(logits)
    before = sent.probabilities()
    top = before.topk(2, 1).values
    clear = top[:, 0] - top[:, 1] > MARGIN
    same = (sent.log_probs.argmax(1) == read.log_probs.argmax(1))[clear]
    more = (heard(read.log_probs) - heard(sent.log_probs)).double() / len(before)
    found = {"nats": divergence(sent.log_probs, logits), "agree": float(same.double().mean()) if len(same) else 1.0}
    found |= {"heard": float(more.max()), "unheard": -float(more.min())}
    if sent.log_mass is not None and log_mass is not None:
        found["mass"] = float((log_mass - sent.log_mass).double().square().mean().sqrt())
    return found


def one_file(sent: Knowledge) -> tuple[dict[str, Any], Knowledge]:
    """A client's file by the default codec, beside the others; and what is read of it."""
    codec, shape = codecs.find(codecs.DEFAULT), sent.log_probs.shape
    assert isinstance(codec, Lattice)
    start = time.process_time()
    body = codecs.pack(codec, sent.log_probs, sent.log_mass)
    packed = time.process_time()
    logits, mass = codecs.unpack(codec, body, *shape, has_masses=sent.log_mass is not None)
    seconds = {"encode": packed - start, "decode": time.process_time() - packed}
    found: dict[str, Any] = {"bytes": len(body), **compared(sent, logits, mass), **seconds, **described(body)}
    sizes = {}
    for name in OTHERS:
        other = codecs.find(f"{name}+zstd")
        theirs = codecs.pack(other, sent.log_probs, sent.log_mass)
        lost = compared(sent, codecs.unpack(other, theirs, *shape, has_masses=sent.log_mass is not None)[0], None)
        worse = lost["agree"] < found["agree"] or any(lost[name] > max(found[name], 0.02) for name in HEARD)
        if lost["nats"] <= max(found["nats"], 1e-5) and not worse:
            sizes[name] = len(theirs)
    if sizes:
        best = min(sizes, key=lambda name: sizes[name])
        found |= {"other": best, "size": len(body) / sizes[best]}
    read = Knowledge.from_logits(logits)
    return found, read if mass is None else read.with_mass(mass)


def measure(federation: Federation) -> dict[str, Any]:
    """Every file, the worst of each number, and what targets lose."""
    pairs = [one_file(client) for client in federation.clients]
    files, clients = [found for found, _ in pairs], [read for _, read in pairs]
    before, after, truth = labels(federation.clients), labels(clients), federation.truth
    losses = {
        name: accuracy(before[name], truth) - accuracy(after[name], truth)
        for name in before
        if (before[name] >= 0).any() and (after[name] >= 0).any()
    }
    worst = {"nats": max(file["nats"] for file in files), "agree": min(file["agree"] for file in files)}
    for name in (*HEARD, "mass", "size", "encode", "decode"):
        worst[name] = max((file[name] for file in files if name in file), default=0.0)
    worst["loss"] = max(losses.values())
    samples, classes = federation.clients[0].log_probs.shape
    return {
        "federation": federation.name,
        "samples": samples,
        "classes": classes,
        "masses": federation.clients[0].log_mass is not None,
        "worst": worst,
        "faults": faults(worst, samples * classes),
        "losses": losses,
        "files": files,
    }


def faults(worst: dict[str, float], values: int) -> list[str]:
    """Which limits are passed; those of seconds are for half a million values."""
    found = ["nats"] if worst["nats"] > 0.02 + 1e-6 else []
    for name, limit in LIMITS.items():
        most = limit * max(1, values / 500_000) if name in ("encode", "decode") else limit
        if worst[name] < limit if name == "agree" else worst[name] > most:
            found.append(name)
    return found


def row(found: dict[str, Any]) -> list[str]:
    """As a line of the table."""
    worst, sizes = found["worst"], [file["bytes"] for file in found["files"]]
    shape = f"{found['samples']} x {found['classes']}"
    numbers = [f"{worst['nats']:.4f}", f"{100 * worst['agree']:.1f}", f"{100 * worst['heard']:.1f}"]
    numbers += [f"{100 * worst['unheard']:.1f}"]
    numbers += [f"{worst['mass']:.2f}" if found["masses"] else "", f"{worst['size']:.2f}", f"{worst['loss']:.2f}"]
    numbers += [f"{worst['encode']:.2f}", f"{worst['decode']:.3f}"]
    return [found["federation"], shape, f"{max(sizes):,}", *numbers, " ".join(found["faults"])]


def main() -> None:
    """Go through all kinds, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "real", help="tables and texts")
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--seed", type=int, default=70)
    parser.add_argument("--only", default="", help="federations whose name has this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for folder in (options.data, options.predictions):
        if not folder.is_dir():
            raise InputError(f"There are no data in {folder}; say with --data and --predictions where they are.")
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for federation in all_kinds(options.data, options.predictions, options.seed):
        if options.only in federation.name:
            results.append(measure(federation))
            print(*row(results[-1]), sep=" | ", flush=True)
            if options.json:
                settings = {"codec": codecs.DEFAULT, "others": OTHERS, "limits": LIMITS}
                write(options.json, seed=options.seed, settings=settings, results=results)
    head = ["federation", "samples", "largest file", "nats", "agree %", "heard %", "unheard %", "mass", "size", "loss"]
    table([*head, "encode s", "decode s", "faults"], [row(found) for found in results])


if __name__ == "__main__":
    script(main)
