"""A site withdraws: the run forgets it, and its server is trained again as if the site had never been there.

What was learnt from the site goes first, then its name and its files, then the words about it in the event log; what is
written down in their place are two hashes, of the name within this task and of the file. The site has both, so it can
see that it was forgotten; whoever has neither learns nothing. A withdrawal that was killed is finished by the same
command. What other places have, a client's own copy, an earlier model that was passed on, is not in reach.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from fedol.config import ServerConfig
from fedol.errors import FedolError, InputError, unknown
from fedol.federation.coordinator import Coordinator
from fedol.federation.record import now
from fedol.federation.roster import Roster
from fedol.federation.summary import WITHDRAWN
from fedol.federation.taskfolder import TaskFolder
from fedol.files import intact, read_json, write_json
from fedol.models.registry import check_settings
from fedol.runs.eventlog import EventLog, read
from fedol.runs.folder import LOCK, WRITTEN
from fedol.runs.listing import LOGS
from fedol.runs.locks import Taken, hold


def without(run: Path, site: str, public: Path | None = None, trust_code: bool = False) -> Coordinator:
    """The run without a site, to be trained again with the settings that it has."""
    config, folder = _of(run, trust_code)
    try:
        lock = hold(run / LOCK)
    except Taken:
        raise FedolError(f"Another process works in {run}; wait until it ends.") from None
    try:
        _forget(run, site, config, folder.task.id)
    finally:
        if lock:
            lock.release()
    coordinator = Coordinator(folder, config, run, public)
    coordinator.forgotten = site
    return coordinator


def _forget(run: Path, site: str, config: ServerConfig, task: str) -> None:
    """Remove what was learnt from a site, and all that is known of it but two hashes."""
    place = run / "roster.json"
    roster, entry = Roster.read(place, 0.0), {"client_sha256": name_hash(task, site)}
    before: list[dict[str, Any]] = read_json(run / WITHDRAWN) if (run / WITHDRAWN).exists() else []
    known = any(old["client_sha256"] == entry["client_sha256"] for old in before)
    if site not in roster.clients and not known:
        raise unknown("client in the run", site, roster.clients)
    if site in roster.clients:
        if len(roster.clients) == 1:
            raise InputError(f"{site} is the only client of {run}; without it there is nothing to learn from.")
        if not known:
            entry |= {"file_sha256": roster.clients[site].sha256, "date": now()}
            write_json(run / WITHDRAWN, [*before, entry], private=True)
        _forget_training(run, config)
        roster.without(site).write(place)
    elif (run / "summary.json").exists():
        raise InputError(f"{site} has withdrawn from {run} already; the model there has nothing of it.")
    _forget_files(run, site)
    log = EventLog(run)
    erased = log.erase(site)
    if erased or not log.path.exists() or not any(_is_about(line, entry["client_sha256"]) for line in read(run)):
        log.append("withdrawn", client_sha256=entry["client_sha256"], erased=erased)


def name_hash(task: str, site: str) -> str:
    """What stands for a site's name once it has withdrawn."""
    return hashlib.sha256(f"fedol withdrawn\n{task}\n{site}".encode()).hexdigest()


def _is_about(line: dict[str, Any], client: str) -> bool:
    return bool(line["kind"] == "withdrawn" and line["facts"]["client_sha256"] == client)


def _of(run: Path, trust_code: bool) -> tuple[ServerConfig, TaskFolder]:
    """The run's own settings and its task, or an error where a site cannot be taken out of what it learnt from."""
    if not (run / "roster.json").exists() or not (run / "config.json").exists():
        raise FedolError(f"{run} is not a server run; --without needs the folder of a serve or distill run.")
    if (run / "sums").exists():
        raise InputError(f"{run} learnt from a sum, out of which nobody can take a client; sum the others anew.")
    with intact(run / "config.json", "give the folder of another run"):
        frozen = dict(read_json(run / "config.json")["config"])
        parent = frozen.get("parent")
    if parent:
        raise InputError(
            f"{run} goes on from another run's model, which may have learnt from the site; take the site out of that "
            "run first, then resume from it anew."
        )
    check_settings(frozen, str(run / "config.json"), trust_code)
    return ServerConfig(**{**frozen, "added": tuple(frozen.get("added", ()))}), TaskFolder.of_run(run)


def _forget_training(run: Path, config: ServerConfig) -> None:
    """Remove all that was learnt, the result first: from here on the run is an unfinished one."""
    spared = {"task.json", "roster.json"}
    (run / "summary.json").unlink(missing_ok=True)
    for pattern in ("model.safetensors", *WRITTEN, *config.written, "report-for-*.html"):
        for file in run.glob(pattern):
            if file.name not in spared:
                file.unlink()
    for name in LOGS:
        shutil.rmtree(run / name, ignore_errors=True)


def _forget_files(run: Path, site: str) -> None:
    """Remove what is called as the site is: its file, a copy in an inbox, a receipt; never a file of the run itself."""
    for file in run.rglob("*"):
        if file.parent != run and file.is_file() and (file.name == site or file.name.startswith(f"{site}.")):
            file.unlink()
