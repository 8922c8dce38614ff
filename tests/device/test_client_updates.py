"""Whatever a program returns: d finite numbers, the same on every way, and never silence."""

import logging

import numpy as np
import pytest

from fedsel.device._client import evaluated, saturated

LARGEST = float(np.finfo(np.float32).max)
WEIGHTS = np.arange(3.0)


def found(update, settings=None):
    result = evaluated(update, WEIGHTS, 3, settings or {})
    assert result.dtype == np.float32
    assert np.isfinite(result).all()
    return result.tolist()


@pytest.mark.parametrize(
    "update",
    [
        [1.0, -2.0, 0.5],
        lambda w: w + np.array([1, -3, -1.5]),
        np.array([1.0, -2.0, 0.5], np.float16),
        np.array([1.0, -2.0, 0.5], ">f8"),
    ],
    ids=["list", "function", "half", "foreign"],
)
def test_vectors_are_taken_as_they_are(update, caplog):
    assert found(update) == [1.0, -2.0, 0.5]
    assert not caplog.records


def test_integers_and_bits_are_numbers():
    assert found(np.array([1, -2, 3])) == [1, -2, 3]
    assert found(np.array([1, 2, 3], np.uint8)) == [1, 2, 3]
    assert found([True, False, True]) == [1, 0, 1]


def test_what_is_not_finite_saturates():
    assert found([np.nan, np.inf, -np.inf]) == [0.0, LARGEST, -LARGEST]
    assert found([1e39, -1e300, 1e-60]) == [LARGEST, -LARGEST, 0.0]
    with np.errstate(all="ignore"):
        assert saturated(np.array([1e300, -2.0, np.nan]), 1e300).tolist() == [
            LARGEST,
            -LARGEST,
            0.0,
        ]
    assert saturated(np.array([3e38, 2.0], np.float32), 0.5).tolist() == [
        float(np.float32(1.5 * 1e38)),
        1.0,
    ]
    assert saturated(np.array([3e38], np.float32), 10.0).tolist() == [LARGEST]
    assert saturated(np.array([1.0, -1.0])).tolist() == [1.0, -1.0]


class Talkative:
    def __array__(self, *args, **kwargs):
        raise SystemExit("secret")


def stops(weights):
    raise SystemExit("secret")


def fails(weights):
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    "update",
    [
        *(None, 5.0, "secret", [1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [[1.0, 2.0, 3.0]], ["a"] * 3),
        *([1j, 0, 0], [None] * 3, [[1.0], [2.0, 3.0], 4.0], lambda: 1, stops, fails, Talkative()),
        *(np.zeros(3, "M8[s]"), np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])),
        np.ma.array([1.0, 2.0, 3.0]),
    ],
    ids=lambda update: type(update).__name__,
)
def test_what_is_no_vector_counts_as_zeros_and_nothing_is_said_of_it(update, caplog):
    with caplog.at_level(logging.DEBUG):
        assert found(update) == [0.0] * 3
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("fedsel.device", "WARNING")
    assert record.exc_info is None
    assert "secret" not in record.getMessage()
    assert "zeros were used" in record.getMessage()


def test_the_owner_may_stop_the_program():
    def interrupted(weights):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(interrupted)


def test_an_update_runs_under_the_settings_of_the_program():
    def divides(weights):
        return weights / np.zeros(3)

    with np.errstate(all="ignore"):
        assert found(divides, {"all": "raise"}) == [0.0] * 3
        assert found(divides, {"all": "ignore"}) == [0.0, LARGEST, LARGEST]
    seen = []
    with np.errstate(all="ignore"):
        found(lambda w: seen.append(np.geterr()) or w, {"over": "raise", "under": "warn"})
        assert np.geterr()["over"] == "ignore"
    assert (seen[0]["over"], seen[0]["under"], seen[0]["divide"]) == ("raise", "warn", "ignore")
