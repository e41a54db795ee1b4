"""``fedol/settings/keywords.py``: the settings as typed keyword arguments, made from the records beside it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, Field, fields
from typing import Any

from _record import ROOT

from fedol.settings import RunSettings, Training, Voting

FILE = ROOT / "fedol" / "settings" / "keywords.py"
HEAD = '''"""Settings as keyword arguments, so that an editor completes them and a type checker knows them.

Made from the records of ``fedol/settings`` by ``make tables``; a test checks that this changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from fedol.settings import ModelName

if TYPE_CHECKING:
    from fedol.data.partitions import Partition
'''
WIDER = {"client_models": "ModelName | Sequence[ModelName]", "partition": "str | Partition"}  # than what is kept
PRESET = ("preset", "str", "quick, paper or best: what every other setting is unless it is given.")
ONE_EACH = ("dataset", "method", "partition", "seed")  # of ``fedol.compare``, which has several of them


def plain(kind: str) -> str:
    """One value."""
    return kind


def several(kind: str) -> str:
    """One value, or a list of them for a grid."""
    optional = " | None" if kind.endswith(" | None") else ""
    return f"{kind.removesuffix(' | None')} | Sequence[{kind}]{optional}"


def keywords() -> str:
    """The file."""
    parts = [
        _class("RunKeywords", "The settings of ``fedol.run``.", RunSettings, plain, ("dataset",), [PRESET]),
        _class(
            "GridKeywords",
            "The settings of ``fedol.compare``: a value each, or a list of values, which makes a grid.",
            RunSettings,
            several,
            ONE_EACH,
            [PRESET],
        ),
        _class("TrainingKeywords", "How a model trains.", Training, plain),
        _class(
            "ServerKeywords(TrainingKeywords",
            "The settings of ``fedol.distill`` beside those that it names itself.",
            Voting,
            plain,
            ("method",),
        ),
    ]
    return "\n\n\n".join([HEAD.rstrip("\n"), *parts]) + "\n"


def _class(
    name: str,
    about: str,
    record: type,
    kind: Callable[[str], str],
    but: Collection[str] = (),
    first: Collection[tuple[str, str, str]] = (),
) -> str:
    base = f"{name}, total=False)" if "(" in name else f"{name}(TypedDict, total=False)"
    known = [item for item in fields(record) if item.name not in but]
    entries = [*first, *((item.name, kind(WIDER.get(item.name, str(item.type))), _help(item)) for item in known)]
    return "\n".join(
        [f"class {base}:", f'    """{about}"""', "", *(line for each in entries for line in _entry(*each))]
    )


def _help(item: Field[Any]) -> str:
    value = item.default
    if value is None or value is MISSING:
        return str(item.metadata["help"])
    if isinstance(value, bool):
        word = "yes" if value else "no"
    else:
        word = f"{value:g}" if isinstance(value, float) else ",".join(value) if isinstance(value, tuple) else str(value)
    return f"{item.metadata['help']} Default: {word}."


def _entry(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"    {name}: {kind}"
    quoted = textwrap.wrap(f'"""{about}"""', 115, break_long_words=False, break_on_hyphens=False)
    yield from (f"    {line}" for line in quoted)


def write() -> bool:
    """Write the file, and say whether it has changed."""
    text = keywords()
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text:
        return False
    FILE.write_text(text, encoding="utf-8")
    return True
