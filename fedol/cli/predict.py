"""``fedol predict``: use a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedol.cli.options import Json, TrustCode

BATCH = 512  # samples between two moves of the progress bar


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder, or one model file.")],
    images: Annotated[Path, typer.Argument(help="An image, a folder of images, an .npz or an .npy file.")],
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Print the class of each image and the model's confidence, one line per image, separated by tabs.

    Example: fedol predict runs/federation images/
    """
    import numpy as np

    from fedol.data.unlabelled import load_samples
    from fedol.model import load
    from fedol.progress import watched
    from fedol.report.progress import LiveProgress
    from fedol.text import shown

    model = load(run, trust_code=trust_code)
    with LiveProgress(quiet=as_json):
        found, names = load_samples(images)
        parts = [found.take(slice(start, start + BATCH)) for start in range(0, len(found), BATCH)]
        probs = np.concatenate([model.predict_proba(part) for part in watched(parts, "predicting")])
    rows = [
        {"image": name, "class": model.classes[row.argmax()], "probability": float(row.max())}
        for name, row in zip(names, probs, strict=True)
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    for line in rows:
        image, name = (shown(line[key], "cell") for key in ("image", "class"))
        print(f"{image}\t{name}\t{line['probability']:.4f}")
