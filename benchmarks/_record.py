"""What every benchmark shares: a readable table and a record of where its numbers come from."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from fedol.errors import FedolError
from fedol.runs.evaluation import summary_statistics
from fedol.runs.provenance import commit, provenance

ROOT = Path(__file__).resolve().parent.parent
commit()  # of the code that runs, not of what is checked out when the record is written


def script(main: Callable[[], None]) -> None:
    """A script's main function; what the user can mend is a sentence and exit code 2, as in fedol's commands."""
    try:
        main()
    except FedolError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


def gpu() -> torch.device:
    """The device of a benchmark that makes no sense without one."""
    if not torch.cuda.is_available():
        raise FedolError("This benchmark needs a CUDA GPU, and PyTorch finds none here.")
    return torch.device("cuda")


def write(file: Path, *, seed: int, settings: dict[str, Any], results: Any, device: torch.device | None = None) -> None:
    """Write the results with all that is needed to repeat them."""
    record = {**provenance(seed, device), "settings": settings, "results": results}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=2) + "\n")
    print(f"\nwritten to {file}")


def kept(file: Path | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of an earlier start of the same commit and settings, which goes on from there."""
    if file is None or not file.is_file():
        return []
    before = json.loads(file.read_text())
    same = before["commit"] is not None and before["commit"] == commit() and before["settings"] == settings
    found: list[dict[str, Any]] = before["results"]["cells"] if same else []
    return found


def asked(about: str | None, data: Iterable[str], seeds: Sequence[int]) -> argparse.Namespace:
    """What a benchmark on ``../shared/data/real`` is asked for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "real", help="tables and texts")
    parser.add_argument("--only", nargs="+", choices=sorted(data), help="these data sets alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def over_seeds(names: Sequence[str], numbers: Iterable[tuple[Sequence[str], float]]) -> list[dict[str, Any]]:
    """Of numbers that are called alike, mean, spread and the values; ``names`` says what their words are."""
    found: dict[tuple[str, ...], list[float]] = {}
    for words, value in numbers:
        found.setdefault(tuple(words), []).append(value)
    return [
        {**dict(zip(names, words, strict=True)), **summary_statistics(values), "values": values}
        for words, values in found.items()
    ]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print right-aligned columns under a header."""
    widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
    for line in [header, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def seconds(value: float) -> str:
    """A time at three digits in a fitting unit."""
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"
