"""Two additive shares: a seed, whose key stream is a random element of the ring, and the part minus that element.

Each share alone is uniform, whatever the part is: the first because it is drawn, the second because it is the part plus
a uniform number (as far as AES-256 in counter mode, from ``cryptography``, cannot be told from one).
"""

from __future__ import annotations

import numpy as np

from fedol.secret.encoding import COUNTS, Encoding, Part

SEED = 32  # bytes: an AES-256 key of its own for each part, so that the counter may start at zero


def expand(seed: bytes, encoding: Encoding) -> Part:
    """The element of the ring that a seed stands for."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    drawn = stream.update(bytes(8 * COUNTS + 4 * encoding.size))
    counts = np.frombuffer(drawn, "<u8", COUNTS).astype(np.uint64)
    return Part(counts, np.frombuffer(drawn, "<u4", offset=8 * COUNTS).astype(np.uint32, copy=False))


def masked(part: Part, seed: bytes, encoding: Encoding) -> bytes:
    """The other share: what is left of the part."""
    return encoding.pack(part.minus(expand(seed, encoding)))
