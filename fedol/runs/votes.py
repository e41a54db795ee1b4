"""Why the server believed what it did: some of the public samples with every client's vote, and how labels changed.

The rule of the sample: they are drawn uniformly without replacement by the run's seed, so that what is seen is what
is typical; at most ``MOST``, fewer where there are so many clients that ``PAIRS`` of sample and client are reached.
Shares are stored in thousandths: whole numbers keep the file small. Where samples have findings, what is drawn is
questions: a finding of a sample.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedol.core.voting import baseline_count, entropy_rank, with_entropy
from fedol.data.samples import Samples
from fedol.knowledge import Knowledge
from fedol.model import ServerModel
from fedol.robust import Defence
from fedol.seeding import numpy_generator

MOST, FEWEST, PAIRS = 240, 24, 20_000
NOBODY_LIES = Defence()


def choose(samples: int, clients: int, seed: int) -> np.ndarray:
    """Which public samples to show, in their order."""
    count = min(samples, MOST, max(FEWEST, PAIRS // max(1, clients)))
    return np.sort(numpy_generator(seed, "evidence").permutation(samples)[:count])


@dataclass(frozen=True)
class Witness:
    """What is kept of a client."""

    name: str
    vote: Tensor  # the class that it gives each public sample, [N]
    rank: Tensor  # of the shown samples by its entropy
    nats: Tensor  # its entropy on them
    probs: Tensor  # its predictions on them, [shown, C]
    confidence: Tensor  # C², [C]


class Hearing:
    """What the evidence needs of the clients, noted as the method hears them: nobody is read a second time."""

    def __init__(self, samples: int, clients: int, seed: int, defence: Defence = NOBODY_LIES) -> None:
        self.shown = choose(samples, clients, seed)
        self._samples, self._defence = samples, defence
        self._witnesses: dict[int, Witness] = {}

    def note(self, position: int, client: Knowledge) -> None:
        """Remember a client."""
        probs, h = with_entropy(client.log_probs)
        self._witnesses[position] = Witness(
            client.client,
            probs.argmax(1).int(),
            entropy_rank(h, self._defence.exact)[self.shown],
            h[self.shown],
            probs[self.shown],
            probs.mean(0),
        )

    def evidence(
        self,
        votes: Sequence[Mapping[str, Tensor]],
        server: ServerModel,
        public: Samples,
        truth: np.ndarray | None = None,
        left_out: Collection[str] = (),
        taught: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Any]:
        """The evidence as plain values.

        ``votes`` are the pseudo-labels of each iteration, where the method has any; ``taught`` the class that the last
        target named for each sample, and how surely; ``truth`` the withheld labels, where there are any: they are shown
        beside the others, nothing was chosen by them. A client that was ``left_out`` is shown too, so that a person can
        judge, with the weight that it had: none.
        """
        shown, defence = self.shown, self._defence
        counts = [baseline_count(record["rho"], self._samples) for record in server.history if "rho" in record]
        final = server.predict_log_proba(public).exp()
        known = server.known(final)
        findings = len(server.findings)
        names, agreement, opinions, weights = [], [], [], []
        mixture = torch.zeros(len(shown), final.shape[1], dtype=torch.float64)
        for _, witness in sorted(self._witnesses.items()):
            names.append(witness.name)
            agreement.append((witness.vote == final.argmax(1)).double().mean().item())
            heard = witness.name not in left_out
            opinions.append(_opinion(witness, counts if heard else [0] * max(1, len(votes)), defence.cap))
            weights.append(heard * torch.exp(-witness.nats.clamp_min(defence.floor)))
            mixture += weights[-1][:, None] * witness.probs
        total = torch.stack(weights).sum(0)
        shares = (torch.stack(weights) / total * 1000).round().long()  # λ of Eq. 12
        each = torch.stack(opinions, 1).long()  # [4, clients, shown]
        each = torch.cat([each[:2], shares[None], each[2:]])
        samples = []
        for row, index in enumerate(shown.tolist()):
            place, asked = divmod(index, max(1, findings))
            sample: dict[str, Any] = {"index": place, "truth": None if truth is None else int(truth[index])}
            if findings:
                sample["asked"] = asked
            sample |= {"server": _top(final[index]), "mixture": _top(mixture[row] / total[row])}
            if known is not None:
                sample["strange"] = not known[index]
            if taught is not None:
                sample["taught"] = [int(taught["classes"][index]), round(1000 * float(taught["confidence"][index]))]
            sample["labels"] = [int(vote["labels"][index]) for vote in votes]
            sample["score"] = [round(1000 * float(vote["score"][index])) for vote in votes]
            sample["voters"] = [int(vote["voters"][index]) for vote in votes]
            # of each client: class, confidence, λ, C² of that class, the first iteration in which it counts as sure
            sample["votes"] = each[:, :, row].T.tolist()
            samples.append(sample)
        about: dict[str, Any] = {
            "of": self._samples,
            "iterations": len(votes),
            "clients": names,
            "left_out": sorted(left_out),
        }
        if known is not None:
            about["strange"] = int((~known).sum())  # public samples that the server calls like no client's data
        if findings:
            about["findings"] = list(server.findings)  # of which ``asked`` is one: a row is a question about a sample
        about["runoff"] = defence.runoff  # then votes only nominate a label
        about["gated"] = bool(counts)  # Algorithm 1 lets a client vote where it is sure; a pool hears everyone
        return {**about, "agreement": agreement, "samples": samples}


def _opinion(witness: Witness, counts: Sequence[int], cap: float) -> Tensor:
    """Class, confidence, C² of the class and the first iteration at or below the entropy baseline, [4, shown]."""
    own = witness.confidence.clamp(max=cap / len(witness.confidence))
    vote = witness.probs.argmax(1)
    late = [(witness.rank >= count).double() for count in counts]  # the baselines only rise
    since = torch.stack(late).sum(0) + 1 if late else torch.zeros(len(vote))
    return torch.stack([vote.double(), witness.probs.amax(1) * 1000, own[vote] * 1000, since]).round()


def _top(probs: Tensor) -> list[int]:
    return [int(probs.argmax()), round(1000 * float(probs.max()))]
