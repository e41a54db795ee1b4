"""Who does not fit in: robust outlier rejection on the clients' agreement, without a label.

A client's trust is the **median** of its agreement with the others. As long as most clients are honest, the median of
an honest client is an agreement among honest clients, however the others lie and however well they agree among
themselves; that of a liar is its agreement with honest clients. The client with the least trust goes while its trust is
below ``THRESHOLD`` of the middle client's; then all are judged again without it, because a liar also lowers what
its honest neighbours reach. At most half may go: beyond that there is no saying who the liars are.

Two clients that agree almost completely are one client twice (honest models never do): copies count once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fedol.robust.agreement import agreement

THRESHOLD = 0.5
FEWEST = 4  # clients: of three, one liar and one honest outlier look alike


@dataclass(frozen=True)
class Verdict:
    """Every client's trust as it was last judged, and who does not take part."""

    trust: tuple[float, ...]  # NaN: nobody to compare it with
    usual: float  # the middle client's
    excluded: tuple[int, ...]  # in the order in which they went

    def suspicious(self, k: int) -> bool:
        """Whether client k is out."""
        return k in self.excluded


def judge(vote: Tensor, classes: int) -> Verdict:
    """The verdict on clients by the class that each gives each image, [K, N]."""
    between = agreement(vote, classes)
    clients = len(between)
    kept, excluded, trust = list(range(clients)), [], np.full(clients, np.nan)
    while True:
        trust[kept] = _trust(between[np.ix_(kept, kept)])
        usual = float(np.nanmedian(trust[kept])) if np.isfinite(trust[kept]).any() else float("nan")
        worst = min(kept, key=lambda k: trust[k] if np.isfinite(trust[k]) else np.inf)
        enough = clients >= FEWEST and len(excluded) < (clients - 1) // 2
        if not enough or not trust[worst] < THRESHOLD * usual:
            return Verdict(tuple(trust.tolist()), usual, tuple(excluded))
        kept.remove(worst)
        excluded.append(worst)


def _trust(between: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    heard = np.isfinite(between).any(1)
    result = np.full(len(between), np.nan)
    result[heard] = np.nanmedian(between[heard], axis=1)
    return result
