"""The container of a knowledge file: safetensors with one tensor of bytes, read without trusting a word of it.

A safetensors file is eight bytes with the length of a JSON header, the header, and the data. This reads it by hand,
because it must bound each of these before it allocates, and must tell a file that is still arriving from a broken one.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedol.errors import InputError

HEADER_LIMIT = 16_384
LARGEST = 1 << 31  # bytes of a file for which no task sets a limit


class Incomplete(InputError):
    """A file that ends before it should: truncated, or still being written."""


@dataclass(frozen=True)
class Container:
    """A JSON header and a body of bytes."""

    header: dict[str, Any]
    body: bytes

    def pack(self) -> bytes:
        """As a safetensors file; equal content gives equal bytes."""
        tensor = {"dtype": "U8", "shape": [len(self.body)], "data_offsets": [0, len(self.body)]}
        head = json.dumps({"__metadata__": {"fedol": json.dumps(self.header)}, "body": tensor}).encode()
        head += b" " * (-len(head) % 8)
        return struct.pack("<Q", len(head)) + head + self.body

    @classmethod
    def unpack(cls, data: bytes) -> Container:
        """The reverse, or an ``InputError`` that says what is wrong; the caller adds which file it is."""
        header, start = cls.split(data)
        return cls(header, data[start:])

    @staticmethod
    def split(data: bytes) -> tuple[dict[str, Any], int]:
        """The header and where the body begins, for whoever need not copy it."""
        if len(data) < 8:
            raise Incomplete("it ends before its header")
        (length,) = struct.unpack_from("<Q", data)
        if length > HEADER_LIMIT:
            raise InputError(f"its header claims {length:,} bytes; {HEADER_LIMIT:,} are allowed")
        if len(data) < 8 + length:
            raise Incomplete("it ends within its header")
        head = _json(data[8 : 8 + length], "its header is no JSON object")
        metadata = head.pop("__metadata__", None)
        if not isinstance(metadata, dict) or not isinstance(metadata.get("fedol"), str):
            raise InputError("it is no knowledge file (its header has no 'fedol' entry)")
        size = _body_size(head)
        if len(data) < 8 + length + size:
            raise Incomplete(f"it ends after {len(data) - 8 - length:,} of {size:,} bytes of its body")
        if len(data) > 8 + length + size:
            raise InputError("it goes on after its end")
        return _json(metadata["fedol"], "its 'fedol' entry is no JSON object"), 8 + length


def read_bounded(path: Path, limit: int | None = None, follow: bool = True) -> bytes:
    """A regular file of at most ``limit`` bytes. ``follow=False`` refuses a symbolic link, whatever it points to."""
    limit = LARGEST if limit is None else limit
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # so that a named pipe cannot keep us waiting
    if not follow:
        if path.is_symlink():
            raise InputError("it is a symbolic link; put the file itself there")
        flags |= getattr(os, "O_NOFOLLOW", 0)  # and one that appears in this very moment is an OSError
    try:
        # Through an opener, because of a directory ``open`` would leave a descriptor that is not its own open.
        with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise InputError("it is no regular file")
            data = file.read(min(limit, state.st_size) + 1)  # no more than is there or allowed, and one to see more
    except OSError as error:
        raise InputError(f"it cannot be read ({error.strerror})") from None
    check_size(data, limit)
    return data


def check_size(data: bytes, limit: int) -> None:
    """An error where a file has more bytes than it may."""
    if len(data) > limit:
        raise InputError(f"it has more than the {limit:,} bytes that are allowed")


def _body_size(tensors: dict[str, Any]) -> int:
    body = tensors.get("body")
    if set(tensors) != {"body"} or not isinstance(body, dict) or body.get("dtype") != "U8":
        raise InputError("it must hold one tensor, 'body', of type U8")
    offsets, shape = body.get("data_offsets"), body.get("shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or offsets[0] != 0 or shape != [offsets[1]]:
        raise InputError("the offsets of its body are wrong")
    if type(offsets[1]) is not int or offsets[1] < 0:
        raise InputError("the offsets of its body are wrong")
    return offsets[1]


def _json(text: str | bytes, otherwise: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError; so is a number of 5,000 digits
        raise InputError(otherwise) from None
    if not isinstance(value, dict):
        raise InputError(otherwise)
    return value
