"""Data sets from arrays, and their scales."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from scipy import sparse

from fedsel.data import _dataset as dataset_module
from fedsel.data import from_arrays
from fedsel.errors import InvalidArgument

BOUNDS = [[0.0, 10.0], [-1.0, 3.0]]


def small(**changes):
    values = {"X": [[0.0, -1.0], [10.0, 3.0], [5.0, 7.0]], "y": [0, 1, 1], "bounds": BOUNDS}
    values.update(changes)
    return from_arrays(**values)


def csr(indices, starts):
    """Ones at these places of 3 × 2, right or wrong."""
    X = sparse.csr_array((3, 2), dtype=np.float32)
    X.data = np.ones(len(indices), np.float32)
    X.indices, X.indptr = np.array(indices, np.int32), np.array(starts, np.int32)
    return X


def test_arrays_become_a_data_set():
    data = small(name="mine")
    assert (data.name, data.n, data.d, data.sparse) == ("mine", 3, 2, False)
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.y.dtype == np.int8
    assert data.y.tolist() == [-1, 1, 1]
    assert data.feature_names == ("x0", "x1")
    assert data.classes == ("0", "1")
    assert repr(data) == "Dataset('mine', n=3, d=2, dense)"
    with pytest.raises(FrozenInstanceError):
        data.name = "yours"


def test_float32_in_c_order_is_not_copied():
    X = np.ones((4, 3), np.float32)
    assert np.shares_memory(from_arrays(X, [0, 1, 0, 1]).X, X)
    csr = sparse.csr_array(X)
    assert np.shares_memory(from_arrays(csr, [0, 1, 0, 1]).X.data, csr.data)


def test_memory_mapped_arrays_stay_on_disk(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((1000, 3), np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    data = from_arrays(X, np.arange(1000) % 2)
    assert np.shares_memory(data.X, X)


def test_objects_with_to_numpy_are_frames_too():
    class Frame:
        columns = ("a",)

        def to_numpy(self):
            return np.array([[1], [2]])

    assert from_arrays(Frame(), [0, 1]).feature_names == ("a",)


def test_sparse_input_becomes_canonical_csr_and_leaves_the_input_alone():
    rows, columns, values = [0, 0, 1], [2, 2, 0], [1.0, 2.0, 5.0]
    coo = sparse.coo_matrix((values, (rows, columns)), shape=(2, 3))
    unsorted = sparse.csr_array(
        (np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2, 2])), shape=(2, 3)
    )
    data = from_arrays(coo, [0, 1])
    assert isinstance(data.X, sparse.csr_array)
    assert data.X.dtype == np.float32
    assert data.X.toarray().tolist() == [[0, 0, 3], [5, 0, 0]]
    assert from_arrays(unsorted, [0, 1]).X.indices.tolist() == [0, 2]
    assert unsorted.indices.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("y", "positive", "expected", "classes"),
    [
        ([1, -1, 1], None, [1, -1, 1], ("-1", "1")),
        ([1.0, 2.0, 1.0], 1, [1, -1, 1], ("2", "1")),
        (["1", "2", "1"], 1, [1, -1, 1], ("2", "1")),
        ([0.0, 1.0, 0.0], "0", [1, -1, 1], ("1", "0")),
        (["no", "yes", "no"], None, [-1, 1, -1], ("no", "yes")),
        (["no", "yes", "no"], "no", [1, -1, 1], ("yes", "no")),
        ([True, False, True], None, [1, -1, 1], ("False", "True")),
        (np.array(["a", "b", "a"], object), "a", [1, -1, 1], ("b", "a")),
    ],
)
def test_two_labels_become_signs(y, positive, expected, classes):
    data = from_arrays(np.ones((3, 1)), y, positive=positive)
    assert data.y.tolist() == expected
    assert data.classes == classes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": [[1.0, np.nan], [1, 1], [1, 1]]}, "X = 'NaN or infinite at row 0, column 1'"),
        ({"X": [[1.0, 1], [1, 1], [np.inf, 1]]}, "X = 'NaN or infinite at row 2, column 0'"),
        ({"X": [[1.0, 1], [1, 1], [1e300, 1]]}, "finite everywhere"),
        ({"X": sparse.csr_array([[0, 1.0], [0, 0], [np.nan, 0]])}, "row 2, column 0"),
        ({"X": sparse.csr_array(np.eye(3) * 1j)}, "of real numbers"),
        ({"X": [["a", "b"]] * 3}, "numbers only"),
        ({"X": [[1, 2], [3], [4, 5]]}, "numbers only"),
        ({"X": [[None, {}]] * 3}, "numbers only"),
        ({"X": [1.0, 2.0, 3.0]}, r"of shape \(N, d\)"),
        ({"X": np.empty((0, 2)), "y": []}, "y = "),
        ({"X": np.empty((3, 0)), "bounds": None}, "at least one record and one feature"),
        ({"y": [0, 1]}, "one per record: 3"),
        ({"y": [0, 0, 0]}, r"y = '1 classes \(0\)': must be two classes"),
        ({"y": [0, 1, 2]}, r"3 classes \(0, 1, 2\)"),
        ({"y": [0.0, np.nan, 1.0]}, "NaN or infinite in record 1"),
        ({"y": [None, "a", "b"]}, "texts only"),
        ({"y": np.array([None, 0.0, 1.0], object)}, "NaN or infinite in record 0"),
        ({"y": [[0], [1], [1]]}, "one value per record"),
        ({"positive": 7}, "positive = 7: must be one of the labels 0 and 1"),
        ({"feature_names": ["a"]}, "one per feature: 2"),
        ({"bounds": [[0, 1]]}, r"shape \(2, 2\)"),
        ({"bounds": [[0, 1], [3, 3]]}, "feature 1"),
        ({"bounds": [[0, 1], [0, np.inf]]}, "feature 1"),
        ({"bounds": "wide"}, "pairs of numbers"),
    ],
)
def test_what_cannot_be_used_is_refused(changes, message):
    with pytest.raises(InvalidArgument, match=message):
        small(**changes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("X", np.ones((3, 2))),
        ("X", np.asfortranarray(np.ones((3, 2), np.float32))),
        ("X", sparse.csc_array(np.ones((3, 2), np.float32))),
        ("X", sparse.csr_matrix(np.ones((3, 2), np.float32))),
        ("X", csr([0, 5, 1], [0, 1, 2, 3])),
        ("X", csr([1, 0, 1], [0, 2, 2, 3])),
        ("X", csr([1, 1, 1], [0, 2, 2, 3])),
        ("X", [[1.0, 2.0]] * 3),
        ("y", np.array([-1, 1, 1])),
        ("y", [-1, 1, 1]),
        ("y", np.array([-1, 0, 1], np.int8)),
        ("bounds", BOUNDS),
    ],
)
def test_a_data_set_has_exactly_its_types(field, value):
    with pytest.raises(InvalidArgument, match=f"^{field} = "):
        replace(small(), **{field: value})


def test_scales_by_public_bounds_clip():
    data = small()
    assert data.scaled("none") is data
    unit, symmetric = data.scaled("unit"), data.scaled("symmetric")
    assert unit.X.tolist() == [[0, 0], [1, 1], [0.5, 1]]
    assert symmetric.X.tolist() == [[-1, -1], [1, 1], [0, 1]]
    assert unit.bounds.tolist() == [[0, 1], [0, 1]]
    assert symmetric.bounds.tolist() == [[-1, 1], [-1, 1]]
    assert unit.X.dtype == np.float32
    assert data.X[2, 1] == 7


def test_standard_scale_in_blocks(monkeypatch):
    generator = np.random.default_rng(5)
    X = generator.normal(3, 2, (500, 4)).astype(np.float32)
    X[:, 3] = 0.1  # constant: no 0/0, no blown-up rounding error
    X[0, 0] = 1e6  # an outlier is clipped
    data = from_arrays(X, np.arange(500) % 2)
    whole = data.scaled("standard")
    monkeypatch.setattr(dataset_module, "_BLOCK", 64)
    np.testing.assert_allclose(data.scaled("standard").X, whole.X, rtol=1e-6)
    expected = (X[:, :3].astype(float) - X[:, :3].mean(0, dtype=float)) / X[:, :3].std(
        0, dtype=float
    )
    np.testing.assert_allclose(whole.X[:, :3], expected.clip(-3, 3), rtol=1e-5, atol=1e-6)
    assert whole.X[0, 0] == 3
    assert not whole.X[:, 3].any()
    assert whole.bounds.tolist() == [[-3, 3]] * 4


@pytest.mark.parametrize("how", ["unit", "symmetric", "standard"])
def test_sparse_and_dense_scale_alike(how):
    X = np.array([[0, 2], [4, 0], [0, 0], [1, 5]], np.float32)
    bounds = [[0, 4], [0, 4]]
    dense = from_arrays(X, [0, 1, 0, 1], bounds=bounds).scaled(how)
    thin = from_arrays(sparse.csr_array(X), [0, 1, 0, 1], bounds=bounds).scaled(how)
    assert thin.sparse == (how == "unit")
    np.testing.assert_allclose(thin.X.toarray() if thin.sparse else thin.X, dense.X, rtol=1e-6)


def test_a_huge_sparse_matrix_is_not_made_dense():
    X = sparse.csr_array((1_000_000, 10_000), dtype=np.float32)
    y = np.arange(1_000_000) % 2
    data = from_arrays(X, y, bounds=np.tile([0.0, 2.0], (10_000, 1)))
    assert data.scaled("unit").sparse
    assert data.with_intercept().sparse
    for how in ("symmetric", "standard"):
        with pytest.raises(InvalidArgument, match="dense"):
            data.scaled(how)


def test_scales_that_cannot_be():
    with pytest.raises(InvalidArgument, match="one of none, unit, symmetric, private, standard"):
        small().scaled("log")
    with pytest.raises(InvalidArgument, match="have public bounds"):
        small(bounds=None).scaled("unit")
    with pytest.raises(InvalidArgument, match="before with_intercept"):
        small().with_intercept().scaled("standard")


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_intercept_is_one_more_feature(convert):
    data = small(X=convert(np.eye(3, 2))).with_intercept()
    assert data.sparse == (convert is sparse.csr_array)
    X = data.X.toarray() if data.sparse else data.X
    assert X.tolist() == [[1, 0, 1], [0, 1, 1], [0, 0, 1]]
    assert data.X.dtype == np.float32
    assert data.feature_names[-1] == "intercept"
    assert data.bounds.shape == (3, 2)
    assert data.scaled("symmetric").X[:, 2].tolist() == [1, 1, 1]
    with pytest.raises(InvalidArgument, match="was called before"):
        data.with_intercept()
