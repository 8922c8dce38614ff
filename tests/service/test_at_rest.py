"""Reports at rest: sums of files, whatever they lie in and however the work is spread."""

import json

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.service import at_rest
from fedsel.service.at_rest import aggregated, parts_of
from fedsel.wire.report import ReportFormat
from tests.cli.support import run_here
from tests.service.support import reports_for, task_of

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
    state = task_of(solution=None, k=None, mu=None, learning_rate=None).begin
    request = state.request()
    rows = reports_for(request, 300)
    rows[200:] = [row[:4] + (1).to_bytes(4, "little") + row[8:] for row in rows[200:]]
    wrong = [b"\xff" * 16, bytes(16)]
    (quick_path / "a.bin").write_bytes(b"".join(rows[:120]))
    (quick_path / "b.bin").write_bytes(b"".join(rows[120:250] + wrong))
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({"day": [1] * 52, "report": [*rows[250:], b"short", None]})
    pq.write_table(table, quick_path / "c.parquet", row_group_size=20)
    return state, rows, [quick_path / name for name in ("a.bin", "b.bin", "c.parquet")]


def test_files_are_added_up_as_reports_are(lot, monkeypatch):
    state, rows, paths = lot
    form = ReportFormat.of(state.recipe.build(), state.run)
    monkeypatch.setattr(at_rest, "PART_REPORTS", 50)
    monkeypatch.setattr(at_rest, "_AT_ONCE", 7)
    assert len(parts_of(paths, form.size)) == 3 + 3 + 3
    done = []
    sums = aggregated(paths, form, state.recipe, advance=done.append)
    assert sum(done) == 9
    assert (sums.count, sums.rejected) == (300, 4)
    for number, part in ((0, rows[:200]), (1, rows[200:])):
        totals = state.recipe.build().in_round(number).totals()
        totals.add(form.decode_many(b"".join(part)).reports)
        np.testing.assert_array_equal(sums.by_round[number].sums, totals.sums)
        expected = state.recipe.build().in_round(number).expand(totals.mean())
        np.testing.assert_array_equal(sums.mean(state.recipe, number), expected)


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


def test_the_command(lot, quick_path):
    state, _, paths = lot
    (quick_path / "task.toml").write_text(TASK)
    common = ("--task", quick_path / "task.toml", "--run", state.run.hex(), "--jobs", 1)
    told = json.loads(run_here("aggregate", *paths, *common, "--json").stdout)
    assert (told["reports"], told["rejected"]) == (300, 4)
    assert [row["reports"] for row in told["rounds"]] == [200, 100]
    shown = run_here("aggregate", *paths, *common, "--out", quick_path / "means.npz").stdout
    assert "300 reports added up, 4 rejected" in shown
    with np.load(quick_path / "means.npz") as kept:
        assert kept["counts"].tolist() == [[0, 200], [1, 100]]
        norm = np.linalg.norm(kept["round_1"])
        assert norm == pytest.approx(told["rounds"][1]["mean_norm"])
    wrong = ("--task", quick_path / "task.toml", "--run", "abc")
    assert "--run = 'abc': must be 32" in run_here("aggregate", *paths, *wrong, status=2).stderr


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
