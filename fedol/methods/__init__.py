"""The methods by name. A new one is a file in this folder with its record; nothing else has to know of it."""

from importlib import import_module
from pkgutil import iter_modules

from fedol.methods.method import (
    CEILING,
    ENSEMBLE,
    LOCAL,
    METHODS,
    Method,
    compared,
    find,
    fingerprint,
    knowing,
    method,
    names,
    register,
    title,
)
from fedol.methods.sides import Client, Distillation, Lesson, Side, Site, Targets, Teacher, everywhere, once

__all__ = [
    "BUILT_IN",
    "CEILING",
    "ENSEMBLE",
    "LOCAL",
    "METHODS",
    "Client",
    "Distillation",
    "Lesson",
    "Method",
    "Side",
    "Site",
    "Targets",
    "Teacher",
    "compared",
    "everywhere",
    "find",
    "fingerprint",
    "knowing",
    "method",
    "names",
    "once",
    "register",
    "title",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

BUILT_IN = frozenset(METHODS)  # FedOL's own, whatever a script of yours puts under the same names
