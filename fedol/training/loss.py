"""Cross-entropy on a batch, where parts of the samples may be pasted from others."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def batch_loss(logits: Tensor, targets: Tensor, index: Tensor, patch: Tensor | None, places: int) -> Tensor:
    """The mean cross-entropy of the images ``index``; with ``patch`` (``Images.patches``), cutmix's.

    Cross-entropy is linear in its target, so an image that is a share a of another, whose target is t′, costs
    (1 − a)·CE(t) + a·CE(t′): that holds for classes as for soft targets, and no mixed target is ever made.
    """
    if patch is None:
        return F.cross_entropy(logits, targets[index])
    own, others = (F.cross_entropy(logits, targets[rows], reduction="none") for rows in (index, patch[:, 0]))
    share = (patch[:, 2] - patch[:, 1]) * (patch[:, 4] - patch[:, 3]) / places
    return (own + share * (others - own)).mean()
