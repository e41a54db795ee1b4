"""What a client adds to the sum, in fixed point: values in the ring of whole numbers modulo 2 to the b.

A client's part, [N, C] and a little more:

    r_kc(x), with the mass m_k(x) clipped at the task's cap        every public sample
    cap · e^(−H_k(x)) p_k(c|x), its share of the λ mixture         some samples, evenly spaced: the server softens its
                                                                   targets to the mixture's mean entropy
    1 and n_k                                                      modulo 2^64

All values lie between 0 and the cap. One scale s makes whole numbers of them, the largest with which the sum over all
clients of the task cannot leave the lower half of the ring: whatever is opened in the upper half shows a client that
did not keep to the terms. Rounding is up or down by chance, so that a sum over many clients is right on average,
however small each value is.

A part is cut into two shares: a seed, whose key stream is a random element of the ring, and the part minus that
element. Each alone is uniform, whatever the part is: the first because it is drawn, the second because it is the part
plus a uniform number (as far as AES-256 in counter mode, from ``cryptography``, cannot be told from one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedol.core.arrays import exact
from fedol.core.union import Sums
from fedol.core.voting import shannon
from fedol.errors import InputError
from fedol.knowledge import Knowledge, Task
from fedol.knowledge.terms import Terms

MIXED = 500  # public samples of the λ mixture: its mean entropy is off by some 0.02 nats at most
SEED = 32  # bytes: an AES-256 key of its own for each part, so that the counter may start at zero
COUNTS = 2  # numbers modulo 2^64: clients, private samples
BLOCK = 1 << 18  # values of a key stream at a time
SPREAD = 8.0  # standard deviations of noise that the ring has room for

Values = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.uint64]


@dataclass
class Part:
    """An element of the ring: a client's part, a share of it, or a sum of such. Values are modulo 2^b once packed."""

    counts: Counts
    values: Values

    def add(self, other: Part) -> None:
        """In place; 2^32 and 2^64 wrap, and 2^b divides them."""
        self.counts += other.counts
        self.values += other.values

    def minus(self, other: Part) -> Part:
        """The difference."""
        return Part(self.counts - other.counts, self.values - other.values)


@dataclass(frozen=True)
class Encoding:
    """The fixed point of one task."""

    terms: Terms
    clients: int  # of the task: the most that can be in a sum
    samples: int
    classes: int

    @classmethod
    def of(cls, task: Task) -> Encoding:
        """As the task says."""
        if task.secret is None:
            raise InputError("The task's answers are not summed in secret: it names no helpers.")
        return cls(task.secret, len(task.clients), task.samples, len(task.classes))

    @cached_property
    def mixed(self) -> Tensor:
        """Positions of the samples of the λ mixture; with noise none, because each value more costs noise on all."""
        count = 0 if self.terms.noise else min(MIXED, self.samples)
        return torch.arange(count) * self.samples // max(1, count)

    @property
    def size(self) -> int:
        """How many values there are."""
        return (self.samples + len(self.mixed)) * self.classes

    @property
    def packed(self) -> int:
        """Bytes of a part."""
        return 8 * COUNTS + self.size * self.terms.bits // 8

    @property
    def scale(self) -> float:
        """s: steps to one."""
        room = self.clients * self.terms.cap + SPREAD * math.sqrt(self.clients) * self.terms.noise
        scale = ((1 << self.terms.bits - 1) - 2 * self.clients) / room  # each may round up, and so may this
        if scale * self.terms.cap < 1:
            raise InputError(
                f"{self.terms.bits} bits have no room for {self.clients:,} clients of up to {self.terms.cap:g} each "
                "and their noise; take more bits or a smaller cap."
            )
        return scale

    def values(self, knowledge: Knowledge) -> Tensor:
        """A client's values before they are rounded, float64 [size]."""
        if knowledge.log_mass is None:
            raise InputError(
                f"The task sums masses, but {knowledge.client} has none: train with fedol client fit --folds 2, or "
                "wrap any other model in fedol.OpenSet."
            )
        probs = exact(knowledge.log_probs).softmax(1)
        ratios = probs * self._mass(knowledge)[:, None]
        if self.terms.norm:
            ratios *= min(1.0, self.terms.norm / max(float(ratios.norm()), 1e-300))
        some = probs[self.mixed]
        mixture = self.terms.cap * torch.exp(-shannon(some))[:, None] * some
        return torch.cat([ratios.flatten(), mixture.flatten()])

    def _mass(self, knowledge: Knowledge) -> Tensor:
        assert knowledge.log_mass is not None
        return exact(knowledge.log_mass).exp().clamp_max(self.terms.cap)

    def encode(self, knowledge: Knowledge, rng: np.random.Generator) -> Part:
        """A client's part, rounded and, where the task says so, with its share of the noise."""
        exactly = self.values(knowledge).numpy() * self.scale
        whole = np.floor(exactly + rng.random(len(exactly))).astype(np.int64)
        private = knowledge.ratios.private if knowledge.ratios else 0
        if not private:  # where a client does not say: as many as would give its masses, as densities have it
            private = round(float(self._mass(knowledge).sum()))
        if self.terms.noise:  # a number of samples would need noise of its own
            private = 0
            rate = (self.terms.noise * self.scale) ** 2 / 2  # Skellam: the difference of two Poisson variates
            whole += rng.poisson(rate, len(whole)) - rng.poisson(rate, len(whole))
        return Part(np.array([1, private], np.uint64), whole.astype(np.uint32))

    def decode(self, total: Part, clients: int) -> Sums:
        """The sums that the opened total stands for, or an error where no honest clients can have made it."""
        counted, private = (int(count) for count in total.counts)
        if counted != clients:
            raise InputError(
                f"The two sums do not open: they count {counted:,} clients instead of {clients:,}. A helper's list is "
                "not what it summed, or a client's two parts do not belong together"
            )
        shift = 32 - self.terms.bits
        signed = (total.values << np.uint32(shift)).view(np.int32) >> np.int32(shift)
        margin = SPREAD * math.sqrt(clients) * self.terms.noise * self.scale
        most = clients * (self.terms.cap * self.scale + 1) + margin
        if (outside := (signed < -margin) | (signed > most)).any():
            raise InputError(
                f"The opened sum lies outside of what {clients:,} clients can add up to at {int(outside.sum()):,} of "
                f"{self.size:,} values: at least one client did not keep to the task's terms, and nobody can tell which"
            )
        values = torch.from_numpy(signed.clip(0).astype(np.float64) / self.scale)
        rows = values.reshape(-1, self.classes)
        mixture, share = rows[self.samples :] / self.terms.cap, private / self.samples
        return Sums(rows[: self.samples], mixture, share, 1 / self.scale)

    def pack(self, part: Part) -> bytes:
        """To bytes, modulo 2^b, little-endian."""
        raw = part.values.astype("<u4").view(np.uint8).reshape(-1, 4)[:, : self.terms.bits // 8]
        return part.counts.astype("<u8").tobytes() + raw.tobytes()

    def unpack(self, data: bytes) -> Part:
        """From bytes of the right number."""
        part = self.nothing()
        self.add(part, data)
        part.values &= np.uint32((1 << self.terms.bits) - 1)
        return part

    def nothing(self) -> Part:
        """The sum of nobody."""
        return Part(np.zeros(COUNTS, np.uint64), np.zeros(self.size, np.uint32))

    def add(self, total: Part, data: bytes) -> None:
        """Add a packed part, in place and without a copy of it as large as the total."""
        width, cut = self.terms.bits // 8, 8 * COUNTS
        total.counts += np.frombuffer(data, "<u8", COUNTS)
        # Four bytes at every place are faster than widening byte by byte. What is too much in them is beyond 2^b, and
        # goes when the total is packed. The last value alone has none behind it.
        total.values[:-1] += np.ndarray((self.size - 1,), "<u4", data, cut, (width,))
        total.values[-1:] += np.uint32(int.from_bytes(data[-width:], "little"))

    def expand(self, total: Part, seed: bytes) -> None:
        """Add the element of the ring that a seed stands for, a block at a time."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
        total.counts += np.frombuffer(stream.update(bytes(8 * COUNTS)), "<u8")
        for start in range(0, self.size, BLOCK):
            block = total.values[start : start + BLOCK]
            block += np.frombuffer(stream.update(bytes(4 * len(block))), "<u4")


def masked(part: Part, seed: bytes, encoding: Encoding) -> bytes:
    """The other share: what is left of the part."""
    drawn = encoding.nothing()
    encoding.expand(drawn, seed)
    return encoding.pack(part.minus(drawn))
