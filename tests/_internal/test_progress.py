"""Calls in parallel keep their order; what long work shows on a terminal and in a log."""

import io
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest
from rich.console import Console

from fedsel._internal import progress
from fedsel._internal.progress import in_parallel
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
from fedsel._internal.progress import in_parallel, workers_of
print(*in_parallel(pow, [(2, n) for n in range(5)], jobs=2), workers_of(-1) >= 1, workers_of(-99))
"""


def test_threads_need_no_other_package():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JOBLIB], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "2", "4", "8", "16", "True", "1"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told to: no test waits, nor depends on the machine."""

    class Clock:
        now = step = 0.0

        def monotonic(self):
            self.now += self.step
            return self.now

    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    monkeypatch.setitem(progress._state, "on", True)
    return made


def work(clock, seconds, steps=10):
    with progress.note("fitting", total=steps) as advance:
        for _ in range(steps):
            clock.now += seconds / steps
            advance(1)


def test_who_is_quick_says_nothing(clock, capsys):
    work(clock, 1.9)
    assert capsys.readouterr().err == ""


def test_after_two_seconds_it_tells_how_long_it_will_take(clock, capsys):
    work(clock, 20.0)
    assert capsys.readouterr().err == "fedsel: fitting (10 %, about 20 s left)\n"


def test_a_log_gets_a_line_now_and_then(clock, capsys):
    work(clock, 300.0, steps=300)
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 10
    assert "about 5 min left" in said


def test_a_terminal_gets_a_bar_that_is_cleared_in_the_end(clock, monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", stream)
    work(clock, 8.0)
    assert "fedsel: fitting" in stream.getvalue()
    assert "━" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_of_nested_work_the_outermost_speaks(clock, capsys):
    with progress.note("all", total=2) as advance:
        work(clock, 30.0)
        advance(1)
    assert capsys.readouterr().err == "fedsel: all (50 %, about 30 s left)\n"


@pytest.mark.parametrize("how", ["setting", "variable"])
def test_it_can_be_turned_off(clock, capsys, monkeypatch, how):
    if how == "setting":
        before = progress.show_progress(False)
        assert before is True
    else:
        monkeypatch.setenv("FEDSEL_PROGRESS", "0")
        monkeypatch.setitem(progress._state, "on", progress.wanted())
    work(clock, 30.0)
    assert capsys.readouterr().err == ""


def test_an_error_leaves_the_next_one_free_to_speak(clock, capsys):
    with pytest.raises(KeyError), progress.note("failing", total=2):
        raise KeyError
    work(clock, 20.0)
    assert "fitting" in capsys.readouterr().err


def test_a_closed_stream_does_not_stop_the_work(clock, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    stream.close()
    work(clock, 20.0)


def test_training_speaks_in_python_and_not_for_a_command(clock, capsys):
    from fedsel import solution
    from fedsel.simulation import Population, Training, train

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), np.ones(60, dtype=np.int8)
    training = Training(solution("RJ", epsilon=1.0, dim=4), batch=10)

    def slow(_):
        clock.now += 1.0

    train(training, Population(X, y), advance=slow)
    assert capsys.readouterr().err == ""  # a caller with its own ``advance`` shows progress itself
    clock.step = 3.0
    train(training, Population(X, y))
    assert "training" in capsys.readouterr().err


@pytest.fixture
def shown(monkeypatch):
    """What a log gets, without delay."""
    written = io.StringIO()
    monkeypatch.setattr(progress, "progress_console", lambda: Console(file=written, width=80))
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    return written


def test_quick_work_says_nothing_in_a_log(shown):
    with progress.Bar(2) as bar:
        bar.update("one", advance=1)
    with progress.patience("looking"):
        pass
    assert shown.getvalue() == ""


def test_long_work_says_in_a_log_what_it_does_and_how_far_it_is(shown):
    with progress.Bar(4) as bar:
        time.sleep(0.06)
        bar.update("third [of 4]", advance=3)
        bar.update("last", advance=1)  # too soon for another line
        bar.keep("kept: 84.4 %")
    assert shown.getvalue().splitlines() == ["third [of 4] (75 %, under 10 s left)", "kept: 84.4 %"]


def test_a_terminal_has_a_bar_and_lines_that_stay(monkeypatch):
    written = io.StringIO()
    terminal = Console(file=written, width=80, force_terminal=True, legacy_windows=False)
    monkeypatch.setattr(progress, "progress_console", lambda: terminal)
    with progress.Bar(4) as bar:
        bar.update("training", advance=1)
        bar.keep("PS-PM: 84.4 %")
        bar.update(completed=2)
    assert "training" in written.getvalue()
    assert " 50%" in written.getvalue()
    assert "PS-PM: 84.4 %\n" in written.getvalue()


def test_patience_speaks_once_it_has_taken_long(shown):
    with progress.patience("looking"):
        time.sleep(0.2)
    assert shown.getvalue().splitlines() == ["looking"]


def test_in_a_commands_bar_the_work_is_silent(shown, monkeypatch):
    monkeypatch.setitem(progress._state, "on", True)
    with progress.Bar(2), progress.note("inner", total=2) as advance:
        time.sleep(0.06)
        advance(1)
    assert shown.getvalue() == ""
    with progress.note("outer", total=2) as advance:
        time.sleep(0.06)
        advance(1)
    assert shown.getvalue().startswith("fedsel: outer (50 %")
