"""A preparation that is public beforehand: its source in messages, and which rows are of use."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import InvalidArgument
from fedsel.preparation import FeatureScale, GivenPreparation, Preparation
from fedsel.preparation._given import FEWEST_ROWS, LARGEST_SENT, check_rows, most_bytes
from fedsel.wire import RecordPipeline

ROWS = np.random.default_rng(0).random((20, 3))


def test_a_message_names_rows_or_a_model():
    plain = Preparation.plain(2)
    rows, model = GivenPreparation(plain, 20, 64 * "a"), GivenPreparation(plain, 0, 64 * "b")
    assert (str(rows), rows.argument) == ("20 rows (SHA-256 aaaaaaaaaaaaaaaa)", "public_rows")
    assert (str(model), model.argument) == ("a model (SHA-256 bbbbbbbbbbbbbbbb)", "start")


def test_rows_become_doubles():
    for given in (ROWS.tolist(), csr_array(ROWS), ROWS):
        np.testing.assert_array_equal(check_rows(given, 3), ROWS)
    assert len(check_rows(ROWS[:FEWEST_ROWS], None)) == FEWEST_ROWS


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS[:, :2], r"of shape \(20, 2\).*\(m, 3\).*no label"),
        (ROWS[0], r"of shape \(3,\)"),
        (ROWS[: FEWEST_ROWS - 1], "9 rows.*at least 10"),
        (np.where(ROWS > 0.9, np.inf, ROWS), "NaN or infinity in column 0"),
        ([["a"] * 3] * 20, "of numbers"),
    ],
)
def test_what_is_of_no_use_is_refused(rows, words):
    with pytest.raises(InvalidArgument, match=f"^public_rows.*{words}"):
        check_rows(rows, 3)


@pytest.mark.parametrize("features", [1, 60, LARGEST_SENT - 1])
def test_a_device_reads_the_longest_text_of_a_matrix(features):
    size = features + 1
    longest = np.full((size, size), -2.2250738585072014e-308)
    given = Preparation(
        np.full(features, 1.2345678901234567), np.full(features, -2.2250738585072014e-308), 0.1,
        True, mixing=longest,
    )  # fmt: skip
    scale = FeatureScale.of((-2.2250738585072014e-308, 1.2345678901234567e-300), features)
    text = json.dumps(RecordPipeline(scale, given).to_dict())  # with a space after each comma
    assert len(text) <= most_bytes(features)
    assert most_bytes(LARGEST_SENT) < most_bytes(LARGEST_SENT - 1)
