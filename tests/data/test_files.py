"""A user's own files: CSV, Parquet, npz and LIBSVM, right and wrong."""

import sys

import numpy as np
import pytest

from fedsel.data import _cells, read
from fedsel.errors import InvalidArgument

CSV = """age,city,member,income
31,Rome,yes,low
45,Oslo,no,high
28,Rome,no,high
"""


def write(folder, name, text, encoding="utf-8"):
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path, "people.csv", CSV)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_usual_delimiters_quotes_spaces_and_byte_order_mark(tmp_path, delimiter):
    text = delimiter.join(['"a b"', " c ", "y"]) + "\r\n" + delimiter.join(["1.5", ' "x"', "0"])
    text += "\r\n\r\n" + delimiter.join(["-2e3", "x ", "1"]) + "\r\n"
    data = read(write(tmp_path, "t.csv", text, "utf-8-sig"), "y")
    assert data.feature_names == ("a b", "c=x")
    assert data.X[:, 0].tolist() == [1.5, -2000]
    assert data.n == 2


def test_many_blocks_are_one_table(tmp_path, monkeypatch):
    """A column whose first texts look like numbers is a column of texts all the same."""
    monkeypatch.setattr(_cells, "_ROWS", 3)
    rows = [f"{i},{i % 4 if i < 9 else 'x'},{i % 2}" for i in range(10)]
    data = read(write(tmp_path, "t.csv", "n,mixed,y\n" + "\n".join(rows)), "y")
    assert data.feature_names == ("n", "mixed=0", "mixed=1", "mixed=2", "mixed=3", "mixed=x")
    assert data.X[:, 0].tolist() == list(range(10))
    assert data.X[:, 1:].sum() == 10
    assert data.X[9, 5] == 1


def test_underscores_make_no_number(tmp_path):
    data = read(write(tmp_path, "t.csv", "a,y\n1_2,0\n3,1\n"), "y")
    assert data.feature_names == ("a=1_2", "a=3")


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("", "y", "header of distinct names"),
        ("a,a,y\n1,2,0\n", "y", "header of distinct names"),
        ("a,,y\n1,2,0\n", "y", "header of distinct names"),
        ("a,y\n", "y", "records below its header"),
        ("a,y\n1,0\n2\n", "y", r"2 columns \(record 1 has 1 cells\)"),
        (
            "a,y\n1,0\n,1\n",
            "y",
            r"column = 'a': must be filled in every record \(empty in record 1.*fedsel schema",
        ),
        ("a,y\n2024-01-01,0\n2024-01-02,1\n", "y", "column = 'a': .* no dates; .*fedsel schema"),
        ("a,y\n1.2.2024 8:00,0\n,1\n3.12.1999 9:00,1\n", "y", "column = 'a': .* no dates"),
        ("a,y\n1,0\nnan,1\n", "y", r"column = 'a': .*record 1"),
        ("a,y\n1,0\n1e99,1\n", "y", r"column = 'a': .*finite"),
        ("a,y\n1,0\n2,0\n", "y", r"1 classes \(0\)"),
        ("a,y\n1,0\n2,1\n3,2\n", "y", "3 classes"),
        ("a,y\n1,\n2,1\n", "y", "column = 'y': must be filled"),
        ("a,target\n1,0\n2,1\n", "targte", "such as target"),
        ("a,y\n1,0\n2,1\n", None, "name or number of a column, such as a, y"),
        ("a,y\n1,0\n2,1\n", 2, "name or number of a column"),
        ("y\n0\n1\n", "y", "features are left"),
        ("a,y\n" + "".join(f"t{i},{i % 2}\n" for i in range(1001)), "y", "at most 1000 levels"),
        (
            'a,y\n"1,234",0\n"56,000",1\n',
            "y",
            "'a': must be removed, or its numbers written plainly",
        ),
        ("a;y\n1,5;0\n2;1\n", "y", "written plainly, as 1234.5"),
        ("a,y\n5 %,0\n,1\n", "y", "written plainly"),
    ],
)
def test_wrong_csv_files(tmp_path, text, label, message):
    with pytest.raises(InvalidArgument, match=message):
        read(write(tmp_path, "wrong.csv", text), label)


def test_csv_that_is_no_text(tmp_path):
    path = tmp_path / "wrong.csv"
    path.write_bytes(b"a,y\n\xff\xfe,1\n")
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        read(path, "y")


def test_unknown_endings_and_missing_files(tmp_path):
    with pytest.raises(InvalidArgument, match=r"ending in .csv, .parquet, .npz, .svm, .libsvm"):
        read(tmp_path / "data.xlsx", "y")
    with pytest.raises(InvalidArgument, match="a file that exists"):
        read(tmp_path / "data.csv", "y")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidArgument, match="a file that exists"):
        read(tmp_path / "folder.csv", "y")


def test_npz(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, X=np.eye(3), y=[1, 2, 2], feature_names=["a", "b", "c"], bounds=[[0, 2]] * 3)
    data = read(path)
    assert data.feature_names == ("a", "b", "c")
    assert data.scaled("unit").X.tolist() == (np.eye(3) / 2).tolist()
    assert data.classes == ("1", "2")
    np.savez(path, features=np.eye(3), target=[0, 1, 1])
    assert read(path, "target", positive=0).y.tolist() == [1, -1, -1]
    with pytest.raises(InvalidArgument, match="arrays X and y; it holds features, target"):
        read(path)


def test_wrong_npz(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, X=np.array([{}], object), y=[0])
    with pytest.raises(InvalidArgument, match="plain arrays"):
        read(path)
    np.savez_compressed(path, X=np.eye(100), y=np.arange(100) % 2)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InvalidArgument, match="plain arrays"):
        read(path)
    with path.open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(InvalidArgument, match="plain arrays"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(InvalidArgument, match="plain arrays"):
        read(path)


@pytest.mark.parametrize("ending", [".svm", ".libsvm", ".SVM"])
def test_libsvm_stays_sparse(tmp_path, ending):
    data = read(write(tmp_path, f"own{ending}", "+1 1:0.5 3:2\n-1 2:1\n"))
    assert data.sparse
    assert data.X.dtype == np.float32
    assert data.X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert data.y.tolist() == [1, -1]


@pytest.mark.parametrize("text", ["+1 a:b\n-1 1:1\n", "+1 1:nan\n-1 1:1\n", "+1 1:1\n", ""])
def test_wrong_libsvm(tmp_path, text):
    with pytest.raises(InvalidArgument):
        read(write(tmp_path, "own.svm", text))


def test_libsvm_has_its_label_in_front(tmp_path):
    with pytest.raises(InvalidArgument, match="omitted"):
        read(write(tmp_path, "own.svm", "+1 1:1\n-1 1:2\n"), "y")


def test_parquet_equals_csv(table, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    converted = csv.read_csv(table)
    path = tmp_path / "people.parquet"
    for columns in (
        converted,
        converted.set_column(1, "city", converted["city"].dictionary_encode()),
    ):
        parquet.write_table(columns, path)
        expected, found = read(table, "income"), read(path, "income")
        assert found.feature_names == expected.feature_names
        assert (found.X == expected.X).all()
        assert (found.y == expected.y).all()
        assert found.classes == expected.classes


def test_wrong_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "own.parquet"
    for column, message in (
        (pa.array([1, None]), "column = 'a': .*record 1.*fedsel schema"),
        (pa.array([[1], [2]]), "column = 'a': must be numbers or texts; .*fedsel schema"),
        (pa.array([None, True]), "column = 'a': must be numbers or texts; .*fedsel schema"),
        (pa.array([1, 2], pa.timestamp("ms")), "column = 'a': must be numbers or texts; "),
        (pa.array([1.0, float("inf")]), "column = 'a': .*record 1"),
        (pa.array([b"a", b"b"]), "column = 'a': must be numbers or texts; "),
    ):
        parquet.write_table(pa.table({"a": column, "y": [0, 1]}), path)
        with pytest.raises(InvalidArgument, match=message):
            read(path, "y")
    path.write_bytes(b"PAR1 no PAR1")
    with pytest.raises(InvalidArgument, match="a Parquet file"):
        read(path, "y")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "own.parquet").write_bytes(b"")
    with pytest.raises(InvalidArgument, match=r"pip install 'fedsel\[parquet\]'"):
        read(tmp_path / "own.parquet", "y")


def test_svmlight_without_scikit_learn_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    (tmp_path / "own.svm").write_text("1 1:0.5\n")
    with pytest.raises(InvalidArgument, match=r"pip install 'fedsel\[sklearn\]'"):
        read(tmp_path / "own.svm")
