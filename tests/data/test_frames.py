"""Data frames as input, where the library that makes them is installed."""

import numpy as np
import pytest

from fedsel.data import from_arrays, partition
from fedsel.errors import InvalidArgument


def test_pandas_frames_bring_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [0.5, 1.5]})
    data = from_arrays(frame, pd.Series(["n", "y"]))
    assert data.feature_names == ("a", "b", "c")
    assert data.X.tolist() == [[1, 1, 0.5], [2, 0, 1.5]]
    assert data.classes == ("n", "y")
    assert partition.by_groups(pd.Series(["v", "u"])).order.tolist() == [1, 0]


def test_pandas_frames_with_texts_or_gaps_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidArgument, match="numbers only"):
        from_arrays(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), [0, 1])
    with pytest.raises(InvalidArgument, match="row 1, column 0"):
        from_arrays(pd.DataFrame({"a": [1, np.nan]}), [0, 1])
    with pytest.raises(InvalidArgument, match="X = "):
        from_arrays(pd.DataFrame({"a": pd.array([1, None], "Int64")}), [0, 1])
    with pytest.raises(InvalidArgument, match=r"^y = "):
        from_arrays(np.ones((3, 1)), pd.Series(["a", pd.NA, "b"]))


def test_polars_frames_bring_their_names():
    pl = pytest.importorskip("polars")
    data = from_arrays(pl.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), pl.Series([0, 1]))
    assert data.feature_names == ("a", "b")
    assert data.X.tolist() == [[1, 0.5], [2, 1.5]]
