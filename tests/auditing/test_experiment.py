"""The audit catches real errors of real code, and does not accuse what is sound."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from fedsel import FlatPicks, InvalidArgument, TwoStage, audit, certify, solution
from fedsel.auditing import candidate_inputs
from fedsel.auditing._experiment import clopper_pearson, own_sampler
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
)
from fedsel.sampling import simulated

TRIALS = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "d"),
    [
        (Exponential(1.0), 10),
        (PerturbedSampling(2.0, k=2), 10),
        (PerturbedEncoding(1.0, k=1), 3),
        (Piecewise(4.0), None),
        (Duchi(0.5), None),
        (TwoStage(PerturbedSampling(0.5, k=1), Piecewise(1.0), clip=0.3), 3),
        (FlatPicks(Duchi(0.5), picks=2, clip=0.3), 3),
        (solution("PS-Duchi", epsilon=1.5, dim=3, k=1, clip=0.3, momentum=0.5, epochs=2), None),
        (solution("J", epsilon=1.0, dim=3), None),
        (solution("FJ", epsilon=2.0, dim=4), None),
        (solution("BR", epsilon=2.0, dim=4), None),
    ],
)
def test_sound_mechanisms_are_attacked_closely_but_not_refuted(mechanism, d):
    finding = audit(mechanism, d=d, trials=TRIALS)
    exact = certify(mechanism, d).exact
    assert not finding.violated
    assert 0.9 * exact < finding.lower_bound <= exact
    assert "not refuted" in str(finding)


def test_published_pe_is_caught_at_ten_dimensions():
    finding = audit(PublishedPerturbedEncoding(1.0, k=1), d=10, trials=TRIALS)
    assert finding.violated
    assert 1.1 < finding.lower_bound <= 1.1731


def test_a_solution_over_its_budget_is_caught():
    """PE as published, within a report: what is audited is the first report of a client."""
    made = solution("PE-published-Duchi", epsilon=1.5, dim=10, k=1, mu=0.8)
    finding = audit(made, trials=TRIALS)
    assert finding.claimed == 1.5
    assert finding.violated
    assert finding.lower_bound <= made.privacy.per_report


def literal_pe(vector, rng, n, epsilon=1.0, k=1):
    """PE as printed, drawn as printed: ⊥ is −1."""
    d = len(vector)
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    top = np.argsort(-np.abs(vector), kind="stable")[:k]
    keep = np.full(d, 1 - p)
    keep[top] = p
    bits = rng.random((n, d)) < keep
    order = np.where(bits, rng.random((n, d)), -1.0)
    return np.where(bits.any(axis=1), np.argmax(order, axis=1), -1)


@pytest.mark.slow
def test_literal_pe_is_caught_as_a_callable():
    finding = audit(literal_pe, d=10, claimed=1.0, vectorized=True, trials=TRIALS)
    assert finding.violated


def raw_exp(vector, rng, n, epsilon=1.0):
    """EXP that scores magnitudes in place of ranks."""
    p = np.exp(epsilon * np.abs(vector))
    return rng.choice(len(vector), size=n, p=p / p.sum())


def test_exp_on_raw_magnitudes_is_caught():
    assert audit(raw_exp, d=5, claimed=1.0, vectorized=True, trials=200_000).violated


def float_pm(vector, rng, n, epsilon=1.0):
    """The textbook PM in floating point: ℓ + (r − ℓ)·U."""
    t, h = vector[0], math.exp(epsilon / 2)
    C = (h + 1) / (h - 1)
    left = (C + 1) / 2 * t - (C - 1) / 2
    right = left + C - 1
    inside = rng.random(n) < h / (h + 1)
    below = rng.random(n) < (left + C) / (C + 1)
    u = rng.random(n)
    outside = np.where(below, -C + (left + C) * u, right + (C - right) * u)
    return np.where(inside, left + (right - left) * u, outside)


def test_float_pm_is_caught_by_its_impossible_outputs():
    finding = audit(float_pm, inputs=[[0.3], [-0.3]], claimed=1.0, vectorized=True, trials=200_000)
    assert finding.violated
    assert "last bit" in finding.event
    assert finding.lower_bound > 5


def test_the_integer_pm_has_no_impossible_outputs():
    finding = audit(Piecewise(1.0), inputs=[[0.3], [-0.3]], trials=200_000)
    assert not finding.violated


def gaussian_scale(epsilon: float, delta: float, distance: float) -> float:
    """The least σ that makes Gaussian noise (ε, δ)-private at a distance (Balle and Wang 2018)."""

    def achieved(sigma):
        a, b = distance / (2 * sigma), epsilon * sigma / distance
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b)

    low, high = 0.1, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if achieved(middle) <= delta else (middle, high)
    return high


@pytest.mark.slow
@pytest.mark.parametrize(("distance", "caught"), [(1.0, True), (2.0, False)])
def test_gaussian_noise_for_c_in_place_of_2c_is_caught(distance, caught):
    """Two clients may differ by 2C, not by C: calibrated to C the claim is false."""
    sigma = gaussian_scale(1.0, 1e-5, distance)

    def noisy(vector, rng, n):
        return vector[0] + sigma * rng.standard_normal(n)

    settings = {"inputs": [[-1.0], [1.0]], "claimed": 1.0, "delta": 1e-5, "vectorized": True}
    finding = audit(noisy, **settings, float_bits=False, trials=TRIALS)
    assert finding.violated == caught
    # Even the right scale does not save noise that is added in floating point.
    assert audit(noisy, **settings, trials=TRIALS).violated


def sparse_ps(vector, entropy):
    """PS whose k is the number of non-zero entries: public k is part of the guarantee."""
    top = np.flatnonzero(vector)
    others = np.flatnonzero(vector == 0)
    weight = math.e * len(top)
    if entropy.random() < weight / (weight + len(others)):
        return int(top[entropy.below(len(top))])
    return int(others[entropy.below(len(others))])


def test_ps_with_data_dependent_k_is_caught():
    """One call at a time, as (vector, entropy) → output."""
    inputs = [v for v in candidate_inputs(6) if np.any(v)]
    finding = audit(sparse_ps, inputs=inputs, claimed=1.0, trials=30_000, pilot=5_000)
    assert finding.violated


@pytest.mark.parametrize("vector", [(0.2, 0.7, 0.7, 0.1), (-1.0, 0.0, -1.0, 0.0)])
@pytest.mark.parametrize("given", [{}, {"k": 1, "words": 5, "bases": 2}])
def test_an_audit_of_answers_sees_the_reports_of_devices_and_what_they_hold(vector, given):
    """Of clients with an answer, who report at once, and of clients without one."""
    made = solution("BR", epsilon=1.0, dim=4, **given)
    outputs = own_sampler(made)(np.array(vector), 50, 7, abs)
    reports = simulated.report(made, [vector], simulated.cohort(50, seed=7))
    np.testing.assert_array_equal(outputs[:, 0], reports.slot[:, 0])
    members = made.transform.codewords(reports.slot[:, 0])
    np.testing.assert_array_equal(outputs[:, 2:], members)


def test_samples_of_an_audit_are_independent():
    """No two streams may coincide: an audit of two equal inputs must not see equal outputs."""
    seen = []

    def spy(vector, rng, n):
        seen.append(rng.random(4).tobytes())
        return rng.integers(2, size=n)

    audit(spy, inputs=[[0.0], [1.0]], claimed=0.1, vectorized=True, trials=1000, pilot=100)
    assert len(set(seen)) == len(seen) == 4


def test_same_seed_same_finding():
    runs = [audit(Duchi(1.0), trials=20_000, pilot=2_000, seed=s) for s in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (3, 50), (50, 50), (1234, 10**6)])
def test_clopper_pearson_agrees_with_scipy(hits, trials):
    low, high = clopper_pearson(hits, trials, 0.005)
    interval = binomtest(hits, trials).proportion_ci(0.99, method="exact")
    assert low == pytest.approx(interval.low, rel=1e-9, abs=1e-15)
    assert high == pytest.approx(interval.high, rel=1e-9)


@pytest.mark.slow
def test_the_bound_covers_as_often_as_it_says():
    """At alpha = 5 % at most about 20 of 400 bounds may lie above the truth; 45 is 5.7 σ."""
    above = sum(
        audit(Duchi(1.0), trials=1000, pilot=500, seed=s, alpha=0.05).violated for s in range(400)
    )
    assert above < 45


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"target": "PS"}, "target"),
        ({"target": raw_exp}, "d"),
        ({"target": Exponential(1.0)}, "d"),
        ({"target": Duchi(1.0), "trials": 0}, "trials"),
        ({"target": Duchi(1.0), "alpha": 1.5}, "alpha"),
        ({"target": Duchi(1.0), "delta": math.nan}, "delta"),
        ({"target": Duchi(1.0), "claimed": math.nan}, "claimed"),
        ({"target": Duchi(1.0), "seed": -1}, "seed"),
        ({"target": Duchi(1.0), "inputs": [[1.0]]}, "inputs"),
        ({"target": lambda v, e, n: [1], "vectorized": True, "d": 2}, "target"),
    ],
)
def test_impossible_audits_are_refused_by_name(arguments, name):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        audit(**arguments)
