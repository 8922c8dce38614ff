"""The compiled kernels: every set of instructions gives the same bits, bad arrays are refused.

What the arrays of a call say about each other is checked before, or where, it is read: no client
number, no index and no table can make a kernel read or write elsewhere.
"""

import threading
import time

import numpy as np
import pytest

from fedsel import solution
from fedsel._internal.random import philox_key
from fedsel.sampling._kernels import Ranks, Symbols, native, signs_of, tables_of
from fedsel.simulation import Population, Training, train
from fedsel.simulation._clients import kernel_records
from fedsel.solutions import names
from tests.sampling.support import instructions  # noqa: F401 (a fixture)

D, N = 9, 40
KEY = philox_key(3)


pytestmark = pytest.mark.usefixtures("instructions")


def data(d=D, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)


@pytest.mark.parametrize("name", sorted(names()))
@pytest.mark.parametrize("d", [2, 7, *(pytest.param(d, marks=pytest.mark.slow) for d in (33, 100))])
def test_every_set_of_instructions_gives_the_same_weights_to_the_bit(name, d):
    X, y = data(d, 120, seed=d)
    made = solution(name, epsilon=4.0, dim=d, epochs=2, k=1, momentum=0.5)
    found = []
    for variant in native.variants():
        native.use(variant)
        training = Training(made, 0.5, 30, seed=5)
        found.append(train(training, Population(X, y)).weights)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_an_unknown_set_of_instructions_is_refused():
    with pytest.raises(ValueError, match="no variant avx9000"):
        native.use("avx9000")


class Call:
    """A good call of run_rounds, of which single arguments are spoiled."""

    def __init__(self, name="RJ", sparse=False, grouped=False, **changes):
        X, y = data()
        made = solution(name, epsilon=2.0, dim=D, epochs=2)
        tables = tables_of(made)
        self.given = {
            "plan": native.plan(tables),
            "records": kernel_records(Population(X, y)),
            "loss": 0,
            "reg": 1e-4,
            "factor": 1.0,
            "rate": 0.5,
            "decay": 0.0,
            "clients": np.arange(N),
            "ends": np.array([10, 25, N]),
            "weights": np.zeros(D),
            "residual": np.zeros((N, D), dtype=np.float32) if made.accumulates else None,
            "key": KEY,
            "epoch": 0,
            "signs": signs_of(made, 0, 3),
            "sums": np.zeros((len(tables.units), tables.slots), dtype=np.int64),
            "total": np.zeros(tables.slots),
            "sent": np.zeros((N, 2 * tables.picks), dtype=np.int64),
            "trace": np.zeros((3, D)),
        }
        if sparse:
            from scipy.sparse import csr_array

            self.given["records"] = kernel_records(Population(csr_array(X), y))
        if grouped:
            order, starts = np.arange(N)[::-1].copy(), np.arange(0, N + 1, 2)
            self.given["records"] = kernel_records(Population(X, y, order, starts))
            self.given["clients"] = np.arange(N // 2)
            self.given["ends"] = np.array([5, 10, N // 2])
        self.given |= changes

    def spoil_records(self, **changes):
        self.given["records"] = self.given["records"]._replace(**changes)
        return self

    def __call__(self):
        return native.run_rounds(*self.given.values())


def spoiled(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


@pytest.mark.parametrize("name", ["RJ", "PS-PM", "PM", "NP", "UJ", "PM-RP"])
def test_a_good_call_runs(name):
    call = Call(name)
    assert call() == 0
    assert np.abs(call.given["weights"]).max() > 0
    np.testing.assert_array_equal(call.given["trace"][-1], call.given["weights"])


BAD_ARGUMENTS = {
    "weights of float32": {"weights": np.zeros(D, dtype=np.float32)},
    "too few weights": {"weights": np.zeros(D - 1)},
    "too many weights": {"weights": np.zeros(D + 1)},
    "weights in two dimensions": {"weights": np.zeros((1, D))},
    "weights that cannot be written": {"weights": np.frombuffer(bytes(8 * D))},
    "weights with gaps": {"weights": np.zeros(2 * D)[::2]},
    "foreign byte order": {"weights": np.zeros(D, dtype=">f8")},
    "clients of int32": {"clients": np.arange(N, dtype=np.int32)},
    "a negative client": {"clients": spoiled(np.arange(N), 3, -1)},
    "a client too many": {"clients": spoiled(np.arange(N), N - 1, N)},
    "a client far away": {"clients": spoiled(np.arange(N), 0, 2**62)},
    "fewer clients than rounds need": {"clients": np.arange(N - 1)},
    "ends that go back": {"ends": np.array([10, 5, N])},
    "negative ends": {"ends": np.array([-1, 5, N])},
    "ends beyond the clients": {"ends": np.array([10, 20, N + 1])},
    "too few signs": {"signs": np.ones((2, D), dtype=np.float32)},
    "signs of another dimension": {"signs": np.ones((3, D + 1), dtype=np.float32)},
    "no signs": {"signs": None},
    "sums of one slot": {"sums": np.zeros((1, 1), dtype=np.int64)},
    "sums of floats": {"sums": np.zeros((1, 16))},
    "too short a total": {"total": np.zeros(15)},
    "too few rows of reports": {"sent": np.zeros((N - 1, 2), dtype=np.int64)},
    "no rows of reports": {"sent": np.zeros((0, 2), dtype=np.int64)},
    "too narrow rows of reports": {"sent": np.zeros((N, 1), dtype=np.int64)},
    "too short a trace": {"trace": np.zeros((2, D))},
    "a residual of fewer clients": {"residual": np.zeros((N - 1, D), dtype=np.float32)},
    "a residual of another dimension": {"residual": np.zeros((N, D + 1), dtype=np.float32)},
    "no plan": {"plan": object()},
    "no records": {"records": object()},
    "a list": {"weights": [0.0] * D},
}


@pytest.mark.parametrize("what", BAD_ARGUMENTS)
def test_arrays_that_do_not_fit_are_refused(what):
    with pytest.raises((ValueError, TypeError, AttributeError, BufferError)):
        Call(**BAD_ARGUMENTS[what])()


BAD_RECORDS = {
    "another dimension": {"dense": np.zeros((N, D + 1), dtype=np.float32)},
    "fewer rows than labels": {"dense": np.zeros((N - 1, D), dtype=np.float32)},
    "doubles": {"dense": np.zeros((N, D))},
    "columns first": {"dense": np.zeros((D, N), dtype=np.float32).T},
    "no labels": {"labels": None},
    "nothing": {"dense": None},
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_records_that_do_not_fit_are_refused(what):
    with pytest.raises((ValueError, BufferError)):
        Call().spoil_records(**BAD_RECORDS[what])()


@pytest.mark.parametrize(
    "changes",
    [
        lambda r: {"indices": spoiled(r.indices, 5, D)},
        lambda r: {"indices": spoiled(r.indices, 5, -1)},
        lambda r: {"indices": spoiled(r.indices, -1, 2**31 - 1)},
        lambda r: {"indptr": spoiled(r.indptr, N, len(r.data) + 1)},
        lambda r: {"indptr": spoiled(r.indptr, 4, -1)},
        lambda r: {"indptr": spoiled(r.indptr, 4, 2**62)},
        lambda r: {"indptr": r.indptr[:-1].copy()},
        lambda r: {"data": r.data[:-1].copy()},
        lambda r: {"dim": D + 1},
    ],
)
def test_sparse_records_that_lie_are_refused(changes):
    call = Call(sparse=True)
    assert call() == 0
    with pytest.raises(ValueError, match=r"outside|entries|columns|records"):
        call.spoil_records(**changes(call.given["records"]))()


@pytest.mark.parametrize(
    "changes",
    [
        lambda r: {"order": spoiled(r.order, 5, N)},
        lambda r: {"order": spoiled(r.order, 5, -1)},
        lambda r: {"starts": spoiled(r.starts, 3, -2)},
        lambda r: {"starts": spoiled(r.starts, -1, N + 1)},
        lambda r: {"starts": spoiled(r.starts, 3, 2**62)},
        lambda r: {"starts": r.starts[:5].copy()},
        lambda r: {"order": None},
    ],
)
def test_clients_that_hold_no_such_records_are_refused(changes):
    call = Call(grouped=True)
    assert call() == 0
    with pytest.raises(ValueError, match=r"outside|starts"):
        call.spoil_records(**changes(call.given["records"]))()


BAD_TABLES = {
    "no slots": {"slots": 0},
    "slots no power of two": {"slots": 12},
    "fewer slots than dimensions": {"slots": 8},
    "too many slots": {"slots": 2**50},
    "another dimension": {"dim": 2**50},
    "no picks": {"picks": 0},
    "more picks than slots": {"picks": 17},
    "an unknown kind": {"kind": 9},
    "an unknown basis": {"basis": 7},
    "a matrix that is missing": {"basis": 2},
    "no clip": {"clip": 0.0},
    "a clip that is none": {"clip": float("nan")},
    "too many units": {"units": np.ones(2)},
    "no windows": {"windows": np.zeros((0, 5), dtype=np.int64)},
    "windows that overflow": {"windows": np.full((1, 5), 2**62, dtype=np.int64)},
    "windows without weights": {"windows": np.array([[1, 1, 1, 0, 0]])},
    "windows of another width": {"windows": np.ones((1, 4), dtype=np.int64)},
    "no law": {"sign": None},
    "numbers as words": {"dim": "nine"},
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_tables_that_are_no_solution_are_refused(what):
    tables = tables_of(solution("RJ", epsilon=2.0, dim=D))
    with pytest.raises((ValueError, TypeError, MemoryError)):
        native.plan(tables._replace(**BAD_TABLES[what]))


@pytest.mark.parametrize(
    "law",
    [
        Ranks(np.array([3, 1]), np.array([1, 3]), 0, True),  # of four ranks
        Ranks(np.array([3, 1]), np.array([1, D]), 0, True),
        Ranks(np.array([3, 1]), np.array([-1, D + 1]), 0, True),
        Ranks(np.array([-3, 1]), np.array([1, D - 1]), 0, True),
        Ranks(np.array([0, 0]), np.array([1, D - 1]), 0, True),
        Ranks(np.array([2**62, 1]), np.array([1, D - 1]), 0, False),
        Ranks(np.array([2**60, 1]), np.array([1, D - 1]), 0, True),
        Ranks(np.array([3, 1]), np.array([1, D - 1]), -1, True),
        Ranks(np.array([3, 1]), None, 0, True),
        Ranks(np.empty(0, dtype=np.int64), None, 0, True),
        Ranks(np.array([3.0, 1.0]), np.array([1, D - 1]), 0, True),
    ],
)
def test_laws_over_other_ranks_are_refused(law):
    vectors, clients = np.ones((1, D), dtype=np.float32), np.arange(5)
    with pytest.raises(ValueError, match=r"law|weights|counts"):
        native.draw_dimensions(law, vectors, KEY, 0, clients, np.empty(5, dtype=np.int64))


def test_single_draws_check_their_arrays():
    law, room = Symbols(np.array([[1, 1, 1, 1, 3]])), np.empty(5, dtype=np.int64)
    clients = np.arange(5)
    native.draw_symbols(law, np.zeros(5), KEY, 0, clients, room)
    for t in (np.full(5, 1.5), np.full(5, np.nan), np.zeros(4), np.zeros(5, dtype=np.float32)):
        with pytest.raises(ValueError, match="t"):
            native.draw_symbols(law, t, KEY, 0, clients, room)
    with pytest.raises(ValueError, match="symbols"):
        native.draw_symbols(law, np.zeros(5), KEY, 0, clients, room[:4].copy())
    with pytest.raises(ValueError, match="rate"):
        native.drop(np.ones(3, dtype=bool), float("nan"), KEY, 0)
    with pytest.raises(ValueError, match="power of two"):
        native.hadamard(np.zeros(12, dtype=np.float32))
    with pytest.raises(ValueError, match="rank"):
        native.magnitude_at(3, np.zeros(3, dtype=np.float32))


def vectors_call(parts, clients, **changes):
    made = solution("PS-PM", epsilon=2.0, dim=D, epochs=2)
    tables = tables_of(made)
    given = {
        "plan": native.plan(tables),
        "parts": parts,
        "factors": None,
        "clients": clients,
        "residual": None,
        "key": KEY,
        "epoch": 0,
        "signs": None,
        "sums": np.zeros((len(tables.units), tables.slots), dtype=np.int64),
        "total": np.zeros(tables.slots),
        "sent": np.zeros((1, 2), dtype=np.int64),
    }
    return native.send_vectors(*(given | changes).values())


def test_vectors_in_parts_are_checked():
    a, b = np.ones((4, 5), dtype=np.float32), np.ones((4, 4), dtype=np.float32)
    assert vectors_call([a, b], np.arange(4)) == 4
    assert vectors_call([a[:1], b[:1]], np.arange(7)) == 7  # one vector for all
    bad = [
        ([a], np.arange(4), {}),
        ([a, b, b], np.arange(4), {}),
        ([a, b[:3]], np.arange(4), {}),
        ([a, b], np.arange(3), {}),
        ([a[:2], b[:2]], np.arange(4), {}),
        ([a.astype(float), b], np.arange(4), {}),
        ([a, b], np.arange(4), {"factors": np.ones(D - 1, dtype=np.float32)}),
        ([a, b], np.array([0, 1, 2, -1]), {}),
        ([a, b], np.array([0, 1, 2, 9]), {"residual": np.zeros((9, D), dtype=np.float32)}),
        ([], np.arange(4), {}),
    ]
    for parts, clients, changes in bad:
        with pytest.raises(ValueError, match=r"parts|factors|outside|must"):
            vectors_call(parts, clients, **changes)
    with pytest.raises(TypeError):
        vectors_call(7, np.arange(4))


def test_outer_products_are_checked():
    left, right = np.ones((4, 2), dtype=np.float32), np.ones((4, 3), dtype=np.float32)
    rest, none = np.ones((4, 3), dtype=np.float32), np.ones((4, 0), dtype=np.float32)
    pair = (left, right)
    assert vectors_call([pair, rest], np.arange(4)) == 4
    assert vectors_call([rest, (right, left)], np.arange(4)) == 4
    assert vectors_call([(left[:1], right[:1]), rest[:1]], np.arange(7)) == 7
    assert vectors_call([pair, (none, right), (right, none), rest], np.arange(4)) == 4
    wide = np.ones((4, D), dtype=np.float32)
    bad = [
        [pair],
        [pair, pair],
        [pair, rest, rest],
        [pair, rest, (left, left)],
        [(wide, wide)],
        [(left, right[:3]), rest],
        [(left[:3], right[:3]), rest[:3]],
        [(left, right.astype(float)), rest],
        [(left[:, 0].copy(), right), rest],
        [(np.ones((0, 2**31), np.float32), np.ones((0, 2**33), np.float32))],
    ]
    for parts in bad:
        with pytest.raises(ValueError, match=r"parts|must"):
            vectors_call(parts, np.arange(4))
    for parts in ([(left,), rest], [(left, right, left), rest], [(left, None), rest]):
        with pytest.raises(TypeError):
            vectors_call(parts, np.arange(4))


def test_an_outer_product_that_is_not_finite_ends_the_call():
    left, right = np.ones((4, 3), dtype=np.float32), np.ones((4, 3), dtype=np.float32)
    left[2, 1], right[2, 1] = 1e20, 1e20  # finite, their product is not
    assert vectors_call([(left, right)], np.arange(4)) == 2
    left[2, 1], right[2, 1] = 0, np.inf
    assert vectors_call([(left, right)], np.arange(4)) == 2
    left[2, 1], right[2, 1] = 1e19, 1e19
    assert vectors_call([(left, right)], np.arange(4)) == 4


def test_a_vector_that_is_not_finite_ends_the_call_before_it_is_reported():
    rows = np.ones((4, D), dtype=np.float32)
    for wrong in (np.nan, np.inf, -np.inf):
        rows[2, 3] = wrong
        assert vectors_call([rows], np.arange(4)) == 2
    rows[2, 3] = 3e38  # its square is not finite, it is
    assert vectors_call([rows], np.arange(4)) == 4


def test_a_plan_serves_one_thread_at_a_time():
    """Its room is written to without the lock of the interpreter: a second call is refused."""
    X, y = data(200, 20_000)
    made = solution("RJ", epsilon=2.0, dim=200)
    tables = tables_of(made)
    plan, records, rounds = native.plan(tables), kernel_records(Population(X, y)), 50
    outcomes = []

    def work():
        arguments = (
            *(plan, records, 0, 0.0, 1.0, 0.1, 0.0, np.arange(20_000)),
            *(np.linspace(400, 20_000, rounds).astype(np.int64), np.zeros(200), None, KEY, 0),
            *(signs_of(made, 0, rounds), np.zeros((1, 256), dtype=np.int64), np.zeros(256)),
            *(np.zeros((1, 2), dtype=np.int64), None),
        )
        for _ in range(20):
            try:
                outcomes.append(native.run_rounds(*arguments))
            except RuntimeError as error:
                outcomes.append(str(error))
                time.sleep(0.001)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {0, "a plan serves one thread at a time"}
    assert outcomes.count(0) >= 1
