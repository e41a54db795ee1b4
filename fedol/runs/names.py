"""What a run is called that is not told: ``runs/digits-dirichlet0.3-fedol-seed0``, and what differs from a preset."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedol.config import PRESETS, RunConfig, configure
from fedol.models import describe
from fedol.runs.folder import frozen_settings, is_empty
from fedol.settings import Columns

RUNS = Path("runs")
ALWAYS = ("dataset", "partition", "method", "seed")  # of every name
UNSAID = (*ALWAYS, "data_dir", *(item.name for item in fields(Columns)))  # no difference is worth a place in the name
LONGEST = 80  # characters: a file system takes 255, a person fewer


def readable(config: RunConfig) -> str:
    """The run in words; runs whose settings differ in a path or in the twentieth setting may be called the same."""
    dataset = Path(config.dataset).stem.partition("@")[0]
    words = [dataset, config.partition.replace(":", ""), config.method, f"seed{config.seed}"]
    preset, differences = min(((name, _differences(config, name)) for name in PRESETS), key=lambda found: len(found[1]))
    words += [preset] if preset != "quick" else []
    for name, value in differences.items():
        longer = [*words, _word(name.replace("_", "-"), value)]
        if len("-".join(longer)) > LONGEST:
            break
        words = longer
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", "-".join(words))


def default_folder(config: RunConfig) -> Path:
    """Where a run goes that is not told, or where it is already; a hash sets apart what would be called the same."""
    called = RUNS / readable(config)
    apart = called.with_name(f"{called.name}-{config.hash[:6]}")
    before = RUNS / f"{Path(config.dataset).stem}-{config.hash}"  # as such folders were called at first
    for folder in (called, apart, before):
        settings = frozen_settings(folder)
        if settings is not None and not config.changes(settings):
            return folder
    return called if is_empty(called) else apart


def _differences(config: RunConfig, preset: str) -> dict[str, Any]:
    """The settings that are not the preset's."""
    usual = configure(preset, overrides={"dataset": config.dataset, "text": config.text})
    pairs = ((item.name, getattr(config, item.name), getattr(usual, item.name)) for item in fields(config))
    return {name: value for name, value, other in pairs if name not in UNSAID and value != other}


def _word(name: str, value: Any) -> str:
    """``epochs8``, ``augment``, ``no-augment``, ``server-model-cnn``."""
    if value is None or isinstance(value, bool):
        return name if value else f"no-{name}"
    if isinstance(value, int | float):
        return f"{name}{value:g}"
    return f"{name}-{'+'.join(map(describe, value)) if isinstance(value, tuple) else describe(value)}"
