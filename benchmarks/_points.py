"""Whole points that prose quotes, ``13 to 19``: made from the records, like the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import mean

from _best_tables import AS_BEST, FEDOL_64, cells, fits
from _published import (
    FEDOL,
    FOUR,
    HARD,
    PARTITIONS,
    PLUS,
    POOL,
    Seeds,
    above,
    accuracies,
    found,
    lead,
    name,
    paper_fedol,
    papers,
    shares,
    small,
)
from _union_tables import IMAGES
from _union_tables import cases as cases_of_union
from _union_tables import of as union_values

from fedol.methods import ENSEMBLE


def percent(values: Iterable[float]) -> float:
    """The mean of shares."""
    return 100 * mean(values)


def best(partition: str) -> list[float]:
    """Accuracies of the preset, a seed each."""
    return shares(found("best", lambda s: s["method"] == "pooled")[POOL][partition])


def best_above_the_paper() -> list[float]:
    """By partition."""
    return [percent(best(p)) - 100 * paper_fedol(p) for p in PARTITIONS]


def best_above_fedol() -> list[float]:
    """FedOL trained in the same way, on held-out images."""
    points = above(accuracies("dev64", **AS_BEST), accuracies("dev64", **FEDOL_64))
    return [mean(value for (partition, _), value in points.items() if partition == p) for p in HARD]


def best_below_its_pool() -> list[float]:
    """The ensemble of the clients that taught it."""
    ensembles = found("best", lambda s: True)[name(ENSEMBLE)]
    return [percent(c["ensembles"]["pooled"] for c in ensembles[p].values()) - percent(best(p)) for p in PARTITIONS]


def plus_above_fedol() -> list[float]:
    """From the same uploads, by partition."""
    plus = found("paper", lambda s: s["method"] == "fedol+" and s["width"] == 64)[PLUS]
    return [percent(lead(plus[p], papers(64, (3, 4, 5))[FEDOL][p])) for p in PARTITIONS]


def server_below(rule: str) -> list[float]:
    """A server below the ensemble, by this rule, of the clients that taught it; one seed of development."""
    wanted = {"method": "fedhkt-k", "epochs": 100} if rule == "fedhkt-k" else AS_BEST
    ensembles = [cell for cell in cells("dev64") if fits(cell, {"method": "ensemble", "epochs": 100})]
    servers = accuracies("dev64", seed=ensembles[0]["seed"], **wanted)
    partitions = [(cell["settings"]["partition"], cell["ensembles"][rule]) for cell in ensembles]
    return [100 * (share - value) for p, share in partitions for (q, _), value in servers.items() if q == p]


def small_networks_below_plain() -> list[float]:
    """The recipe of `best` on small networks, below the plain, shorter training."""

    def pooled(rows: dict[str, Seeds], partition: str) -> float:
        return percent(shares(rows[partition]))

    long, plain = found("best-fashion-small", lambda s: s["method"] == "pooled")[POOL], small("fashion")[POOL]
    return [pooled(plain, p) - pooled(long, p) for p in FOUR]


def fedet_below_fedol() -> list[float]:
    """FedET's other reading, both servers trained for 500 epochs by the same clients."""
    rows = found("equal", lambda s: s.get("iterations", 10) == 10 and s.get("rho_step", 0.05) == 0.05)
    other, fedol = (rows[row]["dirichlet:0.05"] for row in (name("fedet-probs"), FEDOL))
    return [-percent(lead(other, fedol))]


def skew_costs(method: str) -> list[float]:
    """Servers under the strongest skews, below the same with iid data: images, scikit-learn's models."""
    images = [c for c in cases_of_union("alike") if c[0] in IMAGES and c[1] in ("dirichlet:0.05", "classes:2")]
    pairs = [(union_values(c, "server", method), union_values((c[0], "iid", *c[2:]), "server", method)) for c in images]
    return [mean(even) - mean(skewed) for skewed, even in pairs]


def words(points: list[float]) -> str:
    """From the least to the most, in whole points."""
    return " to ".join(dict.fromkeys(f"{end(points):.0f}" for end in (min, max)))


POINTS: dict[str, Callable[[], list[float]]] = {
    "best-above-the-paper": best_above_the_paper,
    "best-above-fedol": best_above_fedol,
    "best-below-its-pool": best_below_its_pool,
    "plus-above-fedol": plus_above_fedol,
    "server-below-mixture": lambda: server_below("fedhkt-k"),
    "server-below-pool": lambda: server_below("pooled"),
    "small-networks-below-plain": small_networks_below_plain,
    "fedet-below-fedol": fedet_below_fedol,
    "skew-costs-the-union": lambda: [max(skew_costs("union"))],
    "skew-costs-the-pool": lambda: skew_costs("pool"),
}
