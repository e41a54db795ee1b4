"""The record of a file's release: what it is, what it gives away, and who approved that it leaves.

It lies beside the file, as ``FILE.release.json``, and stays at the site. ``releasing`` makes it, ``policy`` reads it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedol.errors import FedolError, InputError
from fedol.files import read_json
from fedol.knowledge import signing
from fedol.knowledge.container import Container
from fedol.secret.sealed import CODEC as SEALED


class Unapproved(FedolError):
    """A file that may leave once somebody has looked at it and approved: whoever waits for it may ask again."""


@dataclass(frozen=True)
class Record:
    """What ``fedol client release`` found about a file, and who approved; it lies beside the file."""

    file: Path
    about: dict[str, Any]
    approval: dict[str, Any] | None = None

    @classmethod
    def of(cls, file: Path, data: bytes) -> Record:
        """The record of exactly this file."""
        place = record_of(file)
        if not place.exists():
            raise Unapproved(f"{file} has no record of its release: fedol client release {file} --data DATA.")
        values = read_json(place, "make it again with 'fedol client release'")
        try:
            about, approval = dict(values["about"]), values["approval"]
            _ = about["made"], about["membership"], about["duplicates"]["exact"] + about["duplicates"]["near"]
            digest = str(about["file"]["sha256"])
        except (KeyError, TypeError, ValueError):
            raise InputError(f"{place} is no record of a release; make it again with 'fedol client release'.") from None
        if digest != hashlib.sha256(data).hexdigest():
            raise Unapproved(f"{place} is about another file of that name; run 'fedol client release {file}' again.")
        return cls(file, about, approval if isinstance(approval, dict) else None)

    def message(self, approval: dict[str, Any]) -> bytes:
        """What the signature of an approval covers: every word of the record, who, and when."""
        who = [approval.get("name"), approval.get("date")]
        return b"fedol release\n" + json.dumps([self.about, *who], sort_keys=True).encode()

    def approved(self, name: str, key: Path) -> Record:
        """The same, signed by somebody who has looked at it."""
        approval = {"name": name, "key": signing.public_key(key), "date": now()}
        return replace(self, approval={**approval, "signature": signing.sign(key, self.message(approval))})


def record_of(file: Path) -> Path:
    """Where the record of a file lies."""
    return file.with_name(f"{file.name}.release.json")


def note_of(file: Path) -> Path:
    """Where ``client predict`` notes how it made a file, for the record; only where a policy is in force."""
    return file.with_name(f"{file.name}.made.json")


def codec_of(data: bytes) -> str:
    """How a file is packed, by its own word."""
    header = Container.unpack(data).header
    return SEALED if "envelopes" in header else str(header.get("codec"))


def now() -> str:
    """The present moment, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
