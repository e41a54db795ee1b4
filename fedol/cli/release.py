"""``fedol client release``: the record of a file before it leaves, and who approves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedol.cli.options import Json, Logits, Multilabel, PolicyFile, PublicSamples, Quiet, TrustCode, outputs
from fedol.errors import FedolError, InputError
from fedol.settings import LABELLED

if TYPE_CHECKING:
    from fedol.federation.taskfolder import TaskFolder


def release(
    file: Annotated[Path, typer.Argument(help="The knowledge file that is to leave.")],
    data: Annotated[
        str | None, typer.Option(help=f"The data its model was trained on, test samples apart: {LABELLED}.")
    ] = None,
    task: Annotated[
        Path | None, typer.Option(help="The task's folder; by default 'task', here or beside the file.")
    ] = None,
    purpose: Annotated[str, typer.Option(help="What it is for; by default training the task's server.")] = "",
    model: Annotated[
        str | None, typer.Option(help="Its model, to be attacked too, as 'fedol client predict' takes it.")
    ] = None,
    shadows: Annotated[
        int, typer.Option(min=0, help="Shadow models of the likelihood-ratio attack on --model, an even number.")
    ] = 0,
    approve: Annotated[str | None, typer.Option(help="Who approves that it leaves; needs --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="The approver's private key.")] = None,
    logits: Logits = False,
    multilabel: Multilabel = False,
    policy: PolicyFile = None,
    public: PublicSamples = None,
    trust_code: TrustCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Look at a file before it leaves: what it gives away, private samples among the public ones, attacks on it.

    Writes FILE.release.json and FILE.release.html. With --approve and --key somebody signs that it may leave; the
    policy says who may. Whoever approves later needs no --data: the record is there.

    Examples: fedol client release alice.fedol --data my.npz
              fedol client release alice.fedol --approve dpo --key dpo.key
    """
    from fedol.federation.policy import Policy
    from fedol.federation.record import Record, codec_of, record_of
    from fedol.federation.releasing import Model, kept, looked_at
    from fedol.files import write_json
    from fedol.knowledge.container import read_bounded
    from fedol.report.live import LiveProgress
    from fedol.report.release import lines, write_release
    from fedol.text import say

    if (approve is None) != (key is None):
        raise InputError("An approval has a name and a key; give --approve NAME and --key KEY together.")
    rules, said = Policy.found(policy), outputs(logits, multilabel)
    sent = read_bounded(file)
    if data is not None:
        behind = Model(model, shadows, said, trust_code) if model else None
        with LiveProgress(quiet=quiet or as_json) as progress:
            record = looked_at(file, _task(task, file), data, purpose, behind, public, progress.epoch)
    elif model or purpose or task:
        raise InputError("A new record needs your data, to look for them in the file; give --data.")
    else:
        record = Record.of(file, sent)
    broken: FedolError | None = None
    try:
        if rules:
            rules.check_record(record, codec_of(sent))
        if approve is not None and key is not None:
            record = record.approved(approve, key)
            if rules:
                rules.check_approval(record)
    except FedolError as error:
        broken, record = error, Record(record.file, record.about)  # kept, but by nobody approved
    found = kept(record)
    write_json(record_of(file), found, private=True)
    page = record_of(file).with_suffix(".html")
    write_release(page, found)
    if as_json:
        print(json.dumps(found, indent=1))
    elif not quiet:
        for line in lines(found):
            say(line)
        say(f"{record_of(file)} and {page} have the rest.")
    if broken:
        raise broken


def _task(given: Path | None, file: Path) -> TaskFolder:
    """The task that is named, or the one that lies in ``task``, here or beside the file."""
    from fedol.federation.taskfolder import TaskFolder

    usual = [place for place in (Path("task"), file.parent / "task") if (place / "task.json").exists()]
    if given is None and not usual:
        raise InputError("There is no folder 'task' here or beside the file; say which task with --task.")
    return TaskFolder.open(given or usual[0])
