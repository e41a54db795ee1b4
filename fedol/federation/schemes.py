"""Which scheme a method follows."""

from __future__ import annotations

from fedol.federation.predictions import Predictions, Students
from fedol.federation.scenario import Scenario
from fedol.federation.scheme import Scheme
from fedol.federation.weights import Weights
from fedol.methods import PARAMETER_METHODS


def of(scenario: Scenario) -> Scheme:
    """The scheme of the configuration's method."""
    if scenario.config.method in PARAMETER_METHODS:
        return Weights(scenario)
    return Students(scenario) if scenario.config.method == "fedkt" else Predictions(scenario)
