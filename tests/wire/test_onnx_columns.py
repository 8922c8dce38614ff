"""Columns in an ONNX graph: ONNX Runtime reads what the schema reads in a cell, to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument
from fedsel.wire import Category, Date, Number, _onnx_columns

onnx = pytest.importorskip("onnx", reason="pip install 'fedsel[onnx]'")
runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")


def reader(column):
    """A function from cells to features, by ONNX Runtime."""
    graph = _onnx_columns.Graph(["x"])
    features = _onnx_columns.features_of(graph, "x", column)
    graph.output("y", features, float, len(column.features))
    helper = onnx.helper
    made = helper.make_model(
        helper.make_graph(graph.nodes, "g", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    onnx.checker.check_model(made, full_check=True)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    kind = np.float64 if isinstance(column, Number) else object
    return lambda cells: session.run(None, {"x": np.array(cells, dtype=kind)[:, None]})[0]


def check(column, cells, read=None):
    """The features of cells by the graph are those of the column."""
    found = (read or reader(column))(cells)
    expected = column.encode(np.array(cells, dtype=object))
    wrong = [c for c, a, b in zip(cells, found, expected, strict=True) if (a != b).any()]
    assert not wrong, [(c, found[cells.index(c)], expected[cells.index(c)]) for c in wrong[:3]]


NUMBERS = [0.0, -0.0, 1, 7.25, -1e308, 1e308, 5e-324, np.nan, np.inf, -np.inf, 1 << 33, -(1 << 33)]


@pytest.mark.parametrize(
    "column",
    [
        Number(0, 10),
        Number(-3, 4, missing=1.5, indicator=True),
        Number(),
        Number(missing=-2, indicator=True),
    ],
)
def test_numbers(column):
    check(column, NUMBERS)


TEXTS = ["cook", " cook\t", "\vcook\r\n", "Cook", "cook\u00a0", "cook.", "co ok", "", " ", "\t\n\f"]
TEXTS += [
    "a.b",
    "axb",
    "a b",
    "a  b",
    "(",
    "[",
    "\\",
    "\\d",
    "5",
    "é",
    "e\u0301",
    "😀",
    "a\nb",
    "^$",
]
TEXTS += ["1", "1.0", "01", "+1", "1e0", "10e-1", "1.", ".5", "0.50", "-0", "0", "1_0", "0x1", "١"]
TEXTS += ["true", "TRUE", "tRue ", "truE.", "false", "fal\u017fe", "nan", "NaN", "inf", "1e999"]
TEXTS += ["9" * 400, "0." + "0" * 300 + "1", "1e+0000001", "1e", "e1", "other", "None"]
LEVELS = [
    ["cook", "smith"],
    ["cook", "other", "(", "[", "\\", "\\d", "a.b", "a b", "a\nb", "^$"],
    ["é", "😀", "e\u0301", "Cook", "-", "a  b"],
    ["1", "1.0", "0.5", "0", "10"],
    ["true", "no", "other"],
    ["1", "0", "true"],
    ["true", "false", "1"],
    ["1e999", "nan", "9" * 400, "+1"],
]


@pytest.mark.parametrize("levels", LEVELS, ids=lambda levels: levels[0])
def test_categories(levels):
    check(Category(levels), TEXTS)
    check(Category(levels, missing=levels[1], indicator=True), TEXTS)


def test_a_number_beyond_a_hundred_digits_is_a_text():
    """The runtime stops at numbers that no double holds, so none comes near one."""
    cells = ["1e-400", "0" * 200 + "1", "1e-99", "0" * 98 + "1"]
    assert reader(Category(["0", "1"]))(cells).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]


DATES = ["2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29", "0001-01-01", "0000-01-01"]
DATES += ["9999-12-31", "2024-13-01", "2024-00-01", "2024-12-32", "2024-04-31", "2024-1-01"]
DATES += ["2024-12-31T23:59", "2024-12-31 00:00:00", "2024-12-31T24:00", "2024-12-31T09:61:99.5Z"]
DATES += [" 2024-06-07T05:04+0200\n", "2024-06-07T05:04-01:30", "2024-06-07T", "2024-06-07T5:04"]
DATES += ["", " ", "soon", "20240607", "29.2.2024 7:5", "29.02.2024 07:05", "31.4.2024 1:1"]
DATES += ["1.1.1970 0:0", "1.1.1970 24:0", "٢٠٢٤-٠٦-٠٧", "2024-06-07 05:04 ", "2024-06-0７"]
PARTS = ["year", "month", "day", "weekday", "hour", "days"]
FORMATS = [
    "YYYY-MM-DD",
    "DD.MM.YYYY hh:mm",
    "YYYYMMDD",
    "DDMMYYYY",
    "MM/DD/YYYY",
    "hhmmss, DDYYYYMM",
    "ss(hh).YYYY [DD]*MM?",
]


@pytest.mark.parametrize("form", FORMATS)
def test_dates(form):
    column = Date(PARTS, "1950-05-05", "2050-06-07", form, "2001-09-09", True)
    rng = np.random.default_rng(5)
    cells = list(DATES)
    for _ in range(400):
        text = form
        numbers = {"YYYY": 10**4, "MM": 15, "DD": 35, "hh": 27, "mm": 99, "ss": 99}
        for token, most in numbers.items():
            width = 4 if token == "YYYY" else rng.integers(1, 3)
            text = text.replace(token, f"{rng.integers(most):0{width}d}")
        cells.append(text)
    read = reader(column)
    check(column, cells, read)
    told = read(cells)[:, -1]
    assert 20 < told.sum() < len(cells) - 20  # some are dates, and some are not
    check(Date(["weekday"], format=form), cells)
    check(Date(["year", "days"], "1600-01-01", "2400-01-01", form), cells)


def test_every_day_of_four_centuries_is_counted():
    column = Date(["days", "weekday"], "1600-01-01", "2000-12-31")
    days = np.arange(np.datetime64("1600-01-01"), np.datetime64("2000-12-31"), 11)
    check(column, days.astype(str).tolist())


PIECES = st.sampled_from(["1", "0", ".", "e", "+", "-", "true", "T", " ", "\t", "cook", "é", "\\"])
WORDS = st.lists(PIECES, max_size=6).map("".join)
READ = {}


@settings(max_examples=80, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(0, len(LEVELS) - 1))
def test_any_text(cells, which):
    column = Category(LEVELS[which], indicator=True)
    if which not in READ:
        READ[which] = reader(column)
    check(column, cells, READ[which])


@pytest.mark.parametrize("form", ["DD0MM YYYY", " DD.MM.YYYY", "YYYY-MM-DD\t"])
def test_formats_that_no_expression_reads_alike(form):
    with pytest.raises(InvalidArgument, match=r"^columns\.born\.format = .*without digits"):
        _onnx_columns.features_of(_onnx_columns.Graph([]), "born", Date(["month"], format=form))


def test_names_of_the_graph_are_no_columns():
    graph = _onnx_columns.Graph(["/Max0", "///", "x"])
    assert graph.add("Neg", "x") == "////Neg0"
