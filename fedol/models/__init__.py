"""Models by name or your own: ``create("resnet20", classes=100, shape=(3, 32, 32))``."""

from fedol.code import address, describe
from fedol.models.registry import ModelSpec, create, fingerprint, identity, names, parameter_count, size_of

__all__ = [
    "ModelSpec",
    "address",
    "create",
    "describe",
    "fingerprint",
    "identity",
    "names",
    "parameter_count",
    "size_of",
]
