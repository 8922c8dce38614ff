"""The contract on all of ours, and on mechanisms and samplers that break it in one way each."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from fedsel import Feedback, FlatPicks, Reports, Rotated, SignedSampling, Solution, TwoStage, checks
from fedsel.mechanisms import (
    Duchi,
    PerturbedSampling,
    RankLaw,
    ReportMechanism,
    Selection,
    SymbolLaw,
    UnbiasedJoint,
    Value,
    Window,
    _one_symbol,
)
from fedsel.sampling import device, simulated
from fedsel.solutions import Transform


def marks_of(check):
    """What draws, draws as a device does: one report after another."""
    return pytest.mark.slow if check.__name__.endswith(("sampler", "executors")) else ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "check"),
    [
        pytest.param(m, c, id=f"{c.__name__}-{m!r}", marks=marks_of(c))
        for m in checks.EXAMPLES
        for c in checks.checks_of(m)
    ],
)
def test_contract(mechanism, check):
    check(mechanism)


def test_the_table_holds_every_mechanism():
    from fedsel.mechanisms import SELECTIONS, VALUES

    reporting = {TwoStage, FlatPicks, SignedSampling, UnbiasedJoint}
    found = {type(m) for m in checks.EXAMPLES}
    assert found >= {*SELECTIONS.values(), *VALUES.values(), *reporting}


@dataclass(frozen=True)
class ThirdParty(Selection):
    """A private selection by somebody else: three levels."""

    name: ClassVar[str] = "third"
    epsilon: float = 1.0

    def __post_init__(self):
        from fedsel.errors import check_epsilon

        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))

    @property
    def claimed(self):
        return self.epsilon

    def build_law(self, d):
        high = math.floor(1000 * math.exp(self.epsilon))
        return RankLaw([high, 1000], [1, d - 1]) if d > 1 else RankLaw([1])


def test_a_third_party_can_use_the_contract():
    checks.check_mechanism(ThirdParty())


@dataclass(frozen=True)
class Upside(ThirdParty):
    """Favours the smallest."""

    def build_law(self, d):
        return RankLaw([1, 2], [1, d - 1]) if d > 1 else RankLaw([1])


@dataclass(frozen=True)
class Overdrawn(ThirdParty):
    """Loses more than it claims."""

    def build_law(self, d):
        return RankLaw([3000, 1000], [1, d - 1]) if d > 1 else RankLaw([1])


@dataclass(frozen=True)
class Credulous(ThirdParty):
    """Takes any ε."""

    def __post_init__(self):
        pass


@dataclass
class Mutable(ThirdParty.__base__):
    """Can be changed after it was certified."""

    name: ClassVar[str] = "mutable"
    epsilon: float = 1.0
    __hash__ = object.__hash__

    @property
    def claimed(self):
        return self.epsilon

    build_law = ThirdParty.build_law


@pytest.mark.parametrize(
    ("mechanism", "complaint"),
    [
        (Upside(), "not monotone"),
        (Overdrawn(), "FAILS"),
        (Credulous(), "accepts epsilon = nan"),
        (Mutable(), "can be changed"),
    ],
)
def test_what_breaks_the_contract_is_caught(mechanism, complaint):
    with pytest.raises(AssertionError, match=complaint):
        checks.check_mechanism(mechanism)


@dataclass(frozen=True)
class Plain(ThirdParty):
    """Refuses a wrong ε with an error of its own, and has no law for a single dimension."""

    def __post_init__(self):
        if not isinstance(self.epsilon, float) or not 0 < self.epsilon < 9:
            raise ValueError("my ε is a float in (0, 9)")

    def build_law(self, d):
        if d == 1:
            raise ZeroDivisionError("d - 1")
        return super().build_law(d)


def test_any_exception_is_a_failure_of_the_contract_and_all_are_told():
    with pytest.raises(AssertionError) as caught:
        checks.check_mechanism(Plain())
    first, *others = str(caught.value).splitlines()
    assert first == (
        "Plain refuses epsilon = nan with ValueError (my ε is a float in (0, 9)), not with"
        " fedsel.InvalidArgument"
    )
    assert others[0] == "Plain: check_certificate raised ZeroDivisionError: d - 1"
    names = [line.split(" raised ")[0] for line in others]
    assert names[1:] == ["Plain: check_rank_law", "Plain: check_selection_executors"]


def test_so_it_is_for_solutions():
    with pytest.raises(AssertionError, match=r"^own raised ZeroDivisionError: d - 1$"):
        checks.check_solution(Solution("own", 1, TwoStage(Plain(), Duchi(1.0))))


@dataclass(frozen=True)
class WrongScale(Value):
    """Decodes with a law whose windows do not fit its claim of unbiasedness."""

    name: ClassVar[str] = "wrong"

    @property
    def claimed(self):
        return 2.0

    def build_law(self):
        return BiasedLaw((Window(2, 1, 1, 7),))


class BiasedLaw(SymbolLaw):
    def decode_exact(self, symbol):
        return super().decode_exact(symbol) * Fraction(11, 10)


def test_a_biased_decoder_is_caught():
    with pytest.raises(AssertionError, match="mean"):
        checks.check_unbiased(WrongScale())


@dataclass(frozen=True)
class Borrowed(ReportMechanism):
    """A whole report by somebody else, which no fast executor knows: J of the top 1."""

    name: ClassVar[str] = "borrowed"
    epsilon: float = 1.0

    @property
    def signs(self):
        return SignedSampling(self.epsilon, k=1)

    @property
    def claimed(self):
        return self.signs.claimed

    def loss_ratio(self, d=None):
        return self.signs.loss_ratio(d)

    def unit(self, size, codebook=None):
        return self.signs.unit(size, codebook)

    def alphabet(self, size, codebook=None):
        return self.signs.alphabet(size, codebook)

    def draw(self, scores, entropy, /):
        return self.signs.draw(scores, entropy)

    def report_law(self, vector, values=None):
        return self.signs.report_law(vector, values)

    def noise_power(self, size):
        return self.signs.noise_power(size)

    def __post_init__(self):
        object.__setattr__(self, "epsilon", self.signs.epsilon)


@dataclass(frozen=True)
class Backwards(Transform):
    """Coordinates from the last to the first."""

    name: ClassVar[str] = "backwards"

    @property
    def size(self):
        return self.dim

    def scores(self, vectors):
        return np.ascontiguousarray(vectors[..., ::-1])

    def codeword(self, slot):
        return np.eye(self.dim)[self.dim - 1 - slot]

    def combine(self, means):
        return np.ascontiguousarray(means[::-1])


@pytest.mark.slow
def test_a_third_party_can_compose_a_solution_of_its_own_parts():
    checks.check_mechanism(Borrowed())
    stages = TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.0))
    for mechanism in (Borrowed(), stages):
        made = Solution("x", 3, mechanism, 2, Backwards(3), Feedback(True, 0.5))
        checks.check_solution(made)


@dataclass(frozen=True)
class Honest(Borrowed):
    """Says the truth where the first entry is large."""

    def draw(self, scores, entropy, /):
        if scores.value(0) > 1:
            return Reports([0], [0])
        return super().draw(scores, entropy)


@dataclass(frozen=True)
class Generous(Borrowed):
    """Adds symbols that its alphabet does not know."""

    def draw(self, scores, entropy, /):
        said = super().draw(scores, entropy)
        return Reports(said.slot, said.symbol + 1)


def test_a_report_that_is_not_what_it_says_is_caught():
    with pytest.raises(AssertionError, match="does not follow the law"):
        checks.check_shipped_law(Honest())
    with pytest.raises(AssertionError, match="encode loses more than its certificate says"):
        checks.check_solution(Solution("x", 2, Honest()))
    with pytest.raises(AssertionError, match="an unknown symbol"):
        checks.check_solution(Solution("x", 2, Generous()))


def test_a_solution_over_its_budget_is_caught():
    with pytest.raises(AssertionError, match="FAILS"):
        checks.check_solution(Solution("x", 2, Borrowed(2.0), budget=Fraction(1)))


def test_a_sampler_that_ignores_ties_is_caught(monkeypatch):
    """Ties to the lowest index: the bias that one-hot data would show."""

    def biased(law, vectors, who):
        return np.argmax(np.abs(np.broadcast_to(vectors, (len(who.clients), 7))), axis=1)

    monkeypatch.setattr(simulated, "select", biased)
    with pytest.raises(AssertionError, match=r"chi-square|impossible"):
        checks.check_selection_sampler(ThirdParty())


def test_an_executor_that_differs_is_caught(monkeypatch):
    real = device.draw_dimension

    def off_by_one(law, magnitudes, entropy):
        return (real(law, magnitudes, entropy) + 1) % law.d

    monkeypatch.setattr(device, "draw_dimension", off_by_one)
    with pytest.raises(AssertionError, match="executors differ"):
        checks.check_selection_executors(ThirdParty())


def test_a_skewed_sample_is_caught():
    drawn = np.random.default_rng(0).choice(3, size=100_000, p=[0.36, 0.32, 0.32])
    with pytest.raises(AssertionError, match="chi-square"):
        checks.assert_follows(drawn, dict.fromkeys(range(3), 1 / 3), "skewed")


def test_a_device_that_differs_from_the_simulation_is_caught(monkeypatch):
    real = _one_symbol.draw_dimension

    def off_by_one(law, magnitudes, entropy):
        return (real(law, magnitudes, entropy) + 1) % law.d

    made = Solution("x", 5, SignedSampling(1.0), transform=Rotated(5))
    checks.check_solution(made)
    monkeypatch.setattr(_one_symbol, "draw_dimension", off_by_one)
    with pytest.raises(AssertionError, match="executors differ"):
        checks.check_solution(made)
