"""Names and words of strangers. They become file names and go to terminals, so they are kept plain."""

from __future__ import annotations

import re

from fedol.errors import InputError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}[A-Za-z0-9]|[A-Za-z0-9]")


def printable(words: object) -> str:
    """Somebody's words on one line: they go to a terminal, which they must not command."""
    line = "".join(" " if letter.isspace() else letter for letter in str(words))
    return "".join(letter for letter in line if letter.isprintable())


def check_name(client: str) -> str:
    """The name of a client as it is, or an error."""
    if not _PLAIN.fullmatch(client):
        raise InputError(
            f"A client cannot be named {client[:80]!r}: use 1 to 64 letters, digits, spaces, dots, hyphens and "
            "underscores, with a letter or digit at both ends."
        )
    return client
