"""One batch from the images on the device: gathered, augmented, normalised, channels last."""

from __future__ import annotations

import torch
from torch import Tensor

from fedol.training.job import Normalisation

PAD = 4  # the crop moves by up to this many pixels


class Batches:
    """Images as uint8 [N, H, W, C] on the device: a gathered row is already channels last, and a quarter of float32."""

    def __init__(self, images: Tensor, normalise: Normalisation, device: torch.device) -> None:
        self.pixels = images.to(device).permute(0, 2, 3, 1).contiguous()
        self._mean = torch.tensor(normalise.mean, device=device)
        self._std = torch.tensor(normalise.std, device=device)

    def __call__(self, index: Tensor, view: Tensor | None) -> Tensor:
        """Normalised float32 [n, C, H, W] of the images ``index``, each seen as ``view`` says (see ``Job.views``)."""
        pixels = self.pixels[index] if view is None else self._augmented(index, view)
        return ((pixels.float() / 255 - self._mean) / self._std).permute(0, 3, 1, 2)

    def _augmented(self, index: Tensor, view: Tensor) -> Tensor:
        """A reflect-padded crop and a flip are one gather: only the row and column numbers differ per sample."""
        height, width = self.pixels.shape[1:3]
        rows = _reflect(torch.arange(height, device=index.device) + view[:, :1] - PAD, height)
        columns = _reflect(torch.arange(width, device=index.device) + view[:, 1:2] - PAD, width)
        columns = torch.where(view[:, 2:] == 1, columns.flip(1), columns)
        return self.pixels[index[:, None, None], rows[:, :, None], columns[:, None, :]]


def _reflect(place: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 mirrored at the border pixels, which are not repeated."""
    return ((size - 1) - ((size - 1) - place.abs()).abs()).clamp_min(0)
