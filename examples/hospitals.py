"""Four hospitals learn one model of heart disease from their tables, and none shows a patient to another.

    python examples/hospitals.py [FOLDER]

The data are UCI's heart disease tables: Cleveland, Hungary, Switzerland and the VA in Long Beach, with many values
missing, at some hospitals whole columns. Where they are not there, a small made-up stand-in takes their place, and the
figures mean nothing.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedol

HEART = Path(__file__).resolve().parents[2] / "shared" / "data" / "real" / "heart"
COLUMNS = [
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
]
HOSPITALS = "cleveland", "hungarian", "switzerland", "va"


def patients(folder: Path) -> list[list[str]]:
    """Of all hospitals: the 13 values, the hospital, and whether the heart is ill."""
    rows = []
    for hospital in HOSPITALS:
        with (folder / f"{hospital}.csv").open() as file:
            for *values, stage in list(csv.reader(file))[1:]:
                values[4] = "-9" if float(values[4]) == 0 else values[4]  # no cholesterol at all: not measured
                rows.append([*values, hospital, "ill" if float(stage) > 0 else "healthy"])
    return rows


def made_up(count: int = 600) -> list[list[str]]:
    """Patients that never were: illness shows in three columns, and every hospital lacks another one."""
    rng, rows = np.random.default_rng(0), []
    for number in range(count):
        site, ill = number % 4, int(rng.integers(2))
        values = rng.normal(0, 1, len(COLUMNS))
        values[[0, 7, 9]] += (1.5 * ill, -1.5 * ill, ill)
        values[[2, 6, 10, 12]] = rng.integers(1, 4, 4)
        values[site + 8 * (site > 1)] = -9
        rows.append([*(f"{value:.2f}" for value in values), HOSPITALS[site], ["healthy", "ill"][ill]])
    return rows


def federate(out: Path, folder: Path = HEART, **settings: Any) -> dict[str, Any]:
    """Write the table, run the federation, and say what the server thinks of the first patients."""
    there = folder.is_dir()
    if not there:
        print(f"{folder} is not there: the patients are made up, and the figures mean nothing.")
    out.mkdir(parents=True, exist_ok=True)
    table = out / "hospitals.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([[*COLUMNS, "hospital", "diagnosis"], *(patients(folder) if there else made_up())])
    result = fedol.run(
        dataset=table,
        label="diagnosis",
        categories="cp,restecg,slope,thal",  # numbers that are names
        missing="-9",
        partition="column:hospital",
        method="union",
        **{"clients": 4, "public": 250, "epochs": 30, "lr": 0.003, "out": out / "run", **settings},
    )
    clients = [client["accuracy"] for client in result.summary["clients"]]
    print(f"The hospitals alone: {', '.join(f'{100 * one:.1f} %' for one in clients)} of the test patients right.")
    print(f"The server, which saw none of theirs: {100 * result.summary['server']['accuracy']:.1f} %.")
    return result.summary


if __name__ == "__main__":
    federate(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/hospitals"))
