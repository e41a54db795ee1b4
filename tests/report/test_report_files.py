"""What the report is made of, without a browser."""

import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import exit_code

import fedol
from fedol import methods
from fedol.data import load, split
from fedol.errors import FedolError
from fedol.knowledge import Knowledge
from fedol.report import charts
from fedol.report.headline import duration, headline
from fedol.report.pages import write_report
from fedol.report.run_view import suspicions
from fedol.runs.evaluation import calibration, examine
from fedol.runs.png import contact_sheet, encode
from fedol.runs.votes import FEWEST, MOST, PAIRS, choose

LARGEST = 2_000_000


def text(page: Path) -> str:
    """What a reader sees, without scripts and tags."""
    page_text = re.sub(r"<(script|style)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page_text))


def test_every_part_is_there_and_the_numbers_are_the_summarys(looked_at: Path) -> None:
    words, summary = text(looked_at / "report.html"), json.loads((looked_at / "summary.json").read_text())
    assert headline(summary).replace("'", "&#39;") in words
    assert f"{100 * summary['server']['accuracy']:.1f} % accurate" in headline(summary)
    assert "points above the best client" in headline(summary) or "points below the best client" in headline(summary)
    for part in ("Who holds what", "The iterations", "Why the server believed", "Class by class", "What it cost"):
        assert part in words
    for part in ("labels right", "most often taken for", "Expected calibration error", "fedol run --config run.toml"):
        assert part in words
    assert "Clients to look at" not in words  # a part without content is left out
    for client in summary["clients"]:
        assert f"{100 * client['accuracy']:.1f} %" in words


def test_the_settings_on_the_page_make_the_same_run(looked_at: Path, tmp_path: Path) -> None:
    from html import unescape

    from fedol.config import configure

    page = (looked_at / "report.html").read_text()
    found = re.search(r'aria-label="Settings as TOML"><code>(.*?)</code>', page, re.DOTALL)
    assert found
    (tmp_path / "run.toml").write_text(unescape(found[1]))
    hash_ = json.loads((looked_at / "config.json").read_text())["hash"]
    assert configure(None, tmp_path / "run.toml").hash == hash_


def test_made_again_it_is_the_same_bytes(looked_at: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    before = (copy / "report.html").read_bytes()
    (copy / "report.html").unlink()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert exit_code("report", str(copy), "--open") == 0
    assert (copy / "report.html").read_bytes() == before
    assert capsys.readouterr().out.strip() == str(copy / "report.html")
    assert opened == [(copy / "report.html").resolve().as_uri()]


def test_no_report_of_nothing(tmp_path: Path, capsys: Any) -> None:
    code = exit_code("report", str(tmp_path))
    assert code == 2 and "There is no finished run" in capsys.readouterr().err


PARTS = {  # what a page lacks without the file
    "public.png": ["Why the server believed"],
    "data.json": ["Who holds what", "Why the server believed", "Class by class"],
    "evaluation.json": ["Class by class"],
    "evidence.json": ["Why the server believed"],
    "metrics.jsonl": ["Training, server"],
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_whose_file_is_not_there_is_left_out(name: str, looked_at: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    (copy / name).unlink()
    before, words = text(looked_at / "report.html"), text(write_report(copy))
    for part in {part for parts in PARTS.values() for part in parts}:
        assert part in before and (part in words) == (part not in PARTS[name])
    assert "The clients and the server" in words


def test_without_the_images_no_link_leads_to_them(looked_at: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    evidence = json.loads((copy / "evidence.json").read_text())
    for sample in evidence["samples"]:
        sample["votes"][0][0] = 0  # the same class to every image
    (copy / "evidence.json").write_text(json.dumps(evidence))
    assert 'href="#why" data-client="0"' in write_report(copy).read_text()
    (copy / "public.png").unlink()
    page = write_report(copy).read_text()
    assert "It answers the same class" in page and "#why" not in page


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("summary.json", b"[]", r"summary\.json is not the summary of a run; give the folder of a finished run\."),
        ("summary.json", b'{"a": 1}', r"summary\.json is not the summary of a run"),
        (
            "summary.json",
            b'{"config": {}, "clients": [], "server": null, "history": []}',
            r"copy is damaged \(\w+: .*\)",
        ),
        ("data.json", b'{"classes": ["a"]}', r"copy is damaged \(KeyError: 'samples_per_client_and_class'\)"),
        ("data.json", b"{", r"data\.json cannot be read \(.*\); remove it to leave its part out\."),
        ("evidence.json", b"{}", r"copy is damaged \(KeyError: 'iterations'\)"),
        ("metrics.jsonl", b"nonsense\n", r"metrics\.jsonl is damaged \(JSONDecodeError: .*\); remove it"),
        ("metrics.jsonl", b"\xff\n", r"metrics\.jsonl is damaged \(UnicodeDecodeError: .*\); remove it"),
        ("metrics.jsonl", b"5\n", r"metrics\.jsonl is damaged \(TypeError: .*\); remove it"),
    ],
)
def test_what_cannot_be_read_is_named(
    name: str, content: bytes, sentence: str, looked_at: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    (copy / name).write_bytes(content)
    with pytest.raises(FedolError, match=sentence):
        write_report(copy)


def test_a_summary_that_lacks_what_the_page_shows_is_named(looked_at: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    summary = json.loads((copy / "summary.json").read_text())
    del summary["clients"][0]["samples"]  # which only the template asks for
    (copy / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(FedolError, match=r"copy is damaged \(LookupError: .*'samples'"):
        write_report(copy)


def test_a_stranger_cannot_write_into_the_page(looked_at: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    evil = "</script><script>alert(1)</script>"
    for name in ("data.json", "evidence.json", "summary.json"):
        values = json.loads((copy / name).read_text())
        if name == "data.json":
            values["classes"][0] = evil
        elif name == "evidence.json":
            values["clients"][0] = evil
        else:
            values["clients"][0]["model"] = evil
            values["refused"] = [{"file": evil, "reason": evil}]
        (copy / name).write_text(json.dumps(values))
    page = write_report(copy).read_text()
    assert "alert(1)" in page and evil not in page
    assert page.count("<script") == 3 and "was refused" in page


@pytest.mark.parametrize("method", ["feddf", "fedkt", "fedavg", "local"])
def test_every_kind_of_method_has_a_report(method: str, tiny: dict[str, Any], tmp_path: Path) -> None:
    out = fedol.run(out=tmp_path / "run", **{**tiny, "method": method}).out
    words = text(out / "report.html")
    assert ("Why the server believed" in words) == (method == "feddf")
    assert ("Class by class" in words) == (method != "local")
    assert "The clients and the server" in words


def test_evidence_is_what_the_public_functions_say(looked_at: Path) -> None:
    evidence = json.loads((looked_at / "evidence.json").read_text())
    files = sorted((looked_at / "clients").glob("*.fedol"))
    probs = torch.stack([Knowledge.load(file).probabilities() for file in files]).double()
    weights, trust = fedol.client_weights(probs), fedol.class_confidence(probs)
    config = json.loads((looked_at / "config.json").read_text())["config"]
    data = split(load("digits"), config["public"], config["seed"])
    for sample in evidence["samples"]:
        i = sample["index"]
        assert sample["truth"] == data.public_labels[i]
        for k, (vote, sure, weight, share, _) in enumerate(sample["votes"]):
            assert vote == probs[k, i].argmax()
            assert sure == pytest.approx(1000 * probs[k, i].max().item(), abs=0.51)
            assert weight == pytest.approx(1000 * weights[k, i].item(), abs=0.51)
            assert share == pytest.approx(1000 * trust[k, vote].item(), abs=0.51)
    for step in range(2):  # without the server, whose vote comes from the second iteration on, voters are those counted
        voters = [sum(vote[4] <= step + 1 for vote in sample["votes"]) for sample in evidence["samples"]]
        counted = [sample["voters"][step] for sample in evidence["samples"]]
        assert all(0 <= c - v <= step for v, c in zip(voters, counted, strict=True))
    first = fedol.pseudo_labels(probs, config["rho"]).labels
    assert [sample["labels"][0] for sample in evidence["samples"]] == [first[s["index"]] for s in evidence["samples"]]


def test_evidence_shows_what_the_method_teaches(tiny: dict[str, Any], tmp_path: Path) -> None:
    """And not the λ mixture, which only some methods teach."""
    out = fedol.run(out=tmp_path / "run", **{**tiny, "method": "feddf", "partition": "classes:5"}).out
    uploads = [Knowledge.load(file) for file in sorted((out / "clients").glob("*.fedol"))]
    soft = methods.find("feddf").teacher(uploads, methods.Distillation()).targets(1, None).soft
    samples = json.loads((out / "evidence.json").read_text())["samples"]
    for sample in samples:
        confidence = soft[sample["index"]]
        assert sample["taught"] == [confidence.argmax(), pytest.approx(1000 * confidence.max().item(), abs=0.51)]
    assert any(sample["taught"][0] != sample["mixture"][0] for sample in samples)


def test_which_images_are_shown() -> None:
    assert choose(5000, 10, 0).tolist() == choose(5000, 10, 0).tolist() != choose(5000, 10, 1).tolist()
    assert len(choose(5000, 10, 0)) == MOST and len(choose(50, 10, 0)) == 50
    assert len(choose(5000, PAIRS, 0)) == FEWEST and len(choose(5000, 200, 0)) == PAIRS // 200
    assert choose(50, 1, 0).tolist() == list(range(50))


def test_examine_and_calibration() -> None:
    probs = torch.tensor([[0.9, 0.05, 0.05], [0.6, 0.4, 0.0], [0.1, 0.85, 0.05], [0.2, 0.7, 0.1]])
    found = examine(probs.log(), np.array([0, 1, 1, 0]), 3)
    assert found["confusion"] == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert found["per_class"] == [0.5, 0.5, None] and found["samples"] == [2, 2, 0]
    gaps = abs(0.9 - 1) + abs(0.6 - 0) + abs(0.85 - 1) + abs(0.7 - 0)  # each in a bin of its own
    assert found["calibration"]["ece"] == pytest.approx(gaps / 4, abs=1e-6)
    perfect = calibration(np.array([1.0, 1.0]), np.array([True, True]))
    assert perfect["ece"] == 0 and perfect["bins"][-1]["count"] == 2


@pytest.mark.parametrize("channels", [1, 3])
def test_png(channels: int) -> None:
    image_module = pytest.importorskip("PIL.Image", reason="compares with the package pillow")
    import io

    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (channels, 7, 5), dtype=np.uint8)
    decoded = np.asarray(image_module.open(io.BytesIO(encode(image))))
    assert (decoded.reshape(7, 5, channels) == image.transpose(1, 2, 0)).all()


def test_contact_sheet() -> None:
    images = np.arange(20, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 64, 48), np.uint8)
    sheet = contact_sheet(images)
    assert sheet.shape == (1, 2 * 32, 16 * 24)  # halved, sixteen in a row
    assert sheet[0, 33, 2 * 24 + 1] == 18 and sheet[0, 0, 15 * 24] == 15
    assert contact_sheet(images[:, :, :, :1]).shape == (1, 2 * 32, 16)  # thinner than the step


def test_a_report_of_the_papers_size_is_small(looked_at: Path, tmp_path: Path) -> None:
    """Noise, which compresses worst, in the size of CIFAR-100, with a hundred classes."""
    copy = shutil.copytree(looked_at, tmp_path / "copy")
    rng = np.random.default_rng(0)
    sheet = encode(contact_sheet(rng.integers(0, 256, (MOST, 3, 32, 32), dtype=np.uint8)))
    (copy / "public.png").write_bytes(sheet)
    evidence = json.loads((copy / "evidence.json").read_text())
    sample = {**evidence["samples"][0], "votes": [[99, 999, 999, 999, 10]] * 10, "labels": [99] * 10}
    evidence |= {"samples": [sample] * MOST, "clients": [f"client {k}" for k in range(10)], "agreement": [0.5] * 4}
    (copy / "evidence.json").write_text(json.dumps(evidence))
    data = json.loads((copy / "data.json").read_text())
    data |= {"samples_per_client_and_class": [[45] * 100] * 10, "classes": [f"class number {c}" for c in range(100)]}
    (copy / "data.json").write_text(json.dumps(data))
    (copy / "evaluation.json").unlink()
    page = write_report(copy)
    assert len(zlib.compress(sheet)) > 0.9 * len(sheet)  # noise indeed
    assert 800_000 < page.stat().st_size < LARGEST


def test_a_heat_map_too_large_to_draw_is_an_image() -> None:
    small = charts.heat_map(np.ones((3, 4), int), list("abcd"), ["x", "y", "z"])
    assert small.count("<rect") == 12 and "x, a: 1" in small
    large = charts.heat_map(np.ones((1000, 100), int), [str(c) for c in range(100)], [str(k) for k in range(1000)])
    assert "data:image/png" in large and 'alt="Private samples of 1000 clients' in large and len(large) < 50_000


def test_odd_clients_are_named_and_others_are_not() -> None:
    votes = [[[k % 2 if k else 0, 900, 100, 100, 1] for k in range(6)], [[1 - k % 2 if k else 0] * 5 for k in range(6)]]
    evidence = {
        "clients": [f"client {k}" for k in range(6)],
        "agreement": [0.6, 0.62, 0.58, 0.61, 0.6, 0.2],
        "samples": [{"votes": votes[0]}, {"votes": votes[1]}],
    }
    found = {entry["client"]: entry["reason"] for entry in suspicions(evidence)}
    assert set(found) == {"client 0", "client 5"}
    assert "same class" in found["client 0"] and "20 %" in found["client 5"]


def test_duration() -> None:
    assert [duration(s) for s in (11.4, 600, 12_000)] == ["11 s", "10 min", "3 h 20 min"]


def test_a_pool_has_no_voters_that_were_sure_enough(tmp_path: Path, tiny: dict[str, Any]) -> None:
    out = fedol.run(out=tmp_path / "run", **{**tiny, "method": "fedol+"}).out
    evidence = json.loads((out / "evidence.json").read_text())
    assert evidence["iterations"] and not evidence["gated"]
    assert all(vote[4] == 0 for sample in evidence["samples"] for vote in sample["votes"])
    page = (out / "report.html").read_text()
    assert "surest of as pseudo-labels" in page and "clients disagree" in page
    assert "ρ is the share" not in page and "sure enough to vote" not in page
    # One client has nobody to agree with: no labels, and no error either.
    alone = fedol.run(out=tmp_path / "alone", **{**tiny, "method": "fedol+", "clients": 1, "partition": "iid"})
    assert [record["coverage"] for record in alone.summary["history"]] == [0.0] * len(alone.summary["history"])
