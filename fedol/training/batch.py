"""One batch from the images on the device: gathered, augmented, normalised, channels last."""

from __future__ import annotations

import torch
from torch import Tensor

from fedol.training.job import Normalisation

SMALL = 1 << 26  # bytes of float32 images that a CPU keeps normalised, rather than normalise them batch by batch


class Batches:
    """Images [N, H, W, C] on the device, so that a gathered row is already channels last.

    As uint8, a quarter of float32; small data sets on a CPU normalised once and for all.
    """

    def __init__(self, images: Tensor, normalise: Normalisation, device: torch.device) -> None:
        self.pixels = images.to(device).permute(0, 2, 3, 1).contiguous()
        self._mean = torch.tensor(normalise.mean, device=device)
        self._std = torch.tensor(normalise.std, device=device)
        self._ready = device.type == "cpu" and 4 * self.pixels.numel() <= SMALL
        if self._ready:
            self.pixels = self._normalise(self.pixels)

    def __call__(self, index: Tensor, view: Tensor | None, patch: Tensor | None = None, mix: bool = False) -> Tensor:
        """Normalised float32 [n, C, H, W] of the images ``index``, each seen as ``view`` says (see ``Job.views``).

        A ``patch`` (see ``Job.patches``) is filled from the other image, in the same view, or with the mean colour. So
        every pixel is gathered once: within the patch from another image, at another place where the view says so.
        """
        if view is None and not mix:
            pixels = self.pixels[index]
        else:
            source = index[:, None, None]
            if patch is not None and mix:
                source = torch.where(self._within(patch), patch[:, 0, None, None], source)
            pixels = self.pixels[source, *self._places(view)]
        images = pixels if self._ready else self._normalise(pixels)
        if patch is not None and not mix:
            images = images.masked_fill(self._within(patch)[..., None], 0)
        return images.permute(0, 3, 1, 2)

    def _normalise(self, pixels: Tensor) -> Tensor:
        return (pixels.float() / 255 - self._mean) / self._std

    def _within(self, patch: Tensor) -> Tensor:
        """Where each image's box is, bool [n, H, W]."""
        height, width = self.pixels.shape[1:3]
        row = torch.arange(height, device=patch.device)[:, None]
        column = torch.arange(width, device=patch.device)
        top, bottom, left, right = (side[:, None, None] for side in patch[:, 1:].unbind(1))
        return (row >= top) & (row < bottom) & (column >= left) & (column < right)

    def _places(self, view: Tensor | None) -> tuple[Tensor, Tensor]:
        """Rows and columns to read, broadcast to [n, H, W]: a reflect-padded crop and a flip are other numbers."""
        rows, columns = (torch.arange(size, device=self.pixels.device) for size in self.pixels.shape[1:3])
        if view is None:
            return rows[:, None], columns
        rows = _reflect(rows + view[:, :1], len(rows))
        columns = _reflect(columns + view[:, 1:2], len(columns))
        columns = torch.where(view[:, 2:] == 1, columns.flip(1), columns)
        return rows[:, :, None], columns[:, None, :]


def _reflect(place: Tensor, size: int) -> Tensor:
    """Positions outside 0..size-1 mirrored at the border pixels, which are not repeated."""
    return ((size - 1) - ((size - 1) - place.abs()).abs()).clamp_min(0)
