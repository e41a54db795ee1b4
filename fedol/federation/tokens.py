"""Tokens by which clients are known to a server that listens: one each, made by the coordinator.

A token is 256 random bits in a file that its client alone gets. The task's folder keeps the SHA-256 of each, which is
of no use to whoever gets a copy of the folder. A new token for a client replaces its old one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from fedol.errors import InputError
from fedol.federation.taskfolder import TaskFolder
from fedol.files import intact, private_folder, read_json, write_json
from fedol.knowledge.signing import write_key
from fedol.text import check_name

TOKENS, SUFFIX = "tokens.json", ".token"
ADVICE = "make new tokens with: fedol keys token"
LONGEST = 200  # characters of a token that is looked at: more is none of ours


def new_token(folder: TaskFolder, client: str, file: Path) -> None:
    """Make this client's token, write it to a file of its owner's alone, and keep its hash with the task."""
    check_name(client)
    if folder.task.clients and client not in folder.task.clients:
        raise InputError(f"The task in {folder.path} does not list the client '{client}'; use the name that it lists.")
    known = Tokens(folder.path).hashes()
    if twin := next((name for name in known if name != client and name.casefold() == client.casefold()), None):
        raise InputError(f"'{twin}' has a token already, and differs from '{client}' only in capital letters.")
    token = secrets.token_urlsafe(32)
    private_folder(file.parent)
    write_key(file, token + "\n")
    write_json(folder.path / TOKENS, {"sha256": dict(sorted({**known, client: _hash(token)}.items()))})


def read_token(file: Path) -> str:
    """The token in a client's file."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The token in {file} cannot be read ({error}); ask the coordinator for it again.") from None
    if not token.isascii() or not token.isprintable() or not 0 < len(token) <= LONGEST or " " in token:
        raise InputError(f"{file} holds no token; give the .token file that you got from the coordinator.")
    return token


class Tokens:
    """Whose token is whose, as the task's folder says; read again whenever it has changed."""

    def __init__(self, task: Path) -> None:
        self._file = task / TOKENS
        self._seen: tuple[int, int] | None = None
        self._hashes: dict[str, str] = {}

    def hashes(self) -> dict[str, str]:
        """Client -> SHA-256 of its token."""
        try:
            state = self._file.stat()
        except OSError:
            return {}
        if (seen := (state.st_mtime_ns, state.st_ino)) != self._seen:
            with intact(self._file, ADVICE):
                kept = read_json(self._file, ADVICE)["sha256"]
                self._hashes = {check_name(name): str(value) for name, value in kept.items()}
            self._seen = seen
        return self._hashes

    def fits(self, client: str, token: str) -> bool:
        """Whether this is the client's token; it takes as long where it is not, or where there is no such client."""
        wanted = self.hashes().get(client, "")
        return hmac.compare_digest(_hash(token[: LONGEST + 1]), wanted or "0" * 64) and bool(wanted)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
