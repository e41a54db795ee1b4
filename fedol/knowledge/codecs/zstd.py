"""Any codec, compressed. What a stranger's frame claims to hold is compared before a byte of it is unpacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zstandard
from torch import Tensor

from fedol.errors import InputError

if TYPE_CHECKING:
    from fedol.knowledge.codecs import Codec

LEVEL = 19  # once per client; 5,000 x 100 predictions take under a second


@dataclass(frozen=True)
class Zstd:
    """``inner``, then zstd."""

    inner: Codec

    @property
    def name(self) -> str:
        """For instance ``q7c60+zstd``."""
        return f"{self.inner.name}+zstd"

    def size(self, samples: int, classes: int) -> int:
        """Bytes once unpacked."""
        return self.inner.size(samples, classes)

    def encode(self, log_probs: Tensor) -> bytes:
        """One frame that names its size."""
        return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True).compress(self.inner.encode(log_probs))

    def decode(self, data: bytes, samples: int, classes: int) -> Tensor:
        """The frame must promise exactly the size it must have (a bomb promises more), and keep the promise."""
        expected = self.size(samples, classes)
        try:
            promised = zstandard.frame_content_size(data)
            if promised != expected:
                raise InputError(f"its body unpacks to {promised:,} bytes instead of {expected:,}")
            raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=expected, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise InputError(f"its body is no zstd frame ({error})") from None
        if len(raw) != expected:
            raise InputError(f"its body unpacks to {len(raw):,} bytes instead of {expected:,}")
        return self.inner.decode(raw, samples, classes)
