"""The record of a file's release as a page, and in a few lines for a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedol.files import write_atomically
from fedol.knowledge.header import Guarantee
from fedol.report.pages import render
from fedol.report.terminal import count, percent, size

SHOWN = 10  # classes of the mix


def write_release(page: Path, record: dict[str, Any]) -> None:
    """Write the page of a record, which says what ``FILE.release.json`` does."""
    write_atomically(page, render("release.html", release_view(record)).encode())


def release_view(record: dict[str, Any]) -> dict[str, Any]:
    """The values of ``templates/release.html``."""
    about, approval = record["about"], record["approval"]
    file, privacy = about["file"], about["privacy"]
    attacks = [{"name": name, **leak} for name, leak in about["membership"].items()]
    mix = list((about["reveals"]["class_mix"] or {}).items())
    return {
        "name": file["name"],
        "headline": headline(record),
        "facts": [
            ("file", f"{file['name']}, {size(file['bytes'])}, {file['codec']}"),
            ("SHA-256", file["sha256"]),
            ("sent by", f"{file['client']}{', signed' if file['signed'] else ', not signed'}"),
            ("task", f"{about['task']['name']} ({about['task']['id']})"),
            ("purpose", about["purpose"]),
            ("model", about["model"] or "not said"),
            ("release", (about["made"]["release"] or "none: as the model says") if about["made"] else "not known"),
            ("looked at", about["date"]),
            ("private samples", f"{about['data']['samples']:,} to train on, {about['data']['held_out']:,} held out"),
            ("differential privacy", str(Guarantee(**privacy)) if privacy else "no formal guarantee"),
        ],
        "approval": [("name", approval["name"]), ("key", approval["key"]), ("date", approval["date"])]
        if approval
        else None,
        "duplicates": about["duplicates"],
        "attacks": sorted(attacks, key=lambda leak: -float(leak["auc"])),
        "mix": mix[:SHOWN],
        "more": len(mix) - SHOWN,
        "told": about["label_mix_error"],
        "entropy": about["reveals"]["entropy"],
        "masses": about["reveals"]["ratios"],
        "sealed": file["sealed"],
    }


def headline(record: dict[str, Any]) -> str:
    """The finding in one sentence."""
    about = record["about"]
    found, attacks = about["duplicates"], about["membership"]
    copies = found["exact"] + found["near"]
    words = [f"{copies:,} of {count(found['private'], 'private sample')} are among the public ones or nearly so"]
    if attacks:
        worst = max(leak["auc"] for leak in attacks.values())
        words.append(f"the best attack picks a training sample {percent(worst)} of the time, where half is guessing")
    words.append(f"approved by {record['approval']['name']}" if record["approval"] else "nobody has approved it")
    return f"{'; '.join(words)}."


def lines(record: dict[str, Any]) -> list[str]:
    """The same on a terminal."""
    about = record["about"]
    found = about["duplicates"]
    said = [headline(record)]
    said.append(
        f"Private samples among the public ones: {found['exact']:,} exactly, {found['near']:,} nearly. Of the public "
        f"ones {percent(found['usual_share'])} are nearly another public one."
    )
    said += [
        f"Attack, {name}: AUC {leak['auc']:.3f} over {leak['members']:,} training and {leak['others']:,} other samples."
        for name, leak in about["membership"].items()
    ]
    if not about["membership"]:
        sealed = about["file"]["sealed"]
        said.append(
            "No attack on the file: it is sealed, and nobody can read it alone; --model attacks what is in it."
            if sealed
            else "No attack on the file: too few held-out samples have the classes of the training ones."
        )
    if told := about["label_mix_error"]:
        said.append(
            f"Class mix: the file tells it up to an error of {percent(told['told'])}; guessing that all are equal: "
            f"{percent(told['guessed'])}."
        )
    return said
