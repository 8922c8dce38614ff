"""Errors name public values in short, hold no private ones, and warn where the user called."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from fedsel import errors
from fedsel.errors import InvalidArgument, InvalidData

SECRET = "salary of Jane"


class Talkative:
    """Data that say what they are when they are read."""

    def __array__(self, dtype=None, copy=None):
        raise ValueError(SECRET)

    def __float__(self):
        raise ValueError(SECRET)


@pytest.mark.parametrize(
    "value", [10**5000, "x" * 5000, [0] * 5000, Fraction(10**300)], ids=lambda v: type(v).__name__
)
def test_a_message_is_short_whatever_the_value(value):
    told = str(InvalidArgument("clip", value, "small"))
    assert told.startswith("clip = ")
    assert told.endswith(": must be small")
    assert len(told) < 250


@pytest.mark.parametrize("read", [lambda x: errors.check_vectors("v", x, ndim=1), None])
@pytest.mark.parametrize("data", [Talkative(), np.ma.array([1.0], mask=[True]), [SECRET], SECRET])
def test_private_data_are_neither_in_an_error_nor_behind_it(read, data):
    with pytest.raises(InvalidData) as told:
        (read or (lambda x: errors.check_number("v", x)))(data)
    assert SECRET not in str(told.value)
    assert told.value.__cause__ is told.value.__context__ is None


@pytest.mark.parametrize("value", [True, np.True_, "1", None, float("nan"), 1j])
def test_what_is_no_number_is_refused(value):
    for check in (errors.check_epsilon, errors.check_positive, errors.check_float):
        with pytest.raises(InvalidArgument, match=r"^x = "):
            check("x", value)
    with pytest.raises(InvalidArgument, match=r"^x = .*: must be an integer ≥ 1$"):
        errors.check_count("x", value)


def test_an_old_name_warns_and_an_unknown_one_is_none():
    find = errors.renamed("fedsel.errors", {"Bad": "InvalidArgument"}, until="9.0")
    with pytest.warns(
        DeprecationWarning, match=r"Bad is now fedsel\.errors\.Inv.* works until 9\.0"
    ):
        assert find("Bad") is InvalidArgument
    with pytest.raises(AttributeError, match="no attribute 'Worse'"):
        find("Worse")


def test_a_warning_is_at_the_users_line_and_said_once():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            errors.warn_user("said once", errors.PrivacyLeakWarning)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            errors.warn_user("said always", errors.PrivacyLeakWarning)
    assert len(told) == 3
