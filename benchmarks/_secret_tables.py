"""The tables of docs/secret-sum.md, from the records of ``secret_sum.py``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from _published import table
from _record import ROOT

from fedol.methods.union import STRANGE

RESULTS = ROOT / "benchmarks" / "results"


def rows(name: str, part: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["results"][part]
    return found


def speed() -> str:
    body = []
    for row in rows("secret_sum", "speed"):
        size = f"{row['samples']:,} × {row['classes']}, {row['bytes'] / 1e6:.1f} MB"
        if row["who"] == "client":
            body.append([f"client, {size}", "1", f"{row['cpu']:.2f}", "", "", ""])
            continue
        against = f"{row['speed_over_reading_cold']:.1f}"
        each, peak = f"{1000 * row['cpu_each']:.1f}", f"{row['peak_mb']:.0f}"
        body.append([f"{row['who']}, {size}", f"{row['clients']:,}", f"{row['cpu']:.2f}", each, against, peak])
    return table(["who", "files", "CPU seconds", "ms a file", "speed over reading them", "peak MB"], body)


def width() -> str:
    found = [row for row in rows("secret_sum-width", "width") if row["familiarity"] >= STRANGE]
    admitted = sorted({row["admitted"] for row in found if not row["admitted"] % 100 or row["admitted"] == 10})
    body = []
    for cap in ("64", "16 n_k / n_u"):
        for bits in sorted({row["bits"] for row in found}):
            cells = []
            for many in admitted:
                chosen = [r for r in found if (r["cap"], r["bits"], r["admitted"]) == (cap, bits, many)]
                losses = [row["loss"] for row in chosen]
                cells.append(f"{np.mean(losses):.2f} ({max(losses):.2f})" if losses else "no room")
            body.append([f"{bits}, cap {cap}", f"{(16 + 550_000 * bits / 8) / 1e6:.2f} MB", *cells])
    return table(["bits", "5,000 × 100", *(f"{many:,} clients" for many in admitted)], body)


def domain() -> str:
    found = [row for row in rows("secret_sum-width", "width") if row["familiarity"] < STRANGE and row["cap"] == "64"]
    body = []
    for name in dict.fromkeys(row["federation"] for row in found):
        chosen = [row for row in found if row["federation"] == name]
        plain = [row["open"] for row in chosen]
        secret = [row["open"] - row["loss"] for row in chosen]
        short = name.replace(", another domain", "")
        body.append([short, *(f"{np.mean(v):.1f} ± {np.std(v, ddof=1):.1f}" for v in (plain, secret))])
    return table(["public set of another domain, n = 3", "single answers", "sums alone"], body)


def noise() -> str:
    found = rows("secret_sum-width", "noise")
    levels = list(dict.fromkeys(row["epsilon"] for row in found))
    values = [[row["accuracy"] for row in found if row["epsilon"] == level] for level in levels]
    header = ["ε", *("none" if level is None else f"{level:g}" for level in levels)]
    return table(header, [["right, %", *(f"{np.mean(v):.1f} ± {np.std(v, ddof=1):.1f}" for v in values)]])


TABLES = {"secret-speed": speed, "secret-width": width, "secret-domain": domain, "secret-noise": noise}
