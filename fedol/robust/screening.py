"""Screening: which clients' knowledge a server listens to, and the evidence for a person to decide by."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from fedol.knowledge import Knowledge
from fedol.robust.agreement import Opinions
from fedol.robust.evidence import THRESHOLD
from fedol.robust.trust import Verdict, judge


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


def screen(knowledge: Iterable[Knowledge]) -> Screening:
    """Judge all clients in one pass over their knowledge; a client's predictions may be freed before the next."""
    names: list[str] = []

    def heard() -> Iterable[Any]:
        for client in knowledge:
            names.append(client.client)
            yield client.probabilities()

    verdict = judge(Opinions.of(heard()))
    return Screening(tuple(names), verdict)


def _number(value: Any) -> Any:
    """JSON has no NaN; where there was nobody to compare with, there is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def left_out(screening: Iterable[dict[str, Any]]) -> set[str]:
    """The clients that a screening, as it is kept (``as_json``), left out."""
    return {entry["client"] for entry in screening if entry["left_out"]}
