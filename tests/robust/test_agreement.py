"""Screening's rank correlation, some clients at a time, is NumPy's on all of them at once, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedol.robust.agreement import Opinions, confidence_agreement


@pytest.mark.parametrize("together", [2, 3, 32])
def test_confidence_agreement_in_pieces(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedol.robust.agreement.TOGETHER", together)
    probs = torch.softmax(torch.randn(7, 501, 4, generator=torch.Generator().manual_seed(0)), 2)
    opinions = Opinions.of(probs)
    assert opinions.vote.tolist() == probs.argmax(2).tolist() and opinions.claim.shape == (7, 501)
    expected = np.corrcoef(opinions.order.numpy().argsort(1).astype(float))
    np.fill_diagonal(expected, np.nan)
    np.testing.assert_array_equal(confidence_agreement(opinions), expected)
