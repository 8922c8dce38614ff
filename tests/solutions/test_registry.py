"""Solutions by name: unbiasedness, residuals, and what is refused by name."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import (
    Feedback,
    InvalidArgument,
    InvalidData,
    Projection,
    Recipe,
    Reports,
    Rotated,
    Solution,
    TwoStage,
    certify,
    solution,
)
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.mechanisms import BOTTOM, Duchi, FlatPicks, FullGradient, Piecewise, TopK
from fedsel.solutions import names, register, unregister
from fedsel.solutions._baselines import PrivUnit
from fedsel.solutions._privacy import Budget, hyper_parameters_free
from fedsel.solutions._transforms import default_codewords
from tests.sampling.support import many_reports


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 2.0, 7.7])
@pytest.mark.parametrize("mu", [0.0, 0.1, 0.37])
def test_a_budget_adds_up_exactly(epsilon, mu):
    budget = Budget(epsilon, epochs=3, mu=mu)
    assert 3 * (budget.selection + budget.value) == Fraction(epsilon)
    assert budget.selection == Fraction(repr(mu)) * budget.per_epoch


@pytest.mark.parametrize(
    ("d", "records", "bound"),
    [
        (32, 45_211, 0.495),
        (100, 60_000, 0.876),
        (114, 70_000, 0.878),
        (123, 48_842, 1.101),
        (300, 100_000, 1.308),
    ],
)
def test_hyper_parameters_free_begins_at_the_known_bounds(d, records, bound):
    n = round(0.01 * records)
    assert hyper_parameters_free(d, n, bound * 0.99) == 0
    assert hyper_parameters_free(d, n, bound * 1.01) > 0
    assert hyper_parameters_free(d, n, 100.0) == 0.2
    assert hyper_parameters_free(d, n, 100.0, theta=0.5) == 0.5


@pytest.mark.parametrize("name", ["PM", "HM", "Duchi", "OW"])
@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_flat_means_are_unbiased_with_the_variance_of_theory(name, epsilon):
    gradient = np.array([0.8, -0.25, 0.0])
    made = solution(name, epsilon=epsilon, dim=3)
    n, mechanism = 20_000, made.mechanism
    values, reports = np.zeros((n, 3)), many_reports(made, gradient, n)
    told = mechanism.unit(3) * mechanism.value.decode(reports.symbol)
    values[np.arange(n)[:, None], reports.slot] = told
    share = 3 / mechanism.picks
    for j, t in enumerate(gradient):
        variance = share * (mechanism.value.variance(t) + t**2) - t**2
        assert abs(values[:, j].mean() - t) < 6.2 * math.sqrt(variance / n)
        assert values[:, j].var() == pytest.approx(variance, rel=0.15)
    np.testing.assert_allclose(
        made.decode(reports.rows(np.arange(50))), values[:50].mean(axis=0), atol=1e-12
    )


def test_projected_means_are_those_of_the_recovered_projection():
    made = solution("Duchi-RP", epsilon=3.0, dim=10, ratio=0.3, clip=4.0)
    gradient = np.linspace(-1, 1, 10)
    projection, mechanism = made.transform, made.mechanism
    assert projection.size == 3
    target = (projection.matrix @ gradient) @ projection.recovery
    n = 20_000
    mean = made.decode(many_reports(made, gradient, n))
    largest = projection.size * mechanism.clip * mechanism.value.bound
    spread = largest * np.abs(projection.recovery).sum(axis=0)
    assert (np.abs(mean - target) < 6.2 * spread / math.sqrt(n)).all()
    assert projection.matrix.var() == pytest.approx(1 / 3, rel=0.5)


def test_two_stages_send_what_the_law_says():
    made = solution("PS-Duchi", epsilon=4.0, dim=3, mu=0.5, k=1)
    gradient = np.array([0.5, -0.9, 0.1])
    n = 20_000
    law = made.mechanism.selection.law(3)
    expected = np.array([float(p) for p in law.over(gradient.tolist())]) * gradient
    mean = made.decode(many_reports(made, gradient, n))
    assert (np.abs(mean - expected) < 6.2 * made.mechanism.value.bound / math.sqrt(n)).all()


@pytest.mark.parametrize("name", ["PM", "NP-RS", "PM-RP", "NP"])
def test_who_does_not_accumulate_keeps_its_residual(name):
    made = solution(name, epsilon=2.0, dim=4, epochs=2)
    assert not made.accumulates
    _, kept = made.encode(np.ones(4), np.full(4, 7.0))
    np.testing.assert_array_equal(kept, np.full(4, 7.0))


def test_who_accumulates_zeroes_what_it_sends():
    made = solution("NP-K", dim=3, epochs=2)
    said, kept = made.encode(np.array([1.0, -5.0, 2.0]), np.array([1.0, -1.0, 0.0]))
    assert said.pairs() == [((1, -6.0),)]
    np.testing.assert_array_equal(kept, [2.0, 0.0, 2.0])


def test_abstaining_sends_nothing_and_keeps_everything():
    class Last:
        def below(self, n):
            return n - 1

    made = solution("PE-PM", epsilon=1.0, dim=2, k=1)
    said, kept = made.encode(np.array([1.0, 2.0]), np.zeros(2), Last())
    assert said.pairs() == [()]
    assert said == Reports([BOTTOM], [0])
    np.testing.assert_array_equal(kept, [1.0, 2.0])
    other = Reports([0], [0])
    mean = made.decode(Reports.of([said, other]))
    np.testing.assert_array_equal(mean, made.decode(other) / 2)  # who abstains counts
    np.testing.assert_array_equal(mean[1:], [0.0])
    assert BOTTOM == -1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "PS-PN"}, "name = 'PS-PN': must be a known solution, such as PS-"),
        ({"name": 3}, "name = 3"),
        ({"epsilon": None}, "epsilon = None: must be a number > 0: PS-PM"),
        ({"epsilon": math.nan}, "epsilon = nan"),
        ({"epsilon": 0}, "epsilon = 0"),
        ({"dim": 0}, "dim = 0"),
        ({"dim": (1 << 32) + 1}, "dim = 4294967297"),
        ({"epochs": 0}, "epochs = 0"),
        ({"mu": 1.0}, r"mu = 1.0: must be in \[0, 1\)"),
        ({"k": 0}, "k = 0"),
        ({"clip": -1}, "clip = -1"),
        ({"momentum": math.inf}, "momentum = inf"),
        ({"name": "PM-RP", "ratio": 0}, r"ratio = 0: must be in \(0, 1\]"),
    ],
)
def test_impossible_parameters_are_refused_by_name(arguments, complaint):
    given = {"name": "PS-PM", "epsilon": 2.0, "dim": 10, **arguments}
    with pytest.raises(InvalidArgument, match=complaint):
        solution(given.pop("name"), **given)


def test_many_picks_need_the_uniform_selection_and_as_many_slots():
    with pytest.raises(TypeError, match="picks"):
        TwoStage(TopK(), Duchi(1.0), picks=2)
    many = FlatPicks(Duchi(1.0), picks=6)
    with pytest.raises(InvalidArgument, match=r"picks = 6: must be at most 5"):
        Solution("x", 5, many)
    with pytest.raises(InvalidArgument, match=r"picks = 6: must be at most 3"):
        Solution("x", 10, many, transform=Projection(10, ratio=0.3))
    with pytest.raises(InvalidArgument, match="picks = 6: must be at most d = 5"):
        certify(many, 5)
    for wrong in (0, 1.5, True):
        with pytest.raises(InvalidArgument, match="picks = "):
            FlatPicks(Duchi(1.0), picks=wrong)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mechanism": FullGradient(), "transform": Rotated(4)}, "transform = .*must be Coord"),
        (
            {"mechanism": FullGradient(), "feedback": Feedback(True)},
            "feedback = .*must be Feedback\\(\\)",
        ),
        ({"transform": Rotated(5)}, "transform = .*of dim = 4"),
        ({"transform": Rotated(3)}, "transform = .*of dim = 4"),
        ({"mechanism": PrivUnit(Fraction(1), 3, 1.0)}, "mechanism = .*of dim = 4"),
        ({"mechanism": PrivUnit(Fraction(1), 5, 1.0)}, "mechanism = .*of dim = 4"),
        ({"transform": "rotated"}, "transform = 'rotated'"),
        ({"feedback": 0.5}, "feedback = 0.5"),
        ({"mechanism": Duchi(1.0)}, "mechanism = "),
        ({"mechanism": None}, "mechanism = None"),
        ({"dim": 0}, "dim = 0"),
        ({"dim": (1 << 32) + 1}, "dim = 4294967297"),
        ({"epochs": 0}, "epochs = 0"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(changes, complaint):
    given = {"name": "x", "dim": 4, "mechanism": FlatPicks(Duchi(1.0)), **changes}
    with pytest.raises(InvalidArgument, match=complaint):
        Solution(**given)


@pytest.mark.parametrize("name", ["PS-PM", "PM", "PM-RP", "NP-K"])
@pytest.mark.parametrize("bad", [[1234.5, math.nan, 0], [1234.5], [math.inf, 1234.5, 0]])
def test_bad_gradients_are_refused_without_a_word_about_the_data(name, bad):
    made = solution(name, epsilon=2.0, dim=3)
    with pytest.raises(InvalidData) as error:
        made.encode(np.array(bad), np.zeros(3))
    assert "1234" not in str(error.value)


@pytest.mark.parametrize("name", ["PS-HM", "PM", "RJ"])
def test_decoding_takes_only_symbols_that_exist(name):
    made = solution(name, epsilon=4.0, dim=3)
    says = made.alphabet
    for wrong in (-1, says.symbols, 10**12):
        for reports in (Reports([0], [wrong]), Reports([[0], [1]], [[0], [wrong]])):
            with pytest.raises(InvalidArgument, match=r"symbols = .*must be integers in 0 … "):
                made.decode(reports)
    # All symbols, one by one, lie within the bound and reach it.
    each = [made.alphabet.steps(np.array([s])) for s in range(says.symbols)]
    sizes = [abs(int(step[0])) * says.units[window[0]] for window, step in each]
    assert max(sizes) == pytest.approx(says.bound, rel=1e-12)


def test_the_codewords_that_no_message_carries():
    found = [default_codewords(dim) for dim in (1, 2, 3, 128, 129, 1023, 1024, 10**6)]
    assert found == [8, 16, 32, 1024, 2048, 8192, 8192, 8192]


def own(parameters):
    budget = parameters.budget
    return Solution(
        "Mine", parameters.dim, FlatPicks(Duchi(budget.per_epoch)), parameters.epochs,
        budget=budget.per_epoch,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["", "x" * 25, "Müller", "RJ", "rj", "ps-PM-c", "mine", "MINE", None, 7, b"Yours"]
)
def test_names_that_are_none_or_taken(name):
    register("Mine", own)
    try:
        with pytest.raises(InvalidArgument, match=r"^name = "):
            register(name, own)
    finally:
        unregister("Mine")
    assert name not in names() or name in ("RJ",)


@pytest.mark.parametrize("name", ["x", "x" * 24])
def test_the_shortest_and_the_longest_name(name):
    register(name, own)
    try:
        assert name in names()
        with pytest.raises(InvalidArgument, match=r"^compose = "):  # it calls itself Mine
            solution(name, epsilon=1.0, dim=3)
    finally:
        unregister(name)
    assert name not in names()


def test_what_is_registered_must_compose_what_was_asked_for():
    with pytest.raises(InvalidArgument, match=r"^compose = 7: must be a function"):
        register("Mine", 7)
    with pytest.raises(InvalidArgument, match=r"^name = 'Mine': must be a name that you"):
        unregister("Mine")
    register("Mine", own)
    try:
        assert solution("mine", epsilon=2.0, dim=3, epochs=4).privacy.charge == Fraction(1, 2)
        with pytest.raises(InvalidArgument, match=r"^epsilon = None: must be a number > 0: Mine"):
            solution("Mine", dim=3)
    finally:
        unregister("Mine")
    for changed in ({"dim": 4}, {"dim": 2}, {"epochs": 3}):
        register("Mine", lambda p, changed=changed: own(replace(p, **changed)))
        try:
            with pytest.raises(
                InvalidArgument, match=r"^compose = .*must be Mine with dim = 3 and"
            ):
                solution("Mine", epsilon=1.0, dim=3)
        finally:
            unregister("Mine")


def test_a_name_that_is_given_anew_means_the_new_composition():
    """The same recipe again: neither its solution nor what is automatic is the old one's."""
    setting = PublicFacts(dim=3, clients=100, rounds=2)
    compositions = [own, lambda p: replace(own(p), mechanism=FlatPicks(Piecewise(1.0)))]
    made, rates = [], []
    for compose in compositions:
        register("Mine", compose)
        try:
            recipe = Recipe("Mine", epsilon=1.0, dim=3)
            made.append(recipe.build())
            assert recipe.build() is made[-1]
            rates.append(resolve_auto(recipe, setting).learning_rate)
        finally:
            unregister("Mine")
        with pytest.raises(InvalidArgument, match=r"^name = 'Mine': must be a known solution"):
            recipe.build()
    assert [type(one.mechanism.value) for one in made] == [Duchi, Piecewise]
    assert rates[0] != rates[1]
