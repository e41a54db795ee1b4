"""What a method is, as one record: its name, both of its sides, and what a benchmark must know of it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from fedol.code import fingerprint as code_fingerprint
from fedol.errors import FedolError, InputError, cause, unknown
from fedol.knowledge import Knowledge
from fedol.methods.sides import Clients, Distillation, Predictions, Side, Site, Teacher, everywhere
from fedol.model import ServerModel

Targeting = TypeVar("Targeting", bound=Callable[..., Teacher])
VOTING = ("tau", "rho", "rho_step")  # the settings of which a method may heed some
LAST = 50  # where a method of yours stands in tables


@dataclass(frozen=True)
class Method:
    """A method. One that trains a server has ``targets``; one that combines what it gets has ``combine``."""

    name: str
    title: str = ""  # as people write it
    targets: Callable[[Iterable[Knowledge], Distillation], Teacher] | None = None  # from all clients to a teacher
    combine: Callable[[Site, Sequence[Path]], ServerModel] | None = None  # from the uploads to the server, untrained
    client: Side = field(default_factory=Predictions)  # what a client trains and sends
    iterates: bool = False  # trains its server several times; every other method does so once
    heeds: tuple[str, ...] = VOTING  # a benchmark computes it anew where one of these changes
    fixed: Mapping[str, float] = field(default_factory=dict)  # those that it has a value of its own for
    feedback: Callable[[Tensor, Tensor], Tensor] = everywhere  # the public samples that clients learn back, a mask
    compared: tuple[str, ...] = ()  # the benchmarks of which 'all' it is part
    row: int = LAST  # its place in tables
    paper: str = ""  # its name in the paper's tables, where it is in them
    same_as: str = ""  # the method that this is another name of
    control: bool = False  # only a benchmark has it

    @property
    def serves(self) -> bool:
        """Whether there is a server at all."""
        return self.targets is not None or self.combine is not None

    @property
    def hears(self) -> bool:
        """Whether the server hears the clients' own predictions: then it can be defended against liars."""
        return self.targets is not None and self.client.sends in ("predictions", "ratios")

    @property
    def repeats(self) -> bool:
        """Whether it can go on for several rounds: where clients can learn what comes back."""
        return self.hears or "rounds" in self.compared

    def trainings(self, iterations: int) -> int:
        """How often it trains its server, of the iterations that are asked for."""
        return iterations if self.iterates else 1

    def teacher(self, knowledge: Iterable[Knowledge], settings: Distillation) -> Teacher:
        """The method, having heard all clients; the checks are the same for all methods."""
        assert self.targets is not None  # ``knowing`` sees to it
        try:
            teacher = self.targets(Clients(knowledge), settings)
        except FedolError:
            raise
        except Exception as error:  # one of yours: it stops no other method of a benchmark
            raise InputError(f"The method '{self.name}' failed ({self._place(error)}): {cause(error)}.") from error
        if not (hasattr(teacher, "iterations") and hasattr(teacher, "targets")):
            raise InputError(
                f"The method '{self.name}' must return a teacher, such as once(targets) of fedol.methods.sides, but "
                f"returns a {type(teacher).__name__}."
            )
        if teacher.iterations > 1 and not self.iterates:  # benchmarks would count and keep it as one that does not
            raise InputError(
                f"The method '{self.name}' trains its server {teacher.iterations} times, so it must be registered with "
                "iterates=True."
            )
        return teacher

    def _place(self, error: Exception) -> str:
        """The line of your file where it failed."""
        frames = traceback.extract_tb(error.__traceback__)
        code = getattr(inspect.unwrap(self.targets), "__code__", None) if self.targets else None
        own = [frame for frame in frames if code and frame.filename == code.co_filename]
        place = own[0] if own else frames[-1]
        return f"{Path(place.filename).name}, line {place.lineno}"


METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Make a method known by its name, to ``fedol.run``, the command line and the benchmarks; the last one counts."""
    METHODS[method.name] = method
    return method


def method(name: str, title: str = "", **record: Any) -> Callable[[Targeting], Targeting]:
    """Register a function from knowledge to a teacher as a method: ``@method("geometric", "Geometric mean")``."""

    def registered(targets: Targeting) -> Targeting:
        register(Method(name, title or name, targets, **record))
        return targets

    return registered


def find(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise unknown("method", name, names())
    return METHODS[name]


def knowing(name: str) -> Method:
    """The method of this name, which learns from knowledge files."""
    known = [method.name for method in METHODS.values() if method.targets]
    if name not in known:
        raise unknown("method of a server that learns from files", name, known)
    return METHODS[name]


def names() -> list[str]:
    """Every method that ``fedol run --method`` knows."""
    return [method.name for method in METHODS.values() if not method.control]


def compared(benchmark: str) -> list[str]:
    """The methods that are 'all' of a benchmark, in the order of its rows."""
    found = [method for method in METHODS.values() if benchmark in method.compared]
    return [method.name for method in sorted(found, key=lambda method: method.row)]


def title(name: str) -> str:
    """A method's name as people write it; the name itself where nobody knows it any more."""
    return METHODS[name].title if name in METHODS else name


def fingerprint(name: str) -> str | None:
    """Of the code of a method of yours, either side's, which may change; None of FedOL's own."""
    known = METHODS.get(name)
    parts = (known.targets, known.combine, known.client) if known else ()
    found = [code for part in parts if part and (code := code_fingerprint(part))]
    return "-".join(found) or None


# The clients on their own. And what only a benchmark has: the clients themselves, pooled on the test set, and a server
# that is told the true labels of the public set, which no method may see.
LOCAL, ENSEMBLE, CEILING = "local", "ensemble", "ceiling"
register(Method(LOCAL, "Local", paper="Local", compared=("one-round", "cost"), row=0))
register(Method(ENSEMBLE, "Ensemble of the clients", compared=("one-round",), row=17, control=True))
register(Method(CEILING, "Server on true public labels", compared=("one-round",), row=18, control=True))
