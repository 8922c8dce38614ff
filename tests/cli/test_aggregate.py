"""``fedsel aggregate``: sums of files, and what it refuses in one sentence."""

import json

import numpy as np
import pytest

from tests.cli.support import run_here
from tests.service.support import three_files
from tests.service.test_offline_aggregation import RUN, TASK, limited, made_up_rounds


@pytest.fixture
def lot(quick_path):
    """Reports of two rounds in three files, some of them none of this run."""
    return three_files(quick_path)


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_too_little_memory_is_one_sentence(quick_path):
    # Less than the process has by then, so that the first large array fails: numpy itself may crash
    # where a small temporary one cannot be had.
    done = limited(quick_path, made_up_rounds(quick_path, 8000), rounds=8000, most=90 << 20)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("fedsel: not enough memory (")
    assert "Traceback" not in done.stderr


def test_the_command(lot, quick_path):
    state, _, paths = lot
    (quick_path / "task.toml").write_text(TASK)
    common = ("--task", quick_path / "task.toml", "--run", state.run.hex(), "--jobs", 1)
    told = json.loads(run_here("aggregate", *paths, *common, "--json").stdout)
    assert (told["reports"], told["rejected"]) == (300, 4)
    assert [row["reports"] for row in told["rounds"]] == [200, 100]
    shown = run_here("aggregate", *paths, *common, "--out", quick_path / "means.npz").stdout
    assert "300 reports added up, 4 rejected" in shown
    assert not (quick_path / "means.npz.new").exists()
    with np.load(quick_path / "means.npz") as kept:
        assert kept["counts"].tolist() == [[0, 200], [1, 100]]
        norm = np.linalg.norm(kept["round_1"])
        assert norm == pytest.approx(told["rounds"][1]["mean_norm"])
    for place in (paths[0], "/dev/null"):
        told = run_here("aggregate", *paths, *common, "--out", place, status=2).stderr
        assert "--out" in told
        assert "must be a file, and none of the reports" in told
    paths[0].write_bytes(paths[0].read_bytes()[:-1])
    run_here("aggregate", *paths, *common, "--out", quick_path / "means.npz", status=2)
    assert "counts" in np.load(quick_path / "means.npz")  # as it was
    wrong = ("--task", quick_path / "task.toml", "--run", "abc")
    assert "--run = 'abc': must be 32" in run_here("aggregate", *paths, *wrong, status=2).stderr


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("dim = 2147483648", "dim in task.toml = 2147483648: must be at most 134217728"),
        (
            "features = 134217728\nfeature_range = [0, 1]",
            "features in task.toml = 134217728: must be fewer: they ask for 134217729 weights",
        ),
    ],
)
def test_a_model_that_no_server_can_hold_is_refused_by_its_size(quick_path, size, message):
    (quick_path / "task.toml").write_text(TASK.replace("dim = 8", size))
    (quick_path / "x.bin").write_bytes(b"")
    words = ("--task", quick_path / "task.toml", "--run", RUN.hex())
    assert message in run_here("aggregate", quick_path / "x.bin", *words, status=2).stderr
