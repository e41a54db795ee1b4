"""Clients that arrive after the training: a new run that starts from the old one's model and hears everyone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedol.config import ServerConfig
from fedol.errors import FedolError, InputError, cause
from fedol.federation.coordinator import Coordinator
from fedol.federation.taskfolder import TaskFolder
from fedol.files import file_digest, read_json
from fedol.model import load
from fedol.models.registry import check_settings


def continued(
    run: Path,
    new: list[Path],
    out: Path | None,
    settings: dict[str, Any],
    public: Path | None,
    trust_code: bool = False,
    force: bool = False,
) -> tuple[Coordinator, list[Path]]:
    """The run that goes on from ``run``, and the files it is to collect: those of before, then the new ones.

    The run may be a stranger's: a model that is code is taken from ``settings``, or with ``trust_code`` from the run.
    """
    model = run / "model.safetensors"
    if not model.exists() or not (run / "roster.json").exists():
        raise FedolError(f"{run} is not a finished server run; --resume needs the folder of a serve or distill run.")
    if (run / "sums").exists():
        raise InputError(
            f"{run} learnt from a sum, and nobody has its clients' files; sum old and new clients together, and begin "
            "anew."
        )
    if not new:
        raise InputError("There are no new files to learn from; give them after the run.")
    try:
        frozen = read_json(run / "config.json")["config"]
        before = {name: value for name, value in frozen.items() if name not in settings}
        check_settings(before, str(run / "config.json"), trust_code)
        folder = TaskFolder.of_run(run)
        old = sorted(run / "clients" / f"{name}.fedol" for name in read_json(run / "roster.json")["clients"])
        heard, added = {file_digest(path) for path in old}, {file_digest(path): path for path in new}
        if again := heard & added.keys():
            raise InputError(f"{added[min(again)]} is part of {run} already; give new files only.")
        values = {**before, **settings, "parent": file_digest(model)[:16], "added": tuple(sorted(added))}
        config = ServerConfig(**values)
        if (width := load(model, config.server_model).architecture.width) != config.width:
            raise InputError(f"The model in {run} has the width {width}, and it goes on with that, not {config.width}.")
    except FedolError:
        raise
    except (AttributeError, OSError, ValueError, KeyError, TypeError) as error:
        raise FedolError(f"{run} cannot be continued: {cause(error)}.") from None
    target = out or run.with_name(f"{run.name}-resumed")
    if target.resolve() == run.resolve():
        raise InputError(f"A run that goes on from {run} needs a folder of its own; choose another --out.")
    return Coordinator(folder, config, target, public, start=model, force=force), [*old, *new]
