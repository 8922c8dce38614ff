"""The numpy executor draws what a device draws from the same words, and what the kernels draw."""

import numpy as np
import pytest

from fedsel import InvalidArgument, InvalidData, Solution, solution
from fedsel._internal.random import Streams, philox_key, stream
from fedsel.mechanisms import (
    Duchi,
    FlatPicks,
    FullGradient,
    Hybrid,
    Identity,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    RankLaw,
    SignedSampling,
    SymbolLaw,
    TopK,
    TwoStage,
    UnbiasedJoint,
    Unperturbed,
    Window,
)
from fedsel.mechanisms._drawing import draw_dimension, draw_symbol
from fedsel.mechanisms._laws import INPUT_STEPS
from fedsel.mechanisms._one_symbol import MINUS, PLUS, UNIT, keep_steps
from fedsel.sampling import _batch as batch
from fedsel.sampling import simulated
from fedsel.sampling._kernels import native, ranks_of, symbols_of
from fedsel.solutions import Rotated

N, EPOCH, SEED = 40, 3, 11
CLIENTS = np.random.default_rng(2).permutation(1000)[:N].astype(np.int64)


def rows_of(d, seed=0):
    """Half of them with many ties, some of zeros alone."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, d))
    rows[::2] = rng.integers(-2, 3, (len(rows[::2]), d))
    rows[::9] = 0
    return rows.astype(np.float32)


def streams(*purpose):
    return Streams(SEED, EPOCH, CLIENTS, *purpose)


@pytest.mark.parametrize(
    ("weights", "counts", "bottom"),
    [
        ([5, 2], [1, 4], 0),
        ([5, 2], [2, 3], 4),
        ([9, 6, 5, 3, 1], [1] * 5, 0),
        ([9, 6, 5, 3, 1], [1] * 5, 7),
        ([3], [5], 0),
        ([3], [5], 5),
        ([90, 1], [1, 4], 0),
        ([90, 0], [2, 3], 30),
        ([1, 0], [3, 2], 0),
    ],
)
@pytest.mark.parametrize("by_rejection", [True, False])
def test_dimensions(weights, counts, bottom, by_rejection):
    law, rows = RankLaw(weights, counts, bottom), rows_of(5)
    object.__setattr__(law, "by_rejection", by_rejection)
    expected = [
        draw_dimension(law, np.abs(row), stream(SEED, EPOCH, client))
        for row, client in zip(rows, CLIENTS.tolist(), strict=True)
    ]
    assert batch.draw_dimensions(law, np.abs(rows), streams()).tolist() == expected
    drawn = np.empty(N, dtype=np.int64)
    native.draw_dimensions(ranks_of(law), rows, philox_key(SEED), EPOCH, CLIENTS, drawn)
    assert drawn.tolist() == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize(
    "law",
    [
        SymbolLaw((Window(1, 1, 1, 3),)),
        SymbolLaw((Window(7, 2, 1, 5),)),
        SymbolLaw((Window(4, 3, 2, 3), Window(1, 1, 1, 2), Window(2, 1, 0, 4)), coins=(2, 3, 1)),
        SymbolLaw((Window(8, 1, 0, 1),)),
    ],
)
def test_symbols(law):
    t = np.linspace(-1, 1, N)
    expected = [
        draw_symbol(law, float(x), stream(SEED, EPOCH, client))
        for x, client in zip(t, CLIENTS.tolist(), strict=True)
    ]
    assert batch.draw_symbols(law, t, streams(), np.arange(N)).tolist() == expected
    drawn = np.empty(N, dtype=np.int64)
    native.draw_symbols(symbols_of(law), t, philox_key(SEED), EPOCH, CLIENTS, drawn)
    assert drawn.tolist() == expected


def test_symbols_of_some_are_drawn_from_their_own_streams():
    law, t = SymbolLaw((Window(7, 2, 1, 5),)), np.linspace(-1, 1, 3)
    rows = np.array([5, 0, 30])
    expected = [
        draw_symbol(law, float(x), stream(SEED, EPOCH, int(CLIENTS[row])))
        for x, row in zip(t, rows, strict=True)
    ]
    assert batch.draw_symbols(law, t, streams(), rows).tolist() == expected


MECHANISMS = [
    TwoStage(PerturbedSampling(0.5, k=2), Duchi(1.0)),
    TwoStage(PerturbedEncoding(0.7, k=1), Piecewise(1.3), clip=0.8),
    TwoStage(PerturbedEncoding(9.0, k=1), Hybrid(1.3), clip=3.0),
    TwoStage(TopK(k=2), Identity(), clip=2.0),
    FlatPicks(Piecewise(1.0), picks=1),
    FlatPicks(Hybrid(0.5), picks=3, clip=0.5),
    FlatPicks(Duchi(0.5), picks=6, clip=4.0),
    SignedSampling(2.0, k=2),
    SignedSampling(2.0, k=1, radius=1.5),
    SignedSampling(0.1, k=3, radius=40.0),
    UnbiasedJoint(2.0, k=2),
    UnbiasedJoint(3.0, k=1, clip=1.7),
    UnbiasedJoint(3.0, k=6, clip=0.4),
    UnbiasedJoint(1e-12, k=1),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_reports(mechanism):
    made, rows = simulated.as_solution(mechanism, 6), rows_of(6, seed=1)
    same_reports(made, rows)


@pytest.mark.parametrize("name", ["PS-PM", "PM", "RJ", "UJ", "J", "RC", "PM-RP", "PE-HM-C"])
def test_reports_of_solutions(name):
    made = solution(name, epsilon=3.0, dim=7, k=2, clip=0.7, rho=None, words=16, seed=4)
    same_reports(made, rows_of(7, seed=2))


@pytest.mark.parametrize(("bases", "rotations"), [(4, 1), (2, 1), (1, 2), (3, 4)])
def test_reports_of_several_bases(bases, rotations):
    rotated = Rotated(6, bases=bases, rotations=rotations, seed=2)
    made = Solution("several", 6, SignedSampling(2.0, k=1, radius=3.0), transform=rotated)
    same_reports(made, rows_of(6, seed=3))


def same_reports(made, rows):
    nothing = np.zeros(made.dim, dtype=np.float32)
    who = simulated.Cohort(SEED, CLIENTS, EPOCH)
    expected = [
        made.encode(row, nothing, stream(SEED, EPOCH, client))[0].pairs()[0]
        for row, client in zip(rows, CLIENTS.tolist(), strict=True)
    ]
    for executor in ("kernel", "batch"):
        assert simulated.report(made, rows, who, executor).pairs() == expected, executor
        one = simulated.report(made, rows[:1], who, executor)
        many = simulated.report(made, np.repeat(rows[:1], N, axis=0), who, executor)
        assert one == many


def test_numbers_as_they_are_have_no_symbols():
    rows = batch.Rows(np.ones((N, 3)), np.ones((N, 3)), [1.0] * N)
    for mechanism in (TwoStage(TopK(), Unperturbed()), FlatPicks(Unperturbed())):
        with pytest.raises(InvalidArgument, match=r"^value = .*numbers have no law"):
            batch.draw_reports(mechanism, rows, streams())
        for executor in ("kernel", "batch"):
            who = simulated.cohort(2, seed=0)
            with pytest.raises(InvalidArgument, match=r"^target = .*numbers are no symbols"):
                simulated.report(mechanism, [[1.0, 2.0]], who, executor)
    with pytest.raises(InvalidArgument, match=r"^mechanism = .*one that executor="):
        batch.draw_reports(FullGradient(), rows, streams())


@pytest.mark.parametrize("columns", [6, 8])
def test_vectors_of_another_size_are_refused(columns):
    made = solution("PS-PM", epsilon=3.0, dim=7)
    for executor in ("kernel", "batch"):
        with pytest.raises(InvalidData, match=r"^vectors: must have 7 columns"):
            simulated.report(made, np.ones((2, columns)), simulated.cohort(2, seed=0), executor)


class Given:
    """Words that are known: the same ones for all rows."""

    def __init__(self, *words):
        self.words = list(words)

    def below(self, n, rows=None):
        word = self.words.pop(0)
        assert np.all(np.asarray(n) > word)
        return word if rows is None else np.full(len(rows), word)


def test_a_word_equal_to_a_bound_is_beyond_it():
    """Where it decides, which a seed meets once in 2^30 words."""
    law, one = SymbolLaw((Window(3, 1, 1, 4),)), np.arange(1)
    remainder = int(INPUT_STEPS * 3 * 3 // 4 % INPUT_STEPS)  # of t = ½, three quarters of the way
    for word in (remainder - 1, remainder):
        words = (word, law.windows[0].total - 1)
        drawn = batch.draw_symbols(law, np.array([0.5]), Given(*words), one)
        assert drawn.tolist() == [draw_symbol(law, 0.5, Given(*words))]
    row = np.array([[3.0, 0.0, 4.0]])
    rows = batch.Rows(row, row, [5.0])
    kept, steps = SignedSampling(0.5, k=1, radius=8.0), keep_steps(5.0, 8.0)
    most = kept.law(3).maximum
    assert kept.law(3).by_rejection
    largest = (3 * most - 1, 0, 6 * most - 1, 0)  # +4, unless it was negated; then −4
    words = [Given(w, *largest) for w in (steps - 1, steps)]
    found = [batch.draw_reports(kept, rows, given).pairs() for given in words]
    assert found == [[((2, PLUS),)], [((2, MINUS),)]]
    joint = UnbiasedJoint(2.0, k=3, clip=4.0)
    first = 6 * joint.weights(3)[0] * UNIT
    for word, expected in ((first - 1, (2, MINUS)), (first, (0, PLUS))):
        assert batch.draw_reports(joint, rows, Given(word)).pairs() == [(expected,)]


def test_entries_below_zero_are_no_better_than_zero():
    """A signed vector with fewer entries than k: what is left is drawn among all others alike."""
    rows = np.zeros((N, 4), dtype=np.float32)
    rows[:, 1] = -0.5
    same_reports(simulated.as_solution(SignedSampling(6.0, k=4), 4), rows)
