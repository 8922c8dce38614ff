"""The device executor, proved by exhaustive enumeration of its draws, and on hostile input."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Feedback, InvalidArgument, InvalidData, Solution, TwoStage, exact_law
from fedsel.checks import assert_follows
from fedsel.mechanisms import (
    BOTTOM,
    Duchi,
    Exponential,
    Identity,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    RankLaw,
    SymbolLaw,
    TopK,
    Window,
)
from fedsel.mechanisms._drawing import draw_dimension, draw_symbol, sharing_rank
from fedsel.sampling import device

VECTORS = ([3.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [0.0, 2.0, -2.0])


def as_dict(law: RankLaw, vector: list[float]) -> dict[int, Fraction]:
    expected = dict(enumerate(law.over(vector))) | {BOTTOM: law.bottom_probability}
    return {j: p for j, p in expected.items() if p}


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(
    ("weights", "counts"), [([5, 2], [1, 2]), ([4, 3, 1], [1, 1, 1]), ([2, 1], [2, 1]), ([1], [3])]
)
@pytest.mark.parametrize("bottom", [0, 3])
def test_rejection_has_exactly_the_law(vector, weights, counts, bottom):
    law = RankLaw(weights, counts, bottom)
    assert law.by_rejection
    magnitudes = np.abs(vector)
    sampled = exact_law(lambda e: draw_dimension(law, magnitudes, e), loops=[draw_dimension])
    assert sampled == as_dict(law, vector)


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(("weights", "counts"), [([40, 1], [1, 2]), ([9, 0], [1, 2]), ([1], [3])])
@pytest.mark.parametrize("bottom", [0, 3])
def test_drawing_by_rank_has_exactly_the_law(vector, weights, counts, bottom):
    law = RankLaw(weights, counts, bottom)
    object.__setattr__(law, "by_rejection", False)
    magnitudes = np.abs(vector)
    sampled = exact_law(lambda e: draw_dimension(law, magnitudes, e))
    assert sampled == as_dict(law, vector)


@pytest.mark.parametrize(
    "law",
    [
        SymbolLaw((Window(1, 1, 1, 3),)),
        SymbolLaw((Window(4, 2, 1, 5),)),
        SymbolLaw((Window(4, 3, 2, 3), Window(1, 1, 1, 2)), coins=(2, 3)),
        SymbolLaw((Window(8, 1, 0, 1),)),
    ],
)
def test_symbols_have_exactly_the_law(law):
    for step in range(9):
        t = Fraction(step, 4) - 1
        sampled = exact_law(lambda e, t=t: draw_symbol(law, float(t), e))
        expected = {s: p for s, p in enumerate(law.probabilities(t)) if p}
        assert sampled == expected


@pytest.mark.slow
def test_wire_follows_the_law_with_system_entropy():
    mechanism = TwoStage(PerturbedEncoding(0.8, k=1), Piecewise(1.2, grid=4))
    vector = [Fraction(1, 4), Fraction(-3, 4), Fraction(1, 4)]
    row = [float(x) for x in vector]
    law = mechanism.report_law(vector)
    number = {pairs: i for i, pairs in enumerate(law)}
    codes = np.array([number[device.report(mechanism, row).pairs()[0]] for _ in range(30_000)])
    assert_follows(codes, {number[pairs]: float(p) for pairs, p in law.items()}, "device")


def accumulating(mechanism, dim, momentum=0.0):
    """Algorithm 1: `encode` is the one way in which a device keeps what it did not send."""
    return Solution("x", dim, mechanism, 2, feedback=Feedback(True, momentum))


def test_residual_is_kept_and_the_reported_entry_zeroed():
    made = accumulating(TwoStage(TopK(), Identity(), clip=10.0), 3, momentum=0.5)
    said, kept = made.encode([0.5, 2.0, -1.0], [1.0, 2.0, 0.0])
    assert said.slot.tolist() == [1]
    assert Identity().decode(said.symbol)[0] * 10 == pytest.approx(5.0, abs=1e-7)
    assert made.decode(said) == pytest.approx([0.0, 5.0, 0.0], abs=1e-7)
    np.testing.assert_array_equal(kept, [1.5, 0.0, -1.0])


def test_a_sum_that_overflows_is_no_error():
    """Whether a client answers must not depend on its data, as long as it is finite."""
    for momentum in (0.0, 0.9):
        made = accumulating(TwoStage(TopK(), Duchi(1.0)), 2, momentum)
        said, kept = made.encode([1.7e308, 1.0], [1.7e308, 1.0])
        assert said.slot.tolist() == [0]
        assert np.isfinite(kept).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_who_shares_a_rank_by_their_bytes(dtype):
    values = np.array([0.0, 5e-324, 1.0, 1.0, 3.5, np.finfo(dtype).max, 1e-30], dtype=dtype)
    for rank, expected in enumerate(np.sort(values)[::-1]):
        np.testing.assert_array_equal(sharing_rank(rank, values), values == expected)
    many = np.abs(np.random.default_rng(0).normal(size=2000)).astype(dtype)
    for rank in (0, 5, 999, 1999):
        np.testing.assert_array_equal(sharing_rank(rank, many), many == np.sort(many)[::-1][rank])


def test_abstaining_keeps_the_whole_residual():
    class Always:
        def below(self, n):
            return n - 1  # ⊥ is decided by the last of the positions

    made = accumulating(TwoStage(PerturbedEncoding(0.8, k=1), Duchi(1.0)), 2)
    said, kept = made.encode([1.0, 1.0], [1.0, 2.0], Always())
    assert (said.slot.tolist(), said.symbol.tolist()) == ([BOTTOM], [0])
    np.testing.assert_array_equal(kept, [2.0, 3.0])


def test_the_value_is_clipped_after_the_momentum():
    made = accumulating(TwoStage(TopK(), Identity(), clip=1.0), 1, momentum=10.0)
    said, _ = made.encode([0.1], [0.5])
    assert Identity().decode(said.symbol)[0] == 1.0


SECRET = 123.456


@pytest.mark.parametrize(
    "vector",
    [
        [SECRET, math.nan],
        [SECRET, math.inf],
        [[SECRET, 1.0]],
        [],
        SECRET,
        ["123.456"],
        [SECRET, None],
        [SECRET + 1j],
        [[1.0], [SECRET, 2.0]],
        None,
        np.ma.array([SECRET, 2.0], mask=[True, False]),
        type("Talkative", (), {"__array__": lambda self, *a, **k: 1 / 0, "x": SECRET})(),
    ],
)
def test_bad_vectors_are_refused_without_a_word_about_the_data(vector):
    with pytest.raises(InvalidData) as error:
        device.select(PerturbedSampling(1.0), vector)
    assert "123" not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__context__ is None


def test_bad_residuals_and_values_are_refused_without_a_word_about_the_data():
    made = accumulating(TwoStage(PerturbedSampling(1.0), Duchi(1.0)), 2)
    for gradient, residual in (([1.0, 2.0], [SECRET]), ([SECRET], [1.0, 2.0])):
        with pytest.raises(InvalidData, match=r"^gradient, residual: must have 2 entries each$"):
            made.encode(gradient, residual)
    for t in (1.01, -1.01, -SECRET, math.nan):
        with pytest.raises(InvalidData, match=r"must lie in \[−1, 1\]$"):
            device.perturb(Duchi(1.0), t)
    for t in ("0.3", None, [0.3], 1j, np.ones(3)):
        with pytest.raises(InvalidData, match=r"^t: must be a real number$"):
            device.perturb(Duchi(1.0), t)


def test_the_wrong_kind_of_mechanism_is_named():
    pair = TwoStage(PerturbedSampling(1.0), Duchi(1.0))
    for call, name in (
        (lambda: device.select(pair, [1.0]), "selection"),
        (lambda: device.perturb(pair, 0.0), "value"),
        (lambda: device.report(Duchi(1.0), [1.0]), "mechanism"),
        (lambda: accumulating(Duchi(1.0), 1), "mechanism"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{name} = "):
            call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, bool])
def test_any_real_dtype_will_do(dtype):
    vector = np.array([0, 1, 0], dtype=dtype)
    assert device.select(TopK(), vector) == 1
    assert device.select(TopK(), vector[::-1]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "selection", [Exponential(1.0), PerturbedSampling(1.0), PerturbedEncoding(50.0)]
)
def test_ten_million_dimensions(selection):
    vector = np.zeros(10_000_000, dtype=np.float32)
    vector[7] = -1
    assert 0 <= device.select(selection, vector) < len(vector)


@pytest.mark.parametrize("tiny", [5e-324, 1e-45, 1.7e308])
def test_extreme_magnitudes_still_rank(tiny):
    assert device.select(TopK(), [0.0, -tiny, 0.0]) == 1


def test_one_dimension():
    for selection in (Exponential(1.0), PerturbedSampling(1.0, k=1), TopK()):
        assert device.select(selection, [5.0]) == 0


class AtMost:
    """Entropy that counts the attempts of a rejection and ends after two."""

    def __init__(self, entropy, size):
        self.entropy, self.size, self.attempts = entropy, size, 0

    def below(self, n):
        self.attempts += n == self.size
        if self.attempts > 2:
            raise StopIteration
        return self.entropy.below(n)


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(("weights", "counts"), [([5, 2], [1, 2]), ([4, 3, 1], [1, 1, 1])])
def test_the_number_of_attempts_tells_neither_of_the_vector_nor_of_the_report(
    vector, weights, counts
):
    """An attempt is accepted with total/(d · maximum), whatever is accepted in the end."""
    law = RankLaw(weights, counts)
    magnitudes = np.abs(vector)

    def program(entropy):
        counting = AtMost(entropy, law.d * law.maximum)
        try:
            chosen = draw_dimension(law, magnitudes, counting)
        except StopIteration:
            return BOTTOM, 3
        return chosen, counting.attempts

    accepted = Fraction(law.total, law.d * law.maximum)
    expected = {
        (j, attempt): p * accepted * (1 - accepted) ** (attempt - 1)
        for j, p in enumerate(law.over(vector))
        for attempt in (1, 2)
    }
    expected[BOTTOM, 3] = (1 - accepted) ** 2
    assert exact_law(program) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_negative_zero_ranks_as_zero(dtype):
    """By its bits it would be larger than every magnitude."""
    values = np.array([1.0, -0.0, 0.0, 2.0], dtype=dtype)
    assert [sharing_rank(rank, values).tolist() for rank in (0, 1, 2, 3)] == [
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 1, 1, 0],
    ]
