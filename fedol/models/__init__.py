"""Models by name or your own: ``create("resnet20", classes=100, shape=(3, 32, 32))``."""

from fedol.code import address, describe
from fedol.models.creation import create, parameter_count
from fedol.models.registry import ModelSpec, fingerprint, identity, names

__all__ = ["ModelSpec", "address", "create", "describe", "fingerprint", "identity", "names", "parameter_count"]
