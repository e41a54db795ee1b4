"""One turn of a peer: ``python turn.py PEER WORK OUT``; ``benchmarks/peers.py`` starts it as a process of its own."""

import importlib
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from work import Work

PACKAGES = {"flower": ("flwr", "ray"), "pfl_research": ("pfl",), "ours": ("fedol",)}

if __name__ == "__main__":  # processes that a peer starts may import this file
    peer, work, out = sys.argv[1:]
    module = importlib.import_module(peer)
    loaded = time.time()
    found = getattr(module, work)(Work())
    finished = time.time()
    if os.environ.get("RANK", "0") == "0":  # of several processes of pfl, each has the result
        np.savez(out, **{name: np.asarray(value) for name, value in found.items()})
        versions = {name: version(name) for name in ("torch", "numpy", *PACKAGES.get(peer, ()))}
        Path(out).with_suffix(".json").write_text(
            json.dumps({"loaded": loaded, "finished": finished, "versions": versions})
        )
    if torch.distributed.is_initialized():  # or one may abort because another has gone already
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
