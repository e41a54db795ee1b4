"""Options: those of the settings, made from their fields, and those that several commands share."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedol.cli import complete
from fedol.errors import InputError
from fedol.settings.presets import PRESETS, SUITED

if TYPE_CHECKING:
    from fedol.federation.outputs import Outputs

OUTPUT = "Output"
KINDS = {"int": int, "float": float, "bool": bool}  # by the annotation; everything else is text

Preset = Annotated[
    str | None,
    typer.Option(
        help="quick (the default), paper or best.",
        rich_help_panel="Settings",
        autocompletion=complete.one_of(complete.presets),
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="A TOML file with any of these settings.", rich_help_panel="Settings")
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run code that a file names as its model; only if you trust whoever made it.",
        rich_help_panel="Settings",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)]

Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        help="Where figures go, too: tensorboard (into the run folder), mlflow or wandb; may be repeated.",
        rich_help_panel=OUTPUT,
        autocompletion=complete.one_of(complete.logs),
    ),
]
RunDir = Annotated[Path, typer.Argument(help="A run folder, or one model file.", autocompletion=complete.run_folders)]

Logits = Annotated[
    bool, typer.Option("--logits", help="Your model gives logits, where its outputs do not show what they are.")
]
Multilabel = Annotated[
    bool, typer.Option("--multilabel", help="Your model gives a yes or no for each class by itself, in [0, 1].")
]

PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", help="Your site's policy; $FEDOL_POLICY or ~/.config/fedol/policy.toml by default."),
]

TaskDir = Annotated[Path, typer.Argument(help="The task's folder.")]
PublicSamples = Annotated[
    Path | None, typer.Option("--public", help="The public samples, where they are not in the task's folder.")
]
Test = Annotated[
    Path | None,
    typer.Option(help="Labelled samples (a table, or .npz with test_x and test_y) to score the model with at the end."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Start the run in this folder over, whatever it was made with.", rich_help_panel=OUTPUT
    ),
]


def outputs(logits: bool, multilabel: bool) -> Outputs:
    """What is said of a model's outputs."""
    if logits and multilabel:
        raise InputError("Outputs are logits or a yes or no for each class; give --logits or --multilabel, not both.")
    return "logits" if logits else "multilabel" if multilabel else ""


def with_settings(
    record: type, but: Collection[str] = (), names: dict[str, tuple[str, ...]] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every setting of a record; it is handed those that were given, as ``settings``."""
    known = [item for item in fields(record) if "help" in item.metadata and item.name not in but]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_them(**values: Any) -> None:
            given = {item.name: values.pop(item.name) for item in known}
            command(**values, settings={name: value for name, value in given.items() if value is not None})

        hints = typing.get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
            if parameter.name != "settings"
        ]
        presets = PRESETS if "preset" in hints else {}
        options = [_option(item, (names or {}).get(item.name, ()), presets) for item in known]
        required = [parameter for parameter in own if parameter.default is parameter.empty]
        optional = [parameter for parameter in own if parameter.default is not parameter.empty]
        together = [*required, *options, *optional]
        with_them.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        with_them.__annotations__ = {parameter.name: parameter.annotation for parameter in together}
        return with_them

    return decorate


def _option(item: Field[Any], declared: tuple[str, ...], presets: Mapping[str, Mapping[str, Any]]) -> inspect.Parameter:
    """The option of a setting: its type, help and default, in its panel, and what the Tab key offers."""
    kind = KINDS.get(str(item.type).split(" | ")[0], str)
    dashed = item.name.replace("_", "-")
    names = declared or ((f"--{dashed}/--no-{dashed}",) if kind is bool else (f"--{dashed}",))
    option = typer.Option(
        *names,
        help=item.metadata["help"] + _defaults(item, presets),
        rich_help_panel=item.metadata["panel"],
        show_default=False,
        autocompletion=complete.OF.get(item.name),
    )
    return inspect.Parameter(
        item.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option]
    )


def _defaults(item: Field[Any], presets: Mapping[str, Mapping[str, Any]]) -> str:
    """A default as a person would type it, those of presets and of kinds of data that have another; or nothing."""
    said: dict[str, list[str]] = {}
    if item.default is not None and item.default is not MISSING:
        said[_word(item.default)] = ["default"]
    for name, values in {**presets, **SUITED}.items():
        if values.get(item.name, item.default) != item.default:
            said.setdefault(_word(values[item.name]), []).append(name)
    words = "; ".join(f"{', '.join(names)}: {word}" for word, names in said.items())
    return f" ({words})" if words else ""


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, tuple) else str(value)
