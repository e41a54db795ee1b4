"""One training epoch of the server: our single soft target against the K-term KL sum of Eq. 7.

    python benchmarks/objective.py --json benchmarks/results/objective.json

All versions start from the same weights and see the same batches; they have the same gradient, so they must end at
the same weights up to rounding, which is printed. "terms" writes Eq. 7 as printed, one KL per client; "stacked" is
the same sum in one tensor operation per batch; "ours" trains against the target computed once beforehand,
which "50 epochs" (one iteration of the paper) includes.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from _record import script, seconds, table, write
from torch import Tensor, nn

from fedol.core.mixture import client_weights, soft_targets
from fedol.core.voting import pseudo_labels
from fedol.models import create

Loss = Callable[[Tensor, Tensor], Tensor]
"""(logits of a batch, its indices) to the loss."""

BATCH, TAU, RHO = 64, 0.2, 0.1
EPOCHS = 50  # per iteration in the paper: what the target, computed once, is spread over


def label_term(log_s: Tensor, labels: Tensor) -> Tensor:
    """The second term of Eq. 7: tau times the cross-entropy on the pseudo-labels, nothing where there is none."""
    return TAU * F.nll_loss(log_s, labels, ignore_index=-1, reduction="sum") / len(labels)


def losses(probs: Tensor) -> tuple[dict[str, Loss], float]:
    """The three forms of the objective, and the seconds it takes to compute our target."""
    labels = pseudo_labels(probs, RHO).labels
    weights = client_weights(probs)
    start = time.perf_counter()
    target = soft_targets(probs, labels, TAU)
    once = time.perf_counter() - start

    def ours(logits: Tensor, batch: Tensor) -> Tensor:
        return F.cross_entropy(logits, target[batch], reduction="sum") / len(batch)

    def terms(logits: Tensor, batch: Tensor) -> Tensor:
        log_s = logits.log_softmax(1)
        loss = label_term(log_s, labels[batch])
        for p, weight in zip(probs, weights, strict=True):
            kl = F.kl_div(log_s, p[batch], reduction="none").sum(1)
            loss = loss + (weight[batch] * kl).mean()
        return loss

    def stacked(logits: Tensor, batch: Tensor) -> Tensor:
        log_s = logits.log_softmax(1)
        p = probs[:, batch]
        kl = F.kl_div(log_s.expand_as(p), p, reduction="none").sum(2)
        return (weights[:, batch] * kl).sum(0).mean() + label_term(log_s, labels[batch])

    return {"ours": ours, "stacked": stacked, "terms": terms}, once


def epoch(server: nn.Module, images: Tensor, loss: Loss, seed: int) -> float:
    """Train one epoch with Adam; its seconds."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    optimizer = torch.optim.Adam(server.parameters(), 1e-3)
    start = time.perf_counter()
    for batch in order.split(BATCH):
        optimizer.zero_grad()
        loss(server(images[batch]), batch).backward()
        optimizer.step()
    return time.perf_counter() - start


def distance(a: nn.Module, b: nn.Module) -> float:
    """The largest difference between two models' parameters."""
    return max(float((p - q).detach().abs().max()) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def main() -> None:
    """Run all cells, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--model", default="cnn-large")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(options.seed)
    images = torch.randn(options.samples, 1, 8, 8, generator=generator)
    initial = create(options.model, classes=options.classes, shape=(1, 8, 8), width=options.width, seed=options.seed)
    print(
        f"One epoch of {options.model} (width {options.width}) on {options.samples:,} images 8x8, "
        f"{options.classes} classes, batch {BATCH}; median of {options.repeats}, one thread.\n"
    )
    results, rows = [], []
    for clients in options.clients:
        probs = (3 * torch.randn(clients, options.samples, options.classes, generator=generator)).softmax(2)
        forms, once = losses(probs)
        times: dict[str, list[float]] = {name: [] for name in forms}
        trained = {}
        for repeat in range(options.repeats + 1):  # the first one warms up; forms take turns, so drift hits all alike
            for name, loss in forms.items():
                server = copy.deepcopy(initial)
                spent = epoch(server, images, loss, options.seed)
                trained[name] = server
                if repeat > 0:
                    times[name].append(spent)
        median = {name: statistics.median(values) for name, values in times.items()}
        for name in forms:
            apart = distance(trained[name], trained["ours"])
            ratio = median[name] / median["ours"]
            iteration = EPOCHS * median[name] + (once if name == "ours" else 0.0)
            whole = iteration / (EPOCHS * median["ours"] + once)
            extra = seconds(once) if name == "ours" else "-"
            row = [str(clients), name, seconds(median[name]), f"{ratio:.3g}x", extra, f"{whole:.3g}x", f"{apart:.1e}"]
            rows.append(row)
            results.append(
                {
                    "clients": clients,
                    "form": name,
                    "epoch_seconds": median[name],
                    "epoch_seconds_measured": times[name],
                    "ratio_to_ours": ratio,
                    "ratio_to_ours_of_50_epochs_with_target": whole,
                    "target_seconds_once": once if name == "ours" else None,
                    "largest_weight_difference_to_ours": apart,
                }
            )
    table(["clients", "objective", "one epoch", "/ ours", "target, once", "/ ours, 50 epochs", "weights apart"], rows)
    few, many = min(options.clients), max(options.clients)
    print()
    for name in ("ours", "stacked", "terms"):
        a, b = (next(r for r in results if (r["form"], r["clients"]) == (name, k)) for k in (few, many))
        print(f"From {few} to {many} clients, {name}: epoch x{b['epoch_seconds'] / a['epoch_seconds']:.3g}.")
    if options.json:
        names = ("clients", "samples", "classes", "model", "width", "repeats")
        settings = {name: getattr(options, name) for name in names}
        settings |= {"batch": BATCH, "tau": TAU, "rho": RHO, "threads": 1}
        write(options.json, seed=options.seed, settings=settings, results=results)


if __name__ == "__main__":
    script(main)
