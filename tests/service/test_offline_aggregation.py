"""Reports at rest: sums of files, whatever they lie in and however the work is spread."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.mechanisms._reports import Reports
from fedsel.service import _offline_aggregation as offline_aggregation
from fedsel.service._offline_aggregation import aggregated, parts_of
from fedsel.wire import ReportFormat
from tests.cli.support import run_here
from tests.service.support import three_files

TASK = """
epsilon = 4
dim = 8
clients = 1000
rounds_per_epoch = 4
close_after = { reports = 5 }
"""


@pytest.fixture
def lot(quick_path):
    """Reports of two rounds in three files, some of them none of this run."""
    return three_files(quick_path)


def test_files_are_added_up_as_reports_are(lot, monkeypatch):
    state, rows, paths = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    monkeypatch.setattr(offline_aggregation, "PART_REPORTS", 50)
    monkeypatch.setattr(offline_aggregation, "_AT_ONCE", 7 * form.size)
    assert len(parts_of(paths, form.size)) == 3 + 3 + 1
    monkeypatch.setattr(offline_aggregation, "PART_REPORTS", 40)
    assert len(parts_of(paths, form.size)) == 3 + 4 + 2
    done = []
    (sums,) = aggregated(paths, form, state.recipe, 4, advance=done.append)
    assert sum(done) == 9
    assert (sums.count, sums.rejected) == (300, 4)
    for number, part in ((0, rows[:200]), (1, rows[200:])):
        totals = state.recipe.build().in_round(number).totals()
        totals.add(form.decode_many(b"".join(part)).reports)
        np.testing.assert_array_equal(sums.by_round[number].sums, totals.sums)
        expected = state.recipe.build().in_round(number).expand(totals.mean())
        np.testing.assert_array_equal(sums.mean(state.recipe, number), expected)


def test_rounds_that_do_not_fit_into_memory_are_added_up_in_turn(lot, monkeypatch):
    state, _, paths = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    (whole,) = aggregated(paths, form, state.recipe, 2)
    monkeypatch.setattr(offline_aggregation, "SUM_BYTES", 0)
    done = []
    first, second = aggregated(paths, form, state.recipe, 2, jobs=2, advance=done.append)
    assert (list(first.by_round), list(second.by_round)) == ([0], [1])
    assert (first.rejected, second.rejected) == (whole.rejected, 0)
    assert sum(done) == len(parts_of(paths, form.size))
    for sums in (first, second):
        for number, totals in sums.by_round.items():
            np.testing.assert_array_equal(totals.sums, whole.by_round[number].sums)
    (nothing,) = aggregated(paths[:0], form, state.recipe, 2)
    assert (nothing.count, nothing.rejected) == (0, 0)


def test_reports_of_rounds_that_are_not_planned_are_rejected(lot):
    state, _, paths = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    (sums,) = aggregated(paths, form, state.recipe, planned=1)
    assert (list(sums.by_round), sums.count, sums.rejected) == ([0], 200, 104)


def test_what_cannot_be_added_up_is_named(quick_path):
    (quick_path / "odd.bin").write_bytes(bytes(17))
    (quick_path / "x.csv").write_bytes(b"")
    (quick_path / "x.parquet").write_bytes(b"no parquet")
    for name, message in (
        ("odd.bin", "17 bytes.*whole reports of 16 bytes"),
        ("x.csv", "named .bin or .parquet"),
        ("nothing.bin", "files that exist"),
        ("x.parquet", "a Parquet file"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            parts_of([quick_path / name], 16)


ONE = bytes(16)
COLUMNS = {
    "numbers": [1, 2],
    "texts": ["a", "b"],
    "nothing": [None, None],
    "lists": [[ONE]],
    "a group": [{"report": ONE}],
    "times": [datetime(2026, 1, 1, tzinfo=UTC)],
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_anything_but_bytes_is_named(quick_path, column):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"report": column}), quick_path / "x.parquet")
    with pytest.raises(InvalidArgument, match=r"x.parquet.* one column 'report', of bytes"):
        parts_of([quick_path / "x.parquet"], 16)


def test_two_columns_of_reports_are_one_too_many(quick_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    twice = pa.table([[ONE], [ONE]], names=["report", "report"])
    pq.write_table(twice, quick_path / "x.parquet")
    with pytest.raises(InvalidArgument, match=r"x.parquet.* one column 'report', of bytes"):
        parts_of([quick_path / "x.parquet"], 16)


def test_bytes_may_be_written_in_any_way(lot, quick_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    state, rows, _ = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    kinds = [pa.binary(), pa.large_binary(), pa.binary(16), pa.dictionary(pa.int8(), pa.binary())]
    if hasattr(pa, "binary_view"):
        kinds.append(pa.binary_view())
    for place, kind in enumerate(kinds):
        # Columns within columns come first: the place of a column is not that of its numbers.
        table = {"other": [{"a": 1, "b": [2]}] * 9, "report": pa.array([*rows[:8], None], kind)}
        pq.write_table(pa.table(table), quick_path / f"{place}.parquet")
        (sums,) = aggregated([quick_path / f"{place}.parquet"], form, state.recipe, 4)
        assert (sums.count, sums.rejected) == (8, 1), kind
    pq.write_table(
        pa.table({"report": pa.array([b"short"], pa.binary(5))}), quick_path / "s.parquet"
    )
    (sums,) = aggregated([quick_path / "s.parquet"], form, state.recipe, 4)
    assert (sums.count, sums.rejected) == (0, 1)


def test_a_damaged_file_is_named_with_its_row_group(lot, quick_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    state, rows, _ = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    path = quick_path / "cut.parquet"
    pq.write_table(pa.table({"report": rows}), path, row_group_size=100)
    about = pq.read_metadata(path).row_group(1).column(0)
    start, whole = about.dictionary_page_offset, path.read_bytes()
    path.write_bytes(whole[:start] + bytes(40) + whole[start + 40 :])
    with pytest.raises(InvalidArgument, match=r"cut.parquet.*row group 1 can be read"):
        list(aggregated([path], form, state.recipe, 4))
    for damaged in (whole[: len(whole) // 2], whole.replace(b"report", b"\xffeport")):
        path.write_bytes(damaged)
        with pytest.raises(InvalidArgument, match=r"cut.parquet.*a Parquet file"):
            parts_of([path], 16)


# --- memory -----------------------------------------------------------------------------------

LIMITED = """
import resource, sys
from fedsel.cli import main
from fedsel.service import _offline_aggregation as offline_aggregation
most, offline_aggregation.SUM_BYTES, sys.argv[1:] = int(sys.argv[1]), 1 << 26, sys.argv[2:]
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
main()
"""
WIDE = """
solution = "RJ"
epsilon = 4
dim = 10000
clients = 100000
close_after = { reports = 5 }
"""
"""RJ, which adds a report up in one place: the tests are of memory, with 20 million reports."""


def limited(folder, name, *, rounds=4, most=600 << 20):
    """The command in a process that may have so much memory, on a task of 131 kB for a round."""
    (folder / "task.toml").write_text(f"rounds_per_epoch = {rounds}\n{WIDE}")
    words = ["--task", folder / "task.toml", "--run", RUN.hex(), "--jobs", 2, "--json"]
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, (most, "aggregate", folder / name, *words))],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )


RUN = bytes(16)
REPORT = ReportFormat(RUN, slots=1, symbols=1).encode(0, Reports([0], [0]))


def made_up_rounds(folder, count):
    rows = np.frombuffer(REPORT * count, dtype="<u4").reshape(-1, 4).copy()
    rows[:, 1] = np.random.default_rng(0).permutation(count)
    (folder / "x.bin").write_bytes(rows.tobytes())
    return "x.bin"


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(("rounds", "count"), [(4, 40_000), (8_000, 8_000)])
def test_numbers_of_rounds_do_not_decide_how_much_memory_is_needed(quick_path, rounds, count):
    done = limited(quick_path, made_up_rounds(quick_path, count), rounds=rounds)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["reports"], told["rejected"]) == (rounds, count - rounds)
    assert [row["round"] for row in told["rounds"]] == list(range(rounds))


def repeated(value, count):
    pa = pytest.importorskip("pyarrow")
    places = pa.array(np.zeros(count, dtype=np.int8))
    return pa.DictionaryArray.from_arrays(places, pa.array([value], pa.binary()))


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize(
    ("size", "count", "reports"), [(16, 20_000_000, 20_000_000), (10_000_000, 10_000, 0)]
)
def test_a_small_parquet_file_needs_little_memory(quick_path, size, count, reports):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"report": repeated(REPORT.ljust(size, b"\0"), count)})
    pq.write_table(table, quick_path / "x.parquet", compression="zstd", row_group_size=count)
    assert (quick_path / "x.parquet").stat().st_size < 200_000
    done = limited(quick_path, "x.parquet")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["reports"], told["rejected"]) == (reports, count - reports)


def test_a_row_group_that_unpacks_to_too_much_is_refused(lot, quick_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    state, *_ = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    table = pa.table({"report": pa.array([bytes(10_000)], pa.binary())})
    path = quick_path / "x.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 1000
    (sums,) = aggregated([path], form, state.recipe, 4)
    assert sums.rejected == 1
    monkeypatch.setattr(offline_aggregation, "GROUP_BYTES", 10_000)
    with pytest.raises(InvalidArgument, match=r"row group 0.*at most 10000 bytes: write fewer"):
        list(aggregated([path], form, state.recipe, 4))


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_and_processes_give_the_same_sums(lot, quick_path):
    distributed = pytest.importorskip("distributed", reason="needs the extra fedsel[cluster]")
    state, _, paths = lot
    (quick_path / "task.toml").write_text(TASK)
    common = ("--task", quick_path / "task.toml", "--run", state.run.hex(), "--json")
    here = run_here("aggregate", *paths, *common, "--jobs", 2)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        far = run_here("aggregate", *paths, *common, "--cluster", cluster.scheduler_address)
    one, two = (json.loads(done.stdout) for done in (here, far))
    assert one["rounds"] == two["rounds"]
    assert one["reports"] == two["reports"] == 300
