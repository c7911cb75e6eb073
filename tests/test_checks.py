"""Declared checks of arguments."""

import numpy as np
import pytest

from textpriv.checks import (
    COUNT,
    LEVEL,
    POSITIVE,
    SHARE,
    StrOptions,
    at_least,
    check_number,
    checked,
)
from textpriv.errors import InvalidInput


@checked(
    tokens=COUNT,
    mass=SHARE,
    level=LEVEL,
    width=(None, POSITIVE),
    kind=StrOptions({"word"}),
    folds=at_least(2, 5),
)
def total(tokens=1, mass=0.5, level=0.5, width=None, kind="word", folds=2):
    return tokens + folds


def test_what_is_allowed_passes():
    assert total(np.int64(3), np.float32(1), width=0.1, folds=5) == 8
    assert total(mass=0, width=None) == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("tokens", value) for value in (0, -1, 1.0, "1", None, True, np.bool_(True))),
        *(("mass", value) for value in (-1e-9, 1.1, np.nan, np.inf, True)),
        *(("level", value) for value in (0, 1)),
        *(("width", value) for value in (0, np.inf, np.nan)),
        ("kind", "token"),
        *(("folds", value) for value in (1, 6, 2.0)),
    ],
)
def test_anything_else_is_named_with_what_was_got_and_expected(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: got .+, expected (None or )?an? "):
        total(**{name: value})


BAD = (0, -1, np.nan, -np.inf, True, np.True_, "1", None, 1j, 10**400, [1.0], np.array([1.0]))


@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:9])
def test_no_epsilon(value):
    with pytest.raises(InvalidInput, match="epsilon: got .+, expected a finite number > 0"):
        check_number(value, POSITIVE, what="epsilon")


def test_a_check_of_no_parameter_is_refused_at_once():
    with pytest.raises(TypeError, match="total has no parameter"):
        checked(tokns=COUNT)(total)
