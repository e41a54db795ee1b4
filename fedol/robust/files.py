"""Attacks on knowledge files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fedol.errors import InputError
from fedol.knowledge import Knowledge
from fedol.progress import watched
from fedol.robust.attacks import attacked


def attack_files(files: Sequence[Path], name: str, out: Path, others: Sequence[Path] = (), seed: int = 0) -> list[Path]:
    """Write what the clients of ``files`` would send under an attack; same names, tasks and codecs, no signature."""
    names = [path.name for path in files]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"Two of the files are named {twice[0]}, and so would be their copies; rename one of them.")
    own = [Knowledge.read(path) for path in watched(files, "reading files")]
    known = [Knowledge.read(path)[0].probabilities() for path in watched(others, "reading files")]
    shapes = {tuple(p.shape) for p in [*(knowledge.log_probs for knowledge, _ in own), *known]}
    if len(shapes) > 1:
        raise InputError(f"The files are of different tasks: they hold predictions of the shapes {sorted(shapes)}.")
    sent = attacked(name, [knowledge.probabilities() for knowledge, _ in own], known, seed)
    written = []
    lies = list(zip(files, own, sent, strict=True))
    for path, (knowledge, header), probs in watched(lies, "writing files"):
        lie = replace(knowledge, log_probs=probs.clamp_min(torch.finfo(torch.float32).tiny).log())
        lie.save(out / path.name, header.codec)
        written.append(out / path.name)
    return written
