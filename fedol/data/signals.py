"""Signals: float arrays of any shape, channels first; those in ``.npy`` files stay on the disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.data.samples import Index, Preprocessing, Samples, Shape, register
from fedol.errors import InputError
from fedol.files import TEMPORARY

CHUNK = 1 << 22  # values read at a time


@register
@dataclass(frozen=True)
class Standardisation(Preprocessing):
    """Each channel's mean and deviation."""

    kind: ClassVar[str] = "signals"
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, batch: Tensor) -> Tensor:
        """float32 [n, channels, ...], scaled."""
        apart = (-1, *(1,) * (batch.dim() - 2))
        mean, std = (torch.tensor(scale, device=batch.device).reshape(apart) for scale in (self.mean, self.std))
        return (batch - mean) / std

    def blank(self, shape: Shape) -> Tensor:
        """Two silent ones."""
        return torch.zeros(2, *shape)

    def header(self) -> dict[str, Any]:
        """Mean and deviation."""
        return {"kind": self.kind, "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_header(cls, header: Mapping[str, Any], shape: Shape) -> Self:
        """A number for each channel."""
        for scale in (mean := header["mean"], std := header["std"]):
            numbers = isinstance(scale, list) and all(type(each) in (int, float) and abs(each) < 1e38 for each in scale)
            if not numbers or len(scale) != shape[0]:
                raise InputError("the mean or the deviation of its channels makes no sense")
        if min(std) <= 0:
            raise InputError("the deviation of its channels is not above 0")
        return cls(tuple(map(float, mean)), tuple(map(float, std)))


@dataclass(frozen=True, eq=False)
class Signals(Samples):
    """The rows ``order`` of arrays one after the other, which may be files that are read as batches are gathered."""

    kind: ClassVar[str] = "signals"
    parts: tuple[npt.NDArray[Any], ...]  # each [N, channels, ...]
    order: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: npt.NDArray[Any], where: str) -> Signals:
        """All rows of an array, every value finite."""
        if values.ndim < 2 or not values.size or values.dtype.kind not in "iuf":
            shape = list(values.shape)
            raise InputError(
                f"{where} must be numbers [N, channels, ...], one or more, but are {values.dtype} {shape}."
            )
        found = cls((values,), np.arange(len(values)))
        row = 0
        for part in found.chunks():
            if not np.isfinite(part).all():
                first = row + int(np.argwhere(~np.isfinite(part))[0][0])
                raise InputError(
                    f"{where} holds values that are not finite, first in row {first + 1}; mend or drop it."
                )
            row += len(part)
        return found

    def __len__(self) -> int:
        return len(self.order)

    @property
    def shape(self) -> Shape:
        """Channels first."""
        return self.parts[0].shape[1:]

    def chunks(self) -> Iterator[npt.NDArray[np.float32]]:
        """All rows in their order, so many at a time that they take little memory."""
        step = max(1, CHUNK // int(np.prod(self.shape)))
        for start in range(0, len(self), step):
            yield self._read(self.order[start : start + step])

    def _read(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        if len(self.parts) == 1:
            return self.parts[0][rows].astype(np.float32)
        found, begin = np.empty((len(rows), *self.shape), np.float32), 0
        for part in self.parts:
            here = (rows >= begin) & (rows < begin + len(part))
            found[here] = part[rows[here] - begin]
            begin += len(part)
        return found

    @property
    def fingerprint(self) -> str:
        """Of the values as float32, in their order."""
        digest = hashlib.sha256(f"<f4{(len(self), *self.shape)}".encode())
        for chunk in self.chunks():
            digest.update(np.ascontiguousarray(chunk).data)
        return digest.hexdigest()

    def take(self, index: Index) -> Signals:
        """These rows, without reading them."""
        return Signals(self.parts, self.order[index if isinstance(index, slice) else np.asarray(index)])

    def joined(self, others: Signals) -> Signals:
        """Both, without reading them."""
        parts = list(self.parts)
        begins = [sum(map(len, parts[:k])) for k in range(len(parts))]
        rows, before = others.order.copy(), 0
        for part in others.parts:
            here = (others.order >= before) & (others.order < before + len(part))
            place = next((k for k, mine in enumerate(parts) if mine is part), None)
            if place is None:
                place = len(parts)
                begins.append(sum(map(len, parts)))
                parts.append(part)
            rows[here] += begins[place] - before
            before += len(part)
        return Signals(tuple(parts), np.concatenate([self.order, rows]))

    def batch(self, index: Tensor | slice) -> Tensor:
        """float32 [n, channels, ...]."""
        return torch.from_numpy(self._read(self.order[index if isinstance(index, slice) else index.cpu().numpy()]))

    def array(self) -> npt.NDArray[np.float32]:
        """float32 [N, channels, ...], all of it in memory."""
        return self._read(self.order)

    def fit(self, public: Signals | None = None) -> Standardisation:
        """To the public ones, where there are some: then it is the same at every site."""
        given = self if public is None else public
        channels, count = given.shape[0], 0
        total, square, shift = np.zeros(channels), np.zeros(channels), np.zeros(channels)
        for chunk in given.chunks():
            values = chunk.reshape(len(chunk), channels, -1).astype(np.float64)
            shift = values.mean((0, 2)) if not count else shift  # a square of what is far from 0 would lose its digits
            values -= shift[:, None]
            total, square = total + values.sum((0, 2)), square + (values**2).sum((0, 2))
            count += values.shape[0] * values.shape[2]
        std = np.sqrt(np.maximum(square / count - (total / count) ** 2, 0))
        return Standardisation(tuple((shift + total / count).tolist()), tuple(np.where(std > 1e-12, std, 1.0).tolist()))

    def unfitted(self) -> Standardisation:
        """As they are."""
        return Standardisation((0.0,) * self.shape[0], (1.0,) * self.shape[0])

    def write(self, path: Path) -> None:
        """Write an ``.npy`` file of float32, part by part."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            about = {"descr": "<f4", "fortran_order": False, "shape": (len(self), *self.shape)}
            np.lib.format.write_array_header_1_0(file, about)
            for chunk in self.chunks():
                file.write(np.ascontiguousarray(chunk).data)
        temporary.replace(path)
