"""A method that is asked about several findings says of each what it says of two classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedol import methods
from fedol.distillation import hear
from fedol.knowledge import Knowledge
from fedol.methods import Distillation
from fedol.robust import Defence

SAMPLES, FINDINGS = 40, 3


def clients(masses: bool) -> list[Knowledge]:
    rng = np.random.default_rng(5)
    found = [Knowledge.from_findings(rng.beta(0.4, 0.8, (SAMPLES, FINDINGS)), client=f"client {k}") for k in range(4)]
    return [c.with_mass(rng.normal(0, 1, SAMPLES), 40, 2) for c in found] if masses else found


@pytest.mark.parametrize("name", [m.name for m in methods.METHODS.values() if m.targets and m.hears])
def test_every_finding_is_a_question_of_its_own(name: str) -> None:
    """Against the slow way: the method by itself, on two-class knowledge written out finding by finding."""
    settings = Distillation(name, iterations=2, rho=0.3)
    method, heard = methods.find(name), clients(masses=name == "union")
    teacher, _ = hear(method, heard, settings, findings=FINDINGS)
    server = torch.softmax(torch.randn(SAMPLES * FINDINGS, 2, generator=torch.Generator().manual_seed(1)), 1)
    for iteration in range(1, teacher.iterations + 1):
        said = server if iteration > 1 else None
        together = teacher.targets(iteration, said).soft.view(SAMPLES, FINDINGS, 2)
        for finding in range(FINDINGS):
            single = [client.about(finding) for client in heard]
            alone = method.teacher(single, settings)
            own = None if said is None else said.view(SAMPLES, FINDINGS, 2)[:, finding]
            for past in range(1, iteration):  # a teacher that remembers goes through its iterations in turn
                alone.targets(past, None if past == 1 else own)
            torch.testing.assert_close(together[:, finding], alone.targets(iteration, own).soft)


def test_nobody_is_screened_where_samples_have_findings() -> None:
    settings = Distillation("mixture", defence=Defence.parse("trust"))
    liar = Knowledge.from_findings(np.ones((SAMPLES, FINDINGS)), client="liar")
    assert hear(methods.find("mixture"), [*clients(False), liar], settings, findings=FINDINGS)[1] == []
