"""What the Tab key offers for a value: names from the registries, and the folders of runs.

A registry is imported where its names are asked for: typing an option needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

from fedol.settings.presets import PRESETS

Completer = Callable[[str], list[str]]


def one_of(names: Callable[[], Iterable[str]]) -> Completer:
    """One of these names."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def several_of(names: Callable[[], Iterable[str]]) -> Completer:
    """Names with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete


def run_folders(incomplete: str) -> list[str]:
    """Folders of runs below what is typed, or in ``runs``; and folders on the way to others."""
    typed = Path(incomplete)
    parent = typed if incomplete.endswith("/") else typed.parent
    beside = [folder for folder in _folders(parent) if str(folder).startswith(incomplete.rstrip("/"))]
    here = [folder for folder in (*beside, *_folders(Path("runs"))) if (folder / "config.json").exists()]
    runs = dict.fromkeys(str(folder) for folder in here if str(folder).startswith(incomplete))
    return [*runs, *(f"{folder}/" for folder in beside if str(folder) not in runs and not folder.name.startswith("."))]


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(folder for folder in place.iterdir() if folder.is_dir())
    except OSError:
        return []


def presets() -> Iterable[str]:
    """Of runs and benchmarks."""
    return PRESETS


def logs() -> Iterable[str]:
    """Where figures go."""
    from fedol.report.loggers import LOGS

    return LOGS


def _methods() -> Iterable[str]:
    from fedol.methods import METHODS

    return [name for name, method in METHODS.items() if not method.control]


def _partitions() -> Iterable[str]:
    from fedol.data import PARTITIONS

    return [f"{name}:{scheme.example}" if fields(scheme) else name for name, scheme in PARTITIONS.items()]


def _datasets() -> Iterable[str]:
    from fedol.data import DATASETS

    return DATASETS


def _models() -> Iterable[str]:
    from fedol.models.registry import names

    return names()


def _defences() -> Iterable[str]:
    from fedol.robust import DEFENCES, NONE

    return [*DEFENCES, NONE]


def _optimisers() -> Iterable[str]:
    from fedol.training.optimisers import BUILT_IN

    return BUILT_IN


def _schedules() -> Iterable[str]:
    from fedol.training.schedules import BUILT_IN

    return BUILT_IN


def _patches() -> Iterable[str]:
    from fedol.training.job import PATCHES

    return PATCHES


def _codecs() -> Iterable[str]:
    from fedol.settings import CODEC

    return (CODEC, *(name + packed for name in ("float32", "float16", "q7c60", "top10") for packed in ("", "+zstd")))


def _devices() -> Iterable[str]:
    return ("auto", "cpu", "cuda", "mps")


# By the setting.
OF: dict[str, Completer] = {
    "method": one_of(_methods),
    "partition": one_of(_partitions),
    "dataset": one_of(_datasets),
    "defence": several_of(_defences),
    "codec": one_of(_codecs),
    "device": one_of(_devices),
    "client_models": several_of(_models),
    **dict.fromkeys(("server_model", "parameter_model"), one_of(_models)),
    **dict.fromkeys(("optimiser", "server_optimiser"), one_of(_optimisers)),
    **dict.fromkeys(("schedule", "server_schedule"), one_of(_schedules)),
    **dict.fromkeys(("patch", "client_patch"), one_of(_patches)),
}
METHODS, PARTITIONS = several_of(_methods), several_of(_partitions)  # of a benchmark
