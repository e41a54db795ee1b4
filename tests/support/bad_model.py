"""A model whose loss is no number."""

import torch
from torch import Tensor, nn


class NaN(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.bias + x.flatten(1)[:, :1] * float("nan")
