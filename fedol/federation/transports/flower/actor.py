"""On a Ray actor: client after client with the in-process engine itself; back go the files that it wrote."""

from __future__ import annotations

import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from flwr.app import Context, Message

from fedol.config import configure
from fedol.errors import FedolError
from fedol.federation.scenario import Scenario, Scheme, in_process
from fedol.federation.transports.flower.inbox import Values, pack, unpack
from fedol.runs.folder import RunFolder, read_metrics


def train(message: Message, context: Context) -> Message:
    """One client, into a folder that lives as long as that takes."""
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
