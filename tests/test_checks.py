"""The contract on all of ours, and on mechanisms that break it in one way each."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from fedsel import checks
from fedsel.mechanisms import RankLaw, Selection, SymbolLaw, Value, Window
from fedsel.sampling import device, simulated


@pytest.mark.parametrize(
    ("mechanism", "check"),
    [
        pytest.param(m, c, id=f"{c.__name__}-{m!r}")
        for m in checks.EXAMPLES
        for c in checks.checks_of(m)
    ],
)
def test_contract(mechanism, check):
    check(mechanism)


def test_the_table_holds_every_mechanism():
    from fedsel.mechanisms.registry import SELECTIONS, VALUES

    assert {type(m) for m in checks.EXAMPLES} >= {*SELECTIONS.values(), *VALUES.values()}


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
