"""What a model's numbers mean is never guessed: probabilities, logits, or a yes or no for each class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from commands import Command
from sklearn.ensemble import RandomForestClassifier
from small_federation import Federation

from fedol import Knowledge
from fedol.errors import InputError
from fedol.federation.outputs import checked, knowledge_of

SIGMOIDS = np.random.default_rng(0).uniform(0, 1, (40, 10))
QUESTION = r"rows sum to .* and not to 1; .*--logits.*--multilabel\)\?$"


def shares(values: np.ndarray) -> np.ndarray:
    return values / values.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("values", "chances"),
    [
        (SIGMOIDS, False),  # a network that ends with a sigmoid
        (SIGMOIDS, True),
        (np.zeros((40, 10)), False),
        (5 * SIGMOIDS, True),  # a predict_proba that breaks its promise
        (SIGMOIDS - 0.5, True),
        (100 * shares(SIGMOIDS), False),
        (shares(SIGMOIDS).round(1), False),
    ],
)
def test_what_could_be_either_is_asked(values: np.ndarray, chances: bool) -> None:
    with pytest.raises(InputError, match=QUESTION):
        knowledge_of(values, chances=chances)
    with np.errstate(over="raise"):
        expected = np.exp(values) / np.exp(values).sum(1, keepdims=True)
    said = knowledge_of(values, said="logits", chances=chances)
    np.testing.assert_allclose(said.probabilities(), expected, rtol=1e-4)


def test_a_yes_or_no_for_each_class() -> None:
    values = np.vstack([SIGMOIDS, np.zeros((1, 10))])  # the last says no to all
    found = knowledge_of(values, said="multilabel").probabilities()
    np.testing.assert_allclose(found[:-1], shares(SIGMOIDS), rtol=1e-5)
    np.testing.assert_allclose(found[-1], 0.1, rtol=1e-5)
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        knowledge_of(3 * SIGMOIDS, said="multilabel")


@pytest.mark.parametrize("values", [shares(SIGMOIDS), np.ones((5, 1))])
def test_probabilities_are_probabilities(values: np.ndarray) -> None:
    np.testing.assert_allclose(knowledge_of(values, chances=True).probabilities(), values, rtol=1e-5)


@pytest.mark.parametrize("values", [5 * SIGMOIDS, SIGMOIDS - 0.5, np.log(shares(SIGMOIDS)), np.full((4, 1), 0.3)])
def test_what_can_only_be_logits_is_taken_as_such(values: np.ndarray) -> None:
    np.testing.assert_allclose(
        knowledge_of(values).probabilities(), np.exp(values) / np.exp(values).sum(1, keepdims=True), rtol=1e-4
    )


def test_other_words_for_outputs() -> None:
    assert checked("") == "" and checked("logits") == "logits"
    with pytest.raises(InputError, match="Outputs are 'logits' or 'multilabel', but not 'odds'"):
        checked("odds")


class OneAgainstRest(RandomForestClassifier):  # type: ignore[misc]
    """Says yes or no for each class."""

    def predict_proba(self, rows: Any) -> np.ndarray:
        return np.clip(super().predict_proba(rows) * 1.5, 0, 1)


def test_the_command_asks_and_is_told(federation: Federation, tmp_path: Path, command: Command) -> None:
    rows = federation.public.reshape(80, -1) / 255
    forest = OneAgainstRest(5, random_state=0).fit(rows, np.arange(80) % 10)
    joblib.dump(forest, tmp_path / "forest.joblib")
    words = ["client", "predict", federation.task_dir, "--model", tmp_path / "forest.joblib", "--codec", "float32"]
    words += ["--out", tmp_path / "x.fedol"]
    said = command(*words)
    assert said.code == 2 and "--multilabel" in said.err and not (tmp_path / "x.fedol").exists()
    assert command(*words, "--multilabel").code == 0
    found = Knowledge.load(tmp_path / "x.fedol", federation.task).probabilities()
    np.testing.assert_allclose(found, shares(forest.predict_proba(rows)), atol=1e-5)
    assert command(*words, "--logits").code == 0
    both = command(*words, "--logits", "--multilabel")
    assert both.code == 2 and "not both" in both.err
    found_by_audit = ["audit", "--task", federation.task_dir, "--model", tmp_path / "forest.joblib", "--data", "digits"]
    assert command(*found_by_audit).code == 2
    assert command(*found_by_audit, "--multilabel").code == 0
