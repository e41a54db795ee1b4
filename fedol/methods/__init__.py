"""The methods by name. A new one is a file with a function or class, and a line here; two where it iterates."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable
from pathlib import Path

from fedol import codeprint
from fedol.errors import FedolError, InputError, cause, unknown
from fedol.knowledge import Knowledge
from fedol.methods.fedavg import ParameterMethod
from fedol.methods.feddf import feddf, feddf_probs
from fedol.methods.fedet import fedet, fedet_probs
from fedol.methods.fedhkt import agreeing, fedhkt
from fedol.methods.fedkt import fedkt
from fedol.methods.fedol import FedOL, Restarted, without_labels
from fedol.methods.fedol_plus import FedOLPlus
from fedol.methods.mine import mine, mine_hard
from fedol.methods.mixture import mixture
from fedol.methods.pooled import pooled, pooled_free, pooled_uniform
from fedol.methods.teacher import Clients, Distillation, Method, Targets, Teacher, everywhere

__all__ = [
    "BUILT_IN",
    "CEILING",
    "CONTROLS",
    "ENSEMBLE",
    "ITERATED",
    "LOCAL",
    "METHODS",
    "ONE_PASS",
    "PARAMETER_METHODS",
    "Distillation",
    "Method",
    "Targets",
    "Teacher",
    "everywhere",
    "find",
    "fingerprint",
    "names",
    "title",
    "trainings",
]

# Functions from the clients' knowledge to the server's targets.
METHODS: dict[str, Method] = {
    "fedol": FedOL,
    "fedol-tau0": without_labels,
    "fedol-reinit": Restarted,
    "mixture": mixture,
    "feddf": feddf,
    "feddf-probs": feddf_probs,
    "fedhkt": fedhkt,
    "fedhkt-k": mixture,  # every client its own group
    "fedet": fedet,
    "fedet-probs": fedet_probs,
    "mine": mine,
    "mine-hard": mine_hard,
    "fedol+": FedOLPlus,
    "pooled": pooled,
    "pooled-uniform": pooled_uniform,
    "pooled-free": pooled_free,
    "fedkt": fedkt,  # on the knowledge of its own client side, ``fedkt.students``
}

BUILT_IN = frozenset(METHODS)  # those of FedOL's, whatever a script of yours puts under the same names

# Those of them that vote and train several times; every other trains its server once (``find`` sees to it).
ITERATED = ["fedol", "fedol-tau0", "fedol-reinit", "fedol+"]

# Those known to heed neither τ nor ρ. Of any other, a benchmark keeps one result for each τ and ρ.
ONE_PASS = ["mixture", "feddf", "feddf-probs", "fedhkt", "fedhkt-k", "fedet", "fedet-probs", "mine", "mine-hard"]
ONE_PASS += ["pooled", "pooled-uniform", "pooled-free", "fedkt"]

# Averages of the clients' weights.
PARAMETER_METHODS: dict[str, ParameterMethod] = {
    "fedavg": ParameterMethod(),
    "fedavg-bn": ParameterMethod(recalibrate=True),
    "fedprox": ParameterMethod(proximal=True),
}

# Which public samples clients learn from the server before another round, where it is not all of them.
FEEDBACK = {"fedhkt": agreeing, "fedhkt-k": agreeing}

LOCAL = "local"  # clients on their own: nothing is sent, there is no server

# What a benchmark has beside methods.
ENSEMBLE = "ensemble"  # the clients themselves, pooled on the test set; no server is trained
CEILING = "ceiling"  # a server trained on the true labels of the public set: what no method here may see
CONTROLS = (ENSEMBLE, CEILING)

TITLES = {
    "local": "Local",
    "fedavg": "FedAvg",
    "fedavg-bn": "FedAvg, norms recalibrated",
    "fedprox": "FedProx",
    "feddf": "FedDF",
    "feddf-probs": "FedDF, probabilities",
    "fedhkt": "FedHKT-style",
    "fedhkt-k": "FedHKT-style, G = K (λ mixture)",
    "fedet": "FedET",
    "fedet-probs": "FedET, variance of probabilities",
    "mine": "MinE",
    "mine-hard": "MinE, hard",
    "fedkt": "FedKT",
    "fedol": "FedOL",
    "fedol-tau0": "FedOL, τ = 0",
    "fedol-reinit": "FedOL, restarted each iteration",
    "mixture": "λ mixture",
    "fedol+": "FedOL+",
    "pooled": "Pooled logits",
    "pooled-uniform": "Pooled logits, uniform prior",
    "pooled-free": "Pooled logits, no prior",
}


def names() -> list[str]:
    """Every method that ``fedol run --method`` knows."""
    return [*METHODS, *PARAMETER_METHODS, LOCAL]


def title(name: str) -> str:
    """A method's name as people write it; its own where there is no other."""
    return TITLES.get(name, name)


def fingerprint(name: str) -> str | None:
    """Of the code of a method of yours, which may change; None of FedOL's own."""
    return codeprint.fingerprint(METHODS[name]) if name in METHODS else None


def trainings(name: str, iterations: int) -> int:
    """How often a method trains its server, of the iterations that are asked for."""
    return iterations if name in ITERATED else 1


def find(name: str) -> Method:
    """The knowledge method of this name, with the checks that are the same for all methods."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    method = METHODS[name]

    def checked(knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
        try:
            teacher = method(Clients(knowledge), settings)
        except FedolError:
            raise
        except Exception as error:  # one of yours: it stops no other method of a benchmark
            frames = traceback.extract_tb(error.__traceback__)
            code = getattr(inspect.unwrap(method), "__code__", None)
            own = [frame for frame in frames if code and frame.filename == code.co_filename]
            place = own[0] if own else frames[-1]
            where = f"{Path(place.filename).name}, line {place.lineno}"
            raise InputError(f"The method '{name}' failed ({where}): {cause(error)}.") from error
        if not (hasattr(teacher, "iterations") and hasattr(teacher, "targets")):
            raise InputError(
                f"The method '{name}' must return a teacher, such as once(targets) of fedol.methods.teacher, but "
                f"returns a {type(teacher).__name__}."
            )
        if teacher.iterations > 1 and name not in ITERATED:  # benchmarks would count and keep it as one that does not
            raise InputError(
                f"The method '{name}' trains its server {teacher.iterations} times, so its name must also stand in "
                "fedol.methods.ITERATED."
            )
        return teacher

    return checked
