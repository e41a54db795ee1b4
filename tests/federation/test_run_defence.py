"""``fedol run --defence``: off unless asked for, the same names as elsewhere, and the report says what it did."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import exit_code
from torch import Tensor

import fedol
from fedol.config import RunConfig, ServerConfig, configure
from fedol.errors import InputError
from fedol.robust import DEFAULT, Defence, canonical, hearing_everyone

QUICK: dict[str, Any] = {"client_models": "mlp", "server_model": "mlp", "epochs": 10, "iterations": 1, "device": "cpu"}


def test_the_default_is_the_paper_s_method(tmp_path: Path) -> None:
    assert RunConfig().distillation.defence == Defence()
    file = tmp_path / "run.toml"
    file.write_text('defence = "trust,cap"\n')
    assert configure(file=file).distillation.defence == Defence.parse("trust,cap")


def test_one_spelling_of_the_same_defences() -> None:
    for text in ("exact,trust", "trust, exact", "trust,exact,exact"):
        assert configure(overrides={"defence": text}) == configure(overrides={"defence": "trust,exact"})
        assert ServerConfig("task", defence=text).defence == "trust,exact"
    assert canonical(DEFAULT) == DEFAULT and canonical("none") == "none"
    assert [hearing_everyone(text) for text in (DEFAULT, "trust", "none")] == ["exact,cap,runoff", "none", "none"]
    with pytest.raises(InputError, match="'trust,none' asks for defences and for none"):
        canonical("trust,none")


def test_a_run_screens_where_it_is_asked_to(tmp_path: Path, capsys: Any) -> None:
    options = [part for name, value in QUICK.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    arguments = ["run", *options, "--partition", "iid", "--defence", DEFAULT, "--out", str(tmp_path / "run")]
    assert exit_code(*arguments, "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert [entry["client"] for entry in summary["screening"]] == [f"client {k}" for k in range(10)]
    assert not any(entry["left_out"] for entry in summary["screening"])
    assert json.loads((tmp_path / "run" / "evidence.json").read_text())["runoff"] is True  # the page says who decides
    page = (tmp_path / "run" / "report.html").read_text()
    for entry in summary["screening"]:
        row = page.split(f'<th scope="row">{entry["client"]}</th>')[1].split("</tr>")[0]
        assert f'data-value="{entry["trust"]}">{entry["trust"]:.2f}</td>' in row


def test_a_liar_s_file_is_left_out_of_a_run(tmp_path: Path) -> None:
    """The server is trained again with one upload replaced by a lie; the summary and the report name it."""
    from fedol.robust.attacks import attack_files

    settings = {**QUICK, "partition": "iid", "defence": "trust", "out": tmp_path / "run"}
    fedol.run(**settings)
    uploads = [tmp_path / "run" / "clients" / f"{k:02}.fedol" for k in range(10)]
    (lie,) = attack_files(uploads[:1], "permuted", tmp_path / "lie")
    uploads[0].write_bytes(lie.read_bytes())
    for made in ("summary.json", "report.html", "model.safetensors", "screening.json"):
        (tmp_path / "run" / made).unlink()
    for part in (tmp_path / "run" / "server").iterdir():
        part.unlink()
    result = fedol.run(**settings)
    assert [entry["client"] for entry in result.summary["screening"] if entry["left_out"]] == ["client 0"]
    page = (result.out / "report.html").read_text()
    assert "suspicious, left out" in page and "to hear everyone all the same, <code>--defence none</code>" in page
    # The page's votes are those that counted: the liar is shown, without weight, and sure in no iteration.
    evidence = json.loads((result.out / "evidence.json").read_text())
    assert evidence["runoff"] is False and evidence["left_out"] == ["client 0"] and evidence["clients"][0] == "client 0"
    liar, *honest = zip(*(sample["votes"] for sample in evidence["samples"]), strict=True)
    assert {weight for _, _, weight, _, _ in liar} == {0}
    assert all(weight > 0 for client in honest for _, _, weight, _, _ in client)


@pytest.mark.parametrize("method", ["fedavg", "fedkt", "local"])
def test_methods_without_predictions_have_no_defence(method: str) -> None:
    with pytest.raises(InputError, match="defence none"):
        RunConfig(method=method, defence="trust")
    with pytest.raises(InputError, match="no defence 'trusted'"):
        RunConfig(defence="trusted")


def test_who_is_left_out_teaches_nobody_in_later_rounds_either(tmp_path: Path) -> None:
    """What a benchmark sends back to clients is of the clients that its server heard, by the one way to hear them."""
    from fedol.federation.scenario import Scenario, Scheme
    from fedol.robust.attacks import attack_files

    settings = {**QUICK, "partition": "iid", "method": "feddf"}
    fedol.run(**settings, out=tmp_path / "run")
    files = [tmp_path / "run" / "clients" / f"{k:02}.fedol" for k in range(10)]
    (lie,) = attack_files(files[:1], "permuted", tmp_path / "lie")
    scenario = Scenario(RunConfig(**settings))

    def taught(paths: list[Path], defence: str) -> Tensor:
        scheme = Scheme.of(scenario.under(RunConfig(**settings, defence=defence)))
        return scheme.teacher(paths).targets(1, None).soft

    assert torch.equal(taught([lie, *files[1:]], "trust"), taught(files[1:], "none"))
    assert not torch.equal(taught([lie, *files[1:]], "none"), taught(files[1:], "none"))
