"""Certificates: they hold for what is private, fail for what is not, and count every epoch."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import pytest

from fedsel import (
    Feedback,
    InvalidArgument,
    Solution,
    TwoStage,
    certify,
    certify_by_enumeration,
)
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    Hybrid,
    Identity,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
    RankLaw,
    Selection,
    SymbolLaw,
    TopK,
    Uniform,
    Value,
    Window,
)

SELECTIONS = (
    Exponential(0.7),
    PerturbedSampling(0.7, k=1),
    PerturbedEncoding(0.7, k=1),
    Uniform(),
)
VALUES = (Duchi(1.1), Piecewise(1.1, grid=3), Hybrid(1.1, grid=2), OptimalWindow(2.2))
VECTORS = [(a, b) for a in (-2, Fraction(1, 3), 1) for b in (-1, 0, 3)]


def composed(mechanism, dim=2, epochs=1, momentum=0.0):
    """Algorithm 1 around a mechanism: what is not sent is kept."""
    feedback = Feedback(accumulate=True, momentum=momentum)
    return Solution("x", dim, mechanism, epochs, feedback=feedback)


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda m: m.name)
@pytest.mark.parametrize("value", VALUES, ids=lambda m: m.name)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_report_loses_epsilon_1_plus_epsilon_2_and_no_more(selection, value, momentum):
    made = composed(TwoStage(selection, value, clip=0.75), momentum=momentum)
    certificate = certify_by_enumeration(made, VECTORS)
    assert certificate.holds
    # The vectors reach both extremes, so the enumeration finds the very ratio of the certificate.
    assert certificate.ratio == certify(made).ratio == certify(made.mechanism, 2).ratio


@pytest.mark.parametrize("selection", SELECTIONS[:3], ids=lambda m: m.name)
@pytest.mark.parametrize("value", VALUES[:2], ids=lambda m: m.name)
def test_two_epochs_with_residual_and_momentum_compose_to_twice_epsilon(selection, value):
    made = composed(TwoStage(selection, value), epochs=2, momentum=0.5)
    vectors = [(a, b) for a in (-2, 1) for b in (-1, 3)]
    certificate = certify_by_enumeration(made, vectors)
    assert certificate.holds
    assert certificate.claimed == 2 * (Fraction(selection.claimed) + Fraction(value.claimed))
    assert certificate == certify_by_enumeration(made, vectors, epochs=2)
    one = certify_by_enumeration(made, vectors, epochs=1)
    assert certificate.exact > 1.5 * one.exact


def test_three_dimensions_with_ties():
    vectors = list(itertools.product((-1, 0, 1), repeat=3))
    for selection in SELECTIONS:
        made = composed(TwoStage(selection, Duchi(1.0)), dim=3)
        assert certify_by_enumeration(made, vectors).holds


def test_the_published_pe_fails_also_in_a_report():
    report = TwoStage(PublishedPerturbedEncoding(0.7, k=1), Duchi(1.1))
    assert not certify(report, 2).holds
    assert not certify_by_enumeration(composed(report), VECTORS).holds


def test_non_private_stages_make_a_report_non_private():
    for report in (TwoStage(TopK(), Duchi(1.0)), TwoStage(Uniform(), Identity())):
        assert report.claimed == math.inf
        assert certify(report, 3).exact == math.inf
        assert "not private" in str(certify(report, 3))
    made = composed(TwoStage(TopK(), Duchi(1.0)))
    assert certify_by_enumeration(made, VECTORS).ratio is None
    assert not made.private


@dataclass(frozen=True)
class GreedySelection(Selection):
    """Claims ε = 1 with a ratio a hair above e."""

    name: ClassVar[str] = "greedy"

    @property
    def claimed(self):
        return 1.0

    def build_law(self, d):
        return RankLaw([27182818284590453, 10**16], [1, d - 1])


@dataclass(frozen=True)
class GreedyValue(Value):
    """Claims ε = 1 with a ratio a hair above e."""

    name: ClassVar[str] = "greedy"

    @property
    def claimed(self):
        return 1.0

    def build_law(self):
        return SymbolLaw((Window(G=2, W=1, L=10**16, H=27182818284590453),))


def test_a_claim_that_fails_by_the_last_digit_fails():
    """27182818284590453/10^16 and e are the same float; the rationals tell them apart."""
    assert 27182818284590453 / 10**16 == math.e
    assert not certify(GreedySelection(), 5).holds
    assert not certify(GreedyValue()).holds
    assert "FAILS" in str(certify(GreedyValue()))


def test_what_claims_nothing_holds_nothing():
    assert not certify(TopK(), 3).holds
    assert not certify(Identity()).holds


def test_a_symbol_that_never_occurs_is_no_loss():
    """HM at a large ε almost never tosses Duchi's side; enumeration agrees with the formula."""
    report = TwoStage(Uniform(), Hybrid(60.0, grid=2))
    found = certify_by_enumeration(composed(report, dim=1), [(-1,), (1,)])
    assert found.ratio == certify(report, 1).ratio


def test_the_ratio_of_a_window_is_that_of_all_cells_and_symbols():
    for value in (Duchi(1.0), Piecewise(2.0, grid=20), Hybrid(3.0, grid=7), OptimalWindow(5.0)):
        ratios = []
        for w in value.law.windows:
            table = [w.weights(cell) for cell in range(w.G + 1)]
            columns = zip(*table, strict=True)
            ratios += [Fraction(int(max(c)), int(min(c))) for c in columns]
            assert {int(row.sum()) for row in table} == {w.total}
        assert max(ratios) == value.loss_ratio()


def test_enumeration_refuses_what_it_cannot_enumerate():
    with pytest.raises(InvalidArgument, match="of at most 65536 symbols"):
        certify_by_enumeration(composed(TwoStage(Uniform(), Identity()), dim=1), [(1,), (2,)])
    with pytest.raises(InvalidArgument, match=r"^solution = "):
        certify_by_enumeration(TwoStage(Uniform(), Duchi(1.0)), [(1,)])
    for wrong in ([], [(1.0,)], [(1.0, 2.0), (1.0,)]):
        with pytest.raises(InvalidArgument, match=r"^gradients = "):
            certify_by_enumeration(composed(TwoStage(Uniform(), Duchi(1.0))), wrong)


def test_a_failing_certificate_never_prints_its_claim_as_exact():
    from fedsel._internal.exact import exp_upper
    from fedsel.mechanisms import Certificate

    certificate = Certificate(Duchi(2.5), None, 2.5, exp_upper(2.5))
    assert not certificate.holds
    assert certificate.exact > 2.5


def test_epsilons_add_exactly():
    report = TwoStage(PerturbedSampling(0.1), Duchi(0.2))
    assert report.claimed == Fraction(0.1) + Fraction(0.2)
    assert report.label == "PS-Duchi"


@pytest.mark.parametrize("d", [0, -1, None, 2.5])
def test_certify_wants_a_dimension(d):
    with pytest.raises(InvalidArgument, match=r"^d = "):
        certify(PerturbedSampling(1.0), d)


def test_certify_wants_a_mechanism_or_a_solution():
    with pytest.raises(InvalidArgument, match=r"^target = 'PS'"):
        certify("PS", 3)
    with pytest.raises(InvalidArgument, match=r"^d = 3: must be left out, or the solution's own"):
        certify(composed(TwoStage(Uniform(), Duchi(1.0))), 3)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"clip": 0}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"selection": Duchi(1.0)}, "selection"),
        ({"value": Uniform()}, "value"),
    ],
)
def test_two_stages_refuse_impossible_parameters(arguments, name):
    given = {"selection": Uniform(), "value": Duchi(1.0), **arguments}
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        TwoStage(**given)


@pytest.mark.parametrize("momentum", [math.inf, math.nan, "0.5", None])
def test_feedback_refuses_an_impossible_momentum(momentum):
    with pytest.raises(InvalidArgument, match=r"^momentum = "):
        Feedback(accumulate=True, momentum=momentum)
