"""Predictions from anywhere: NumPy arrays or torch tensors on any device, checked once, computed in float64."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from fedol.errors import InputError

Array: TypeAlias = "np.ndarray | Tensor"

# A distribution rounded to float16 misses a sum of one by up to about 5e-4 at a hundred classes.
SUM_TOLERANCE = 2e-3
CACHED = 1 << 17  # float64 values: one MB


def to_tensor(value: Array, what: str = "value") -> Tensor:
    """The value as a torch tensor on its own device (the CPU for NumPy)."""
    try:  # of an array that is read-only, a copy
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.require(value, requirements=["C", "W"]))
    except (TypeError, ValueError) as error:
        why = str(error).rstrip(".")
        raise InputError(f"{what} must be a NumPy array or a torch tensor of numbers: {why}.") from None
    if tensor.is_complex():
        raise InputError(f"{what} must be real numbers, but are {tensor.dtype}.")
    return tensor.detach()


def only_read(array: np.ndarray) -> Tensor:
    """A tensor on an array's memory, to which nobody writes; ``torch.from_numpy`` warns of read-only ones."""
    if array.flags.writeable:
        return torch.from_numpy(array)
    try:
        return from_dlpack(array)
    except BufferError:  # NumPy before 2.1 hands out no such memory
        return torch.from_numpy(array.copy())


def returned(result: Tensor, like: Array) -> Array:
    """A result in the company of its input: NumPy or torch, its device, and float32 unless the input was float64."""
    if isinstance(like, Tensor):
        wide = like.dtype == torch.float64
        return (result.to(torch.float64 if wide else torch.float32) if result.is_floating_point() else result).to(
            like.device
        )
    array: np.ndarray = result.cpu().numpy()
    return array.astype(np.float32) if array.dtype == np.float64 and np.asarray(like).dtype != np.float64 else array


def exact(value: Tensor) -> Tensor:
    """float64, on the same device where that has float64 (Apple's GPUs have not)."""
    return (value.cpu() if value.device.type == "mps" else value).to(torch.float64)


def blocks(samples: int, width: int) -> Iterator[slice]:
    """Rows that fit a core's cache together.

    What is made of all rows at once goes through memory in every step, and the system hands out that memory anew, page
    by page, for every array. Row by row the numbers are the same to the last bit.
    """
    rows = max(1, CACHED // width)
    return (slice(start, start + rows) for start in range(0, samples, rows))


def probabilities(value: Array, dims: int | None, what: str = "probabilities") -> Tensor:
    """The value as a tensor of distributions over its last axis, or an error that says where it is none."""
    tensor = to_tensor(value, what)
    if dims is not None and tensor.dim() != dims:
        expected = {2: "[samples, classes]", 3: "[models, samples, classes]"}[dims]
        raise InputError(f"{what} must have the shape {expected}, but have {list(tensor.shape)}.")
    if tensor.dim() == 0 or not tensor.is_floating_point():
        raise InputError(f"{what} must be floating-point numbers per class, but are {tensor.dtype}.")
    if tensor.numel() == 0:
        raise InputError(f"{what} are empty (shape {list(tensor.shape)}); at least one row is needed.")
    wrong_number = ~torch.isfinite(tensor)
    if wrong_number.any():
        raise InputError(f"{what} hold NaN or an infinity at {_first(wrong_number)}.")
    outside = (tensor < 0) | (tensor > 1 + SUM_TOLERANCE)
    if outside.any():
        place = _first(outside)
        raise InputError(f"{what} must lie between 0 and 1, but hold {tensor[tuple(place)].item():.4g} at {place}.")
    sums = tensor.sum(-1, dtype=torch.float32 if tensor.device.type == "mps" else torch.float64)
    off = (sums - 1).abs() > SUM_TOLERANCE
    if off.any():
        place = _first(off)
        raise InputError(
            f"{what} must sum to 1 over the classes, but sum to {sums[tuple(place)].item():.4g} at {place}."
        )
    return tensor


def check_values(tensor: Tensor, good: Tensor, what: str, rule: str) -> None:
    """An error that says where the first value is that breaks a rule."""
    if not good.all():
        place = _first(~good)
        raise InputError(f"{what} must be {rule}, but hold {tensor[tuple(place)].item()} at {place}.")


def _first(mask: Tensor) -> list[int]:
    return [int(i) for i in mask.nonzero()[0]] if mask.dim() else []


def fingerprint(array: np.ndarray) -> str:
    """SHA-256 of an array's dtype, shape and bytes: another order or one other value is another fingerprint."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
