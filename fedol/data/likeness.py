"""How alike two samples are, whatever was done to one of them on the way: rescaled, rounded, brightened, compressed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from fedol.data.samples import Samples

BLOCK = 4096  # samples that are summed up at a time
HASHES = 512  # values of a text's vector
SIDE = 8  # pixels of an image at a coarse look


class Likeness(ABC):
    """A squared distance between private samples and public ones, and short vectors to search by."""

    @abstractmethod
    def vectors(self, samples: Samples, public: bool) -> Tensor:
        """float32 [n, d], whose squared distances are about those of ``distance``."""

    def distance(self, some: Samples, others: Samples, public: tuple[bool, bool]) -> Tensor:
        """Between the samples at the same positions, [n]; ``public`` says of which side either are."""
        return (self.vectors(some, public[0]) - self.vectors(others, public[1])).square().sum(1)


class Rows(Likeness):
    """Rows of numbers, each column with mean 0 and deviation 1 on either side; what is missing is average."""

    def __init__(self, private: Samples, public: Samples) -> None:
        self._scales = _scale(private), _scale(public)

    def vectors(self, samples: Samples, public: bool) -> Tensor:
        """The scaled columns."""
        mean, deviation = self._scales[public]
        return ((_values(samples) - mean) / deviation).nan_to_num(0.0, 0.0, 0.0).float()


class Pictures(Likeness):
    """Images without their brightness and contrast, at the best of all small shifts."""

    def vectors(self, samples: Samples, public: bool) -> Tensor:
        """A coarse look: eight by eight pixels, with mean 0 and length 1."""
        pixels = torch.from_numpy(samples.floats())
        height, width = pixels.shape[-2:]
        return _unit(F.adaptive_avg_pool2d(pixels, (min(SIDE, height), min(SIDE, width))))

    def distance(self, some: Samples, others: Samples, public: tuple[bool, bool]) -> Tensor:
        """2 - 2 times the correlation of what overlaps, at the best shift by up to a sixteenth of a side."""
        own, other = torch.from_numpy(some.floats()), torch.from_numpy(others.floats())
        (height, width), best = own.shape[-2:], torch.full((len(own),), 4.0)
        down, right = height // 16, width // 16
        middle = _unit(own[..., down : height - down, right : width - right])
        for y in range(2 * down + 1):
            for x in range(2 * right + 1):
                shifted = other[..., y : y + height - 2 * down, x : x + width - 2 * right]
                best = torch.minimum(best, 2 - 2 * (middle * _unit(shifted)).sum(1))
        return best.clamp_min(0)


class Words(Likeness):
    """Texts by the letters that follow one another, whatever the case, the spaces and a few words in between."""

    def vectors(self, samples: Samples, public: bool) -> Tensor:
        """Counts of runs of three and four letters, hashed to a few hundred, of length 1."""
        from sklearn.feature_extraction.text import HashingVectorizer

        runs = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), n_features=HASHES, dtype=np.float32)
        return torch.from_numpy(runs.transform(samples.rows()).toarray())


def _unit(pixels: Tensor) -> Tensor:
    """Each image's values with mean 0 and length 1; all zeros where it is of one colour."""
    flat = pixels.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    length: Tensor = flat.norm(dim=1, keepdim=True)
    return flat / length.clamp_min(1e-3)  # a quarter of what one pixel that differs makes


def _values(samples: Samples) -> Tensor:
    return torch.from_numpy(samples.floats().reshape(len(samples), -1)).double()


def _scale(samples: Samples) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each column over what is there; a column of one value keeps its unit."""
    sums = list[Tensor]()
    for start in range(0, len(samples), BLOCK):
        values = _values(samples.take(slice(start, start + BLOCK)))
        there = torch.isfinite(values)
        values = values.where(there, 0.0)
        sums.append(torch.stack([there.double().sum(0), values.sum(0), values.square().sum(0)]))
    count, total, squares = torch.stack(sums).sum(0)
    count = count.clamp_min(1)
    mean = total / count
    deviation = (squares / count - mean.square()).clamp_min(0).sqrt()
    return mean, deviation.where(deviation > 1e-9 * (1 + mean.abs()), 1.0)
