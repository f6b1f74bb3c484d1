"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.core import units

MEASURABLE = st.floats(min_value=1e-12, max_value=1e9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0000612, "61.20 µs"),
        (0.0000000005, "0.5000 ns"),
        (1.04123e-3, "1.041 ms"),
        (2.5, "2.500 s"),
        (0, "0 ns"),
        (999.97e-9, "1.000 µs"),
        (999.94e-9, "999.9 ns"),
        (999.97e-6, "1.000 ms"),
        (0.99999, "1.000 s"),
        (-61.2e-6, "-61.20 µs"),
        (1234.5, "1234 s"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """A duration has four significant digits, and the unit that the rounded number belongs to."""
    assert units.duration(seconds) == text


@given(MEASURABLE)
def test_duration_is_short_and_close(seconds: float) -> None:
    """What a duration shows is within half of its last digit of what it is."""
    number, unit = units.duration(seconds).split(" ")
    shown = float(number) * {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
    assert shown == pytest.approx(seconds, rel=5.1e-4)
    assert float(number) < 1000 or unit == "s"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_number_fills_a_page(value: float) -> None:
    """Even a number that nothing could measure stays short."""
    for text in (units.duration(value), units.size(value), units.rate(value, "B/s")):
        assert len(text) < 330
    assert len(units.duration(abs(value))) < 25
    assert len(units.change(value)) < 25


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (48, "48 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7261, "121 min 01 s")],
)
def test_wall(seconds: float, text: str) -> None:
    """A time that a person waits is in whole seconds from ten on, and never shows 60 of them."""
    assert units.wall(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (60 * 2**20, "60.0 MiB"),
        (150_754_820_096, "140 GiB"),
        (1023.9 * 2**20, "1.00 GiB"),
        (2**40, "1.00 TiB"),
    ],
)
def test_size(count: float, text: str) -> None:
    """Bytes go in binary steps and never show 1024 of a unit."""
    assert units.size(count) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (4.3e12, "4.30 TB/s"),
        (999.7e9, "1.00 TB/s"),
        (999.4e9, "999 GB/s"),
        (9.999e9, "10.0 GB/s"),
        (12, "12.0 B/s"),
        (0, "0 B/s"),
        (4310, "4.31 kB/s"),
    ],
)
def test_rate(rate: float, text: str) -> None:
    """A rate goes in decimal steps with three significant digits."""
    assert units.rate(rate, "B/s") == text


@pytest.mark.parametrize(("fraction", "text"), [(0.413, "41 %"), (-0.413, "−41 %"), (1.38, "138 %"), (0, "0 %")])
def test_percent(fraction: float, text: str) -> None:
    """A fraction is shown in whole percent."""
    assert units.percent(fraction) == text


def test_zero_percent_has_no_sign() -> None:
    """What is rounded to nothing is neither more nor less."""
    assert [units.percent(-0.001), units.percent(-0.0, 1)] == ["0 %", "0.0 %"]


@pytest.mark.parametrize(("fraction", "text"), [(0.03, "3 %"), (0.005, "0.5 %"), (0.95, "95 %"), (0.999, "99.9 %")])
def test_threshold(fraction: float, text: str) -> None:
    """A chosen fraction is shown as it was chosen."""
    assert units.threshold(fraction) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.034, "+3.40 %"),
        (0.876, "−12.40 %"),
        (1, "0.00 %"),
        (0.999999, "0.00 %"),
        (1.000001, "0.00 %"),
        (2, "+100.00 %"),
        (4.1e7, ">+100000 %"),
    ],
)
def test_change(ratio: float, text: str) -> None:
    """A ratio is a signed change with a true minus, and nothing is neither plus nor minus."""
    assert units.change(ratio) == text


@given(st.floats(min_value=0.01, max_value=100))
def test_change_has_its_sign(ratio: float) -> None:
    """A plus is slower and a minus faster."""
    shown = units.change(ratio)
    assert re.fullmatch(r"[+−]?\d+\.\d\d %", shown)
    assert not (shown.startswith("+") and ratio < 1)
    assert not (shown.startswith("−") and ratio > 1)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (2.1931, "+119 % (2.2×)"),
        (1.5, "+50 % (1.5×)"),
        (1.499, "+50 %"),
        (1.2314, "+23 %"),
        (1.0996, "+10 %"),
        (1.0733, "+7.3 %"),
        (1.0341, "+3.4 %"),
        (1, "0.0 %"),
        (0.903, "−9.7 %"),
        (0.876, "−12 %"),
        (0.4, "−60 % (2.5× faster)"),
        (2 / 3, "−33 % (1.5× faster)"),
        (0.7, "−30 %"),
        (0.0999, "−90 % (10× faster)"),
        (12.34, "+1134 % (12×)"),
        (0, "−100 %"),
    ],
)
def test_slowdown(ratio: float, text: str) -> None:
    """In a sentence a change has no decimals from ten percent on, and a factor from one and a half on."""
    assert units.slowdown(ratio) == text


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_slowdown_has_its_sign(ratio: float) -> None:
    """A plus and a bare factor are slower, a minus and "faster" are faster; and the text stays short."""
    shown = units.slowdown(ratio)
    assert not (shown.startswith("+") and ratio < 1)
    assert not (shown.startswith("−") and ratio > 1)
    assert shown.endswith("faster)") == (ratio <= 1 / 1.5)
    assert ("×" in shown) == (ratio >= 1.5 or ratio <= 1 / 1.5)
    assert len(shown) < 40


def test_a_list_says_how_much_it_leaves_out() -> None:
    """Names are joined as they are shown, up to the most; of sentences the first stands for all."""
    assert units.listed(["a", "b"]) == "a, b"
    assert units.listed(["a", "b", "c"], 1, str.upper) == "A and 2 more"
    assert [units.first_of(["It is cut off."]), units.first_of(["a.", "b.", "c."])] == ["It is cut off.", "a. (and 2 more)"]
