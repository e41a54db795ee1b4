"""Near duplicates: how many copies are found after what is usually done to images, and how many are seen by mistake.

    python benchmarks/duplicates.py --cifar DIR

300 of 5,000 public images of CIFAR-100 are changed and put among 2,000 private ones, for each change and seed. What is
found among 45,000 private images of which none was put there is the natural rate: CIFAR-100 has copies of its own.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from _record import ROOT, script, table, write
from PIL import Image

from fedol.data import Images, load
from fedol.data.duplicates import duplicates
from fedol.seeding import numpy_generator

COPIES, PUBLIC, SEEDS = 300, 5_000, (1, 2, 3)
Change = Callable[[torch.Tensor, np.random.Generator], torch.Tensor]


def jpeg(quality: int) -> Change:
    def change(images: torch.Tensor, _: np.random.Generator) -> torch.Tensor:
        found = []
        for image in images.numpy():
            buffer = io.BytesIO()
            Image.fromarray(image.transpose(1, 2, 0)).save(buffer, "JPEG", quality=quality)
            found.append(np.asarray(Image.open(buffer)).transpose(2, 0, 1))
        return torch.from_numpy(np.stack(found))

    return change


def shifted(by: int) -> Change:
    def change(images: torch.Tensor, _: np.random.Generator) -> torch.Tensor:
        padded, side = F.pad(images.float(), (by,) * 4, mode="replicate"), images.shape[-1]
        return padded[..., :side, :side].byte()

    return change


def noisy(images: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    return (images.float() + torch.from_numpy(rng.normal(0, 5, images.shape)).float()).clamp(0, 255).byte()


CHANGES: dict[str, Change] = {
    "none": lambda x, _: x,
    "20 brighter": lambda x, _: (x.float() + 20).clamp(0, 255).byte(),
    "contrast x 0.8": lambda x, _: (x.float() * 0.8 + 10).byte(),
    "JPEG 90": jpeg(90),
    "JPEG 75": jpeg(75),
    "JPEG 50": jpeg(50),
    "noise of 5": noisy,
    "shift by 1": shifted(1),
    "shift by 2": shifted(2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", required=True, help="the folder of cifar-100-python")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "duplicates.json")
    given = parser.parse_args()
    images = torch.from_numpy(load("cifar100", given.cifar).train.x)
    found: dict[str, list[float]] = {name: [] for name in CHANGES}
    natural: list[dict[str, float]] = []
    for seed in SEEDS:
        rng = numpy_generator(seed, "duplicates")
        order = torch.from_numpy(rng.permutation(len(images)))
        public, private = images[order[:PUBLIC]], images[order[PUBLIC:]]
        begun = time.perf_counter()
        clean = duplicates(Images(private), Images(public))
        took = time.perf_counter() - begun
        natural.append({"exact": len(clean.exact), "near": len(clean.near), "of": len(private), "seconds": took})
        for name, change in CHANGES.items():
            copies = change(public[:COPIES], rng)
            pairs = duplicates(Images(torch.cat([private[:2000], copies])), Images(public))
            right = sum(own - 2000 == place for own, place in pairs.exact + pairs.near)
            found[name].append(right / COPIES)
    rows = [[name, f"{100 * np.mean(rates):.1f} ± {100 * np.std(rates, ddof=1):.1f}"] for name, rates in found.items()]
    rows.append(["natural, of 45,000", ", ".join(f"{one['exact']} + {one['near']}" for one in natural)])
    table(["change", "found %"], rows)
    settings = {"copies": COPIES, "public": PUBLIC, "private": 2000, "seeds": SEEDS, "threads": torch.get_num_threads()}
    write(given.out, seed=SEEDS[0], settings=settings, results={"found": found, "natural": natural})


if __name__ == "__main__":
    script(main)
