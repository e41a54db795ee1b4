"""Times as people write and read them."""

import pytest

from fedol.errors import InputError
from fedol.text import clock, seconds


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("2d", 172800)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1w", "1h30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="is no time"):
        seconds(text)


def test_the_clock() -> None:
    assert (clock(3723), clock(62.4), clock(0)) == ("1:02:03", "1:02", "0:00")
    assert (clock(172_799), clock(172_800), clock(1e8)) == ("47:59:59", "2 days 0 h", "1,157 days 9 h")
