"""The same cross-validation on a real local cluster: two worker processes of Dask."""

import json
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from fedsel import solution
from fedsel.data import synthetic
from fedsel.experiments import CatalogueSource, Store, sweep
from fedsel.simulation import Population, Training, cross_validate
from reproduction.catalogue import experiment

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.fixture
def distributed():
    """Imported by the process that needs it: others would spend half a second on it."""
    return pytest.importorskip("distributed", reason="needs the extra fedsel[cluster]")


# Dask's own loops and sockets may outlive a test by a moment.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_dask_cluster_gives_the_very_same_scores(tmp_path, distributed):
    cells = experiment("fig2i", quick=True).tasks[:2]
    data = synthetic(d=10, n=2000, seed=1)
    training = Training(solution("PS-PM", epsilon=2.0, dim=10), batch=50, seed=0)
    population = Population(data.X, data.y)
    here = cross_validate(training, population, folds=3, repeats=2)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        there = cross_validate(training, population, folds=3, repeats=2, jobs=-1)
        far = sweep(cells, CatalogueSource(), Store(tmp_path / "far"), jobs=-1)
    assert here == there
    assert far == sweep(cells, CatalogueSource(), Store(tmp_path / "near"))
    assert np.isfinite(there.accuracy)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_command_runs_on_a_cluster_by_its_address(tmp_path, distributed):
    program = [sys.executable, "-m", "reproduction", "fig2i", "--quick", "--json"]
    told = {}
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        for place, more in (("far", ["--cluster", cluster.scheduler_address]), ("near", [])):
            done = subprocess.run(
                [*program, *more, "--out", str(tmp_path / place)],
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            told[place] = json.loads(done.stdout)["rows"]
    assert told["far"] == told["near"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_rays_backend_is_refused_by_joblib_as_the_docs_say():
    """No ray is started: joblib asks the backend what it can do."""
    backend = pytest.importorskip("ray.util.joblib.ray_backend", reason="needs ray")
    joblib.register_parallel_backend("ray", backend.RayBackend)
    data = synthetic(d=10, n=200, seed=1)
    training = Training(solution("PS-PM", epsilon=2.0, dim=10), batch=50, seed=0)
    with (
        joblib.parallel_config(backend="ray"),
        pytest.raises(ValueError, match="does not support return_as=generator"),
    ):
        cross_validate(training, Population(data.X, data.y), folds=2, repeats=1, jobs=2)
