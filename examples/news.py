"""Five publishers learn one model of what a news item is about, from texts that stay with them.

    python examples/news.py [FOLDER]

The data are the test file of AG News: world, sports, business or technology, a title and a text. Where it is not there,
a small made-up stand-in takes its place, and the figures mean nothing.
"""

from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedol

NEWS = Path(__file__).resolve().parents[2] / "shared" / "data" / "real" / "ag_news" / "test.csv.gz"
WORDS = {
    "1": "minister border treaty embassy election troops",
    "2": "goal match coach season league striker",
    "3": "shares profit market bank merger oil",
    "4": "software chip browser satellite server robot",
}
FILLERS = ["the", "a", "of", "on", "in", "after", "says", "new", "over", "with"]


def made_up(file: Path, count: int = 1500) -> Path:
    """News that never were: two words of the subject among many of none."""
    rng = np.random.default_rng(0)
    with gzip.open(file, "wt", newline="") as stream:
        for subject in rng.choice(list(WORDS), count):
            words = [*rng.choice(WORDS[subject].split(), 2), *rng.choice(FILLERS, 8)]
            csv.writer(stream).writerow([subject, " ".join(words[:3]), " ".join(rng.permutation(words))])
    return file


def federate(out: Path, file: Path = NEWS, **settings: Any) -> dict[str, Any]:
    """Run the federation, and ask the server about two headlines."""
    out.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        print(f"{file} is not there: the news are made up, and the figures mean nothing.")
        file = made_up(out / "news.csv.gz")
    usual = {"clients": 5, "public": 1000, "epochs": 5, "batch_size": 64, "out": out / "run"}
    result = fedol.run(
        dataset=file,  # without a line of names: its columns go by their positions
        label="1",
        text="2,3",
        partition="dirichlet:0.3",
        method="union",
        **{**usual, **settings},
    )
    model = fedol.load(result.out)
    print(f"The server has {100 * result.summary['server']['accuracy']:.1f} % of the test news right.")
    for headline in ("Striker scores late goal as league season ends", "Bank shares fall on oil market fears"):
        print(f"  {headline}: subject {model.classes[model.predict([headline])[0]]}")
    return result.summary


if __name__ == "__main__":
    federate(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/news"))
