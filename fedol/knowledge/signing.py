"""Ed25519 signatures: a client's file is taken only under the key that the task lists for it.

The private key is a file with 64 hexadecimal digits that never leaves the client; the public key, 64 more, goes into
the task. ``cryptography`` is an extra and is imported only here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedol.errors import FedolError, InputError

# Points of the curve whose order divides 8, by their y (as in libsodium). Under such a key anybody can make a signature
# of any message, without a private key. A y beyond the prime would be a second way to write one of them.
PRIME = 2**255 - 19
_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = {0, 1, PRIME - 1, _ORDER_8, PRIME - _ORDER_8}


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise FedolError("Signed knowledge needs the package cryptography: pip install 'fedol[signing]'.") from None
    return ed25519


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone, and return the public key."""
    write_key(path, private_key(None).private_bytes_raw().hex() + "\n")
    return public_key(path)


def write_key(path: Path, text: str) -> None:
    """Write a private key where there is no file yet, readable by its owner alone."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} exists already; a key is never overwritten, so choose another file.") from None
    except OSError as error:
        raise InputError(f"The key {path} cannot be written ({error.strerror}); choose another place.") from None


def private_key(raw: bytes | None) -> Any:
    """The private key of these 32 bytes; a new one from the system's randomness, since a seed must not give it back."""
    keys = _ed25519().Ed25519PrivateKey
    return keys.generate() if raw is None else keys.from_private_bytes(raw)


def _private(path: Path) -> Any:
    try:
        return private_key(bytes.fromhex(path.read_text().strip()))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a private key ({error}); make one with: fedol keys new FILE.") from None


def sign(path: Path, message: bytes) -> str:
    """The signature of a message under the private key in this file."""
    return str(_private(path).sign(message).hex())


def public_key(path: Path) -> str:
    """The public key of the private key in this file."""
    return str(_private(path).public_key().public_bytes_raw().hex())


def verify(public: str, signature: str, message: bytes) -> bool:
    """Whether the signature is of this message under this public key."""
    ed25519 = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def check_installed() -> None:
    """One clear sentence where signatures cannot be checked here."""
    _ed25519()


def check_public_key(key: str) -> str:
    """The key as it is, or an error."""
    if len(key) != 64 or not all(digit in "0123456789abcdef" for digit in key):
        raise InputError(f"'{key[:80]}' is not a public key: 64 hexadecimal digits, as 'fedol keys new' prints them.")
    y = int.from_bytes(bytes.fromhex(key), "little") & ((1 << 255) - 1)  # the top bit is the sign of x
    if y >= PRIME or y in SMALL_ORDER:
        raise InputError(f"'{key}' is a public key under which anybody can sign; ask its owner for another.")
    return key


def check_sealing_key(key: str) -> None:
    """An error for an X25519 key of small order: what is sealed to it, anybody can open."""
    check_installed()
    from cryptography.hazmat.primitives.asymmetric import x25519

    try:
        x25519.X25519PrivateKey.generate().exchange(x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(key)))
    except ValueError:
        raise InputError(f"'{key}' is a public key to which nothing can be sealed; ask for another.") from None
