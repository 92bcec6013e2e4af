"""How numbers enter: exactly, or not at all."""

from decimal import Decimal
from fractions import Fraction

import pytest
from flint import arb

from shuffledp.errors import ParameterError, Undecided
from shuffledp.numbers.exact import ball, exact, positive, round_to, show, sign, whole


@pytest.mark.parametrize(
    "bad",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        True,
        "abc",
        "",
        None,
        "1/0",
        "nan",
        "inf",
        [1],
        Decimal("NaN"),
    ],
)
def test_what_is_no_number_is_refused(bad: object) -> None:
    with pytest.raises(ParameterError, match="epsilon must be"):
        exact(bad, "epsilon")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, "0", "-0.5", 0.0])
def test_epsilon_must_be_positive(bad: object) -> None:
    with pytest.raises(ParameterError, match="greater than 0"):
        positive(bad, "epsilon")  # type: ignore[arg-type]


def test_text_is_decimal_and_a_float_is_what_it_is() -> None:
    assert exact("0.1", "x") == Fraction(1, 10)
    assert exact(0.1, "x") == Fraction(0.1) != Fraction(1, 10)
    assert exact("1/3", "x") == Fraction(1, 3)
    assert exact(Decimal("1e-7"), "x") == Fraction(1, 10**7)


@pytest.mark.parametrize("bad", [1.5, 0, -3, "2.5", True, "many"])
def test_whole_numbers(bad: object) -> None:
    with pytest.raises(ParameterError):
        whole(bad, "users")


def test_whole_accepts_what_is_whole() -> None:
    assert whole("1e6", "users") == 10**6 and whole(12.0, "users") == 12


def test_sign_is_certain_or_undecided() -> None:
    assert sign(lambda: ball(Fraction(1, 3)) - ball(Fraction(333333, 10**6)))[0] == 1
    assert sign(lambda: (-arb(2)).exp() - arb(1))[0] == -1
    with pytest.raises(Undecided):
        sign(lambda: ball(Fraction(1, 3)) * 3 - 1)
    tiny = Fraction(1, 2**300)
    assert sign(lambda: (ball(Fraction(1, 3)) + ball(tiny)) * 3 - 1)[2] > 128


def test_rounding_goes_the_way_it_says() -> None:
    assert round_to(0.123456, 3, up=True) == Fraction(124, 1000)
    assert round_to(0.123456, 3, up=False) == Fraction(123, 1000)
    assert round_to(98765.4, 3, up=True) == 98800


def test_show() -> None:
    assert show(Fraction(1, 10)) == "0.1" and show(Fraction(10**6)) == "1000000"
    assert show(Fraction(1, 3)) == "0.333333"
