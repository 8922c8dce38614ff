"""The paper's three data sets, from the published files where these are at hand."""

import gzip
import lzma
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reproduction.datasets import adult, bank, kdd, load
from reproduction.datasets.catalogue import (
    A9A,
    A9A_TEST,
    ADULT_DATA,
    ADULT_TEST,
    BANK,
    KDD,
    REAL,
    resolve,
)

PUBLISHED = Path(__file__).parents[3] / "shared/data"

pytestmark = [
    pytest.mark.xdist_group("published data"),  # parsed once
    pytest.mark.skipif(
        not PUBLISHED.is_dir(), reason="the published files are not at ../shared/data"
    ),
]


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    """What one test has parsed, the next one need not parse again."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(shared_cache, monkeypatch):
    monkeypatch.setenv("FEDSEL_CACHE", str(shared_cache))
    monkeypatch.setenv("FEDSEL_DATA", str(PUBLISHED))


@pytest.fixture(scope="module")
def bank_rows():
    text = lzma.decompress((PUBLISHED / "bank-full.csv.xz").read_bytes()).decode()
    return [line.replace('"', "").split(";") for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "d", "positives", "sparse"),
    [
        ("BANK", 45_211, 32, 5_289, False),
        ("Adult", 48_842, 123, 7_841 + 3_846, True),
        ("kdd99", 70_000, 114, 70_000 - 13_638, False),
    ],
)
def test_the_papers_dimensions_and_what_is_kept(name, n, d, positives, sparse, monkeypatch):
    first = load(name)
    assert first.X.shape == (n, d)
    assert first.sparse == sparse
    assert (first.y == 1).sum() == positives
    assert len(set(first.feature_names)) == d
    values = first.X.toarray() if sparse else first.X
    assert (values >= first.bounds[:, 0]).all()
    assert (values <= first.bounds[:, 1]).all()

    entry = resolve(name)
    monkeypatch.setitem(REAL, entry.name, replace(entry, parse=None))
    second = load(name)  # parsed already
    assert second.feature_names == first.feature_names
    assert second.classes == first.classes
    assert (second.y == first.y).all()
    assert (second.bounds == first.bounds).all()
    assert second.X.dtype == np.float32
    assert abs(second.X - first.X).max() == 0


@pytest.mark.slow
def test_bank_features_say_what_the_file_says(bank_rows):
    data = load("bank")
    header, *rows = bank_rows
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    features = dict(zip(data.feature_names, data.X.T, strict=True))
    for attribute, dropped in (
        ("job", "unknown"),
        ("marital", "divorced"),
        ("education", "unknown"),
        ("contact", "unknown"),
        ("poutcome", "unknown"),
    ):
        for level, count in Counter(columns[attribute]).items():
            if level != dropped:
                assert features[f"{attribute}={level}"].sum() == count
    for attribute in ("default", "housing", "loan"):
        assert features[attribute].sum() == Counter(columns[attribute])["yes"]
    for attribute in ("age", "balance", "duration", "campaign", "previous"):
        assert features[attribute].tolist() == [float(v) for v in columns[attribute]]
    assert features["contacted"].sum() == sum(v != "-1" for v in columns["pdays"])
    assert features["pdays"].max() == 871
    assert features["30*month+day"][0] == 30 * 5 + 5  # 5 May
    order = dict.fromkeys(name.partition("=")[0] for name in data.feature_names)
    assert " ".join(order) == (
        "age job marital education default balance housing loan contact 30*month+day duration "
        "campaign contacted pdays previous poutcome"
    )


def test_bank_text_is_rebuilt(bank_rows):
    BANK.check_content(bank.canonical_text(bank_rows[1:]))


@pytest.mark.slow
def test_adult_is_rebuilt_byte_for_byte_from_the_census_files(tmp_path, monkeypatch):
    expected = load("adult")
    for file in (ADULT_DATA, ADULT_TEST):
        shutil.copy(PUBLISHED / f"{file.name}.xz", tmp_path)
    monkeypatch.setenv("FEDSEL_CACHE", str(tmp_path / "other"))
    monkeypatch.delenv("FEDSEL_DATA")
    rebuilt = load("adult", tmp_path)
    assert abs(rebuilt.X - expected.X).max() == 0
    assert (rebuilt.y == expected.y).all()
    for census, libsvm in ((ADULT_DATA, A9A), (ADULT_TEST, A9A_TEST)):
        content = census.read(PUBLISHED / f"{census.name}.xz")
        libsvm.check_content(adult.libsvm_text(content))


def test_adult_feature_names_are_those_of_the_first_record():
    data = load("adult")
    first = [data.feature_names[j] for j in data.X[[0]].indices]
    assert first == [
        "32<age<=40",
        "workclass=State-gov",
        "fnlwgt<=106647",
        "education=Bachelors",
        "education-num>12",
        "marital-status=Never-married",
        "occupation=Adm-clerical",
        "relationship=Not-in-family",
        "race=White",
        "sex=Male",
        "capital-gain>0",
        "capital-loss<=0",
        "39<hours-per-week<=40",
        "native-country=United-States",
    ]


@pytest.mark.slow
def test_kdd_records_are_the_drawn_lines():
    data = load("kdd")
    lines = KDD.read(PUBLISHED / "kddcup.data_10_percent.gz").decode().splitlines()
    drawn = np.random.RandomState(1234).permutation(494_021)[:70_000]
    for row in (0, 1, 69_999):
        *cells, label = lines[drawn[row]].split(",")
        record = dict(zip(data.feature_names, data.X[row], strict=True))
        for name, cell in zip(kdd.COLUMNS, cells, strict=True):
            expected = 1 if name in kdd.TEXTS else np.float32(cell)
            assert record[f"{name}={cell}" if name in kdd.TEXTS else name] == expected
        assert data.X[row, 38:].sum() == 3
        assert data.y[row] == (-1 if label == "normal." else 1)
    assert data.feature_names[:2] == ("duration", "src_bytes")
    assert [name.partition("=")[0] for name in data.feature_names[38:]] == (
        ["protocol_type"] * 3 + ["service"] * 64 + ["flag"] * 9
    )


@pytest.mark.parametrize("packed", [False, True])
def test_kdd_content_counts_where_the_archive_is_packed_anew(tmp_path, packed):
    content = gzip.decompress((PUBLISHED / "kddcup.data_10_percent.gz").read_bytes())
    path = tmp_path / ("kddcup.data_10_percent" + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    assert KDD.check(path) == KDD.sha256
