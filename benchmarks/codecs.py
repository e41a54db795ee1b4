"""Every codec on real predictions: bytes per client, and what it costs the server's two kinds of target.

    python benchmarks/codecs.py --json benchmarks/results/codecs.json

Ten clients' predictions on 5,000 CIFAR-100 images (100 classes) in each of four federations. A loss is the accuracy
with float32 minus the accuracy with the codec, in points; printed is the worst of all federations, and for Algorithm 1
the worst of the ten values of rho that the paper's iterations go through. "changed" is the worst share of labels
that differ at all: a codec can be lucky in its loss, but not in this. "log mean" is the mean of log-probabilities
(FedDF) and "pool" that of `fedol.core.pooling`: not FedOL's, but what other methods learn from, and what clipping
hurts. The "plain" rows are log-probabilities on a companded grid without the runner-up's exact gap: what
`fedol.knowledge.codecs` improves on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from federations import PREDICTIONS, read

from fedol.core.mixture import Mixture
from fedol.core.voting import Ballots, baseline_count
from fedol.knowledge import Knowledge, codecs
from fedol.knowledge.plain import Zstd
from fedol.methods.fedol_plus import gathered

NAMES = [
    *("float32", "float32+zstd", "float16", "float16+zstd", "q8c60+zstd", "q7c60", "q7c60+zstd", "q6c60+zstd"),
    *("q5c60+zstd", "q4c60+zstd", "q4c20+zstd", "q3c20+zstd", "q3c12+zstd", "q2c20+zstd"),
    *("top20+zstd", "top10", "top10+zstd", "top5+zstd"),
]
RHOS = [Fraction(iteration + 1, 20) for iteration in range(1, 11)]


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


def labels(clients: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the server would learn from these log-probabilities: a label per public image, -1 where none."""
    ballots, mixture = Ballots(), Mixture()
    for log_probs in clients:
        ballots.add(log_probs.softmax(1))
        mixture.add(log_probs.softmax(1))
    found = {"mixture": mixture.mean().argmax(1), "log mean": torch.stack(clients).mean(0).argmax(1)}
    found["pool"] = gathered(Knowledge.from_logits(log_probs) for log_probs in clients).pooled().soft.argmax(1)
    for rho in RHOS:
        found[f"Algorithm 1, rho {float(rho):g}"] = ballots.elect(baseline_count(rho, len(clients[0]))).labels
    return found


def accuracy(found: torch.Tensor, truth: torch.Tensor) -> float:
    """Percent of the labels given that are right."""
    return 100 * (found == truth)[found >= 0].double().mean().item()


def measure(codec: codecs.Codec, federations: dict[str, Any]) -> dict[str, Any]:
    """Sizes of all files of one codec, and per federation and target the accuracy, its loss and the labels changed."""
    sizes, targets = [], []
    for name, (clients, truth, reference) in federations.items():
        decoded = []
        for log_probs in clients:
            data = codec.encode(log_probs)
            sizes.append(len(data))
            decoded.append(torch.log_softmax(codec.decode(data, *log_probs.shape), 1))
        for target, found in labels(decoded).items():
            before = reference[target]
            targets.append(
                {
                    "federation": name,
                    "target": target,
                    "accuracy": accuracy(found, truth),
                    "loss": accuracy(before, truth) - accuracy(found, truth),
                    "changed": 100 * (found != before).double().mean().item(),
                }
            )
    kinds = {"mixture": "mixture", "algorithm_1": "Algorithm 1", "log_mean": "log mean", "pool": "pool"}
    worst = {
        kind: {what: max(t[what] for t in targets if t["target"].startswith(prefix)) for what in ("loss", "changed")}
        for kind, prefix in kinds.items()
    }
    return {
        "codec": codec.name,
        "bytes_mean": float(np.mean(sizes)),
        "bytes_largest": max(sizes),
        "worst": worst,
        "targets": targets,
    }


def main() -> None:
    """Run all codecs, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predictions", type=Path, default=PREDICTIONS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    federations = {}
    for name, logits, truth in read(options.predictions):
        clients = list(torch.log_softmax(logits, 2))
        federations[name] = (clients, truth, labels(clients))
    plain: list[codecs.Codec] = [Zstd(Plain(bits, root)) for bits, root in ((8, 2), (7, 3), (7, 2), (6, 3))]
    results = [measure(codec, federations) for codec in [*map(codecs.find, NAMES), *plain]]
    rows = [
        [
            found["codec"] + {codecs.DEFAULT: " (default)", codecs.SMALL: " (small)"}.get(found["codec"], ""),
            f"{found['bytes_mean']:,.0f}",
            f"{found['bytes_largest']:,}",
            *(
                f"{found['worst'][kind][what]:.2f}"
                for kind in ("mixture", "algorithm_1", "log_mean", "pool")
                for what in ("loss", "changed")
            ),
        ]
        for found in results
    ]
    print(f"{len(federations)} federations of 10 clients; points and percent, each the worst case.\n")
    table(
        [
            "codec",
            "mean bytes",
            "largest",
            "mixture loss",
            "changed %",
            "Alg. 1 loss",
            "changed %",
            "log mean",
            "chg %",
            "pool",
            "chg %",
        ],
        rows,
    )
    if options.json:
        write(options.json, seed=0, settings={"federations": list(federations), "zstd_level": 19}, results=results)


if __name__ == "__main__":
    script(main)
