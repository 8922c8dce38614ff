"""Calls in parallel: results in order, errors at once, nothing left running, other backends."""

import subprocess
import sys
import threading

import joblib
import pytest

from fedsel._internal.parallel import in_parallel
from fedsel.errors import InvalidArgument


def squared(x):
    return x * x


@pytest.mark.parametrize("jobs", [1, 2, 5, -1])
def test_results_come_in_order_whatever_the_number_of_threads(jobs):
    assert list(in_parallel(squared, ((x,) for x in range(300)), jobs)) == [
        x * x for x in range(300)
    ]


def test_two_threads_work_at_the_same_time():
    both = threading.Barrier(2, timeout=60)  # broken, with an error, if one waits alone
    assert sorted(in_parallel(both.wait, [(), ()], 2)) == [0, 1]


def test_one_job_runs_in_the_thread_that_asks():
    here = threading.get_ident()
    assert list(in_parallel(threading.get_ident, [(), ()], 1)) == [here, here]


def test_a_slow_first_call_does_not_keep_the_others_from_running():
    others = threading.Semaphore(0)

    def call(number):
        if number:
            others.release()
            return number
        for _ in range(20):  # the first one ends when twenty others have
            assert others.acquire(timeout=60)
        return number

    assert list(in_parallel(call, ((x,) for x in range(21)), 2)) == list(range(21))


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_raised_where_its_result_would_come_and_ends_the_rest(jobs):
    begun = []

    def call(number):
        begun.append(number)
        if number == 3:
            raise KeyError(number)
        return number

    results = in_parallel(call, ((x,) for x in range(1000)), jobs)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        next(results)
    assert len(begun) < 100


def test_who_stops_early_leaves_no_call_behind():
    begun = []
    results = in_parallel(begun.append, ((x,) for x in range(1000)), 2)
    next(results)
    results.close()
    count = len(begun)
    assert count < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPoolExecutor")]
    assert len(begun) == count


@pytest.mark.parametrize("jobs", [0, 1.5, "two", None])
def test_a_wrong_number_of_jobs_is_refused(jobs):
    with pytest.raises(InvalidArgument, match="jobs"):
        list(in_parallel(squared, [(1,)], jobs))


def test_another_backend_of_joblib_is_used_where_it_is_chosen(monkeypatch):
    used = []
    backend = joblib.parallel.BACKENDS["sequential"]

    class Counting(backend):
        supports_return_generator = True

        def configure(self, *args, **kwargs):
            used.append(kwargs.get("n_jobs", args and args[0]))
            return super().configure(*args, **kwargs)

    monkeypatch.setitem(joblib.parallel.BACKENDS, "counting", Counting)
    with joblib.parallel_config(backend="counting"):
        assert list(in_parallel(squared, [(2,), (3,)], 2)) == [4, 9]
    assert used


WITHOUT_JOBLIB = """
import sys
sys.modules["joblib"] = None
from fedsel._internal.parallel import in_parallel, workers_of
print(*in_parallel(pow, [(2, n) for n in range(5)], jobs=2), workers_of(-1) >= 1, workers_of(-99))
"""


def test_threads_need_no_other_package():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JOBLIB], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "2", "4", "8", "16", "True", "1"]
