"""Who does not fit in: robust outlier rejection on the clients' agreement, without a label, and the evidence for it.

Each kind of agreement gives a client one figure, the **median** over the other clients. As long as most clients are
honest, the median of an honest client is an agreement among honest clients, however the others lie and however
well they agree among themselves; that of a liar is its agreement with honest clients. A client's trust is its figure
over the middle client's, the lowest of three: on all images, on those it is surest of, and on these with all others
together (``fedol.robust.agreement``), where most clients have that figure. It is lower yet for a client that claims
more images against all others together than the middle client does (``MODEST``), where these know enough to tell.
The client of least trust goes while it is below ``THRESHOLD``; then all are judged again without it, because a liar
also lowers what its honest neighbours reach. Fewer than half may go: beyond that there is no saying who the liars are.

That argument needs a client to be comparable with **most** of the others: of three that share its classes, two may be
the liars. Where clients hold few classes each, most pairs have too little in common, and then nobody is judged: an
honest client with rare classes cannot be told from a liar there, and to lose it costs more than most lies.

A client with masses is judged by one figure more, how much of what it claims the others deny
(``fedol.robust.denial``): at most ``DENIED``, or ``UNUSUAL`` times the middle client's share. Its masses say which
images it knows, so that one of a single class, or of classes of its own, does not look like a liar.

Four ways to dodge the comparison are caught by themselves: to say the same of every image; to be sure exactly where
everyone else is unsure (``CONTRARY``, and far from everyone); to put all one is sure of into one class, far more than
its fair share, so that nothing is left to compare; and to send another's predictions again (``COPY``), so that one liar
is a crowd. The second counts against a client that can be compared, the third where the others can: honest clients of
few classes do both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedol.robust.agreement import Matrix, Opinions, agreement, backing, confidence_agreement
from fedol.robust.denial import denial

THRESHOLD = 0.5  # of trust: whoever has less is left out
DENIED = 0.15  # share of what a client claims by its masses that the others may deny, and
UNUSUAL = 4.0  # times the middle client's, if that is more
MODEST = 0.15, 0.25  # share of all images that may be claimed beyond the usual: the usual, within these bounds


@dataclass(frozen=True)
class Evidence:
    """What speaks for or against a client: its median agreement with the others, and the middle client's."""

    everywhere: float  # NaN: it could agree with nobody on enough images
    surest: float
    seconded: float  # by all others together, on the images that it is surest of
    contradicted: float  # share of all images that it claims for another class than all others together
    confidence: float  # rank correlation of its entropies with the others'
    contrary: bool  # that is negative, as nobody else's
    constant: bool  # it says the same of every image
    one_class: bool  # all it is surest of is one class, beyond its fair share
    copy_of: int | None  # an earlier client that sent the same
    usual_everywhere: float  # NaN: nobody is judged by it
    usual_surest: float
    usual_seconded: float
    usual_contradicted: float  # NaN: the others know too little to tell
    others_comparable: bool  # most of those that do not dodge can be compared with most others
    denied: float = math.nan  # share of what it claims by its masses that the others deny; NaN: it sends none
    usual_denied: float = math.nan  # NaN: too few send masses

    @property
    def comparable(self) -> bool:
        """Whether it could be compared with most others, on all images and on those it is surest of."""
        return bool(np.isfinite(self.everywhere) and np.isfinite(self.surest))

    @property
    def dodging(self) -> bool:
        """Whether it evades the comparison, where there is one to evade."""
        alone = self.constant or self.copy_of is not None or (self.contrary and self.comparable)
        return alone or (self.one_class and self.others_comparable)

    @property
    def unsettled(self) -> bool:
        """Whether it looks like a liar, but also as honest clients look that share few classes: for a person to see."""
        return (self.one_class or self.contrary) and not self.dodging

    @property
    def _figures(self) -> tuple[tuple[float, float, str], ...]:
        return (
            (self.everywhere, self.usual_everywhere, "on all images"),
            (self.surest, self.usual_surest, "on those it is surest of"),
            (self.seconded, self.usual_seconded, "on these with all others together"),
        )

    @property
    def _agrees(self) -> float:
        """The lowest agreement, of what is usual; 1 where there is none to go by."""
        known = [own / usual for own, usual, _ in self._figures if np.isfinite(own / usual)]
        return min(known, default=1.0)

    @property
    def _modest(self) -> float:
        """1 for a client that claims no more than is usual, one half at the most that is allowed."""
        excess = (self.contradicted - self.usual_contradicted) / float(np.clip(self.usual_contradicted, *MODEST))
        return 1 / (1 + max(0.0, excess)) if np.isfinite(excess) else 1.0

    @property
    def _undenied(self) -> float:
        """1 for a client whose masses are hardly denied, one half at the most that is allowed."""
        most = max(DENIED, UNUSUAL * self.usual_denied)
        return 1 / (1 + self.denied / most) if np.isfinite(self.denied / most) else 1.0

    @property
    def trust(self) -> float:
        """1 for a usual client, 0 for one that agrees by chance only, or claims far too much."""
        return 0.0 if self.dodging else min(self._agrees, self._modest, self._undenied)

    def sentence(self, clients: Sequence[str]) -> str:
        """Why it is suspicious, or that it is not; ``clients`` are everyone's names."""
        if self.copy_of is not None:
            return f"It sent the same predictions as {clients[self.copy_of]}."
        if self.constant:
            return "It says the same of every image: nothing can be learnt from that."
        if self.trust < THRESHOLD and not self.dodging:
            return " ".join(self._reasons())
        but = " The clients share too few classes to tell whether that is a lie." if self.unsettled else ""
        if self.one_class:
            return f"It puts every image, or all it is surest of, into one class.{but}"
        if self.contrary:
            return f"It is sure where the others are unsure (rank correlation {self.confidence:.2f}).{but}"
        return "It agrees with the others." if self.comparable else "It shares too few classes to be compared."

    def _reasons(self) -> Iterator[str]:
        if self._agrees < THRESHOLD:
            figures = [figure for figure in self._figures if np.isfinite(figure[0] / figure[1])]
            known = [f"{own:.2f} (usual: {usual:.2f}) {where}" for own, usual, where in figures]
            yield f"It agrees too little with the others beyond chance: {', '.join(known)}."
        if self._modest < THRESHOLD:
            yield (
                "It claims to know too much: it is sure of another class than all others together on "
                f"{self.contradicted:.0%} of the images (usual: {self.usual_contradicted:.0%})."
            )
        if self._undenied < THRESHOLD:
            yield (
                f"The others deny {self.denied:.0%} of what it claims to know by its masses "
                f"(usual: {self.usual_denied:.0%})."
            )


AGREED = 0.2  # what the best quarter of clients reach, unless clients hardly agree at all and there is no yardstick
CONTRARY = -0.15
UNLIKELY = 4.0  # robust standard deviations below the others that a contrary client also is
PEERS = 3  # others that a client must be comparable with at least: the median of two is no median
FAIR = 2.0  # times its fair share that a single class may take of the images a client is surest of
CLAIMED = 0.5  # of exp(−doubt): a client with masses says that it knows such an image
COPY = 0.99  # share of equal classes, and rank correlation of entropies, beyond which two clients are one: models that
# were trained apart can agree on nearly every class of an easy task, but not on how sure they are of which image
FEWEST = 4  # clients: of three, one liar and one honest outlier look alike


@dataclass(frozen=True)
class Verdict:
    """The evidence on every client as it was last judged, and who is out, in the order in which they went."""

    evidence: tuple[Evidence, ...]
    excluded: tuple[int, ...]


NAN = float("nan")
UNJUDGED = Evidence(NAN, NAN, NAN, NAN, NAN, False, False, False, None, NAN, NAN, NAN, NAN, False)


def judge(opinions: Opinions, threshold: float = THRESHOLD, apart: Collection[int] = ()) -> Verdict:
    """The verdict on all clients; those ``apart`` are neither judged nor anybody's peers."""
    matrices = agreement(opinions, False), agreement(opinions, True), confidence_agreement(opinions)
    one_class, copy_of = _one_class(opinions), _copies(opinions, matrices[2])
    kept, excluded = [k for k in range(len(one_class)) if k not in apart], list[int]()
    evidence, clients = dict.fromkeys(range(len(one_class)), UNJUDGED), len(kept)
    while kept:
        among = np.ix_(kept, kept)
        everywhere, surest, confidence = (_medians(matrix[among]) for matrix in matrices)
        backed = backing(opinions, kept)
        usual = _usual(everywhere), _usual(surest), _usual(backed.seconded, len(kept) // 2 + 1)
        telling = np.isfinite(backed.seconded).sum() >= FEWEST  # whom nobody seconds, they cannot contradict, either
        denied = denial(opinions, kept)
        contrary = _contrary(confidence)
        straight = [k for k in kept if not one_class[k]]  # the others are no peers to compare with, either
        figures = sum(_medians(matrix[np.ix_(straight, straight)]) for matrix in matrices[:2])
        comparable = bool(np.isfinite(figures).sum() >= 0.5 * len(straight) > 0)
        for place, k in enumerate(kept):
            evidence[k] = Evidence(
                everywhere=float(everywhere[place]),
                surest=float(surest[place]),
                seconded=float(backed.seconded[place]),
                contradicted=float(backed.contradicted[place]),
                denied=float(denied[place]),
                confidence=float(confidence[place]),
                # Where its masses lie, others' do not.
                contrary=bool(contrary[place]) and opinions.masses[k] is None,
                constant=opinions.constant[k],
                one_class=bool(one_class[k]),
                copy_of=copy_of[k],
                usual_everywhere=usual[0],
                usual_surest=usual[1],
                usual_seconded=usual[2],
                usual_contradicted=_median(backed.contradicted) if telling else float("nan"),
                usual_denied=_median(denied, FEWEST),
                others_comparable=comparable,
            )
        # Copies first: while one liar is a crowd, nobody's median means anything.
        worst = min(kept, key=lambda k: (copy_of[k] is None, evidence[k].trust))
        if clients < FEWEST or len(excluded) >= (clients - 1) // 2 or evidence[worst].trust >= threshold:
            break
        kept.remove(worst)
        excluded.append(worst)
    return Verdict(tuple(evidence.values()), tuple(excluded))


def _one_class(opinions: Opinions) -> npt.NDArray[np.bool_]:
    samples, sure = opinions.vote.shape[1], opinions.sure
    chosen = opinions.vote.gather(1, opinions.order[:, :sure].long())
    single: npt.NDArray[np.bool_] = (chosen == chosen[:, :1]).all(1).numpy()
    constant: npt.NDArray[np.bool_] = (opinions.vote == opinions.vote[:, :1]).all(1).numpy()
    found: npt.NDArray[np.bool_] = constant | (single & (sure > FAIR * samples / opinions.classes))
    for k, mass in enumerate(opinions.masses):
        if mass:  # it may hold one class, but then it knows hardly more images than have that
            known = opinions.vote[k][opinions.claim[k] >= CLAIMED]
            found[k] = len(known) > FAIR * samples / opinions.classes and bool((known == known[0]).all())
    return found


def _copies(opinions: Opinions, confidence: Matrix) -> list[int | None]:
    """For every client the first earlier one that sent the same, if any."""

    def first(k: int) -> int | None:
        alike = (opinions.vote[:k] == opinions.vote[k]).sum(1).double().numpy() / opinions.vote.shape[1] > COPY
        found = np.flatnonzero(alike & (confidence[k, :k] > COPY))
        return int(found[0]) if len(found) else None

    return [first(k) for k in range(len(opinions.vote))]


def _contrary(confidence: Matrix) -> npt.NDArray[np.bool_]:
    """Far below zero, and far below the others by the median absolute deviation (1.4826 makes it a normal σ)."""
    spread = 1.4826 * _median(np.abs(confidence - _median(confidence)))
    return (confidence < CONTRARY) & (confidence < _median(confidence) - UNLIKELY * spread)


def _medians(matrix: Matrix) -> Matrix:
    most = (len(matrix) - 1) // 2 + 1  # of the others
    return np.array([_median(row, max(PEERS, most)) for row in matrix])


def _usual(figures: Matrix, least: int = 1) -> float:
    """The middle client's figure, where it says anything; ``least`` so many clients must have one."""
    middle, known = _median(figures, least), figures[np.isfinite(figures)]
    return middle if middle > 0 and np.quantile(known, 0.75) >= AGREED else float("nan")


def _median(values: Matrix, least: int = 1) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) >= least else float("nan")
