"""Clients that a person should look at, with the evidence. Numbers hint, people decide: rare classes look odd too."""

from __future__ import annotations

from typing import Any

import numpy as np

ENOUGH = 5  # clients for "the others" to mean anything
FAR = 3.0  # robust standard deviations below the median
CLOSE = 0.05  # a smaller deviation counts as this: clients that hardly differ are not odd


def attention(summary: dict[str, Any], evidence: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Whom the screening (``fedol.robust``) left out or could not clear and why, then who else looks odd."""
    screened = {entry["client"]: entry for entry in summary.get("screening", [])}
    found = [
        {
            "client": name,
            "left_out": entry["left_out"],
            "reason": entry["why"],
            "trust": entry["trust"],
            "figures": _figures(entry),
        }
        for name, entry in screened.items()
        if entry["suspicious"]
    ]
    found.sort(key=lambda entry: not entry["left_out"])
    for odd in suspicions(evidence) if evidence else []:
        if odd["client"] not in {entry["client"] for entry in found}:
            heard: dict[str, Any] = {**odd, "left_out": False, "trust": None, "figures": []}
            if odd["client"] in screened:
                entry = screened[odd["client"]]
                heard |= {"trust": entry["trust"], "figures": _figures(entry)}
            found.append(heard)
    places = {name: place for place, name in enumerate(evidence["clients"])} if evidence else {}
    return [{**entry, "place": places.get(entry["client"])} for entry in found]


def _figures(entry: dict[str, Any]) -> list[tuple[str, float, float | None]]:
    """What was measured, and what is usual among the others where that is known; what could not be is left out."""
    found = entry["evidence"]
    rows = [
        ("agreement with the others beyond chance", found["everywhere"], found["usual_everywhere"]),
        ("agreement on the images it is surest of", found["surest"], found["usual_surest"]),
        ("the same, with all others together", found.get("seconded"), found.get("usual_seconded")),
        ("images it claims against all others together", found.get("contradicted"), found.get("usual_contradicted")),
        ("sure of the same images as the others (rank correlation)", found["confidence"], None),
    ]
    return [row for row in rows if row[1] is not None]


def suspicions(evidence: dict[str, Any]) -> list[dict[str, str]]:
    """Clients that agree with the trained server far less than the others do, or answer one class to everything."""
    agreement = np.array(evidence["agreement"])
    found = []
    middle = float(np.median(agreement))
    spread = 1.4826 * float(np.median(np.abs(agreement - middle)))  # the deviation of a normal with this median gap
    for k, name in enumerate(evidence["clients"]):
        answers = {sample["votes"][k][0] for sample in evidence["samples"]}
        if len(answers) == 1 and len(evidence["samples"]) > 1:
            found.append({"client": name, "reason": "It answers the same class to every image shown here."})
        elif len(agreement) >= ENOUGH and agreement[k] < middle - FAR * max(spread, CLOSE):
            reason = (
                f"The trained server agrees with it on {100 * agreement[k]:.0f} % of the public images; "
                f"with the median client on {100 * middle:.0f} %."
            )
            found.append({"client": name, "reason": reason})
    return found
