"""What a round costs a client and the server, in bytes and FLOPs, next to the paper's two figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedol.bench import paper
from fedol.bench.cells import FEEDBACK_EPOCHS, Cell
from fedol.bench.plan import client_work, feedback_work, server_work
from fedol.bench.sheets import Sheet, settings_in_words
from fedol.bench.store import BenchFolder
from fedol.federation.scenario import Scenario, Scheme
from fedol.files import write_json
from fedol.knowledge import Knowledge
from fedol.methods import LOCAL, compared, find, title
from fedol.methods.fedkt import Ensembles, save_labels
from fedol.model import ServerModel
from fedol.models import address, create, parameter_count
from fedol.progress import watched
from fedol.runs.provenance import provenance
from fedol.seeding import derive

MIB = 2**20
EXPLANATION = (
    "The paper's 0.38 MB is 5,000 × 10 classes × 8 bytes = {knowledge:.4f} MiB, and its 65.14 MB is a 10-class network "
    "of {parameters:,} parameters × 4 bytes = {weights:.3f} MiB: both are figures for ten classes, while the accuracy "
    "is on a hundred. It counts neither the downlink nor the feedback of later rounds, books 65.14 MB for Local, which "
    "sends nothing, and calls the clients' computation identical, which FedKT's is not."
)
NARROW = (
    "Networks as narrow as here send less than predictions in float32: FedAvg's {:.3g} MB a round, against {:.3g} MB."
)


def cost(scenario: Scenario, folder: BenchFolder) -> dict[str, Any]:
    """One row per method of the one-round table that has clients, with what the folder has measured; kept in it."""
    cells = {method: Cell.of(method, scenario.config) for method in compared("one-round") if not find(method).control}
    (partition, seed), finished = _finished(cells, folder)
    heard = {cells[method].clients: result for method, result in finished.items()}  # of one place: as good as any
    rows = []
    for method, cell in watched(list(cells.items()), "methods"):
        result, clients = finished.get(method, {}), heard.get(cell.clients, {})
        row: dict[str, Any] = {"method": method, **_traffic(cell, scenario, clients)}
        row["client_flops"] = client_work(cell, scenario) / cell.config.clients
        feedback = feedback_work(cell, scenario) / cell.config.clients
        row["client_flops_later"] = row["client_flops"] + feedback if method in compared("rounds") else None
        row["server_flops"] = server_work(cell, scenario)
        row["client_seconds"] = _mean(clients, "seconds")
        # Of the trainings themselves: a cell that was resumed knows no more than the time since.
        trained = [record["seconds"] for record in result.get("history", [])]
        row["server_seconds"] = sum(trained) if trained else result.get("seconds")
        row["seconds_on"] = clients.get("device")  # where the cell was computed, not where this table is
        row["paper_mb"] = printed(scenario.config.dataset, method)
        rows.append(row)
    remarks = [explanation()] if scenario.config.dataset == paper.DATASET else []
    remarks += _narrow(rows, scenario)
    remarks += [f"Measured with {partition}, seed {seed}."] if finished else []
    remarks.append(_parameters(scenario))
    table = {"settings": scenario.config.as_json(), "rows": rows, "explanation": " ".join(remarks)}
    table |= provenance(scenario.config.seed, scenario.device)
    same = replace(scenario.config, data_dir=None, device="auto")  # wherever the data are: folders merge
    write_json(folder.path / "cost" / f"{same.hash}.json", table)
    return table


def _finished(cells: dict[str, Cell], folder: BenchFolder) -> tuple[tuple[str, int], dict[str, dict[str, Any]]]:
    """The partition and seed with which most of these methods are finished, and their results, by method.

    Of one partition and seed, because compressed uploads differ between them, and seconds between runs; the one that
    the cells name, where no other has more.
    """

    def rest(settings: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name not in ("partition", "seed")}

    config = next(iter(cells.values())).config
    wanted = {method: rest(cell.settings) for method, cell in cells.items()}
    places: dict[tuple[str, int], dict[str, dict[str, Any]]] = {(config.partition, config.seed): {}}
    for result in folder.results():
        settings = result["settings"]
        if wanted.get(settings["method"]) == rest(settings):
            places.setdefault((settings["partition"], settings["seed"]), {})[settings["method"]] = result
    return max(places.items(), key=lambda place: len(place[1]))  # of equal ones the first


def _parameters(scenario: Scenario) -> str:
    """How large the models are."""
    config = scenario.config
    specs = dict.fromkeys([*config.client_models, config.parameter_model, config.server_model])
    counts = [f"{address(spec)} {parameter_count(scenario.architecture(spec).build()):,}" for spec in specs]
    return f"Parameters: {', '.join(counts)}."


def explanation() -> str:
    """Where the paper's figures come from, computed."""
    parameters = parameter_count(create("resnet22-wide", classes=10, shape=(3, 32, 32)))
    return EXPLANATION.format(knowledge=5000 * 10 * 8 / MIB, parameters=parameters, weights=parameters * 4 / MIB)


def _traffic(cell: Cell, scenario: Scenario, clients: dict[str, Any]) -> dict[str, Any]:
    """Bytes per client and round, of these clients if any; the public samples, which everyone has, are not counted."""
    if cell.method == LOCAL:
        return {"up_bytes": 0, "down_bytes_first": 0, "down_bytes_later": None, "measured": True}
    sent = _mean(clients, "upload_bytes")
    up = _encoded(cell, scenario) if sent is None else sent
    weights = cell.record.client.sends == "weights"
    # Weights come down before every round; predictions come back from the second on, where there is one.
    later = None if cell.method not in compared("rounds") else up if weights else _encoded(cell, scenario)
    return {
        "up_bytes": up,
        "down_bytes_first": up if weights else 0,
        "down_bytes_later": later,
        "measured": sent is not None,
    }


def _mean(result: dict[str, Any], what: str) -> float | None:
    """Of the clients of a finished cell."""
    values = [client[what] for client in result.get("clients", [])]
    return sum(values) / len(values) if values else None


def _encoded(cell: Cell, scenario: Scenario) -> float:
    """The size of an upload made of random predictions or fresh weights, where no client has been trained yet."""
    samples, classes = cell.config.public, len(scenario.dataset.classes)
    generator = torch.Generator().manual_seed(derive(cell.config.seed, "cost"))
    scheme = Scheme.of(scenario.under(cell.config))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "upload"
        if cell.record.client.sends == "weights":
            ServerModel(scheme.architecture(0).build(), scheme.architecture(0)).save(path)
        elif cell.record.client.sends == "students":
            save_labels(path, torch.randint(classes, (Ensembles().partitions, samples), generator=generator))
        else:
            logits = 3 * torch.randn(samples, classes, generator=generator)
            Knowledge.from_logits(logits, scenario.task, "client 0").save(path, cell.config.codec)
        return path.stat().st_size


def _narrow(rows: list[dict[str, Any]], scenario: Scenario) -> list[str]:
    """Where weights are the smaller upload, that they are: predictions save bytes beside wide networks only."""
    weights = next(row["up_bytes"] for row in rows if find(row["method"]).client.sends == "weights")
    predictions = scenario.config.public * len(scenario.dataset.classes) * 4
    return [NARROW.format(weights / 1e6, predictions / 1e6)] if weights < predictions else []


def printed(dataset: str, method: str) -> float | None:
    """The paper's upload, which it calls MB and counts in MiB; None where its cost table has none."""
    if dataset != paper.DATASET or method not in compared("cost"):
        return None
    kind = "parameter methods" if method == LOCAL or find(method).combine else "knowledge methods"
    return float(paper.numbers()["cost"]["rows"][kind])


def _big(value: float) -> str:
    """A count of operations for people: 440 T."""
    for unit in ("", " k", " M", " G", " T"):
        if value < 1000 or unit == " T":
            break
        value /= 1000
    return f"{value:.3g}{unit}" if value < 1000 else f"{value:,.0f}{unit}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.3f}" if value == 0 or value >= 1e4 else f"{value / 1e6:.2g}"  # little is not nothing


# The columns of a cost table: heading, value of a row, and how it is written. One without any value is left out.
COSTS: list[tuple[str, str, Callable[[float], str]]] = [
    ("up, MB", "up_bytes", _megabytes),
    ("down, MB", "down_bytes_first", _megabytes),
    ("down later, MB", "down_bytes_later", _megabytes),
    ("paper, MiB", "paper_mb", "{:.2f}".format),
    ("client FLOPs", "client_flops", _big),
    ("client FLOPs later", "client_flops_later", _big),
    ("server FLOPs", "server_flops", _big),
    ("client s", "client_seconds", "{:.1f}".format),
    ("server s", "server_seconds", "{:.1f}".format),
]


def cost_sheet(table: dict[str, Any], number: int) -> Sheet:
    """What a round costs, by method."""
    columns = [column for column in COSTS if any(row.get(column[1]) is not None for row in table["rows"])]
    rows = [
        [title(row["method"]), *("–" if row.get(key) is None else word(row[key]) for _, key, word in columns)]
        for row in table["rows"]
    ]
    where = " and ".join(sorted({row["seconds_on"] for row in table["rows"] if row.get("seconds_on")}))
    note = (
        "Per client and round; 1 MB is 10⁶ bytes, 1 MiB 2²⁰. Later is a round after the first, where there are more: a "
        f"knowledge method's clients then also train {FEEDBACK_EPOCHS} epochs on the server's predictions for "
        "the public samples (FedHKT-style: for those where it agrees with its teacher, so at most that). Uploads are "
        + _sent(table["rows"])
        + "; what comes down later in a knowledge method is reckoned, predictions for all public samples in the same "
        "codec; the public samples, which everyone holds beforehand, are not counted. Training costs three forward "
        "passes a sample; predictions, one pass each, are left out. "
        + (f"Seconds are those of trainings side by side on {where}, not what each takes alone. " if where else "")
        + table["explanation"]
    )
    heads = ["", *(head for head, _, _ in columns)]
    records = [
        {"method": title(row["method"]), **{key: row.get(key) for _, key, _ in columns}} for row in table["rows"]
    ]
    words = f"Cost: {settings_in_words(table['settings'])}"
    return Sheet(f"cost-{number}", words, heads, rows, note.strip(), records)


def _sent(rows: list[dict[str, Any]]) -> str:
    """Where the sizes of the uploads come from."""
    sending = [row for row in rows if row["method"] != LOCAL]
    made = [title(row["method"]) for row in sending if not row["measured"]]
    if not made:
        return "measured files"
    return "files as they would be sent" + (f" in {', '.join(made)}, else measured" if len(made) < len(sending) else "")
