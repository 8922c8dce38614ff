"""Certificates: they hold for what is private, fail for what is not, and count every epoch."""

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
    Hybrid,
    Identity,
    OptimalWindow,
    PerturbedSampling,
    Piecewise,
    RankLaw,
    Selection,
    SymbolLaw,
    TopK,
    Uniform,
    Value,
    Window,
)


def composed(mechanism, dim=2, epochs=1, momentum=0.0):
    """Algorithm 1 around a mechanism: what is not sent is kept."""
    feedback = Feedback(accumulate=True, momentum=momentum)
    return Solution("x", dim, mechanism, epochs, feedback=feedback)


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
    with pytest.raises(InvalidArgument, match=r"^d = 3: must be omitted, or"):
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
