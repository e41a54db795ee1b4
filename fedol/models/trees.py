"""What compiled code is handed of an estimator's file: trees, whose every index must lead somewhere.

scikit-learn's trees follow the indices that they have read without looking: one that leads out of its array reads the
memory behind it, and two that lead to each other never end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from fedol.errors import InputError

LEAF = -1


def check_tree(left: Any, right: Any, feature: Any, features: int) -> None:
    """Refuse a tree unless the children of every node but the leaves come after it, and its feature is one."""
    left, right, feature = (np.asarray(part).astype(np.int64) for part in (left, right, feature))
    nodes = len(left)
    if not nodes or not nodes == len(right) == len(feature):
        raise InputError("a tree in it has no nodes, or parts of nodes")
    inner = np.flatnonzero(left != LEAF)
    for child in (left[inner], right[inner]):
        if ((child <= inner) | (child >= nodes)).any():
            raise InputError("a tree in it leads nowhere")
    if ((feature[inner] < 0) | (feature[inner] >= features)).any():
        raise InputError("a tree in it asks for a feature that there is not")


def check_loaded(value: Any, features: int) -> None:
    """The same of every tree of scikit-learn's in an estimator that has been read."""
    for part in _within(value, set()):
        kind = type(part).__name__
        if kind == "Tree" and hasattr(part, "children_left"):
            check_tree(part.children_left, part.children_right, part.feature, features)
        elif kind == "TreePredictor":
            nodes = part.nodes
            left, right = (np.where(nodes["is_leaf"], LEAF, nodes[side].astype(np.int64)) for side in ("left", "right"))
            check_tree(left, right, nodes["feature_idx"], features)
            if nodes["is_categorical"].any():
                raise InputError("a tree in it has categories, which no model here is given")
        elif kind == "_BinMapper" and np.any(part.is_categorical_):
            raise InputError("it bins categories, which no model here is given")


def size(estimator: Any) -> tuple[int, int]:
    """How large an estimator is: the nodes of its trees, or without trees the coefficients; and the trees."""
    trees = [count for part in _within(estimator, set()) for count in _nodes_of(part)]
    if trees:
        return sum(trees), len(trees)
    learnt = [vars(part) for part in _within(estimator, set()) if hasattr(part, "__dict__")]
    return sum(np.size(found[name]) for found in learnt for name in ("coef_", "intercept_") if name in found), 0


def _nodes_of(part: Any) -> list[int]:
    """The nodes of each tree that an object is."""
    kind = type(part).__name__
    if kind == "Tree" and hasattr(part, "node_count"):
        return [part.node_count]
    if kind == "TreePredictor":
        return [len(part.nodes)]
    if kind == "Booster" and hasattr(part, "model_to_string"):  # LightGBM's
        return [2 * int(leaves) - 1 for leaves in re.findall(r"\nnum_leaves=(\d+)", part.model_to_string())]
    if kind == "Booster":
        return [tree.count("\n") for tree in part.get_dump()]
    return []


def _within(value: Any, seen: set[int]) -> Iterator[Any]:
    """An object and all objects that it consists of, each once."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | type(None)):
        return
    seen.add(id(value))
    yield value
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, list | tuple | set):
        parts = list(value)
    elif isinstance(value, np.ndarray):
        parts = value.ravel().tolist() if value.dtype == object else []
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from _within(part, seen)


def rounded(estimator: Any) -> Any:
    """A copy for 32-bit arithmetic: x <= t for 64-bit t is x <= the next smaller 32-bit number, where x has 32 bits."""
    copy = deepcopy(estimator)
    for part in _within(copy, set()):
        if type(part).__name__ == "TreePredictor":
            exact = part.nodes["num_threshold"]
            near = exact.astype(np.float32)
            part.nodes["num_threshold"] = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
    return copy
