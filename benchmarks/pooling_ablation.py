"""What each part of the pooling is worth: the target's accuracy on the public set without it, or with another choice.

    python benchmarks/pooling_ablation.py --json FILE
    python benchmarks/pooling_ablation.py --bench DIR --spec results/specs/9-dev64-average.json --data-dir DATA

The federations are those of ``pooling.py``, and with ``--bench`` also the uploads that a benchmark has left. Shown are
differences to the whole pooling, mean ± standard deviation over the federations; labels only score. The pooling is
written here a second time, with its choices as arguments, and checked to be ``fedol.core.pooling``'s where they are
its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from _record import script, table, write
from federations import read
from pooling import Case, add_sources, cases, percent, uploaded
from torch import Tensor

from fedol.core.pooling import TINY, balanced, estimate_prior, tempered
from fedol.core.voting import shannon
from fedol.methods.fedol_plus import gathered
from fedol.runs.evaluation import summary_statistics

SCENARIOS = ("balanced", "1:50 tail", "noise")
SEEDS = (8, 9, 10)


@dataclass(frozen=True)
class Choices:
    """The pooling's own."""

    exponent: float = 0.5  # of C² in the weights
    bound: float = 5.0  # 0: none
    own_scale: bool = True  # z in units of the client's spread
    offsets: str = "estimated"  # the prior that they balance to; or uniform, or none
    tempered_first: bool = True
    mixture: str = "√κ"  # its share; or κ, or none


WHOLE = Choices()
VARIANTS = {
    "all clients weigh the same on a class": replace(WHOLE, exponent=0.0),
    "weights C²^¼": replace(WHOLE, exponent=0.25),
    "weights C²^¾": replace(WHOLE, exponent=0.75),
    "weights C²": replace(WHOLE, exponent=1.0),
    "no bound": replace(WHOLE, bound=0.0),
    "no bound, no scale of one's own": replace(WHOLE, bound=0.0, own_scale=False),
    "no offsets": replace(WHOLE, offsets="none"),
    "offsets to a uniform prior": replace(WHOLE, offsets="uniform"),
    "balanced before it is tempered": replace(WHOLE, tempered_first=False),
    "no mixture": replace(WHOLE, mixture="none"),
    "mixture by κ": replace(WHOLE, mixture="κ"),
}


class Sums:
    """What all variants share of one case."""

    def __init__(self, case: Case) -> None:
        known, self.truth = case
        pool = gathered(known)
        self.pooled, self.reliability = pool.pooled().soft, pool.reliability()
        _, self.standard, self.mixture = pool._sums()
        self.log_p = [torch.log_softmax(client.log_probs.double(), 1) for client in known]

    def target(self, choices: Choices) -> Tensor:
        """The pool's target under other choices."""
        nats = shannon(self.mixture).mean().item()
        scores, total = torch.zeros_like(self.mixture), torch.zeros_like(self.mixture[0])
        for log_p in self.log_p:
            weight = log_p.exp().mean(0) ** choices.exponent
            z = log_p - log_p.mean(1, keepdim=True)
            z = z / z.square().mean().sqrt().clamp_min(TINY) if choices.own_scale else z
            scores += weight * (choices.bound * torch.tanh(z / choices.bound) if choices.bound else z)
            total += weight
        scores /= total
        scores = tempered(scores, nats) if choices.tempered_first else scores
        if choices.offsets != "none":
            uniform = torch.full_like(total, 1 / len(total))
            estimated = choices.offsets == "estimated"
            scores = balanced(scores, estimate_prior(self.standard, self.mixture) if estimated else uniform)
        share = {"√κ": self.reliability, "κ": self.reliability**2, "none": 0.0}[choices.mixture]
        blend = torch.lerp(torch.softmax(tempered(scores, nats), 1), self.mixture, share)
        return torch.softmax(tempered(blend.clamp_min(TINY).log(), nats), 1)


def differences(logits: Tensor, labels: Tensor) -> Iterator[tuple[str, str, float]]:
    """(scenario, variant, points above the whole pooling), of every draw."""
    for scenario, _, case in cases(logits, labels, SEEDS):
        if scenario in SCENARIOS:
            sums = Sums(case)
            whole = sums.target(WHOLE)
            assert torch.allclose(whole, sums.pooled, atol=1e-9), "this is not fedol.core.pooling any more"
            right = percent(whole.argmax(1) == sums.truth)
            for name, choices in VARIANTS.items():
                yield scenario, name, percent(sums.target(choices).argmax(1) == sums.truth) - right


def main() -> None:
    """Score everything, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_sources(parser)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    federations = list(read(options.predictions))
    if options.bench:
        federations += list(uploaded(options))
    found: dict[tuple[str, str], list[float]] = {}  # a mean over draws for each federation
    for name, logits, labels in federations:
        draws: dict[tuple[str, str], list[float]] = {}
        for scenario, variant, points in differences(logits, labels):
            draws.setdefault((scenario, variant), []).append(points)
        for key, points_of in draws.items():
            found.setdefault(key, []).append(sum(points_of) / len(points_of))
        print(name, flush=True)
    results: list[dict[str, Any]] = [
        {"scenario": s, "variant": v, **summary_statistics(values), "values": values}
        for (s, v), values in found.items()
    ]
    cell = {(r["scenario"], r["variant"]): r for r in results}
    table(
        ["", *SCENARIOS],
        [[v, *(f"{cell[s, v]['mean']:+.1f} ± {cell[s, v]['std']:.1f}" for s in SCENARIOS)] for v in VARIANTS],
    )
    if options.json:
        settings = {"seeds": SEEDS, "federations": [name for name, _, _ in federations], "whole": asdict(WHOLE)}
        write(options.json, seed=SEEDS[0], settings=settings, results=results)


if __name__ == "__main__":
    script(main)
