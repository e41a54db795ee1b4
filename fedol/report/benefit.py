"""What a site has from the server, for people: on a terminal, and as a page of one site or of all that sent theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from fedol.errors import FedolError
from fedol.files import intact, read_json, write_atomically
from fedol.report.pages import render
from fedol.report.run_view import in_words
from fedol.report.terminal import count, percent, plain, plain_table

NAMES = {"own": "your model", "server": "the server", "adapted": "the adapted server"}
PAGE = "benefits.html"
AGAIN = "make it again: fedol evaluate --json"


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each class that the site has: how many samples, and each model's recall."""
    models = found["models"].values()
    return [
        {"name": name, "samples": samples, "recall": [model["recall"][place] for model in models]}
        for place, (name, samples) in enumerate(zip(found["classes"], found["counts"], strict=True))
        if samples
    ]


def table(found: dict[str, Any]) -> Table:
    """Overall and per class."""
    models = found["models"]
    shown = plain_table(f"Right of {found['samples']:,} held-out samples")
    shown.add_column("class")
    shown.add_column("samples", justify="right")
    for name in models:
        shown.add_column(NAMES[name].removeprefix("the "), justify="right")
    overall = [percent(model["accuracy"]) for model in models.values()]
    shown.add_row("all", f"{found['samples']:,}", *overall, style="bold")
    shown.add_section()
    for row in rows(found):
        shown.add_row(plain(row["name"]), f"{row['samples']:,}", *map(percent, row["recall"]))
    return shown


def words(found: dict[str, Any]) -> list[str]:
    """Who is better and whether that is beyond noise, and how sure each is."""
    lines = [_against(name, model["against_own"]) for name, model in found["models"].items() if name != "own"]
    return [*lines, *(in_words(model["calibration"], NAMES[name]) for name, model in found["models"].items())]


def _against(name: str, gap: dict[str, Any]) -> str:
    wins, losses = gap["wins"], gap["losses"]
    who, weight = NAMES[name], "beyond noise" if gap["beyond_noise"] else "within noise"
    if wins == losses:
        return f"{who[0].upper()}{who[1:]} is right as often as your model: each on {count(wins, 'sample')} alone."
    better = "more" if wins > losses else "less"
    return (
        f"{who[0].upper()}{who[1:]} is right {better} often than your model: on {count(wins, 'sample')} it alone, on "
        f"{losses:,} your model alone; {weight}, which is two standard errors."
    )


def write_page(file: Path, sites: list[dict[str, Any]], title: str) -> Path:
    """A page of one site, or of several."""
    shown = [
        {
            **site,
            "rows": rows(site),
            "columns": [NAMES[name] for name in site["models"]],
            "overall": [model["accuracy"] for model in site["models"].values()],
            "words": words(site),
        }
        for site in sites
    ]
    gains = [[site["site"], site["samples"], *_row(site)] for site in sites] if len(sites) > 1 else []
    write_atomically(file, render("benefit.html", {"name": title, "sites": shown, "gains": gains}).encode())
    return file


def _row(site: dict[str, Any]) -> list[Any]:
    """Its own accuracy, the best of the server's, and the difference in points."""
    own = site["models"]["own"]["accuracy"]
    served = max(model["accuracy"] for name, model in site["models"].items() if name != "own")
    return [own, served, 100 * (served - own)]


def write_benefits(run: Path, folder: Path) -> Path:
    """The page of what sites chose to send back: what ``fedol evaluate --json`` printed, a file each."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise FedolError(f"There are no .json files in {folder}; sites make them: fedol evaluate RUN ... --json.")
    sites = [_read(file) for file in files]
    return write_page(run / PAGE, sites, "What each site has from the server")


def _read(file: Path) -> dict[str, Any]:
    found = read_json(file, AGAIN)
    with intact(file, AGAIN):
        site = {**found, "site": file.stem}
        if len(site["classes"]) != len(site["counts"]):
            raise ValueError("its classes and counts differ in number")
        _ = rows(site), words(site), _row(site)
    return site
