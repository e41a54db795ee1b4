"""Reading ahead keeps the order, raises what went wrong in its place, and reads no further than it may."""

from __future__ import annotations

import time

import pytest

from fedol.knowledge.ahead import THREADS, ahead


def test_results_come_in_order_and_few_are_begun() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        time.sleep(0.02 if number % 2 == 0 else 0)
        return number * number

    for number, found in enumerate(ahead(work, range(9))):
        assert found == number * number and len(begun) <= number + 1 + THREADS
    assert sorted(begun) == list(range(9)) and list(ahead(work, ())) == []


def test_an_error_comes_in_its_place() -> None:
    found = ahead(lambda number: 6 // number, [3, 2, 0, 1])
    assert [next(found), next(found)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(found)
