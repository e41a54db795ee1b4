"""A helper's keys: an Ed25519 key to sign its sums with, and an X25519 key that clients seal to.

The private file has both, a line each; the public one, beside it, has their public halves in one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedol.errors import InputError
from fedol.files import write_atomically
from fedol.knowledge import signing
from fedol.knowledge.terms import check_helper_key

SUFFIX = ".pub"


def hpke() -> tuple[Any, Any]:
    """HPKE (RFC 9180) as ``cryptography`` has it, and its X25519."""
    signing.check_installed()
    try:
        from cryptography.hazmat.primitives import hpke
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        raise InputError("Sums in secret need cryptography 47 or newer: pip install 'fedol[secret]'.") from None
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM), x25519


@dataclass(frozen=True)
class HelperKey:
    """A helper's private keys."""

    public: str
    signing: Any
    sealing: Any

    @classmethod
    def read(cls, path: Path) -> HelperKey:
        """From the private file."""
        _, x25519 = hpke()
        try:
            signer, sealer = (bytes.fromhex(line) for line in path.read_text().split())
            sealing = x25519.X25519PrivateKey.from_private_bytes(sealer)
            own = signing.private_key(signer)
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} is no helper's private key ({error}); make one with: fedol keys new FILE --helper."
            ) from None
        return cls(_public(own, sealing), own, sealing)


def new_helper_key(path: Path) -> tuple[str, Path]:
    """Write new private keys, readable by their owner alone, and the public ones beside them."""
    _, x25519 = hpke()
    own, sealing = signing.private_key(None), x25519.X25519PrivateKey.generate()
    public, place = _public(own, sealing), path.with_suffix(SUFFIX)
    if place.exists() or place == path:
        raise InputError(f"{place} is where the public key goes, and a key is never overwritten; choose another file.")
    signing.write_key(path, f"{own.private_bytes_raw().hex()}\n{sealing.private_bytes_raw().hex()}\n")
    write_atomically(place, f"{public}\n".encode())
    return public, place


def read_public(path: Path) -> str:
    """A helper's public key from its file."""
    try:
        return check_helper_key(path.read_text().strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The helper's public key {path} cannot be read ({error}).") from None


def _public(own: Any, sealing: Any) -> str:
    return str((own.public_key().public_bytes_raw() + sealing.public_key().public_bytes_raw()).hex())
