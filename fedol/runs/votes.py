"""Why the server believed what it did: a sample of the public images with every client's vote, and how labels changed.

The rule of the sample: images are drawn uniformly without replacement by the run's seed, so that what is seen is what
is typical; at most ``IMAGES``, fewer where there are so many clients that ``PAIRS`` of image and client are reached.
Shares are stored in thousandths: whole numbers keep the file small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.core.voting import baseline_count, entropy_rank, with_entropy
from fedol.knowledge import Knowledge
from fedol.model import ServerModel
from fedol.robust.defence import Defence
from fedol.seeding import numpy_generator

IMAGES, FEWEST, PAIRS = 240, 24, 20_000
NOBODY_LIES = Defence()


def choose(samples: int, clients: int, seed: int) -> np.ndarray:
    """Which public images to show, in their order."""
    count = min(samples, IMAGES, max(FEWEST, PAIRS // max(1, clients)))
    return np.sort(numpy_generator(seed, "evidence").permutation(samples)[:count])


def gather(
    shown: np.ndarray,
    uploads: Iterable[Knowledge],
    votes: Sequence[Mapping[str, Tensor]],
    server: ServerModel,
    public: np.ndarray,
    truth: np.ndarray | None = None,
    defence: Defence = NOBODY_LIES,
    left_out: Collection[str] = (),
    taught: Mapping[str, Tensor] | None = None,
) -> dict[str, Any]:
    """The evidence as plain values.

    ``votes`` are the pseudo-labels of each iteration, where the method has any; ``taught`` the class that the last
    target named for each image, and how surely; ``truth`` the withheld labels, where there are any: they are shown
    beside the others, nothing was chosen by them. A client that was ``left_out`` is shown
    too, so that a person can judge, with the weight that it had: none.
    """
    counts = [baseline_count(record["rho"], len(public)) for record in server.history if "rho" in record]
    final = server.predict_log_proba(public).exp()
    names, agreement, opinions, weights = [], [], [], []
    mixture = torch.zeros(len(shown), final.shape[1], dtype=torch.float64)
    for client in uploads:
        probs, h = with_entropy(client.log_probs)
        vote = probs.argmax(1)
        names.append(client.client)
        agreement.append((vote == final.argmax(1)).double().mean().item())
        heard = client.client not in left_out
        opinions.append(_opinion(probs, vote, h, counts if heard else [0] * max(1, len(votes)), defence)[:, shown])
        weights.append(heard * torch.exp(-h.clamp_min(defence.floor))[shown])
        mixture += weights[-1][:, None] * probs[shown]
    total = torch.stack(weights).sum(0)
    shares = (torch.stack(weights) / total * 1000).round().long()  # λ of Eq. 12
    each = torch.stack(opinions, 1).long()  # [4, clients, shown]
    each = torch.cat([each[:2], shares[None], each[2:]])
    samples = []
    for row, index in enumerate(shown.tolist()):
        sample: dict[str, Any] = {"index": index, "truth": None if truth is None else int(truth[index])}
        sample |= {"server": _top(final[index]), "mixture": _top(mixture[row] / total[row])}
        if taught is not None:
            sample["taught"] = [int(taught["classes"][index]), round(1000 * float(taught["confidence"][index]))]
        sample["labels"] = [int(vote["labels"][index]) for vote in votes]
        sample["score"] = [round(1000 * float(vote["score"][index])) for vote in votes]
        sample["voters"] = [int(vote["voters"][index]) for vote in votes]
        # of each client: class, confidence, λ, C² of that class, the first iteration in which it counts as sure
        sample["votes"] = each[:, :, row].T.tolist()
        samples.append(sample)
    about = {"of": len(public), "iterations": len(votes), "clients": names, "left_out": sorted(left_out)}
    about["runoff"] = defence.runoff  # then votes only nominate a label
    about["gated"] = bool(counts)  # Algorithm 1 lets a client vote where it is sure; a pool hears everyone everywhere
    return {**about, "agreement": agreement, "samples": samples}


def _opinion(probs: Tensor, vote: Tensor, h: Tensor, counts: Sequence[int], defence: Defence) -> Tensor:
    """Class, confidence, C² of the class and the first iteration at or below the entropy baseline, [4, N]."""
    own = probs.mean(0).clamp(max=defence.cap / probs.shape[1])
    rank = entropy_rank(h, defence.exact)
    late = [(rank >= count).double() for count in counts]  # the baselines only rise
    since = torch.stack(late).sum(0) + 1 if late else torch.zeros(len(vote))
    return torch.stack([vote.double(), probs.amax(1) * 1000, own[vote] * 1000, since]).round()


def _top(probs: Tensor) -> list[int]:
    return [int(probs.argmax()), round(1000 * float(probs.max()))]
