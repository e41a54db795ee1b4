"""Who does not fit in: robust outlier rejection on the clients' agreement, without a label.

Each kind of agreement gives a client one figure, the **median** over the other clients. As long as most clients are
honest, the median of an honest client is an agreement among honest clients, however the others lie and however
well they agree among themselves; that of a liar is its agreement with honest clients. A client's trust is its figure
over the middle client's, the lower of two: on all images, and on those it is surest of. The client of least trust goes
while it is below ``THRESHOLD``; then all are judged again without it, because a liar also lowers what its
honest neighbours reach. Fewer than half may go: beyond that there is no saying who the liars are.

Three ways to dodge the comparison are caught by themselves: to be sure exactly where everyone else is unsure
(``CONTRARY``, and far from everyone); to put all one is sure of into one class, far more than its fair share, so that
nothing is left to compare; and to send another's predictions again (``COPY``), so that one liar is a crowd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedol.robust.agreement import Matrix, Opinions, agreement, confidence_agreement

THRESHOLD = 0.5
CONTRARY = -0.15
UNLIKELY = 4.0  # robust standard deviations below the others that a contrary client also is
PEERS = 3  # others that a client must be comparable with: the median of two is no median
FAIR = 2.0  # times its fair share that a single class may take of the images a client is surest of
COPY = 0.99  # share of equal classes, and rank correlation of entropies, beyond which two clients are one: models that
# were trained apart can agree on nearly every class of an easy task, but not on how sure they are of which image
FEWEST = 4  # clients: of three, one liar and one honest outlier look alike


@dataclass(frozen=True)
class Evidence:
    """What speaks for or against a client: its median agreement with the others, and the middle client's."""

    everywhere: float  # NaN: it could agree with nobody on enough images
    surest: float
    confidence: float  # rank correlation of its entropies with the others'
    contrary: bool  # that is negative, as nobody else's
    one_class: bool  # all it is surest of is one class, beyond its fair share
    copy_of: int | None  # an earlier client that sent the same
    usual_everywhere: float
    usual_surest: float

    @property
    def trust(self) -> float:
        """1 for a usual client, 0 for one that agrees by chance only."""
        shares = [self.everywhere / self.usual_everywhere, self.surest / self.usual_surest]
        known = [share for share in shares if np.isfinite(share)]
        dodging = self.one_class or self.contrary or self.copy_of is not None
        return 0.0 if dodging else min(known, default=1.0)

    def sentence(self, clients: Sequence[str]) -> str:
        """Why it is suspicious, or that it is not; ``clients`` are everyone's names."""
        if self.copy_of is not None:
            return f"It sent the same predictions as {clients[self.copy_of]}."
        if self.one_class:
            return "It puts every image, or all it is surest of, into one class: nothing can be learnt from that."
        if self.contrary:
            return f"It is sure where the others are unsure (rank correlation {self.confidence:.2f})."
        if self.trust >= THRESHOLD:
            return "It agrees with the others."
        figures = (
            (self.everywhere, self.usual_everywhere, "on all images"),
            (self.surest, self.usual_surest, "on those it is surest of"),
        )
        known = [f"{own:.2f} (usual: {usual:.2f}) {where}" for own, usual, where in figures if np.isfinite(own)]
        return f"It agrees too little with the others beyond chance: {', '.join(known)}."


@dataclass(frozen=True)
class Verdict:
    """The evidence on every client as it was last judged, and who is out, in the order in which they went."""

    evidence: tuple[Evidence, ...]
    excluded: tuple[int, ...]


def judge(opinions: Opinions) -> Verdict:
    """The verdict on all clients."""
    matrices = agreement(opinions, False), agreement(opinions, True), confidence_agreement(opinions)
    one_class, copy_of = _one_class(opinions), _copies(opinions, matrices[2])
    clients = len(one_class)
    kept, excluded = list(range(clients)), list[int]()
    evidence: dict[int, Evidence] = {}
    while True:
        among = np.ix_(kept, kept)
        everywhere, surest, confidence = (_medians(matrix[among]) for matrix in matrices)
        usual, contrary = (_median(everywhere), _median(surest)), _contrary(confidence)
        for place, k in enumerate(kept):
            figures = float(everywhere[place]), float(surest[place]), float(confidence[place])
            evidence[k] = Evidence(*figures, bool(contrary[place]), bool(one_class[k]), copy_of[k], *usual)
        # Copies first: while one liar is a crowd, nobody's median means anything.
        worst = min(kept, key=lambda k: (copy_of[k] is None, evidence[k].trust))
        if clients < FEWEST or len(excluded) >= (clients - 1) // 2 or evidence[worst].trust >= THRESHOLD:
            return Verdict(tuple(evidence[k] for k in range(clients)), tuple(excluded))
        kept.remove(worst)
        excluded.append(worst)


def _one_class(opinions: Opinions) -> npt.NDArray[np.bool_]:
    samples, sure = opinions.vote.shape[1], opinions.sure
    chosen = opinions.vote.gather(1, opinions.order[:, :sure].long())
    single: npt.NDArray[np.bool_] = (chosen == chosen[:, :1]).all(1).numpy()
    constant: npt.NDArray[np.bool_] = (opinions.vote == opinions.vote[:, :1]).all(1).numpy()
    return constant | (single & (sure > FAIR * samples / opinions.classes))


def _copies(opinions: Opinions, confidence: Matrix) -> list[int | None]:
    """For every client the first earlier one that sent the same, if any."""

    def first(k: int) -> int | None:
        alike = (opinions.vote[:k] == opinions.vote[k]).double().mean(1).numpy() > COPY
        found = np.flatnonzero(alike & (confidence[k, :k] > COPY))
        return int(found[0]) if len(found) else None

    return [first(k) for k in range(len(opinions.vote))]


def _contrary(confidence: Matrix) -> npt.NDArray[np.bool_]:
    """Far below zero, and far below the others by the median absolute deviation (1.4826 makes it a normal σ)."""
    spread = 1.4826 * _median(np.abs(confidence - _median(confidence)))
    return (confidence < CONTRARY) & (confidence < _median(confidence) - UNLIKELY * spread)


def _medians(matrix: Matrix) -> Matrix:
    return np.array([_median(row, PEERS) for row in matrix])


def _median(values: Matrix, least: int = 1) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) >= least else float("nan")
