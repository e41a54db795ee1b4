"""Code that is somebody's own: what it is called, how it is imported by that name, and its fingerprint.

By the fingerprint a run notices that your own model, method or partition has changed. Of a function, its
instructions count, its defaults, what it encloses and the globals that it reads; of a class, its members and bases; and
of whatever these name in your own code, in any file, the same again. Comments, blank lines and docstrings do not count.
Python, FedOL and installed packages are known by name. Not seen: what code imports inside a function, files that it
reads, and compiled code. Another version of Python has other instructions, so its fingerprints are others, too.
"""

from __future__ import annotations

import dis
import hashlib
import importlib
import importlib.util
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from fedol.errors import InputError, cause

MODULE = "fedol_model_"  # what the names of modules begin with that were imported from a file


def describe(spec: Any) -> str:
    """A short printable name: ``resnet20``, ``MyNet``, ``package.module:function``."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, partial):
        return describe(spec.func)
    return str(getattr(spec, "__name__", type(spec).__name__))


def is_estimator(value: Any) -> bool:
    """Whether it is an estimator as scikit-learn has them: an object, not its class, that can be fitted."""
    network = hasattr(value, "load_state_dict")
    return not isinstance(value, type | str) and callable(getattr(value, "fit", None)) and not network


def address(spec: Any) -> str:
    """A name that ``create`` finds the model by again, in another process too: of a class ``module:Net``.

    Of an estimator its class, because what it has learnt tells its settings.
    """
    if is_estimator(spec):
        spec = type(spec)
    if isinstance(spec, str) or not hasattr(spec, "__qualname__"):
        return describe(spec)
    module = str(spec.__module__)  # None in code that was run from text
    source = sys.modules[module].__file__ if module.startswith(MODULE) else module
    return f"{source}:{spec.__qualname__}"


def imported(spec: str, what: str = "model") -> Callable[..., Any]:
    """The callable that ``package.module:name`` or ``path/to/file.py:name`` names; ``what`` it is for errors."""
    source, _, name = spec.rpartition(":")
    try:
        module = from_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except Exception as error:  # importing runs other people's code: anything may come out of it
        raise InputError(f"The {what} '{spec}' cannot be imported: {cause(error)}.") from error
    try:
        found = operator.attrgetter(name)(module)
    except AttributeError as error:
        raise InputError(f"The {what} '{spec}' does not exist: '{source}' has no '{name}'.") from error
    if not callable(found) or hasattr(type(found), "forward"):  # an instance of a model
        raise InputError(f"The {what} '{spec}' is a {type(found).__name__}; it must be a class or a function.")
    return found  # type: ignore[no-any-return]


def from_file(path: Path) -> ModuleType:
    """Import one file; the same content is executed once, so that all clients share one class."""
    code = path.read_bytes()
    name = f"{MODULE}{hashlib.sha256(str(path.resolve()).encode() + code).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # always so for a readable .py file
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"  # whose instructions these are
PLAIN = type(None), bool, int, float, complex, str, bytes, type(...)
READS = "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"  # instructions that read a global
ABOUT = "__doc__", "__firstlineno__"  # what a class is told about itself and does not act on
BESIDE = {"__dict__", "__weakref__", "__module__", "__qualname__", "__slotnames__", "__static_attributes__", *ABOUT}
CALLING = 0xFF  # of a code's flags, those that say how it is called
INSTALLED = {"site-packages", "dist-packages"}


def fingerprint(code: Any) -> str | None:
    """Twelve hex digits for a function, a class or another callable; None where it is FedOL's own."""
    origin = code
    while isinstance(origin, partial):
        origin = origin.func
    home = getattr(origin, "__module__", None) or type(origin).__module__
    if code is origin and _root(home) == "fedol":
        return None
    return _Walk(home).through(code)[:12]


class _Walk:
    """One pass through all that some code refers to; ``home`` is the module that it begins in."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._found: list[tuple[Any, frozenset[str] | None]] = []
        self._number: dict[tuple[int, frozenset[str] | None], int] = {}
        self._within: set[int] = set()  # the containers that are being looked into

    def through(self, code: Any) -> str:
        """The digest of everything; what is found on the way is looked at in its turn, each once."""
        parts = [self.of(code)]
        for value, names in self._found:  # it grows meanwhile
            parts.append(_digest(self._parts(value, names)))
        return _digest(parts)

    def of(self, value: Any, names: frozenset[str] | None = None) -> str:
        """A value in short; ``names`` are the attributes that whoever refers to it asks for, None: all."""
        if isinstance(value, PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, CodeType):
            return _digest(self._code(value))
        if isinstance(value, dict | list | tuple | set | frozenset):
            return self._container(value, names)
        if isinstance(value, MethodType | staticmethod | classmethod | partial | property):
            bound = getattr(value, "__self__", None), getattr(value, "args", ()), getattr(value, "keywords", {})
            steps = [getattr(value, name, None) for name in ("__func__", "func", "fget", "fset", "fdel")]
            return f"{type(value).__name__} {self.of([*bound, *steps], names)}"
        names = None if isinstance(value, FunctionType | type) else names
        number = self._number.setdefault((id(value), names), len(self._found))
        if number == len(self._found):
            self._found.append((value, names))
        return f"#{number}"

    def _container(self, value: Any, names: frozenset[str] | None) -> str:
        if id(value) in self._within:
            return "itself"
        self._within.add(id(value))
        if isinstance(value, dict):
            items = [f"{self.of(key)}: {self.of(item, names)}" for key, item in value.items()]
        else:
            items = [self.of(item, names) for item in value]
        self._within.remove(id(value))
        ordered = sorted(items) if isinstance(value, set | frozenset) else items
        return f"{type(value).__name__} {_digest(ordered)}"

    def _own(self, module: str | None) -> bool:
        """Whether a module is the user's."""
        if module is None or module == self._home or _root(module) == "__main__":
            return True
        if _root(module) == "fedol" or _root(module) in sys.stdlib_module_names:
            return False
        file = getattr(sys.modules.get(module), "__file__", None)
        return not INSTALLED & set(Path(file or "").parts)

    def _parts(self, value: Any, names: frozenset[str] | None) -> Iterator[str]:
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, ModuleType):
            return self._module(value, names)
        return self._object(value, names)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount} {code.co_flags & CALLING}"
        yield f"{code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} {code.co_exceptiontable.hex()}"
        steps = list(dis.get_instructions(code))
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            about = after is not None and after.opname == "STORE_NAME" and after.argval in ABOUT
            yield step.opname if about else f"{step.opname} {self.of(step.argval)}"

    def _function(self, function: FunctionType) -> Iterator[str]:
        names: frozenset[str] = frozenset()
        if self._own(function.__module__):
            codes = list(_codes(function.__code__))
            names = frozenset(name for code in codes for name in code.co_names)
            yield self.of(function.__code__)
            yield from map(self.of, (function.__defaults__, function.__kwdefaults__, vars(function)))
            for name in sorted(_read(codes) & function.__globals__.keys()):
                yield f"{name}: {self.of(function.__globals__[name], names)}"
        else:
            yield f"{function.__module__}.{function.__qualname__}"
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                yield f"{name}: {self.of(cell.cell_contents, names)}"
            except ValueError:  # nothing is in it yet
                yield f"{name}:"

    def _class(self, kind: type) -> Iterator[str]:
        if not self._own(kind.__module__):
            yield f"{kind.__module__}.{kind.__qualname__}"
            return
        yield from (kind.__name__, self.of(type(kind)), *map(self.of, kind.__bases__))
        members = {name: value for name, value in vars(kind).items() if not name.startswith("__annot")}
        yield from (f"{name}: {self.of(members[name])}" for name in sorted(members.keys() - BESIDE))

    def _module(self, module: ModuleType, names: frozenset[str] | None) -> Iterator[str]:
        """Of your own module what is asked for; another's name."""
        if self._own(module.__name__):
            yield from self._state(vars(module), names or frozenset())
        else:
            yield module.__name__

    def _object(self, value: Any, names: frozenset[str] | None) -> Iterator[str]:
        """Data and everything else; of an object of somebody else's class what is asked for, as of a module."""
        import numpy as np  # here, because commands that only look at settings need neither
        import torch
        from torch import Tensor, nn

        from fedol.core.arrays import fingerprint as array_fingerprint

        yield self.of(type(value))
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            yield array_fingerprint(value)
        elif isinstance(value, Tensor) and value.layout is torch.strided and not value.is_meta:
            yield f"{value.dtype} {list(value.shape)}"
            yield array_fingerprint(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        elif isinstance(state := getattr(value, "__dict__", None), dict):
            whole = isinstance(value, nn.Module) or self._own(type(value).__module__)
            yield from self._state(state, None if whole else names)
            if "__wrapped__" in state:  # where functools leaves the function that is called in the end
                yield self.of(state["__wrapped__"])
        elif " at 0x" not in (text := _shown(value)):  # an address is another one in the next process
            yield text

    def _state(self, state: dict[str, Any], names: frozenset[str] | None) -> Iterator[str]:
        for name in sorted(state if names is None else state.keys() & names):
            if not _dunder(name):
                yield f"{name}: {self.of(state[name], names)}"


def _root(module: str) -> str:
    return module.partition(".")[0]


def _dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="backslashreplace")).hexdigest()


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # somebody's own: anything may come out of it
        return ""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of the functions within it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _read(codes: list[CodeType]) -> set[str]:
    """The globals that they read."""
    steps = (step for code in codes for step in dis.get_instructions(code))
    return {step.argval for step in steps if step.opname in READS and not _dunder(step.argval)}
