"""The table of codecs in ``docs/federation.md``, from the records."""

from __future__ import annotations

from _published import code, record, table

ROWS = {
    "float32": "",
    "float16+zstd": "",
    "lattice20": ", the default",
    "lattice10": "",
    "lattice40": "",
    "q7c60+zstd": ", the default before",
    "q2c20+zstd": ", small",
    "top20+zstd": "",
    "top10+zstd": "",
}
TARGETS = ("mixture", "algorithm_1", "pool")


def codecs() -> str:
    """Bytes of a file, and what its targets lose at worst."""
    found = {row["codec"]: row for row in record("codecs")}
    worst = {name: [row["worst"][target]["loss"] for target in TARGETS] for name, row in found.items()}
    for name, row in record("codecs-rate")["summaries"]["stored"].items():
        found[name], worst[name] = row, [row[target]["worst"] for target in TARGETS]
    rows = []
    for name, words in ROWS.items():
        mean, largest = (round(found[name][key]) for key in ("bytes_mean", "bytes_largest"))
        size = f"{mean:,} ({largest:,})" if largest != mean else f"{mean:,}"
        rows.append([f"{code([name])[0]}{words}", size, *(f"{loss:z.2f}" for loss in worst[name])])
    losses = ["worst loss in points: mixture", "Algorithm 1", "pool (`fedol+`, `pooled`)"]
    return table(["codec", "bytes for 5,000 x 100, mean (largest)", *losses], rows)


TABLES = {"codecs": codecs}
