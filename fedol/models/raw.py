"""Whole models as one module, from raw values to probabilities: what is exported."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedol.core.adaptation import LEAST, Adaptation


class FromRaw(nn.Module):
    """Preprocessing, a model of logits, softmax."""

    def __init__(self, module: nn.Module, prepare: Callable[[Tensor], Tensor], findings: bool = False) -> None:
        super().__init__()
        self.module, self.prepare, self.findings = module, prepare, findings

    def forward(self, inputs: Tensor) -> Tensor:
        """Raw values to probabilities [N, classes], or of findings [N, findings]."""
        probs = torch.softmax(self.module(self.prepare(inputs)), -1)
        return probs[..., 1] if self.findings else probs


class Mixed(nn.Module):
    """An adaptation of what a server says, and of what a site's own model says, where that has a part in it."""

    def __init__(self, adaptation: Adaptation, server: nn.Module, own: nn.Module | None) -> None:
        super().__init__()
        self.adaptation, self.server, self.own = adaptation, server, own
        self.shift = nn.Buffer(torch.tensor(adaptation.shift))

    def forward(self, inputs: Tensor) -> Tensor:
        """Raw values to probabilities [N, classes]."""
        given = self.adaptation
        total = given.server * self.server(inputs).clamp_min(LEAST).log() + given.prior * self.shift
        if self.own is not None:
            total = total + given.own * self.own(inputs).clamp_min(LEAST).log()
        return torch.softmax(total, 1)
