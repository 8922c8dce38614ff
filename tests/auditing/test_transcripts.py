"""Certificates by enumeration of all transcripts: exact, over epochs; too many are refused."""

import itertools
import math
from fractions import Fraction

import pytest

from fedsel import (
    InvalidArgument,
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
    TopK,
    Uniform,
)
from tests.mechanisms.test_certificate import composed

SELECTIONS = (
    Exponential(0.7),
    PerturbedSampling(0.7, k=1),
    PerturbedEncoding(0.7, k=1),
    Uniform(),
)


VALUES = (Duchi(1.1), Piecewise(1.1, grid=3), Hybrid(1.1, grid=2), OptimalWindow(2.2))


VECTORS = [(a, b) for a in (-2, Fraction(1, 3), 1) for b in (-1, 0, 3)]


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


def test_enumeration_refuses_what_it_cannot_enumerate():
    with pytest.raises(InvalidArgument, match="at most 65536 symbols"):
        certify_by_enumeration(composed(TwoStage(Uniform(), Identity()), dim=1), [(1,), (2,)])
    with pytest.raises(InvalidArgument, match=r"^solution = "):
        certify_by_enumeration(TwoStage(Uniform(), Duchi(1.0)), [(1,)])
    for wrong in ([], [(1.0,)], [(1.0, 2.0), (1.0,)]):
        with pytest.raises(InvalidArgument, match=r"^gradients = "):
            certify_by_enumeration(composed(TwoStage(Uniform(), Duchi(1.0))), wrong)
