"""Reports of values: what they claim, which values they tell, and what they say of nothing."""

import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.mechanisms import (
    BOTTOM,
    Duchi,
    FlatPicks,
    FullGradient,
    Identity,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
    RankLaw,
    Selection,
    SignedSampling,
    TopK,
    TwoStage,
    Unperturbed,
    certify,
)

CHOICE = PerturbedSampling(0.5, k=1)
OPEN = {
    "the whole vector": FullGradient(),
    "a number at random": FlatPicks(Unperturbed()),
    "a number by a private choice": TwoStage(CHOICE, Unperturbed()),
    "a private value by an open choice": TwoStage(TopK(1), Duchi(1.0)),
    "a value to 31 bits": FlatPicks(Identity()),
}


@pytest.mark.parametrize("mechanism", OPEN.values(), ids=OPEN)
def test_what_is_not_private_claims_nothing(mechanism):
    assert mechanism.claimed == math.inf
    assert mechanism.private is False
    assert mechanism.loss_ratio(4) is None
    assert not certify(mechanism, d=4).holds


def test_a_report_is_published_as_its_choice_is():
    assert TwoStage(CHOICE, Duchi(1.0)).published is False
    assert TwoStage(PublishedPerturbedEncoding(0.5, k=1), Duchi(1.0)).published is True


@pytest.mark.parametrize("mechanism", [TwoStage(CHOICE, Duchi(1.0)), FlatPicks(Duchi(1.0))])
@pytest.mark.parametrize("name", ["value", "clip"])
def test_what_was_certified_is_not_changed_afterwards(mechanism, name):
    with pytest.raises(FrozenInstanceError):
        setattr(mechanism, name, 9)


class RarelySilent(Selection):
    """A law whose ⊥ has the least weight that there is."""

    name = "RarelySilent"
    claimed = 1.0

    def build_law(self, d):
        return RankLaw([1], [d], bottom=1)


@pytest.mark.parametrize(
    ("selection", "abstains"),
    [(CHOICE, False), (PerturbedEncoding(0.5, k=1), True), (RarelySilent(), True)],
)
def test_silence_is_a_report_where_the_law_has_it_and_nowhere_else(selection, abstains):
    mechanism = TwoStage(selection, Duchi(1.0))
    assert mechanism.abstains(4) is abstains
    assert mechanism.alphabet(4).abstains is abstains
    zeros = [Fraction(0)] * 4
    assert (() in mechanism.report_law(zeros)) is abstains


class Largest:
    """Draws the last of the integers: ⊥, where there is one."""

    def below(self, n):
        return n - 1


class Zeros:
    size = 4

    def all(self):
        return np.zeros(4)


def test_silence_says_nothing_else():
    report = TwoStage(PerturbedEncoding(0.5, k=1), Duchi(1.0)).draw(Zeros(), Largest())
    assert (report.slot.tolist(), report.symbol.tolist()) == ([BOTTOM], [0])


def test_the_law_of_a_report_is_that_of_the_clipped_share_of_the_clip():
    value = Duchi(1.0)
    half = {((0, s),): p for s, p in enumerate(value.law.probabilities(Fraction(1, 2)))}
    whole = {((0, s),): p for s, p in enumerate(value.law.probabilities(Fraction(1)))}
    for mechanism in (FlatPicks(value, clip=0.5), TwoStage(CHOICE, value, clip=0.5)):
        assert mechanism.report_law([Fraction(1, 4)]) == half
        assert mechanism.report_law([Fraction(3)]) == whole
        # What is told may be another vector than the one that is ranked.
        assert mechanism.report_law([Fraction(3)], [Fraction(1, 4)]) == half


@pytest.mark.parametrize(
    "mechanism", [FlatPicks(Unperturbed()), TwoStage(CHOICE, Unperturbed()), FullGradient()]
)
def test_numbers_have_no_law_of_symbols(mechanism):
    with pytest.raises(InvalidArgument, match="have no law"):
        mechanism.report_law([Fraction(0)])


@pytest.mark.parametrize(
    "mechanism",
    [
        TwoStage(CHOICE, Duchi(1.0)),
        TwoStage(PerturbedEncoding(0.5, k=1), Duchi(1.0)),
        FlatPicks(Duchi(1.0)),
        FlatPicks(Duchi(1.0), picks=2),
    ],
)
def test_the_power_of_the_noise_is_that_of_its_law(mechanism):
    values = mechanism.value.decode_table
    law = mechanism.report_law([Fraction(0)] * 3)
    power = sum(float(p) * sum(values[s] ** 2 for _, s in pairs) for pairs, p in law.items())
    assert mechanism.noise_power(3) == pytest.approx(power, rel=1e-12)


def test_numbers_that_leave_as_they_are_have_no_noise():
    for mechanism in (FlatPicks(Unperturbed()), TwoStage(CHOICE, Unperturbed()), FullGradient()):
        assert mechanism.noise_power(3) == 0


def test_what_a_reported_value_counts():
    assert FlatPicks(Duchi(1.0), picks=2).scale(10) == 5
    assert FlatPicks(Duchi(1.0), picks=2, scaled=False).scale(10) == 0.5
    assert TwoStage(CHOICE, Duchi(1.0)).scale(10) == 1


@pytest.mark.parametrize("picks", [1, 2, 3])
@pytest.mark.parametrize("value", [Duchi(1.0), Piecewise(1.5, grid=2)], ids=["Duchi", "PM"])
def test_flat_reports_have_exactly_the_mean_and_the_variance_of_theory(value, picks):
    """E = t and Var = (d/c)(Var(t) + t²) − t² of every entry, summed over all reports."""
    vector = [Fraction(1, 2), Fraction(-1), Fraction(0)]
    made = FlatPicks(value, picks)
    law, factor = made.report_law(vector), Fraction(made.scale(3))
    for j, t in enumerate(vector):
        decoded = {
            pairs: factor * sum(value.law.decode_exact(s) for slot, s in pairs if slot == j)
            for pairs in law
        }
        mean = sum(p * decoded[pairs] for pairs, p in law.items())
        square = sum(p * decoded[pairs] ** 2 for pairs, p in law.items())
        assert mean == t
        assert square - mean**2 == factor * (value.law.variance(t) + t**2) - t**2


@pytest.mark.parametrize(
    ("clip", "picks", "scaled"), [(0.5, 1, True), (3.0, 2, True), (3.0, 2, False)]
)
def test_the_norms_by_which_steps_are_chosen(clip, picks, scaled):
    """Of entries that are all a quarter of the clip: a report without noise, and the mean."""
    size, flat = 6, FlatPicks(Duchi(1.0), picks, clip, scaled)
    factor = (size if scaled else 1) / picks
    report = np.zeros(size)
    report[:picks] = factor * clip / 4
    assert flat.report_norm(0.25, size) == pytest.approx(np.linalg.norm(report))
    mean = np.full(size, factor * clip / 4 * picks / size)  # each is told so often
    assert flat.mean_norm(0.25, size, size) == pytest.approx(np.linalg.norm(mean))
    projected = np.full(20, clip / 4)
    assert flat.mean_norm(0.25, size, 20) == pytest.approx(np.linalg.norm(projected))
    two = TwoStage(PerturbedSampling(1.0), Duchi(1.0), clip)
    assert two.report_norm(0.25, size) == two.mean_norm(0.25, size, size) == clip / 4
    whole = FullGradient()
    assert whole.report_norm(0.25, 16) == whole.mean_norm(0.25, 16, 16) == 1
    assert SignedSampling(1.0).report_norm(0.25, 16) == 0  # all of it is noise


def test_numbers_that_leave_as_they_are_are_not_in_units_of_the_clip():
    assert FlatPicks(Unperturbed(), clip=0.5).unit(4) == 4
    assert TwoStage(TopK(), Unperturbed(), clip=0.5).unit(4) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (lambda: FlatPicks(Duchi(1.0), clip=0), "clip"),
        (lambda: FlatPicks(Duchi(1.0), clip=math.inf), "clip"),
        (lambda: FlatPicks(PerturbedSampling(1.0)), "value"),
        (lambda: TwoStage(CHOICE, Duchi(1.0), clip=-1.0), "clip"),
        (lambda: TwoStage(CHOICE, CHOICE), "value"),
        (lambda: TwoStage(Duchi(1.0), Duchi(1.0)), "selection"),
    ],
)
def test_impossible_parts_are_refused_by_name(wrong, named):
    with pytest.raises(InvalidArgument, match=rf"^{named} = "):
        wrong()


def test_numbers_that_leave_as_they_are_hide_nobody():
    for plain in (FlatPicks(Unperturbed()), TwoStage(PerturbedSampling(1.0), Unperturbed())):
        with pytest.raises(InvalidArgument, match=r"^value = Unperturbed\(\): must be a private"):
            plain.blanket(3)
