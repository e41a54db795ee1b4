"""Which defences are on. They compose; none of them sees a label, and without all of them the method is the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedol.errors import InputError, unknown

CAP = 5.0  # times the fair share 1/C that a model's class confidence C² may count for
FLOOR = 0.5  # nats of entropy below which a client gains no more weight in the mixture

DEFENCES = {
    "trust": "leave out clients that do not agree with the others (fedol.robust.trust)",
    "exact": "a model votes on exactly ⌈ρN⌉ samples, however many tie",
    "cap": f"class confidence counts for at most {CAP:g} times a fair share",
    "runoff": "sure models nominate a sample's classes, all models together choose among them",
    "floor": f"entropy below {FLOOR:g} nats earns no more weight in the mixture",
}
# By measurement (docs/robustness.md): without attackers it costs the mixture nothing on average; the floor up to 10.5.
DEFAULT = "trust,exact,cap,runoff"
NONE = "none"


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
