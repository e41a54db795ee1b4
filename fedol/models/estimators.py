"""Estimators by name: good defaults for prepared rows, with few samples as with many. Each learns in one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedol.errors import FedolError


def logistic() -> Any:
    """Multinomial logistic regression of prepared values as they are.

    These are near 1 already, at every site alike. Scaled to one client's deviation, what few of its samples have would
    count most: rare words, rare categories.
    """
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def forest() -> Any:
    """A random forest."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(300, min_samples_leaf=2)


def hist_boosting() -> Any:
    """scikit-learn's histogram boosting: every tree is used, because a client can have too few samples to stop by."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(early_stopping=False, min_samples_leaf=5)


def lightgbm() -> Any:
    """LightGBM; left alone, it chooses between two ways of summing by their time, and so its last bits by chance."""
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        raise _absent("lightgbm") from None
    return LGBMClassifier(min_child_samples=5, deterministic=True, force_col_wise=True, verbosity=-1)


def xgboost() -> Any:
    """XGBoost."""
    try:
        from xgboost import XGBClassifier
    except ImportError:
        raise _absent("xgboost") from None
    return XGBClassifier(n_estimators=100, tree_method="hist")


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "logistic": logistic,
    "forest": forest,
    "hist-boosting": hist_boosting,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
}


NATIVE = {"lightgbm", "xgboost"}  # compiled readers read their files, and crash on what makes no sense


def _absent(package: str) -> FedolError:
    return FedolError(f"The model '{package}' needs the package {package}: pip install 'fedol[boosting]'.")
