"""Clients whose answers look odd. A hint for a person to look, never a verdict: rare classes look odd too."""

from __future__ import annotations

from typing import Any

import numpy as np

ENOUGH = 5  # clients for "the others" to mean anything
FAR = 3.0  # robust standard deviations below the median
CLOSE = 0.05  # a smaller deviation counts as this: clients that hardly differ are not odd


def suspicions(evidence: dict[str, Any]) -> list[dict[str, str]]:
    """Clients that agree with the trained server far less than the others do, or answer one class to everything."""
    agreement = np.array(evidence["agreement"])
    found = []
    middle = float(np.median(agreement))
    spread = 1.4826 * float(np.median(np.abs(agreement - middle)))  # the deviation of a normal with this median gap
    for k, name in enumerate(evidence["clients"]):
        answers = {sample["votes"][k][0] for sample in evidence["samples"]}
        if len(answers) == 1 and len(evidence["samples"]) > 1:
            found.append({"client": name, "reason": "it answers the same class to every image shown here"})
        elif len(agreement) >= ENOUGH and agreement[k] < middle - FAR * max(spread, CLOSE):
            reason = (
                f"the trained server agrees with it on {100 * agreement[k]:.0f} % of the public images; "
                f"with the median client on {100 * middle:.0f} %"
            )
            found.append({"client": name, "reason": reason})
    return found
