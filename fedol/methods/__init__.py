"""The methods by name. A new one is a file with a function or class, and a line here."""

from __future__ import annotations

from fedol.errors import unknown
from fedol.methods.fedol import FedOL
from fedol.methods.teacher import Distillation, Method, Targets, Teacher

__all__ = ["METHODS", "Distillation", "Method", "Targets", "Teacher", "find"]

METHODS: dict[str, Method] = {"fedol": FedOL}


def find(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
