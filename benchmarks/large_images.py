"""20,000 images of 224 x 224 from files: memory, decoding beside training, threads beside processes, kept features.

    python benchmarks/large_images.py --folder FOLDER --json benchmarks/results/large-images.json

FOLDER gets the images where it has none: crops of scikit-learn's two photographs with seeded noise, JPEGs of 256 x 256,
0.5 GB. Memory is this process's peak (``ru_maxrss``), with PyTorch in it, measured after each step. Everything that is
compared runs in turn, in this process and on the same images, and rates are given as ratios, too.

- decoding: one thread, the product's pool of threads, a pool of processes
- an epoch of a client's small net that reads ahead, beside decoding alone and beside the same net on decoded images
- the features of a frozen EfficientNet-Lite0, computed once and then looked up
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _record import script, table, write
from PIL import Image
from torch import nn

from fedol.data import ImageFiles, Images
from fedol.data.decoding import Form, decoded
from fedol.features import Features
from fedol.features.fast import runner
from fedol.model import Architecture
from fedol.training import Job, Recipe, fit, predict

SIZE, STORED, CLASSES = 224, 256, 4
CPU = torch.device("cpu")
ENCODER = "package:efficientnet-lite0"


class Net(nn.Sequential):
    """A client's net, small enough that decoding counts: strides first."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(
            *(nn.Conv2d(channels, 16, 7, 4, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, classes)),
        )


def images(folder: Path, count: int, seed: int) -> list[Path]:
    """So many files, those drawn that are not there yet."""
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:06}.jpg" for number in range(count)]
    for number, file in enumerate(files):
        if file.exists():
            continue
        rng = np.random.default_rng([seed, number])
        photograph = photographs[number % 2]
        top, left = (rng.integers(side - STORED) for side in photograph.shape[:2])
        crop = photograph[top : top + STORED, left : left + STORED].astype(np.int16)
        Image.fromarray((crop + rng.integers(-20, 21, crop.shape)).clip(0, 255).astype(np.uint8)).save(file, quality=85)
    return files


def peak() -> float:
    """Megabytes that this process has had at once."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rate(count: int, work: Callable[[], Any]) -> float:
    """Images per second."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def by_processes(files: Sequence[Path], form: Form) -> None:
    """Decode in a pool of processes, which hand the pixels back a batch at a time."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        parts = [files[start : start + 64] for start in range(0, len(files), 64)]
        for _ in pool.map(_many, parts, [form] * len(parts)):
            pass


def _many(files: Sequence[Path], form: Form) -> np.ndarray:
    return np.stack([decoded(file, form) for file in files])


def by_threads(given: ImageFiles) -> None:
    """As the product does."""
    for _ in given.stream([slice(start, start + 64) for start in range(0, len(given), 64)]):
        pass


def decoding(given: ImageFiles, repeats: int) -> dict[str, list[float]]:
    """Images per second, each way in turn."""
    ways = {
        "one thread": lambda: [decoded(file, given.form) for file in given.files],
        "threads": lambda: by_threads(given),
        "processes": lambda: by_processes(given.files, given.form),
    }
    return {name: [rate(len(given), work) for _ in range(repeats)] for name, work in ways.items()}


def training(given: ImageFiles, seed: int, repeats: int) -> dict[str, list[float]]:
    """Images per second of an epoch from files, of decoding alone, and of the epoch on decoded images."""
    labels = torch.arange(len(given)) % CLASSES
    made = Architecture.on(given, Net, [str(c) for c in range(CLASSES)], 16)
    memory, found = Images(torch.from_numpy(given.array())), dict[str, list[float]]()

    def epoch(inputs: Any) -> None:
        (result,) = fit([Job("client", made.build(seed), inputs, labels, made.prepare, Recipe(1, 64), seed)], CPU)
        assert result.error is None

    for _ in range(repeats):
        for name, work in (
            ("training from files", lambda: epoch(given)),
            ("decoding alone", lambda: by_threads(given)),
            ("training on decoded images", lambda: epoch(memory)),
        ):
            found.setdefault(name, []).append(rate(len(given), work))
    return found


def kept_features(given: ImageFiles) -> dict[str, float]:
    """Images per second of features that are computed, and of the same that are looked up."""
    computed = 0
    encode = Features._encode

    def counted(self: Features, part: Any) -> torch.Tensor:
        nonlocal computed
        computed += len(part)
        return encode(self, part)

    Features._encode = counted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["FEDOL_CACHE"] = cache
        known = Features.fitted(ENCODER, given.take(slice(64)), given.take(slice(64)).fit())
        runner(ENCODER, len(given), CPU)  # translated before, which takes seconds
        before = computed
        first = rate(len(given) - 64, lambda: known.rows(given))
        new = computed - before
        again = rate(len(given), lambda: known.rows(given.take(np.arange(len(given))[::-1])))
    return {"computed per s": first, "looked up per s": again, "computed": new, "twice": computed - before - new}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--some", type=int, default=500, help="images that ways are compared on")
    parser.add_argument("--encoded", type=int, default=500, help="images whose features are computed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    memory = {"start": peak()}
    given = ImageFiles.of(images(options.folder, options.images, options.seed), SIZE)
    memory["headers and fingerprint"] = given.fingerprint and peak()
    made = Architecture.on(given, Net, [str(c) for c in range(CLASSES)], 16)
    job = Job("all", made.build(), given, torch.arange(len(given)) % CLASSES, made.prepare, Recipe(1, 64))
    whole = {"training": rate(len(given), lambda: list(fit([job], CPU)))}
    memory["an epoch of all"] = peak()
    some = given.take(slice(options.some))
    whole["predicting"] = rate(len(some), lambda: predict(job.model, some, made.prepare, CPU))
    memory["predicting some"] = peak()
    few = decoding(some, options.repeats)
    trained = training(some, options.seed, options.repeats)
    features = kept_features(given.take(slice(options.encoded)))
    ratios = {
        "threads over one thread": [a / b for a, b in zip(few["threads"], few["one thread"], strict=True)],
        "processes over threads": [a / b for a, b in zip(few["processes"], few["threads"], strict=True)],
        "training over decoding": [
            a / b for a, b in zip(trained["training from files"], trained["decoding alone"], strict=True)
        ],
    }
    table(["after", "peak, MB"], [[name, f"{value:,.0f}"] for name, value in memory.items()])
    rates = {**{name: [value] for name, value in whole.items()}, **few, **trained}
    table(["", "images per s"], [[name, f"{np.mean(values):,.0f}"] for name, values in rates.items()])
    table(["ratio", "mean"], [[name, f"{np.mean(values):.2f}"] for name, values in ratios.items()])
    table(["features", ""], [[name, f"{value:,.0f}"] for name, value in features.items()])
    if options.json:
        settings = {key: value for key, value in vars(options).items() if key not in ("folder", "json")}
        results = {
            "megabytes": memory,
            "all_per_second": whole,
            "per_second": {**few, **trained},
            "ratios": ratios,
            "features": features,
        }
        write(options.json, seed=options.seed, settings={**settings, "size": SIZE}, results=results, device=CPU)


if __name__ == "__main__":
    script(main)
