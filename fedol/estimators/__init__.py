"""One-shot federated learning as scikit-learn estimators."""

from fedol.estimators.net import NetClassifier
from fedol.estimators.oneshot import OneShotClassifier

__all__ = ["NetClassifier", "OneShotClassifier"]
