"""What speaks for or against one client, in numbers and in a sentence for the person who decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

THRESHOLD = 0.5  # of trust: whoever has less is left out
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
    def trust(self) -> float:
        """1 for a usual client, 0 for one that agrees by chance only, or claims far too much."""
        return 0.0 if self.dodging else min(self._agrees, self._modest)

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
