"""Simulated clients as Flower nodes on Ray, for when they outgrow one process. The result is that of ``in_process``.

Flower calls its ``run_simulation`` deprecated in favour of ``flwr run``. That needs a SuperLink: a second server on
this machine, to whose port every user here can submit code (it does not ask who submits), and which outlives a run that
is killed. So this uses the function; the version of Flower is pinned, and a test runs it. ``flwr`` is an extra, and is
imported only where it is needed.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from fedol.config import configure
from fedol.errors import FedolError, InputError, cause
from fedol.federation.scenario import Engine, Scenario, Scheme, in_process
from fedol.files import write_atomically
from fedol.progress import watched
from fedol.runs.folder import RunFolder, read_metrics
from fedol.training import OnEpoch

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.serverapp import Grid

POLL = 0.1  # seconds between two looks at the replies


def on_ray(cpus: float = 1.0, gpus: float = 0.0) -> Engine:
    """The engine with these shares of the machine per client: as many train at once as there is room for."""
    if find_spec("flwr") is None:
        raise FedolError("This needs Flower: pip install 'fedol[flower]'.")
    if cpus <= 0 or gpus < 0:
        raise InputError(f"A client needs a CPU share above 0 and a GPU share of at least 0, not {cpus} and {gpus}.")

    def engine(scheme: Scheme, clients: Sequence[int], folder: RunFolder, on_epoch: OnEpoch) -> list[str]:
        here = scheme.scenario
        if here.config.dataset == here.dataset.identity:
            raise InputError("A dataset made in Python cannot travel to other processes; save it as an .npz file.")
        for part in ("partition", "method"):  # which are found by name, where a script has registered them
            if part in here.config.code:
                raise InputError(f"Your own {part} is not known in other processes; train in this one.")
        return _simulate(_job(scheme, clients), clients, folder, cpus, gpus) if clients else []

    return engine


def _job(scheme: Scheme, clients: Sequence[int]) -> dict[str, Any]:
    """All that an actor needs to know."""
    return {"config": scheme.scenario.config.as_json(), "clients": list(clients), "cwd": os.getcwd()}


def _simulate(job: dict[str, Any], clients: Sequence[int], folder: RunFolder, cpus: float, gpus: float) -> list[str]:
    """Run the clients as nodes of a simulated federation until each has answered."""
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from fedol.federation.transports.flower_inbox import Exchange

    failed: dict[int, str] = {}
    broken, caller = Event(), copy_context()
    client_app, server_app = ClientApp(), ServerApp()
    client_app.train()(train)

    @server_app.main()
    def collect(grid: Grid, context: Context) -> None:
        exchange = Exchange(grid, {"job": json.dumps(job)})

        def answers() -> Iterator[dict[str, object] | str]:
            left = len(clients)
            while left and not broken.is_set():
                for _, answer in exchange.look():
                    left -= 1
                    yield answer
                time.sleep(POLL)

        # This is a thread of Flower's; who watches is known in the caller's.
        for answer in caller.run(watched, answers(), "on Ray", len(clients)):
            _keep(answer, folder, failed)

    shares: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus}
    with _quiet():
        try:
            run_simulation(server_app, client_app, len(clients), backend_config={"client_resources": shares})
        except Exception as error:  # Ray's and Flower's own
            each = f"{cpus:g} CPUs and {gpus:g} GPUs"
            raise FedolError(f"Ray could not run the clients with {each} each: {cause(_root(error))}.") from error
        finally:
            broken.set()  # the collection runs in a thread of its own and would wait for ever
    return [failed[k] for k in sorted(failed)]


def _root(error: BaseException) -> Exception:
    """What was at the beginning of a chain of exceptions: Flower wraps them in sentences that say nothing."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error if isinstance(error, Exception) else RuntimeError(str(error))


def _keep(answer: dict[str, object] | str, folder: RunFolder, failed: dict[int, str]) -> None:
    """A client's files into the run folder; the upload last, because it is what marks the client finished."""
    if isinstance(answer, str):
        failed[-1 - len(failed)] = f"A client failed on Ray: {answer}"
        return
    k, error = int(str(answer["client"])), answer.get("error")
    if error:
        failed[k] = str(error)
        return
    write_atomically(folder.client_model(k), bytes(answer["model"]))  # type: ignore[call-overload]
    folder.log({"stage": "client", "client": k, "seconds": answer["seconds"]})
    write_atomically(folder.knowledge(k), bytes(answer["upload"]))  # type: ignore[call-overload]


def train(message: Message, context: Context) -> Message:
    """On a Ray actor: one client with the in-process engine itself, into a folder that lives as long as that takes."""
    from flwr.app import Message

    from fedol.federation.transports.flower_inbox import Values, pack, unpack

    job = json.loads(str(unpack(message)["job"]))
    os.chdir(job["cwd"])  # relative paths in the configuration are the caller's
    k = job["clients"][int(context.node_config["partition-id"])]
    values: Values = {"client": k}
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch))
        try:
            failed = in_process(_scheme(json.dumps(job["config"])), [k], folder, lambda epoch: None)
        except FedolError as error:
            failed = [str(error)]
        if failed:
            values["error"] = failed[0]
        else:
            (line,) = read_metrics(folder.path)
            values["seconds"] = float(line["seconds"])
            values["model"] = folder.client_model(k).read_bytes()
            values["upload"] = folder.knowledge(k).read_bytes()
    return Message(pack(values), reply_to=message)


@lru_cache(maxsize=1)
def _scheme(config: str) -> Scheme:
    """An actor trains many clients on the same data: it reads them once."""
    return Scheme.of(Scenario(configure(overrides=json.loads(config))))


@contextmanager
def _quiet() -> Iterator[None]:
    """Of Flower's log only the warnings, of Ray's tips none, no telemetry: the caller has a display of its own."""
    logger, before = logging.getLogger("flwr"), {key: os.environ.get(key) for key in _OFF}
    os.environ.update(_OFF)
    logger.addFilter(_worth_reading)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)
            yield
    finally:
        logger.removeFilter(_worth_reading)
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


def _worth_reading(record: logging.LogRecord) -> bool:
    """Warnings but for the one about ``run_simulation``, which is for us; errors we say ourselves, in one sentence."""
    return record.levelno == logging.WARNING and "`run_simulation`" not in record.getMessage()


_OFF = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
