"""The tables of the paper's comparison, again: one round, equal compute, many rounds, other optimisers, noise."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean, median
from typing import Any

from _published import (
    FEDOL,
    HARD,
    PARTITIONS,
    PLUS,
    POOL,
    ROOT,
    TWO,
    Seeds,
    bold,
    code,
    found,
    lead,
    name,
    number,
    paper_fedol,
    papers,
    record,
    shares,
    small,
    spread,
    table,
)

from fedol.bench import paper, summary
from fedol.bench.sheets import OTHERS
from fedol.bench.summary import NOTICEABLE
from fedol.errors import FedolError
from fedol.methods import CEILING, ENSEMBLE, LOCAL, compared, title
from fedol.report.bench_pages import collect

SINGLE = {LOCAL: "Local, mean of the clients", ENSEMBLE: "Ensemble of the clients, no server"}
SHORT = {"feddf": "FedDF", "fedol": "FedOL", "fedol+": "FedOL+"}


def mark(mine: Seeds, theirs: Seeds) -> str:
    """Whether other clients taught a row than those that taught FedOL with the same seed."""
    for seed, cell in mine.items():
        other = theirs.get(seed, {})
        same = all(cell["settings"].get(key) == other["settings"].get(key) for key in ("sends", "client_models"))
        pairs = zip(cell.get("clients", ()), other.get("clients", ()), strict=False)
        if same and any(round(abs(a["accuracy"] - b["accuracy"]), 6) >= NOTICEABLE for a, b in pairs):
            return OTHERS
    return ""


def first_table(width: int, seeds: tuple[int, ...]) -> str:
    """Every method beside the paper's number; bold: the best server of a column."""
    rows = papers(width, seeds)
    servers = [method for method in compared("one-round") if method not in (LOCAL, ENSEMBLE, CEILING)]
    best = {p: max(servers, key=lambda method, p=p: mean(shares(rows[name(method)][p]))) for p in PARTITIONS}
    body = []
    for method in compared("one-round"):
        words = [SINGLE.get(method, name(method))]
        for partition in PARTITIONS:
            seeds_of = rows[name(method)][partition]
            text = spread(shares(seeds_of))
            text = bold(text) if method == best[partition] else text
            theirs = paper.one_round("cifar100", partition, method)
            text += f" ({100 * theirs[0]:.1f})" if theirs else ""
            words.append(text + ("" if method in SINGLE else mark(seeds_of, rows[FEDOL][partition])))
        body.append(words)
    return table(["", *code(PARTITIONS)], body)


def above_fedol() -> str:
    """Points above FedOL at width 64, seed by seed, and FedOL above the paper's."""
    rows = papers(64, (0, 4, 5))
    without = (LOCAL, "fedavg", "fedavg-bn", "fedprox", "fedol", ENSEMBLE)
    body = []
    for method in (method for method in compared("one-round") if method not in without):
        pairs = [(rows[name(method)][p], rows[FEDOL][p]) for p in PARTITIONS]
        body.append([name(method), *(spread(lead(*pair), sign=True) + mark(*pair) for pair in pairs)])
    ours = {p: [value - paper_fedol(p) for value in shares(rows[FEDOL][p])] for p in PARTITIONS}
    body.append(["FedOL above the paper's FedOL", *(spread(ours[p], sign=True) for p in PARTITIONS)])
    return table(["", *code(PARTITIONS)], body)


def weak_clients() -> str:
    """Runs in which a client has less than 0.7 times the accuracy of the median client, Dirichlet(0.05) aside."""
    rows = papers(64, (0, 3, 4, 5))[FEDOL]
    groups: dict[str, list[tuple[str, float, float]]] = {"with": [], "without": []}
    for partition in (p for p in PARTITIONS if p != "dirichlet:0.05"):
        for seed, cell in sorted(rows[partition].items()):
            clients = [client["accuracy"] for client in cell["clients"]]
            low = min(clients) < 0.7 * median(clients)
            points = cell["accuracy"] - paper_fedol(partition)
            place = f"`{partition}`, seed {seed}"
            groups["with" if low else "without"].append((place, 100 * min(clients) / median(clients), points))
    body = [[place, f"{share:.0f} %", number(100 * points, sign=True)] for place, share, points in groups["with"]]
    rest = [points for _, _, points in groups["without"]]
    body.append([f"mean of the {len(rest)} runs without such a client", "", spread(rest, sign=True)])
    return table(["run", "weakest client, of the median one", "FedOL above the paper's"], body)


def last_batch() -> str:
    """What one more step on a small batch costs a trained client."""
    body = []
    for width in (16, 64):
        for client in record(f"last-batch-width{width}"):
            steps = {step["size"]: step["model"] for step in client["steps"]}
            costs = [f"{number(steps[n]['mean'], sign=True)} ± {steps[n]['std']:.1f}" for n in (2, 8, 64)]
            body.append([f"{client['network']}, width {width}", f"{client['before']:.1f}", *costs])
    return table(["client", "accuracy before, %", "2 images", "8 images", "64 images"], body)


def small_batches() -> str:
    """Clients whose epochs end on a batch of 2 to 5 images, against others with the same network in the same run."""

    def beside_peers(rows: dict[str, Seeds]) -> tuple[list[float], list[float]]:
        few: list[float] = []
        others: list[float] = []
        for partition in (p for p in PARTITIONS if p != "dirichlet:0.05"):
            for cell in rows[partition].values():
                for client in cell["clients"]:
                    alike = [c for c in cell["clients"] if c["client"] % 2 == client["client"] % 2 and c is not client]
                    share = client["accuracy"] / median(c["accuracy"] for c in alike)
                    (few if 2 <= client["samples"] % 64 <= 5 else others).append(share)
        return few, others

    recipes = {
        "the paper's, constant rate": papers(64, (0, 3, 4, 5))[FEDOL],
        "`best`, rate falls to zero": found("best", lambda s: s["method"] == "pooled")[POOL],
    }
    body = []
    for words, rows in recipes.items():
        few, others = beside_peers(rows)
        body.append([words, f"{len(few)}", spread(few, 2, scale=1), f"{len(others)}", spread(others, 2, scale=1)])
    return table(["recipe", "clients with such a batch", "accuracy, of their peers'", "others", "theirs"], body)


def equal_cifar100() -> str:
    """500 epochs for every server, and 50 beside them where the same clients taught both."""
    long = found("equal", lambda s: s.get("iterations", 10) == 10 and s.get("rho_step", 0.05) == 0.05)
    brief = papers(64, (0,))

    def clients(cell: dict[str, Any]) -> list[float]:
        return [client["accuracy"] for client in cell["clients"]]

    body = []
    for row, partitions in long.items():
        words = [row]
        for partition in HARD:
            cell, fedol = partitions[partition][0], long[FEDOL][partition][0]
            taught = brief[row][partition][0] if cell["method"] == "fedkt" else fedol  # whose students are its own
            if clients(cell) != clients(taught):
                raise FedolError(f"Other clients taught {row} on {partition}: its row compares nothing.")
            if partition == "classes:20":
                first = cell if cell["settings"]["server_epochs"] == 50 else brief[row][partition][0]
                words.append(number(100 * first["history"][0]["diagnostics"]["test_accuracy"]))
            words.append(number(100 * cell["accuracy"]))
            points = "" if row == FEDOL else number(100 * (cell["accuracy"] - fedol["accuracy"]), sign=True)
            words.append(points)
        body.append(words)
    order = [name(method) for method in compared("one-round")]
    body.sort(key=lambda words: order.index(words[0]) if words[0] in order else len(order))
    columns = [
        "",
        "`dirichlet:0.05`, 500 epochs",
        "above FedOL",
        "`classes:20`, 50 epochs",
        "500 epochs",
        "above FedOL",
    ]
    return table(columns, body)


def equal_small(folder: str, beside: str = "") -> str:
    """Every method, and the points above FedOL; with the accuracies of another folder where one is given."""
    rows, others = small(folder), small(beside) if beside else {}
    body = []
    for row in rows:
        if not all(partition in rows[row] for partition in TWO) or row.startswith(POOL) or row in ("FedAvg", "FedProx"):
            continue
        words = [bold(row) if row == PLUS else row]
        for partition in TWO:
            mine = rows[row][partition]
            words += [
                spread(shares(mine)),
                "" if row == FEDOL else spread(lead(mine, rows[FEDOL][partition]), sign=True),
            ]
            words += [spread(shares(others[row][partition]))] if beside else []
        body.append(words)
    order = [*map(name, compared("one-round")), *sorted(row for row in rows if row.startswith("FedOL,")), bold(PLUS)]
    body.sort(key=lambda words: order.index(words[0]))
    columns = [""]
    for partition in TWO:
        columns += [f"`{partition}`", "above FedOL", *(["with Adam"] if beside else [])]
    return table(columns, body)


def rounds(folder: str, shown: tuple[int, ...]) -> str:
    """Accuracy after some rounds, and where a method passes FedOL's one."""
    columns = ["", *map(str, shown), "passes FedOL in round"]
    body = []
    panels = collect(ROOT / "results" / folder)["rounds"]
    beside = any(panel["paper_fedol"] for panel in panels)
    for panel in panels:
        blank = [""] * (len(shown) + beside)
        body.append(
            [f"`{panel['partition']}`: **FedOL, its one round**", bold(number(100 * panel["fedol"]["mean"])), *blank]
        )
        for line in panel["lines"]:
            if line["settings"].get("mu", 0.01) != 0.01:
                continue
            words = [title(line["method"]), *(number(100 * line["rounds"][n - 1]["mean"]) for n in shown)]
            words.append(str(line["passes_fedol"] or "never"))
            theirs = summary.first_above(line["paper"], panel["paper_fedol"]) if beside else None
            body.append([*words, *([str(theirs or "never")] if beside else [])])
    return table([*columns, *(["in the paper"] if beside else [])], body)


def rounds_and_noise() -> str:
    """Where FedAvg passes a FedOL that noise has made better or worse."""
    points = (-4, -3, 0, 3)
    body = []
    for panel in collect(ROOT / "results" / "paper")["rounds"]:
        (fedavg,) = (line for line in panel["lines"] if line["method"] == "fedavg")
        means = [one["mean"] for one in fedavg["rounds"]]
        passes = [summary.first_above(means, panel["fedol"]["mean"] + shift / 100) for shift in points]
        body.append([f"`{panel['partition']}`", *(str(one or "never") for one in passes)])
    words = [f"FedOL {number(shift, 0, sign=True)} points" if shift else "as measured" for shift in points]
    return table(["FedAvg passes in round", *words], body)


def fedprox_mu() -> str:
    """FedProx's μ on digits."""
    body = []
    for panel in collect(ROOT / "results" / "digits")["rounds"]:
        lines = {
            line["settings"].get("mu", 0): line for line in panel["lines"] if line["method"] in ("fedavg", "fedprox")
        }
        for words, place in (("round 1", 0), ("round 15", -1)):
            points = [lines[mu]["rounds"][place] for mu in sorted(lines)]
            spreads = [f"{100 * point['mean']:.1f} ± {100 * point['std']:.1f}" for point in points]
            body.append([f"`{panel['partition']}`, {words}", *spreads])
    return table(["", "μ = 0 (FedAvg)", *(f"{mu:g}" for mu in sorted(lines) if mu)], body)


def sgd_rates() -> str:
    """Three methods at three rates of SGD, and with Adam."""
    body = []
    for words, folder, rate in (
        ("0.01", "sgd", 0.01),
        ("0.03", "sgd", 0.03),
        ("0.1", "sgd", 0.1),
        ("Adam", "digits", 1e-3),
    ):
        rows = found(
            folder,
            lambda s, rate=rate: s.get("epochs") == 20 and s["lr"] == rate and not s.get("development"),  # type: ignore[misc]
        )
        body.append([words, *(spread(shares(rows[SHORT[m]][p])) for p in TWO for m in SHORT)])
    return table(["rate", *(f"`{p}`: {SHORT[m]}" for p in TWO for m in SHORT)], body)


def cost() -> str:
    """Bytes and operations of a client and a server; work in units of what a client of FedOL trains."""
    tables = {t["settings"]["width"]: t["rows"] for t in collect(ROOT / "results" / "paper")["cost"]}
    narrow, wide = ({row["method"]: row for row in tables[width]} for width in (16, 64))
    unit = wide["fedol"]["client_flops"]
    body = []
    for method in ("fedavg", "feddf", "fedkt", "fedol"):
        sizes = [
            f"{rows[method][key] / 1e6:.2f}" for rows in (narrow, wide) for key in ("up_bytes", "down_bytes_first")
        ]
        work = [f"{wide[method][key] / unit:.1f}" for key in ("client_flops", "server_flops")]
        body.append([title(method), *sizes, *work])
    sizes = ["up, MB, width 16", "down", "up, MB, width 64", "down"]
    return table(["", *sizes, "a client's work", "the server's work"], body)


TABLES: dict[str, Callable[[], str]] = {
    "first-table": lambda: first_table(64, (0, 4, 5)),
    "first-table-width-16": lambda: first_table(16, (0,)),
    "above-fedol": above_fedol,
    "weak-clients": weak_clients,
    "last-batch": last_batch,
    "small-batches": small_batches,
    "equal-cifar100": equal_cifar100,
    "equal-digits": lambda: equal_small("digits"),
    "equal-fashion": lambda: equal_small("fashion"),
    "sgd": lambda: equal_small("sgd", "digits"),
    "sgd-rates": sgd_rates,
    "rounds-cifar100": lambda: rounds("paper", (1, 2, 4, 6, 8, 10, 12, 14, 15)),
    "rounds-digits": lambda: rounds("digits", (1, 2, 3, 5, 8, 15)),
    "rounds-and-noise": rounds_and_noise,
    "fedprox-mu": fedprox_mu,
    "cost": cost,
}
