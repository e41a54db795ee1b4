"""What clients send of several findings: rows of no and yes, masses, and files that answer something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from marked import digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fedol import Knowledge, OpenSet, Task
from fedol.data.findings import ANSWERS
from fedol.data.samples import samples
from fedol.errors import InputError
from fedol.knowledge.container import Container

NAMES = ("a", "b", "c")
PUBLIC = samples(torch.zeros(20, 1, 8, 8, dtype=torch.uint8))
TASK = Task.of(PUBLIC, ANSWERS, findings=NAMES)
YES = np.random.default_rng(0).uniform(0.01, 0.99, (20, 3))


def test_a_row_is_a_finding_of_a_sample() -> None:
    own = Knowledge.from_probabilities(YES, TASK)
    assert own.log_probs.shape == (60, 2) and own.samples == 20
    np.testing.assert_allclose(own.probabilities()[:, 1].view(20, 3), YES, atol=1e-6)
    np.testing.assert_allclose(own.about(2).probabilities()[:, 1], YES[:, 2], atol=1e-6)


def test_logits_are_those_of_sigmoids() -> None:
    logits = np.log(YES / (1 - YES))
    own, same = Knowledge.from_logits(logits, TASK), Knowledge.from_findings(YES, TASK)
    torch.testing.assert_close(own.log_probs, same.log_probs, atol=1e-5, rtol=0)


def test_a_file_keeps_rows_masses_and_what_it_is_about() -> None:
    own = Knowledge.from_findings(YES, TASK, "alice").with_mass(np.linspace(-1, 1, 20), 40, 2)
    read, header = Knowledge.decode(own.encode("float32"), TASK)
    assert header.findings == read.findings == 3 and read.samples == 20
    torch.testing.assert_close(read.log_probs, own.log_probs)
    assert read.log_mass is not None and (read.log_mass.view(20, 3) == read.log_mass.view(20, 3)[:, :1]).all()
    assert read.share == 2 and read.about(1).share == 2  # 40 private samples over 20 public ones


def test_a_file_about_something_else_is_refused() -> None:
    classes = Task.of(PUBLIC, ("x", "y"))
    plain = Knowledge.from_probabilities(np.full((20, 2), 0.5), classes)
    fewer = replace(TASK, findings=NAMES[:2])
    with pytest.raises(InputError, match="3 findings of each sample"):
        Knowledge.decode(plain.encode(), TASK)
    with pytest.raises(InputError, match="one class of each sample"):
        Knowledge.decode(Knowledge.from_findings(YES, TASK).encode(), classes)
    with pytest.raises(InputError, match="2 findings of each sample"):
        Knowledge.decode(Knowledge.from_findings(YES, TASK).encode(), fewer)


@pytest.mark.parametrize("findings", [0, -1, 7, True, "3", None, 2.0])
def test_a_header_whose_findings_make_no_sense_is_refused(findings: object) -> None:
    container = Container.unpack(Knowledge.from_findings(YES, TASK).encode())
    data = Container({**container.header, "findings": findings}, container.body).pack()
    with pytest.raises(InputError, match=r"findings"):
        Knowledge.decode(data)


def test_probabilities_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        Knowledge.from_probabilities(YES * 3, TASK)
    with pytest.raises(InputError, match="3 findings"):
        Knowledge.from_probabilities(YES[:, :2], TASK)


def test_a_task_of_findings_has_their_names_in_its_id() -> None:
    assert TASK.rows == 60 and TASK.id != replace(TASK, findings=("a", "b", "d")).id
    with pytest.raises(InputError, match="classes no and yes"):
        replace(TASK, classes=("x", "y"))
    with pytest.raises(InputError, match="all different"):
        replace(TASK, findings=("a", "a", "b"))


def test_open_set_learns_each_finding_and_one_mass() -> None:
    images, marks, target = digits()
    x, own = images.reshape(len(images), -1) / 255, np.flatnonzero(np.isin(target[300:], (0, 1, 4))) + 300
    client = OpenSet(LogisticRegression(C=0.1, max_iter=500)).fit(x[own], marks[own], x[:300])
    task = Task.of(samples(images[:300, None]), ANSWERS, findings=("even", "large", "prime", "loop", "four"))
    said = client.knowledge(task, "alice")
    assert said.samples == 300 and said.log_mass is not None
    known = np.isin(target[:300], (0, 1, 4))
    mass = said.log_mass.view(300, 5)[:, 0].numpy()
    assert roc_auc_score(known, mass) > 0.9  # it says which samples are like its own
    right = (said.probabilities()[:, 1].view(300, 5).numpy() > 0.5) == (marks[:300] == 1)
    assert right[known].mean() > 0.95
    assert (said.probabilities()[:, 1].view(300, 5)[:, 2] < 1e-6).all()  # a finding that none of its samples has
    np.testing.assert_allclose(
        torch.logsumexp(torch.from_numpy(client.log_ratios()), 2)[:, 0], said.log_mass.view(300, 5)[:, 0], atol=0.01
    )
