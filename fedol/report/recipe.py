"""How to make a run again: its configuration as a file, and the command that reads it."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

from fedol.text import shown


def recipe(summary: dict[str, Any]) -> dict[str, Any]:
    """The settings as TOML, the commands, and what the run was made with."""
    config, provenance = summary["config"], summary.get("provenance", {})
    settings = {name: value for name, value in config.items() if value is not None}
    made = {**provenance.get("versions", summary.get("versions", {})), **provenance.get("machine", {})}
    if provenance.get("commit"):
        made["commit"] = provenance["commit"]
    if provenance.get("date"):
        made["date"] = provenance["date"]
    return {
        "toml": Markup("\n".join(shown(f"{name} = {_toml(value)}", "html") for name, value in settings.items())),
        "command": provenance.get("command"),
        "simulated": "task" not in summary,
        "made": {name: value for name, value in made.items() if value is not None},
    }


def _toml(value: Any) -> str:
    """A setting as TOML writes it, which for these types is how JSON does."""
    return json.dumps(value, ensure_ascii=False)
