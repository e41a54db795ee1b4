"""NumPy in, torch inside."""

import numpy as np
import pytest
import torch

from fedol.core.arrays import to_tensor
from fedol.errors import InputError


def test_memory_is_shared_where_it_may_be_written() -> None:
    own = np.zeros(3, dtype=np.float32)
    to_tensor(own).add_(1)
    assert own.tolist() == [1, 1, 1]


def test_a_read_only_array_is_left_as_it_is() -> None:
    """PyTorch would warn of it, and write into it: a memory-mapped file, for instance."""
    fixed = np.frombuffer(b"abc", dtype=np.uint8)
    copy = to_tensor(fixed)
    copy.add_(1)
    assert bytes(fixed) == b"abc" and copy.tolist() == list(b"bcd")
    assert to_tensor(np.arange(6).reshape(2, 3).T).is_contiguous()


def test_a_tensor_stays_one_and_words_are_none() -> None:
    tensor = torch.ones(2, requires_grad=True)
    assert not to_tensor(tensor).requires_grad and to_tensor(tensor).data_ptr() == tensor.data_ptr()
    with pytest.raises(InputError, match="answers must be a NumPy array or a torch tensor of numbers"):
        to_tensor(np.array(["a"]), "answers")
