"""Clients that lie: which defences are on, and screening, which says whose knowledge a server listens to.

No defence sees a label (docs/robustness.md). ``attacks`` has what to test them with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from fedol.errors import InputError, unknown
from fedol.knowledge import Knowledge
from fedol.robust.agreement import Opinions, Weighed
from fedol.robust.trust import THRESHOLD, Verdict, judge
from fedol.settings import DEFENDED
from fedol.settings import NONE as NONE

DEFAULT = DEFENDED

CAP = 5.0  # times the fair share 1/C that a model's class confidence C² may count for
FLOOR = 0.5  # nats of entropy below which a client gains no more weight in the mixture

DEFENCES = {
    "trust": "leave out clients that do not agree with the others (fedol.robust.trust)",
    "exact": "a model votes on exactly ⌈ρN⌉ samples, however many tie",
    "cap": f"class confidence counts for at most {CAP:g} times a fair share, masses for what samples bear out",
    "runoff": "sure models nominate a sample's classes, all models together choose among them",
    "floor": f"entropy below {FLOOR:g} nats earns no more weight in the mixture",
}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if names == [NONE]:
        return []
    if NONE in names:
        raise InputError(f"'{text}' asks for defences and for none; leave one of both out.")
    for name in names:
        if name not in DEFENCES:
            raise unknown("defence", name, [*DEFENCES, NONE])
    return names


def canonical(text: str) -> str:
    """One spelling of the same defences, whatever their order."""
    names = _names(text)
    return ",".join(name for name in DEFENCES if name in names) or NONE


def hearing_everyone(text: str) -> str:
    """These defences but for the one that leaves clients out."""
    return canonical(",".join(name for name in _names(text) if name != "trust") or NONE)


@dataclass(frozen=True)
class Defence:
    """The defences as the server applies them. The default is none: Algorithm 1 and Eq. 12 to the letter."""

    trust: bool = False
    exact: bool = False
    cap: float = math.inf
    floor: float = 0.0
    runoff: bool = False

    @classmethod
    def parse(cls, text: str) -> Defence:
        """``none``, or names of defences with commas between them."""
        names = _names(text)
        return cls(
            "trust" in names,
            "exact" in names,
            CAP if "cap" in names else math.inf,
            FLOOR if "floor" in names else 0.0,
            "runoff" in names,
        )


@dataclass(frozen=True)
class Screening:
    """The clients in their order, and the verdict on them."""

    clients: tuple[str, ...]
    verdict: Verdict

    @property
    def kept(self) -> list[int]:
        """Positions of the clients that take part."""
        return [k for k in range(len(self.clients)) if k not in self.verdict.excluded]

    def as_json(self) -> list[dict[str, Any]]:
        """One entry per client: whether it is left out, or for a person to look at, its trust, and the evidence."""
        return [
            {
                "client": name,
                "left_out": k in self.verdict.excluded,
                # Too few clients to leave one out, or too many left out already: then a person has to look.
                "suspicious": k in self.verdict.excluded or evidence.unsettled or evidence.trust < THRESHOLD,
                "trust": _number(evidence.trust),
                "why": evidence.sentence(self.clients),
                "evidence": {key: _number(value) for key, value in asdict(evidence).items()},
            }
            for k, (name, evidence) in enumerate(zip(self.clients, self.verdict.evidence, strict=True))
        ]


def screen(knowledge: Iterable[Knowledge], masses: bool = False) -> Screening:
    """Judge all clients in one pass over their knowledge; a client's predictions may be freed before the next.

    With ``masses`` the method hears these. Then a client of one class says all that it knows by its mass: its
    predictions, which are one class for every sample, are no reason to leave it out.
    """
    names, apart = list[str](), set[int]()

    def heard() -> Iterable[Any]:
        for client in knowledge:
            if masses and client.log_mass is not None and len(client.held) == 1:
                apart.add(len(names))
            names.append(client.client)
            probs, mass, share = client.probabilities(), client.log_mass, client.share
            yield Weighed(probs, mass, share) if masses and mass is not None and share is not None else probs

    verdict = judge(Opinions.of(heard()), apart=apart)
    return Screening(tuple(names), verdict)


def _number(value: Any) -> Any:
    """JSON has no NaN; where there was nobody to compare with, there is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def left_out(screening: Iterable[dict[str, Any]]) -> set[str]:
    """The clients that a screening, as it is kept (``as_json``), left out."""
    return {entry["client"] for entry in screening if entry["left_out"]}
