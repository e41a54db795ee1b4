"""A membership attack on one file as it is: no model is asked, and the attacker has nothing but what was sent.

Of each candidate, a sample that may have been in the training data, the attacker looks up what the file says of the
public sample most like it, and how sure the file is there of the candidate's class. Candidates are the client's
training samples and its held-out ones, in equal numbers of each class. Where candidates are among the public samples,
or nearly so, the file answers on them themselves: these are looked at once more by themselves, which is the worst case.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from fedol.data import Labelled
from fedol.data.duplicates import Duplicates
from fedol.knowledge import Knowledge
from fedol.privacy.leakage import FEWEST, Leakage, confidence, matched


def attack_file(
    knowledge: Knowledge,
    members: Labelled,
    others: Labelled,
    found: Duplicates,
    of_others: Duplicates,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """How well training samples are told from others, by name of the attack; ``found`` says what is like them."""
    attacks = _on(knowledge, members, others, found.nearest, of_others.nearest, seed, "")
    copies = np.array(sorted(k for k, _ in found.exact + found.near), dtype=np.int64)
    alone = members.take(copies) if len(copies) >= FEWEST else None
    if alone is not None:
        attacks |= _on(knowledge, alone, others, found.nearest[copies], of_others.nearest, seed, " on duplicates")
    return attacks


def _on(
    knowledge: Knowledge,
    members: Labelled,
    others: Labelled,
    own: npt.NDArray[np.int64],
    foreign: npt.NDArray[np.int64],
    seed: int,
    where: str,
) -> dict[str, dict[str, Any]]:
    """By the file's confidence and, where it has them, by its masses; nothing where there are too few to compare."""
    inside, outside = matched(members.y, others.y, seed)
    if len(inside) < FEWEST:
        return {}
    places = np.concatenate([own[inside], foreign[outside]])
    labels = np.concatenate([members.y[inside], others.y[outside]])
    member = np.arange(len(places)) < len(inside)
    scores = {"threshold": confidence(knowledge.log_probs[places], labels)}
    if knowledge.log_mass is not None:
        scores["masses"] = knowledge.log_mass[places].double().numpy()
    return {f"{name}{where}": asdict(Leakage.of(score, member)) for name, score in scores.items()}
