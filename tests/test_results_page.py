"""Tables of ``results/README.md`` against the committed cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import pytest

from fedol.experiments import curves, paper
from fedol.experiments.report import collect
from fedol.experiments.store import BenchFolder
from fedol.experiments.summary import as_the_paper

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
PARTITIONS = "dirichlet:1", "dirichlet:0.05", "classes:30", "classes:20"
NAMES = {
    "Local, mean of ten clients": "local",
    "FedAvg": "fedavg",
    "FedAvg, norms recalibrated": "fedavg-bn",
    "FedProx": "fedprox",
    "FedDF (logits)": "feddf",
    "FedDF (probabilities)": "feddf-probs",
    "FedHKT-style": "fedhkt",
    "FedHKT-style, G = K: the λ mixture alone": "fedhkt-k",
    "FedET": "fedet",
    "FedET, variance of probabilities": "fedet-probs",
    "MinE": "mine",
    "MinE, hard": "mine-hard",
    "FedKT": "fedkt",
    "FedOL": "fedol",
    "the clients' ensemble (λ mixture), no server": "ensemble",
    "a server on the true public labels": "ceiling",
}

OTHER_CLIENTS = "fedet-probs", "dirichlet:0.05"  # †: taught by the clients of equal compute, not by its column's

MORE = {"FedOL, τ = 0": "fedol-tau0", "FedOL, restarted each iteration": "fedol-reinit", "FedOL+": "fedol+"}
MORE |= {"FedOL, ρ = 0.1 throughout": "constant", "FedOL, one iteration of 200 epochs": "once"}
MORE |= {"FedOL, one iteration of 20 epochs": "once"}
LOOPS = {"FedOL (10 × 20 epochs, ρ step = 0)": "constant", "FedOL (1 × 200 epochs)": "once"}
LOOPS |= {"FedOL (5 × 4 epochs, ρ step = 0)": "constant", "FedOL (1 × 20 epochs)": "once"}


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    return collect(ROOT / "results" / "paper")


def table(heading: str, number: int = 0) -> list[list[str]]:
    """A table under a heading: its columns, then its rows."""
    section = PAGE.split(f"## {heading}\n")[1]
    lines = re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE)[number].splitlines()
    words = [[word.replace("**", "").strip() for word in line[1:-1].split("|")] for line in lines]
    return [words[0], *words[2:]]


def test_the_first_table() -> None:
    found = by_seed()
    (_, *columns), *body = table("The paper's first table")
    assert columns == [f"`{partition}`" for partition in PARTITIONS]
    assert [NAMES[name] for name, *_ in body] == list(NAMES.values())
    for name, *words in body:
        for partition, shown in zip(PARTITIONS, words, strict=True):
            theirs = paper.one_round("cifar100", partition, NAMES[name])
            number = over_seeds(found[NAMES[name], partition])
            number += f" ({100 * theirs[0]:.1f})" if theirs else ""
            assert shown == number + ("†" if (NAMES[name], partition) == OTHER_CLIENTS else ""), (name, partition)


def test_points_above_fedol_seed_by_seed() -> None:
    found = by_seed()
    _, *body = table("The paper's first table", 1)
    without = "local", "fedavg", "fedavg-bn", "fedprox", "fedol", "ensemble"
    assert [NAMES[name] for name, *_ in body] == [method for method in NAMES.values() if method not in without]
    for name, *words in body:
        for partition, shown in zip(PARTITIONS, words, strict=True):
            theirs, mark = found["fedol", partition], ""
            if (NAMES[name], partition) == OTHER_CLIENTS:
                (fedol,) = (c for c in BenchFolder(ROOT / "results" / "equal").results() if taught_fedol(c, partition))
                theirs, mark = {0: fedol["accuracy"]}, "†"
            above = {seed: mine - theirs[seed] for seed, mine in found[NAMES[name], partition].items()}
            assert shown == over_seeds(above, "+z").replace("-", "−") + mark, (name, partition)


def taught_fedol(cell: dict[str, Any], partition: str) -> bool:
    """Whether a cell of equal compute is FedOL's on a partition."""
    return cell["method"] == "fedol" and cell["settings"]["partition"] == partition


def test_what_the_page_says_of_the_first_table_in_short() -> None:
    found = by_seed()

    def lead(method: str, partition: str) -> list[float]:
        """FedOL's over a method in points, seed by seed."""
        ours = found["fedol", partition]
        return [100 * (ours[seed] - theirs) for seed, theirs in found[method, partition].items()]

    def said(over: list[float]) -> str:
        return f"{mean(over):.1f} ± {stdev(over):.1f}"

    text = " ".join(PAGE.split("## What is here")[0].split())
    best = max(("feddf", "fedhkt", "fedet", "mine"), key=lambda method: mean(found[method, "dirichlet:0.05"].values()))
    over_probabilities = said(lead("feddf-probs", "dirichlet:0.05"))
    assert f"ahead of the best by {said(lead(best, 'dirichlet:0.05'))} points, or {over_probabilities} if" in text
    assert f"with 20 classes it is {said([-points for points in lead('feddf', 'classes:20')])} behind" in text
    least = min(points for m in ("fedhkt", "fedet", "mine") for p in PARTITIONS for points in lead(m, p))
    assert f"in every run, by {least:.1f} points or more" in text
    for method, partitions in {"feddf": ("dirichlet:1", "classes:30"), "fedhkt-k": PARTITIONS}.items():
        for partition in partitions:  # "cannot be told from"
            assert abs(mean(lead(method, partition))) < stdev(lead(method, partition)), (method, partition)

    def loss(method: str) -> float:
        """What clients that ended badly cost: their run against the partition's others, on average over three."""
        ended_badly = {"dirichlet:1": 0, "classes:30": 4, "classes:20": 5}
        runs = {p: found[method, p] for p in ended_badly}
        return mean(
            100 * (mean(v for s, v in runs[p].items() if s != bad) - runs[p][bad]) for p, bad in ended_badly.items()
        )

    fedol, feddf, mixture = map(loss, ("fedol", "feddf", "fedhkt-k"))
    assert f"FedOL loses {fedol:.1f} points on average, FedDF {feddf:.1f}, the λ mixture alone {mixture:.1f}." in text


def by_seed() -> dict[tuple[str, str], dict[int, float]]:
    """Accuracies of the first table by method and partition, of seeds 0, 4 and 5."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for result in BenchFolder(ROOT / "results" / "paper").results():
        seed, settings = result["seed"], result["settings"]
        if seed in (0, 4, 5) and plain(settings, seed):
            for partition in [settings["partition"]] if "partition" in settings else PARTITIONS:  # a ceiling has none
                seeds = found.setdefault((result["method"], partition), {})
                assert seed not in seeds
                seeds[seed] = result["accuracy"]
    return found


def over_seeds(values: dict[int, float], sign: str = "") -> str:
    """Mean and spread as the page writes them: three seeds, or the first alone (FedKT, FedET's other reading)."""
    assert tuple(sorted(values)) in ((0,), (0, 4, 5))
    over = [100 * value for value in values.values()]
    return f"{mean(over):{sign}.1f}" + (f" ± {stdev(over):.1f}" if len(over) > 1 else "")


def plain(settings: dict[str, Any], seed: int) -> bool:
    """Whether a cell is of the first table with this seed, and not of equal compute, a control or the rounds."""
    where = settings["width"], settings["seed"], settings.get("rounds", 1)
    return where == (64, seed, 1) and as_the_paper({"epochs": 50, **settings})  # a ceiling has no clients' epochs


def test_the_table_at_width_16(numbers: dict[str, Any]) -> None:
    (found,) = (t for t in numbers["one_round"] if (t["settings"]["width"], t["settings"]["epochs"]) == (16, 50))
    ours = {row["method"]: row["cells"] for row in found["rows"]}
    (_, *columns), *body = table("The first table at width 16")
    assert columns == [f"`{partition}`" for partition in found["partitions"]]
    assert [NAMES[name] for name, *_ in body] == list(ours)

    def said(cell: dict[str, Any]) -> str:
        return f"{100 * cell['mean']:.1f}" + (f" ({100 * cell['paper']['mean']:.1f})" if cell["paper"] else "")

    for name, *words in body:
        assert words == [said(ours[NAMES[name]][partition]) for partition in found["partitions"]], name

    def lead(method: str) -> list[float]:
        """FedOL's over a method in points, by partition."""
        return [100 * (ours["fedol"][p]["mean"] - ours[method][p]["mean"]) for p in PARTITIONS]

    text = " ".join(PAGE.split("## The first table at width 16\n")[1].split("## Cost")[0].split())
    one, skewed, thirty, twenty = lead("feddf")
    assert f"FedDF is {-one:.1f}, {-thirty:.1f} and {-twenty:.1f} points ahead of FedOL" in text and skewed > 0
    over = {method: lead(method) for method in ("fedhkt", "fedet", "mine", "fedkt")}
    best = min(over, key=lambda method: over[method][1])
    said_so = f"FedOL is {over[best][1]:.1f} points ahead of the best of the paper's baselines, FedHKT-style, and"
    assert best == "fedhkt" and f"{said_so} {lead('feddf-probs')[1]:.1f} ahead of the mean of probabilities" in text
    leads = [points for method in over.values() for points in method]
    assert f"on all four partitions, by {min(leads):.1f} to {max(leads):.1f} points" in text
    assert f"FedOL is {min(lead('fedhkt-k')):.1f} to {max(lead('fedhkt-k')):.1f} points above the λ mixture" in text
    below = [100 * (cell["paper"]["mean"] - cell["mean"]) for cell in ours["fedol"].values()]
    assert f"FedOL is {min(below):.1f} to {max(below):.1f} points below the paper's" in text


def test_equal_compute_on_cifar100() -> None:
    def cells(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
        found = {}
        for cell in BenchFolder(folder).results():
            where = cell["settings"]
            papers = where.get("iterations", 10), where.get("rho_step", 0.05)  # of FedOL's loops those as in the paper
            wanted = papers == (10, 0.05) if folder.name == "equal" else plain(where, 0)
            if wanted and "partition" in where:
                found[cell["method"], where["partition"]] = cell
        return found

    long, brief = cells(ROOT / "results" / "equal"), cells(ROOT / "results" / "paper")

    def clients(cell: dict[str, Any]) -> list[float]:
        return [client["accuracy"] for client in cell["clients"]]

    def first(method: str, partition: str) -> float:
        """After 50 epochs: of FedOL's loops after their first iteration, of others in the first table."""
        cell = long[method, partition]
        cell = cell if cell["settings"]["server_epochs"] == 50 else brief[method, partition]
        assert clients(cell) == clients(long[method, partition])
        return float(cell["history"][0]["diagnostics"]["test_accuracy"])

    short, ahead = " ".join(PAGE.split("## What is here")[0].split()), []
    _, *body = table("Equal compute on CIFAR-100")
    methods = [{**NAMES, **MORE}[name] for name, *_ in body]
    assert len(long) == 2 * len(methods)
    for partition in ("dirichlet:0.05", "classes:20"):
        accuracies = {method: long[method, partition]["accuracy"] for method in methods}
        feddf, fedol, mixture, unvoted = (100 * accuracies[m] for m in ("feddf", "fedol", "fedhkt-k", "fedol-tau0"))
        said = (
            f"FedDF has {feddf:.1f} % after 500 epochs, FedOL {fedol:.1f}, the λ mixture alone {mixture:.1f} and FedOL"
        )
        assert f"{said} without votes {unvoted:.1f}" in short
        ahead += [fedol - 100 * accuracies[method] for method in ("fedhkt", "fedet", "mine", "fedkt")]
        for method, (_, *words) in zip(methods, body, strict=True):
            # FedKT's clients are students of its own, those of the first table.
            same = brief[method, partition] if method == "fedkt" else long["fedol", partition]
            assert clients(long[method, partition]) == clients(same)
            above = f"{100 * (accuracies[method] - accuracies['fedol']):+z.1f}".replace("-", "−")
            shown = [f"{100 * accuracies[method]:.1f}", "" if method == "fedol" else above]
            if partition == "dirichlet:0.05":
                assert words[:2] == shown, method
            else:
                assert words[2:] == [f"{100 * first(method, partition):.1f}", *shown], method
    assert f"ahead in both, by {min(ahead):.1f} to {max(ahead):.1f} points" in short
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"FedHKT-style, FedET, MinE and FedKT are {min(ahead):.1f} to {max(ahead):.1f} behind" in readme

    def gain(method: str, partition: str) -> str:
        """What ten times the epochs bring a server of the same clients."""
        return f"{100 * (long[method, partition]['accuracy'] - first(method, partition)):+.1f}".replace("-", "−")

    text = " ".join(PAGE.split("## Equal compute on CIFAR-100\n")[1].split("\n## ")[0].split())
    brought = {method: gain(method, "classes:20") for method in methods if method != "fedol-reinit"}
    low, *_, middle, high = sorted(brought, key=lambda method: float(brought[method].replace("−", "-")))
    assert (low, middle, high) == ("fedhkt", "fedet", "fedet-probs")
    said = f"{brought[low]} (FedHKT-style) to {brought[middle]} points (FedET) and {brought[high]} (FedET with the"
    said += f" variance of probabilities), FedOL's by {brought['fedol'][1:]}, FedKT's by {brought['fedkt']};"
    assert said in text
    fedol, unvoted, fedkt, other = (gain(m, "dirichlet:0.05") for m in ("fedol", "fedol-tau0", "fedkt", "fedet-probs"))
    said = f"under Dirichlet(0.05) FedOL's by {fedol}, that of τ = 0 by {unvoted}, FedKT's by {fedkt} and that"
    assert f"{said} of FedET's other reading by {other}." in text


def test_what_the_page_says_of_small_last_batches() -> None:
    def beside(runs: dict[tuple[str, int], list[dict[str, Any]]]) -> tuple[list[float], list[float]]:
        """Accuracies, as a share of the median of the others with the same network: ending on 2 to 5 images, or not."""
        small: list[float] = []
        others: list[float] = []
        for clients in runs.values():
            for client in clients:
                peers = [c for c in clients if c["client"] % 2 == client["client"] % 2 and c is not client]
                share = client["accuracy"] / median(c["accuracy"] for c in peers)
                (small if 2 <= client["samples"] % 64 <= 5 else others).append(share)
        return small, others

    def runs(folder: str, **wanted: Any) -> dict[tuple[str, int], list[dict[str, Any]]]:
        found = {}
        for cell in BenchFolder(ROOT / "results" / folder).results():
            where = cell["settings"]
            if where.get("partition", "dirichlet:0.05") == "dirichlet:0.05" or where.get("rounds", 1) > 1:
                continue
            if cell["method"] in ("fedol", "pooled") and wanted.items() <= where.items():
                found[where["partition"], cell["seed"]] = cell["clients"]
        return found

    text = " ".join(PAGE.split())
    small, others = beside(runs("paper", width=64, epochs=50))
    assert (len(small), len(others)) == (11, 109) and max(small) < 1
    said = f"at {mean(small):.2f} times it on average ({min(small):.2f} to {max(small):.2f}); the 109 others are at"
    assert f"{said} {mean(others):.2f} ± {stdev(others):.2f}." in text
    small, _ = beside(runs("best"))
    assert len(small) == 8 and f"eight such clients are at {mean(small):.2f}." in text
    files = [ROOT / "benchmarks" / "results" / f"last-batch-width{width}.json" for width in (16, 64)]
    for client in [client for file in files for client in json.loads(file.read_text(encoding="utf-8"))["results"]]:
        cost = {step["size"]: f"{-step['model']['mean']:z.1f} ± {step['model']['std']:.1f}" for step in client["steps"]}
        said = f"{cost[2]} points on 2 images, {cost[8]} on 8 and {cost[64]} on 64"
        assert said in text and f"{client['before']:.1f} %" in text


def test_the_figure_over_rounds(numbers: dict[str, Any]) -> None:
    (_, *rounds, passing, in_the_paper), *body = table("The paper's figure: fifteen rounds")
    assert (passing, in_the_paper) == ("passes FedOL in round", "in the paper")
    shown = iter(body)
    for panel in numbers["rounds"]:
        name, level, *_ = next(shown)
        assert name.startswith(f"`{panel['partition']}`") and level == f"{100 * panel['fedol']['mean']:.1f}"
        for line in panel["lines"]:
            name, *words, passes, theirs = next(shown)
            assert (NAMES | {"FedDF": "feddf"})[name] == line["method"]
            assert words == [f"{100 * line['rounds'][int(n) - 1]['mean']:.1f}" for n in rounds], name
            assert passes == str(line["passes_fedol"] or "never"), name
            assert theirs == str(curves.first_above(line["paper"], panel["paper_fedol"]) or "never"), name
    assert next(shown, None) is None

    text = " ".join(PAGE.split("## The paper's figure: fifteen rounds\n")[1].split())
    skewed, dealt = (
        {
            line["method"]: 100 * (panel["fedol"]["mean"] - max(point["mean"] for point in line["rounds"]))
            for line in panel["lines"]
        }
        for panel in numbers["rounds"]
    )
    said = f"FedHKT-style is {skewed['fedhkt']:.1f} points below it (round 9; in round 13 it falls to 11.8), FedDF"
    assert f"{said} {skewed['feddf']:.1f}, MinE {skewed['mine']:.1f}, FedET {skewed['fedet']:.1f}." in text
    assert dealt["fedhkt"] < 0  # passes
    said = f"At their best FedDF is {dealt['feddf']:.1f} points below, MinE {dealt['mine']:.1f} and FedET"
    assert f"{said} {dealt['fedet']:.1f};" in text

    def round_of(panel: dict[str, Any], noise: int) -> int | None:
        """Where FedAvg would pass a FedOL that many points lower."""
        (fedavg,) = (line for line in panel["lines"] if line["method"] == "fedavg")
        return curves.first_above([one["mean"] for one in fedavg["rounds"]], panel["fedol"]["mean"] - noise / 100)

    skew, deal = numbers["rounds"]
    assert round_of(skew, -3) is round_of(deal, -3) is round_of(deal, 0) is None
    said = f"one seed: {round_of(skew, 0)} under Dirichlet(0.05), where three points of noise either way would make it"
    said += f" {round_of(skew, 3)} or more than 15 (four: {round_of(skew, 4)}); with 20 classes a client more than 15,"
    said += f" with such noise {round_of(deal, 3)} ({round_of(deal, 4)}) at the earliest."
    assert said in " ".join(PAGE.split())
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = f"in rounds {round_of(skew, 4)} or {round_of(skew, 3)} and {round_of(deal, 4)} or {round_of(deal, 3)} at"
    assert f"{said} the earliest, or in neither within 15" in readme


def test_fedproxs_grid_on_digits() -> None:
    _, *body = table("Equal compute and rounds on digits", 1)
    shown = {name.strip("`").replace("`", ""): words for name, *words in body}
    for panel in collect(ROOT / "results" / "digits")["rounds"]:
        lines = [line for line in panel["lines"] if line["method"] in ("fedavg", "fedprox")]
        assert [line["settings"].get("mu") for line in lines] == [None, 0.001, 0.01, 0.1, 1.0]
        for words, place in (("first round", 0), ("round 15", 14)):
            points = [line["rounds"][place] for line in lines]
            spreads = [f"{100 * point['mean']:.1f} ± {100 * point['std']:.1f}" for point in points]
            assert shown[f"{panel['partition']}, {words}"] == spreads and {point["n"] for point in points} == {3}


@pytest.mark.parametrize(
    ("heading", "folder", "rows", "beside_adam"),
    [
        ("Equal compute and rounds on digits", "digits", 15, False),
        ("Equal compute on Fashion-MNIST", "fashion", 15, False),
        ("SGD instead of Adam, on digits", "sgd", 13, True),
    ],
)
def test_equal_compute_without_a_gpu(heading: str, folder: str, rows: int, beside_adam: bool) -> None:
    def body_of(name: str) -> dict[str, dict[str, Any]]:
        tables = collect(ROOT / "results" / name)["one_round"]
        (found,) = (t for t in tables if main(t["settings"]))
        return {LOOPS.get(row["label"], row["method"]): row["cells"] for row in found["rows"]}

    def main(settings: dict[str, Any]) -> bool:
        epochs, rates = {"digits": 20, "fashion-mnist": 4}, {None: 1e-3, "sgd": 0.03}
        usual = epochs[settings["dataset"]], rates[settings["optimiser"]]
        return (settings["epochs"], settings["lr"]) == usual and not settings["development"]

    def words(entry: dict[str, Any] | None, sign: str = "") -> str:
        return f"{100 * entry['mean']:{sign}.1f} ± {100 * entry['std']:.1f}".replace("-", "−") if entry else ""

    ours, adams = body_of(folder), body_of("digits")
    _, *body = table(heading)
    assert len(body) == rows
    for name, *shown in body:
        method = {**NAMES, **MORE}[name]
        expected = []
        for partition in ("dirichlet:0.05", "classes:2"):
            entry = ours[method][partition]
            expected += [words(entry), words(entry["over_fedol"], "+")]
            expected += [words(adams[method][partition])] if beside_adam else []
        assert shown == expected, name


def test_other_rates_of_sgd() -> None:
    tables = [t for t in collect(ROOT / "results" / "sgd")["one_round"] if not t["settings"]["development"]]
    shown = [line for line in PAGE.splitlines() if re.match(r"\| 0\.\d+ \|", line)]
    assert len(shown) == 3
    for line in shown:
        rate, *words = (word.strip() for word in line[1:-1].split("|"))
        (found,) = (t for t in tables if t["settings"]["lr"] == float(rate))
        rows = {row["method"]: row["cells"] for row in found["rows"]}
        entries = [rows[m][p] for p in ("dirichlet:0.05", "classes:2") for m in ("feddf", "fedol", "fedol+")]
        assert words == [f"{100 * entry['mean']:.1f} ± {100 * entry['std']:.1f}" for entry in entries]
