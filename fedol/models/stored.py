"""A fitted estimator as bytes, by skops: read back without running code that the bytes name.

skops writes a zip file: what objects there are as JSON, their arrays as ``.npy``. It calls both by addresses in memory
and by random names; here they are numbered instead, so that equal estimators give equal bytes. It builds objects of
known types only; ``fedol.models.trees`` checks what it hands on to compiled code.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedol.errors import FedolError, InputError, cause
from fedol.models.trees import check_loaded
from fedol.text import MOST, printable

SCHEMA = "schema.json"
FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of every part, whenever it is written: the earliest that zip knows
# What estimators of ours consist of. skops itself trusts more: a stranger's file may hold these alone.
KNOWN = {
    *(f"builtins.{name}" for name in ("bool", "bytearray", "dict", "float", "int", "list", "str", "tuple")),
    *("collections.OrderedDict", "collections.defaultdict"),
    *(f"numpy.{name}" for name in ("bool", "float32", "float64", "int32", "int64", "ndarray", "uint8", "uint64")),
    "numpy.random._generator.Generator",
    *("sklearn._loss._loss.CyHalfBinomialLoss", "sklearn._loss._loss.CyHalfMultinomialLoss"),
    *("sklearn._loss.link.Interval", "sklearn._loss.link.LogitLink", "sklearn._loss.link.MultinomialLogit"),
    *("sklearn._loss.loss.HalfBinomialLoss", "sklearn._loss.loss.HalfMultinomialLoss"),
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.preprocessing._label.LabelEncoder",
    *("sklearn.tree._classes.DecisionTreeClassifier", "sklearn.tree._tree.Tree"),
    *("lightgbm.basic.Booster", "lightgbm.sklearn.LGBMClassifier"),
    *("xgboost.core.Booster", "xgboost.sklearn.XGBClassifier"),
}
LIBRARIES = {"sklearn", "lightgbm", "xgboost"}
SHARED = {"builtins", "collections", "numpy", "scipy", *LIBRARIES}
OBJECTS = {"ObjectNode", "TreeNode", "LossNode"}  # what skops fills with data, and does not call


def check_storable(estimator: Any, name: str, ours: bool) -> None:
    """Refuse an estimator that could not be written, or not be read back, before it has learnt anything."""
    data = packed(estimator, name)
    _, strange = _strange(data, _bounded(data), estimator, ours)
    if strange is not None:
        raise FedolError(
            f"The model '{name}' holds {printable(strange, 80)}, which is code that no file may bring; leave it out, "
            "or make it a class in a module of yours."
        )


def packed(value: Any, name: str) -> bytes:
    """An estimator, or what holds one, as bytes; ``name`` is its model's."""
    try:
        data: bytes = _skops().dumps(value)
    except FedolError:
        raise
    except Exception as error:  # somebody's own estimator may hold anything
        raise FedolError(f"The model '{name}' cannot be written without code in the file: {cause(error)}.") from error
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        schema = json.loads(source.read(SCHEMA))
        numbers, files = dict[Any, int](), dict[str, str]()
        for node in _nodes(schema):
            if isinstance(node.get("__id__"), int):
                node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
            if isinstance(node.get("file"), str):
                node["file"] = files.setdefault(node["file"], str(len(files)))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as target:
            target.writestr(zipfile.ZipInfo(SCHEMA, FIRST_DAY), json.dumps(schema))
            for old, new in files.items():
                target.writestr(zipfile.ZipInfo(new, FIRST_DAY), _tidy(source.read(old)))
    return buffer.getvalue()


def _tidy(data: bytes) -> bytes:
    """An array of records without what happens to lie between their fields; anything else as it is."""
    if not data.startswith(np.lib.format.MAGIC_PREFIX):
        return data
    array = np.load(io.BytesIO(data), allow_pickle=False)
    if array.dtype.names is None:
        return data
    blank = np.zeros(array.shape, array.dtype)  # zeros_like would leave the gaps as they are
    for name in array.dtype.names:
        blank[name] = array[name]
    return data[: len(data) - array.nbytes] + blank.tobytes()


def unpacked(data: bytes, estimator: Any, ours: bool, features: int) -> Any:
    """What ``packed`` made bytes of, for a model that is ``estimator`` on so many features.

    An ``InputError`` says what makes no sense: the bytes may be a stranger's.
    """
    try:
        schema = _bounded(data)
        types, strange = _strange(data, schema, estimator, ours)
        if strange is not None:
            raise InputError(f"it holds {printable(strange, 80)}, which no file may make us build")
        found = _skops().loads(data, trusted=types)
    except FedolError:
        raise
    except Exception as error:  # a damaged file can fail anywhere inside a library
        raise InputError(f"its estimator cannot be read: {printable(cause(error), MOST)}") from error
    check_loaded(found, features)
    return found


def _strange(data: bytes, schema: Any, estimator: Any, ours: bool) -> tuple[list[str], str | None]:
    """The types within that skops is to build, and the first of them that it may not.

    Of a model that anybody may name, it may build what ours consist of. Of one that is your own word, also objects of
    scikit-learn's kind, and whatever is in the estimator's own package.
    """
    nodes = [node for node in _nodes(schema) if isinstance(node.get("__class__"), str)]
    if ours:
        named, own, objects = {_type(node) for node in nodes}, set[str](), set[str]()
    else:
        named = set(_skops().get_untrusted_types(data=data))
        own = {type(part).__module__.partition(".")[0] for part in _parts(estimator)} - SHARED
        objects = {_type(node) for node in nodes} - {_type(node) for node in nodes if node["__loader__"] not in OBJECTS}
        objects = {found for found in objects if found.partition(".")[0] in LIBRARIES}
    strange = (found for found in sorted(named - KNOWN - objects) if found.partition(".")[0] not in own)
    return sorted(named), next(strange, None)


def _type(node: dict[str, Any]) -> str:
    return f"{node['__module__']}.{node['__class__']}"


def _parts(estimator: Any) -> list[Any]:
    """An estimator and those that are its parameters."""
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return [estimator, *(value for value in params.values() if hasattr(value, "get_params"))]


def _bounded(data: bytes) -> Any:
    """The schema; reading the rest takes no more memory than there are bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        parts = source.infolist()
        if len({part.filename for part in parts}) < len(parts) or sum(part.file_size for part in parts) > len(data):
            raise InputError("its estimator is packed to be larger than its file")
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise InputError("its estimator is compressed")
        schema = json.loads(source.read(SCHEMA))
        for node in _nodes(schema):
            if node.get("__loader__") == "NdArrayNode" and "file" in node:
                _check_array(source.read(node["file"]))
    return schema


def _check_array(data: bytes) -> None:
    """Refuse an array whose header claims other than what follows it: NumPy would make room for that first."""
    file = io.BytesIO(data)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, kind = read[np.lib.format.read_magic(file)](file)
    if kind.hasobject or not kind.itemsize or np.prod(shape, dtype=object) * kind.itemsize != len(data) - file.tell():
        raise InputError("an array in it claims another size than it has")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object of a schema, in a fixed order."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _nodes(part)


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise FedolError(
            "Models that are estimators need the package skops: pip install 'fedol[estimators]'."
        ) from None
    return skops.io
