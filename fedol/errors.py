"""What a user can get wrong. Every message is one sentence: what, where, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class FedolError(Exception):
    """An error to show to a person as it is; the command line prints it and exits with code 2.

    Whoever decides by it reads its fields, never its words: ``file`` is what is at fault, where that is a file, and
    ``complete`` says that the sentence already tells what helps.
    """

    def __init__(self, sentence: str, file: Path | None = None, complete: bool = False) -> None:
        super().__init__(sentence)
        self.file, self.complete = file, complete


class InputError(FedolError, ValueError):
    """A value handed to FedOL is not what it must be."""


class MissingExtra(FedolError):
    """Something needs a package that is not installed; whoever can do without it may go on."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a registry, with the nearest known name."""
    names, name = sorted(known), name if len(name) <= 80 else f"{name[:79]}…"
    lowered = {other.lower(): other for other in names}
    near = get_close_matches(name.lower(), lowered, n=1)
    hint = f"did you mean '{lowered[near[0]]}'?" if near else f"known are: {', '.join(names)}."
    return InputError(f"There is no {kind} '{name}'; {hint}")


BRIEF = 60  # characters of a value in a sentence


def brief(value: object) -> str:
    """A value as an error names it: a short plain one as Python writes it, anything else by its kind and size."""
    kind = type(value).__name__
    if (
        isinstance(value, list | tuple)
        and (odd := next((each for each in value if not _plain(each)), None)) is not None
    ):
        return f"a {kind} with {brief(odd)} in it"
    if _plain(value) and len(words := repr(value)) <= BRIEF:
        return words
    if isinstance(value, str):
        return f"text of {len(value):,} characters"
    if isinstance(value, type) or callable(value):
        return str(getattr(value, "__name__", kind))
    if isinstance(shape := getattr(value, "shape", None), tuple):
        return f"{kind} of shape {list(shape)}"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"a {kind} of {len(value):,}"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _plain(value: object) -> bool:
    """Whether a value is a number or text, or holds nothing else."""
    if isinstance(value, dict):
        return all(_plain(each) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def measures(shape: Iterable[int]) -> str:
    """A shape in words: 3x32x32."""
    return "x".join(map(str, shape))


def cause(error: Exception) -> str:
    """An exception on one line, without a final full stop; one of ours needs no name."""
    name = "" if isinstance(error, FedolError) else f"{type(error).__name__}: "
    return f"{name}{' '.join(str(error).split())}".rstrip(": .")
