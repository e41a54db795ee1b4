"""A site's own rules for what may leave it: a TOML file that lies at the site, where no coordinator can reach it.

    codecs = ["lattice20", "top10"]         # the allowed ones; any, where none are named
    releases = ["label", "noise:1", "response:4"]
                                            # how much less a file must say: one of these, with as much noise or more
    largest_auc = 0.6                       # the most that any membership attack on the file may reach
    duplicates = 0                          # how many private samples may be among the public ones, or nearly so
    approval = true                         # whether somebody must approve each file; so it is unless this says false

    [approvers]                             # and who: names and public keys of `fedol keys new`
    dpo = "9f86d081..."

``client predict`` makes no file that codecs or releases forbid. ``client send`` and a Flower node let none leave that
breaks a rule: what a file says of itself is read from it, all else from the record of ``fedol client release`` beside
it. Without a policy the commands ask for nothing, and a node sends nothing.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fedol.errors import InputError, brief, unknown
from fedol.federation.record import Record, Unapproved, codec_of
from fedol.knowledge import codecs, signing
from fedol.privacy.release import parsed
from fedol.secret.sealed import CODEC as SEALED
from fedol.text import printable

VARIABLE = "FEDOL_POLICY"
USUAL = Path("~/.config/fedol/policy.toml")


class Forbidden(InputError):
    """A file that a rule does not let leave. Which rule, and by how much, is the site's to know."""


@dataclass(frozen=True)
class Policy:
    """The rules of one site."""

    path: Path
    codecs: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    largest_auc: float | None = None
    duplicates: int | None = None
    approval: bool = True
    approvers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def found(cls, given: Path | None = None) -> Policy | None:
        """The policy in force here: the one given, that of the environment, or that of the user; None where none is."""
        named = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
        path = (named or USUAL).expanduser()
        if named is None and not path.exists():
            return None
        return cls.read(path)

    @classmethod
    def read(cls, path: Path) -> Policy:
        """A policy from its file. One that cannot be read lets nothing leave, so everything odd is an error."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"The policy {path} cannot be read ({error}); nothing leaves before it can.") from None
        known = [item.name for item in fields(cls) if item.name != "path"]
        for name in values:
            if name not in known:
                raise unknown(f"rule in {path}", name, known)
        kinds: dict[str, tuple[Any, str]] = {
            "codecs": (list, "a list of codecs"),
            "releases": (list, "a list of releases"),
            "largest_auc": (int | float, "a number from 0.5 to 1"),
            "duplicates": (int, "a whole number"),
            "approval": (bool, "true or false"),
            "approvers": (dict, "a table of names and public keys"),
        }
        for name, value in values.items():
            kind, words = kinds[name]
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise InputError(f"The rule '{name}' in {path} must be {words}, but is {brief(value)}.")
        plain: dict[str, Any] = {
            name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in values.items()
        }
        policy = cls(path, **plain)
        policy._check()
        return policy

    def _check(self) -> None:
        """Refuse rules that could never mean what their author wanted."""
        for codec in self.codecs:
            if codec != SEALED:
                codecs.find(codec)
        for release in self.releases:
            parsed(release)
        if self.largest_auc is not None and not 0.5 <= self.largest_auc <= 1:
            raise InputError(f"The rule 'largest_auc' in {self.path} must lie in 0.5..1, but is {self.largest_auc}.")
        if self.duplicates is not None and self.duplicates < 0:
            raise InputError(f"The rule 'duplicates' in {self.path} must be 0 or more, but is {self.duplicates}.")
        for key in self.approvers.values():
            signing.check_public_key(str(key))

    @property
    def digest(self) -> str:
        """Names this version of the rules."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def check_making(self, codec: str, release: str | None) -> None:
        """Refuse a codec or a release before a model is asked for answers that could not be sent."""
        if self.codecs and codec not in self.codecs:
            raise self._broken(f"allows the codecs {', '.join(self.codecs)}, and this is {printable(codec, 40)}")
        if self.releases and not any(_as_little(release, least) for least in self.releases):
            raise self._broken(f"wants --release {' or '.join(self.releases)}, and this is {release or 'made without'}")

    def check_leaving(self, file: Path, data: bytes) -> None:
        """Refuse to let this file leave, or say that it waits for approval; ``data`` are its bytes."""
        codec = codec_of(data)
        if not (self.approval or self.releases or self.largest_auc is not None or self.duplicates is not None):
            self.check_making(codec, None)
            return
        record = Record.of(file, data)
        self.check_record(record, codec)
        if self.approval:
            self.check_approval(record)

    def check_record(self, record: Record, codec: str) -> None:
        """Refuse a file about which the record says what a rule forbids."""
        about = record.about
        self.check_making(codec, about["made"]["release"] if about["made"] else None)
        if self.largest_auc is not None:
            if not (attacks := about["membership"]):
                raise self._broken("bounds the AUC of attacks, and the record has none; release it with --model")
            name, worst = max(attacks.items(), key=lambda item: float(item[1]["auc"]))
            if worst["auc"] > self.largest_auc:
                raise self._broken(f"allows attacks an AUC of {self.largest_auc:g}; '{name}' has {worst['auc']:.3f}")
        found = about["duplicates"]["exact"] + about["duplicates"]["near"]
        if self.duplicates is not None and found > self.duplicates:
            raise self._broken(
                f"allows {self.duplicates:,} private samples among the public ones, and there are {found:,}"
            )

    def check_approval(self, record: Record) -> None:
        """Refuse a file that nobody whom the policy lists has approved."""
        given = record.approval
        if not given:
            raise Unapproved(
                f"{record.file} waits for approval: fedol client release {record.file} --approve NAME --key KEY."
            )
        listed = self.approvers.get(str(given.get("name")))
        if listed is None or listed != given.get("key"):
            who = printable(given.get("name"), 60)
            raise Unapproved(f"{record.file} was approved by '{who}', whose key {self.path} does not list.")
        if not signing.verify(listed, str(given.get("signature")), record.message(given)):
            raise Unapproved(f"The approval of {record.file} does not hold: its record was changed; approve it again.")

    def _broken(self, why: str) -> Forbidden:
        return Forbidden(f"Nothing leaves here: the policy {self.path} {why}.")


def _as_little(release: str | None, least: str) -> bool:
    """Whether a release says as little as the least that a policy wants."""
    if release is None:
        return False
    (kind, strength), (wanted, bound) = parsed(release), parsed(least)
    return kind == wanted and (strength <= bound if kind == "response" else strength >= bound)
