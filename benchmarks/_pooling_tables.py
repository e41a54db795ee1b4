"""The tables of ``docs/pooling.md``, ``docs/pooling-evidence.md`` and ``docs/privacy.md``, from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from _best_tables import AS_BEST, FEDOL_64
from _published import PARTITIONS as KEYS
from _published import (
    PLUS,
    POOL,
    above,
    accuracies,
    bold,
    found,
    name,
    number,
    paper_words,
    record,
    shares,
    spread,
    table,
)
from pooling_figure import PARTITIONS, fedol_plus, parts

QUANTITIES = ("λ mixture", "MinE", "A", "D", "ours", "true prior")
FILES = {
    "dirichlet-1_plain": "Dir(1)",
    "dirichlet-0.05_plain": "Dir(0.05)",
    "classes-20_plain": "20 classes",
    "dirichlet-0.05_augmented": "Dir(0.05), augmented",
}
FEW = {"dirichlet:1": "Dir(1)", "dirichlet:0.05": "Dir(0.05)", "classes:3": "3 classes", "classes:2": "2 classes"}
SCENARIOS = ("balanced", "1:50 tail", "noise")
Entries = dict[tuple[str, str, str], dict[str, Any]]


def entries(*records: str) -> Entries:
    """What records say of a file's targets, by file, public set and quantity."""
    return {(e["file"], e["scenario"], e["quantity"]): e for one in records for e in record(one)}


def written(entry: dict[str, Any]) -> str:
    """Its mean and spread, which are in percent."""
    return number(entry["mean"]) + (f" ± {entry['std']:.1f}" if entry["n"] > 1 else "")


def gives() -> str:
    """The note's table: servers against FedOL's, and targets against the mixture's."""
    best = found("best", lambda s: s["method"] == "pooled")[POOL]
    targets = entries("pooling-best")
    rows = [["FedOL+ above FedOL, paper's preset, equal compute (test, points)"]]
    rows[0] += [spread(values, sign=True, scale=1) for _, values in fedol_plus()]
    rows.append(
        ["preset `best`: the pool's targets, better training (test, %)", *(spread(shares(best[p])) for p in KEYS)]
    )
    rows.append(["FedOL, as printed in the paper (%)", *map(paper_words, KEYS)])
    same = {p: [points for (q, _), points in trained_as_best().items() if q == p] for p in KEYS}
    rows.append(["`best` above FedOL with the same training (held out, points)"])
    rows[-1] += [spread(same[p], sign=True, scale=1) for p in KEYS]
    heads = (
        "targets of `best`'s clients, above the λ mixture (points)",
        "the same, 1:50 tail",
        "the same, a client of noise",
    )
    for head, scenario in zip(heads, SCENARIOS, strict=True):
        over = [targets[p, scenario, "ours over the mixture"]["values"] for p in KEYS]
        rows.append([head, *(spread(values, sign=True, scale=1) for values in over)])
    return table(["", *PARTITIONS.values()], rows)


def trained_as_best() -> dict[tuple[str, int], float]:
    """Points of `best` above FedOL from the same uploads and with the same training, by partition and seed."""
    return above(accuracies("dev64", **AS_BEST), accuracies("dev64", **FEDOL_64))


def real_clients() -> str:
    """How right targets are, on four federations and eight public sets."""
    columns = ("prob mean", "λ mixture", "MinE", "A", "uniform prior", "D", "ours", "true prior")
    of = entries("pooling")
    scenarios = list(dict.fromkeys(scenario for _, scenario, _ in of))
    rows = []
    for file, clients in FILES.items():
        for scenario in scenarios:
            words = [written(of[file, scenario, column]) for column in columns]
            words[columns.index("ours")] = bold(words[columns.index("ours")])
            rows.append([clients, scenario, *words])
    return table(["clients", "public set", *columns], rows, left=2)


def labels() -> str:
    """How right pseudo-labels are."""
    columns = ("coverage", "algorithm 1", "top by λ", "top by ours", "fedol+ coverage", "fedol+")
    of = entries("pooling")
    rows = [
        [clients, scenario, *(written(of[file, scenario, f"labels: {column}"]) for column in columns)]
        for file, clients in FILES.items()
        for scenario in SCENARIOS[:2]
    ]
    return table(["clients", "public set", *columns], rows, left=2)


def ablation() -> str:
    """The pool with a part left out or chosen otherwise."""
    of = {scenario: dict(parts(scenario)) for scenario in SCENARIOS}
    rows = [[words, *(spread(of[s][words], sign=True, scale=1) for s in SCENARIOS)] for words in of["balanced"]]
    return table(["", "balanced", "1:50 tail", "a client of noise"], rows)


def federations(of: Entries, partitions: Iterable[str], scenarios: Sequence[str], over: bool) -> str:
    """Means over the federations of a partition; bold: the best that needs no labels."""
    columns = QUANTITIES + (("ours above λ",) if over else ())
    rows = []
    for partition in partitions:
        for scenario in scenarios:
            values = {q: means(of, partition, scenario, q) for q in QUANTITIES}
            best = max(sum(v) / len(v) for q, v in values.items() if q != "true prior")
            row = [PARTITIONS[partition], scenario]
            for quantity, seeds in values.items():
                text = spread(seeds, scale=1)
                near = number(sum(seeds) / len(seeds)) == number(best) and quantity != "true prior"
                row.append(bold(text) if near else text)
            pairs = zip(values["ours"], values["λ mixture"], strict=True)
            row += [spread([ours - theirs for ours, theirs in pairs], sign=True, scale=1)] if over else []
            rows.append(row)
    return table(["clients", "public set", *columns], rows, left=2)


def means(of: Entries, partition: str, scenario: str, quantity: str) -> list[float]:
    """A value for each federation of a partition, by seed."""
    return [
        e["mean"]
        for (f, s, q), e in sorted(of.items())
        if f.startswith(f"{partition}, seed") and (s, q) == (scenario, quantity)
    ]


def over_the_mixture() -> str:
    """The paper's preset at width 64: one federation a row."""
    rows = []
    for part in ("pooling-paper64", "pooling-paper64-later"):
        of = entries(part)
        for file in dict.fromkeys(file for file, _, _ in of if "seed" in file):
            partition, seed = file.split(", ")
            points = [of[file, s, "ours over the mixture"]["mean"] for s in SCENARIOS]
            rows.append([f"{PARTITIONS[partition]}, {seed}", *(number(value, sign=True) for value in points)])
    return table(["clients", *SCENARIOS], rows)


def hardly_learned() -> str:
    """Servers on digits that clients of one and of four epochs taught."""
    methods = ("fedhkt-k", "fedol", "pooled", "pooled-free", "fedol+")
    where = ("dirichlet:1", "dirichlet:0.05", "classes:2")
    of = {epochs: found("digits", lambda s, epochs=epochs: s.get("epochs") == epochs) for epochs in (1, 4)}  # type: ignore[misc]
    rows = [[name(m), *(spread(shares(of[epochs][name(m)][p])) for epochs in of for p in where)] for m in methods]
    return table(["", *(f"{FEW[p]}, epochs: {epochs}" for epochs in of for p in where)], rows)


def tail(file: str, partitions: dict[str, str]) -> str:
    """Servers on a long-tailed public set."""
    of = {(e["method"], e["partition"]): e for e in record(file)}
    titles = {"mixture": "the λ mixture", "fedol": "FedOL", "pooled": "the pool", "fedol+": PLUS}
    rows = [[words, *(written(of[method, p]) for p in partitions)] for method, words in titles.items()]
    return table(["server taught by", *partitions.values()], rows)


def privacy(file: str, delta: str) -> str:
    """What privacy costs, and what attacks find."""
    rows = []
    for e in record(file):
        ratio = e["membership"].get("likelihood ratio")
        found_by = [f"{ratio['auc']:.3f}", f"{100 * ratio['tpr_at_1_percent']:.1f}"] if ratio else ["", ""]
        epsilon = "∞" if e["epsilon"] is None else f"{e['epsilon']:g}"
        accuracy = [f"{100 * e[key]:.1f}" for key in ("server_accuracy", "client_accuracy")]
        threshold = f"{e['membership']['threshold']['auc']:.3f}"
        rows.append(
            [
                epsilon,
                e["codec"].removesuffix("+zstd"),
                *accuracy,
                threshold,
                *found_by,
                f"{100 * e['label_mix_error']:.1f}",
            ]
        )
    attacks = ["AUC, threshold", "AUC, likelihood ratio", "its TPR at 1 %", "class-mix error %"]
    return table([f"ε (δ = {delta})", "codec", "server %", "client %", *attacks], rows, left=2)


TABLES: dict[str, Callable[[], str]] = {
    "pooling": gives,
    "pooling-real-clients": real_clients,
    "pooling-labels": labels,
    "pooling-ablation": ablation,
    "pooling-dev64": lambda: federations(
        entries("pooling-dev64", "pooling-dev64-later"),
        ("dirichlet:0.05", "classes:20"),
        ("balanced", "1:10 tail", "1:50 tail", "noise"),
        True,
    ),
    "pooling-best": lambda: federations(entries("pooling-best"), KEYS, SCENARIOS, False),
    "pooling-paper64": over_the_mixture,
    "pooling-hardly-learned": hardly_learned,
    "tail": lambda: tail("tail", FEW),
    "tail-best": lambda: tail("tail-best", PARTITIONS),
    "privacy-digits": lambda: privacy("privacy-digits", "1e-4"),
    "privacy-cifar100": lambda: privacy("privacy-cifar100", "1e-5"),
}
