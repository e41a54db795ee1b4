"""The tables of recipes in development, on ``docs/results/best.md``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from _published import bold, record, table

# Of 59 measured (``recipes.json``): the recipe of `best`, the way from it, and what lost.
CLIENTS = (
    "adam-e100",
    "muon-b256",
    "muon-b256-wd.5",
    "muon-b256-wd2",
    "wd2",
    "lr.02-wd4",
    "wd2.5-plain",
    "wd1.5",
    "wd1.5-grow",
    "wd1.5-grow-e45",
    "wd1.5-b128",
    "wd1.5-e60",
    "wd1-e15",
    "adamw-wd10",
    "nesterov-lr.2-wd.05",
)
SERVERS = ("@sharp", "@softer", "plain@soft", "grow@soft", "e200-grow@soft")
HEAD = ["optimiser", "rate", "decay", "batch", "epochs", "cutmix", "small images"]


def lines(kind: str) -> dict[str, dict[str, Any]]:
    """What was measured of clients, the deeper of the two nets, or of servers, by name."""
    return {line[kind]: line for line in record("recipes") if kind in line and line.get("model") != "resnet11"}


def words(line: dict[str, Any]) -> list[str]:
    """A recipe."""
    recipe = line["recipe"]
    numbers = [f"{recipe[name]:g}" for name in ("lr", "weight_decay", "batch_size", "epochs")]
    return [recipe["optimiser"], *numbers, "yes" if recipe["patch"] == "cutmix" else "no", f"{recipe['grow']:g}"]


def clients() -> str:
    """A client's accuracy on held-out images, and what it pays for its answers."""
    found = lines("clients")
    return table(
        [*HEAD, "accuracy", "nats"],
        [
            [*words(found[name]), f"{100 * found[name]['accuracy']:.1f}", f"{found[name]['nats']:.2f}"]
            for name in CLIENTS
        ],
        left=1,
    )


def servers() -> str:
    """Servers that learn from the same union."""
    found = lines("servers")
    kinds = {"soft": "as soft as the mixture", "softer": "softer", "sharp": "as they are"}
    return table(
        ["targets", *HEAD, "accuracy"],
        [
            [kinds[name.partition("@")[2]], *words(found[name]), f"{100 * found[name]['accuracy']:.1f}"]
            for name in SERVERS
        ],
        left=2,
    )


def unions() -> str:
    """Teachers and servers of whole federations; a federation's servers may have been trained in another call."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in record("union-cifar100-development"):
        found.setdefault((line["what"].partition("/")[0], line["clients"]), {}).update(line)
    rows = []
    for (partition, how), line in found.items():
        teachers = [f"{100 * line['teacher'][name]:.1f}" for name in ("mixture/open30", "pool/open30", "open30*open30")]
        each = [value for name, value in line.get("server", {}).items() if name.startswith("open30*open30~")]
        server = bold(f"{100 * max(each):.1f}") if each else ""
        rows.append([f"`{partition}`", how, f"{line['images'] / 1e6:.1f}", *teachers, server])
    return table(["", "clients", "images, millions", "λ mixture", "pool", "union", "best server"], rows, left=2)


TABLES: dict[str, Callable[[], str]] = {
    "recipe-clients": clients,
    "recipe-servers": servers,
    "recipe-unions": unions,
}
