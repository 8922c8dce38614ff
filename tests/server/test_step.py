"""The server's step: a pure function, and the same as adding it all up by hand."""

import math
from bisect import bisect_right
from dataclasses import replace

import numpy as np
import pytest

from fedsel import Reports
from fedsel._internal.random import stream
from fedsel.server import ServerState, StepRule, step
from fedsel.server._step import Course, Leg, averaged, stepped
from tests.wire.support import complete

D = 6
NAMES = ["NP", "NP-K", "PS-PM", "EXP-HM", "PS-PM-O", "PM", "HM", "PM-RP", "J", "UJ", "RJ", "RC"]
RULES = [
    StepRule(0.3),
    StepRule(0.3, decay=0.02),
    StepRule(1.7, averaging=1.0),
    StepRule(0.3, decay=0.02, averaging=3.0),
]
STATE = ServerState(np.linspace(-1, 2, D), np.linspace(0.5, -0.5, D), rounds=4)


def built(name, **changes):
    given = {"epsilon": 8.0, "dim": D, "k": 2, "ratio": 0.5, "rho": 0.4, "words": 16, **changes}
    return complete(name, **given).build()


def heard(made, clients=40):
    """What clients say in a round, and its totals."""
    reports = [
        made.encode(np.cos(np.arange(D) * (i + 1.0)), np.zeros(D), stream(1, 0, i))[0]
        for i in range(clients)
    ]
    totals = made.totals()
    for report in reports:
        totals.add(report)
    return reports, totals


def sealed(*arrays):
    for array in arrays:
        array.flags.writeable = False


def same(one, other):
    assert one.rounds == other.rounds
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.average, other.average)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_it_is_given_changes(name, rule):
    made = built(name).in_round(3)
    _, totals = heard(made)
    state = ServerState(STATE.weights.copy(), STATE.average.copy(), STATE.rounds)
    scales = np.linspace(1, 2, D)
    sums, count = totals.sums.copy(), totals.count
    sealed(state.weights, state.average, totals.sums, scales)
    first, again = (step(state, rule, made, totals, scales=scales) for _ in range(2))
    same(first, again)
    same(state, STATE)
    assert totals.count == count
    np.testing.assert_array_equal(totals.sums, sums)
    np.testing.assert_array_equal(scales, np.linspace(1, 2, D))
    assert not np.array_equal(first.weights, state.weights)


def meaning(says, symbol):
    """The window of a symbol, and what it adds to the sum of that window."""
    if says.plain:
        return 0, symbol
    window = bisect_right(says.offsets.tolist(), symbol) - 1
    return window, int(says.first[window]) + says.stride * (symbol - int(says.offsets[window]))


def by_hand(made, reports, rule, state, scales=None):
    """Weights and average in plain Python: sums of integers, then one rounding after another."""
    says, count, d = made.alphabet, len(reports), made.dim
    sums = [[0] * says.slots for _ in says.units]
    for report in reports:
        for slot, symbol in report.pairs()[0]:
            window, steps = meaning(says, symbol)
            sums[window][slot] += steps
    units = says.units.tolist()
    means = [float(units[0]) * float(sums[0][j]) for j in range(says.slots)]
    for unit, row in zip(units[1:], sums[1:], strict=True):
        means = [mean + unit * float(x) for mean, x in zip(means, row, strict=True)]
    means = [mean / count for mean in means]
    update = means
    if made.name in ("PM-RP", "RC"):
        update = [0.0] * d
        for mean, row in zip(means, made.transform.recovery.tolist(), strict=True):
            if mean:
                update = [u + mean * x for u, x in zip(update, row, strict=True)]
    elif made.name == "RJ":
        signs = made.transform.signs(0, 0).tolist()
        turned = [x * sign for x, sign in zip(butterflies(means)[:d], signs, strict=True)]
        update = [x / math.sqrt(len(means)) for x in turned]
    if scales is not None:
        update = [u * s for u, s in zip(update, scales, strict=True)]
    weights = [w - rule.decay * w for w in state.weights.tolist()]
    weights = [w - rule.rate * u for w, u in zip(weights, update, strict=True)]
    share = (rule.averaging + 1) / (state.rounds + 1 + rule.averaging)
    before = zip(state.average.tolist(), weights, strict=True)
    average = [a + share * (w - a) for a, w in before] if rule.averaging else weights
    return weights, average


def butterflies(x):
    """The Walsh–Hadamard transform of a list."""
    half = 1
    while half < len(x):
        x = [x[i - half] - x[i] if i & half else x[i] + x[i + half] for i in range(len(x))]
        half *= 2
    return x


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_one_adds_up_by_hand(name, rule):
    """To the bit: one order of rounding, which every server has."""
    made = built(name).in_round(3)
    reports, totals = heard(made)
    scales = np.linspace(1, 2, D)
    for given in (None, scales):
        after = step(STATE, rule, made, totals, given)
        weights, average = by_hand(made, reports, rule, STATE, given)
        assert after.weights.tolist() == weights
        assert after.average.tolist() == average
        assert after.rounds == 5


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_a_sum_over_codewords(name):
    """What each report says, times the codeword that it says it of: without any order."""
    made = built(name).in_round(3)
    reports, totals = heard(made)
    says, rows = made.alphabet, made.transform
    recovery = np.array([rows.combine(np.eye(rows.size)[j]) for j in range(rows.size)])
    total = np.zeros(D)
    for report in reports:
        for slot, symbol in report.pairs()[0]:
            window, steps = meaning(says, symbol)
            total += says.units[window] * steps * recovery[slot]
    after = step(ServerState.begin(np.zeros(D)), StepRule(0.5), made, totals)
    np.testing.assert_allclose(after.weights, -0.5 * total / len(reports), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("NP")])
def test_the_order_of_reports_and_the_number_of_servers_do_not_matter(name):
    made = built(name)
    reports, totals = heard(made)
    one, other = made.totals(), made.totals()
    one.add(Reports.of(reports[:0:-2]))
    other.add(Reports.of(reports[::2]))
    one.merge(other)
    same(step(STATE, RULES[-1], made, one), step(STATE, RULES[-1], made, totals))


def test_decay_comes_before_the_step():
    weights, mean = np.array([4.0, -2.0]), np.array([1.0, 8.0])
    rule = StepRule(0.5, decay=0.25)
    assert stepped(weights, rule, mean).tolist() == [4 - 1 - 0.5, -2 + 0.5 - 4]
    assert stepped(weights, StepRule(0.5), mean).tolist() == [3.5, -6.0]
    assert weights.tolist() == [4.0, -2.0]


@pytest.mark.parametrize("rule", RULES)
def test_a_round_of_silence_changes_no_weight_and_counts_in_the_average(rule):
    """Not even by the decay: nothing is known of a round without reports."""
    made = built("RJ")
    after = step(STATE, rule, made, made.totals())
    assert after.rounds == 5
    np.testing.assert_array_equal(after.weights, STATE.weights)
    share = (rule.averaging + 1) / (5 + rule.averaging) if rule.averaging else 1.0
    expected = STATE.average + share * (STATE.weights - STATE.average)
    np.testing.assert_allclose(after.average, expected, rtol=1e-15)


def test_reports_of_nothing_are_reports():
    """⊥ is an answer: the weights decay, and the mean is that of all who answered."""
    made = built("PE-PM")
    assert made.alphabet.abstains
    totals = made.totals()
    totals.add(Reports([[-1], [-1]], [[0], [0]]))
    after = step(STATE, StepRule(0.3, decay=0.5), made, totals)
    np.testing.assert_array_equal(after.weights, STATE.weights - 0.5 * STATE.weights)


def test_before_the_first_round():
    start = np.linspace(0, 1, 3)
    state = ServerState.begin(start)
    start[0] = 9
    assert state.rounds == 0
    assert state.weights.tolist() == state.average.tolist() == [0.0, 0.5, 1.0]
    assert state.weights.dtype == np.float64


def shares(power, rounds):
    """What each round counts in the average: round t ends with the t-th unit vector."""
    state, rule = ServerState.begin(np.full(rounds, 7.0)), StepRule(1.0, averaging=power)
    for row in np.eye(rounds):
        state = averaged(state, rule, row)
        np.testing.assert_array_equal(state.weights, row)
    assert state.rounds == rounds
    return state.average


FORMULAS = {
    0.0: lambda t: (t == t.max()).astype(float),  # the last weights
    1.0: lambda t: t,
    3.0: lambda t: t * (t + 1) * (t + 2),
    0.5: lambda t: np.array([math.exp(math.lgamma(x + 0.5) - math.lgamma(x)) for x in t]),
}


@pytest.mark.parametrize("rounds", [1, 2, 3, 10, 400])
@pytest.mark.parametrize("power", FORMULAS)
def test_the_average_is_a_weighted_mean_over_the_rounds(power, rounds):
    """t^p in round t, as a rising power: t, t(t + 1)(t + 2), Γ(t + p)/Γ(t); the start is forgotten.

    Against plain powers they differ by less than p/t of themselves: little, after some rounds.
    """
    t = np.arange(1.0, rounds + 1)
    weights = FORMULAS[power](t)
    found = shares(power, rounds)
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-12, atol=1e-300)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    if power:
        plain = t**power / (t**power).sum()
        assert np.abs(found - plain).sum() <= 2 * power / (rounds + 1)


@pytest.mark.parametrize("power", [0.0, 1.0, 3.0])
def test_the_average_of_a_run_is_that_of_its_weights(power):
    made, rule = built("PS-PM"), StepRule(0.3, averaging=power)
    state, seen = ServerState.begin(np.ones(D)), []
    for clients in range(10, 30):
        state = step(state, rule, made, heard(made, clients)[1])
        seen.append(state.weights)
    expected = np.average(seen, axis=0, weights=FORMULAS[power](np.arange(1.0, 21)))
    np.testing.assert_allclose(state.average, expected, rtol=1e-12)
    if not power:
        np.testing.assert_array_equal(state.average, seen[-1])


def test_the_rule_of_a_recipe():
    """λ is the server's where reports follow the order of scores, α the clients' with …-O."""
    given = {"epsilon": 8.0, "dim": D, "learning_rate": 0.4, "reg": 0.05, "averaging": 3.0}
    for name in NAMES:
        recipe = complete(name, **given)
        made = recipe.build()
        rate = 1.0 if name.endswith("-O") else 0.4
        factor, own = 0.4 / rate, 0.05 * (not made.decays_at_server)
        decay = 0.4 * 0.05 * made.decays_at_server
        assert StepRule.of(recipe) == StepRule(rate, decay, 3.0, factor, own)
        assert StepRule.of(replace(recipe, reg=0.0, averaging=0.0)) == StepRule(rate, factor=factor)
    server = {name for name in NAMES if complete(name, **given).build().decays_at_server}
    assert server == {"J", "UJ", "RJ", "RC"}


# --- a course from a start that is worth keeping -----------------------------------------------


def under_way(rule, made, begun, rounds, seed=0):
    """A state after rounds of reports drawn at random."""
    state, draw = begun, np.random.default_rng(seed)
    for number in range(rounds):
        totals = made.totals()
        if number % 5 != 3:  # some rounds are silent
            totals.add(Reports(np.tile(np.arange(D), (40, 1)), draw.normal(1, 1, (40, D))))
        state = step(state, rule, made, totals, np.linspace(1, 2, D))
    return state


@pytest.mark.parametrize("rule", RULES)
def test_a_course_knows_how_much_of_each_step_the_average_holds(rule):
    """Decay aside, which is no step of the reports': also where a second training goes on."""
    made, rule = built("NP"), replace(rule, decay=0.0)
    start = np.linspace(-1, 1, D)
    begun = replace(ServerState.begin(start), course=Course(start))
    for _ in range(2):
        state = under_way(rule, made, begun, 12)
        course = state.course
        steps = np.stack([leg.end - leg.begin for leg in course.legs])
        np.testing.assert_allclose(state.weights, start + course.in_weights @ steps, atol=1e-12)
        np.testing.assert_allclose(state.average, start + course.in_average @ steps, atol=1e-12)
        onward = ServerState.begin(state.average)
        begun = replace(onward, course=replace(course, in_weights=course.in_average))
    assert len(state.course.legs) == 2 * 10
    bare = under_way(rule, made, ServerState.begin(start), 12)
    assert bare.course is None
    assert bare.model is bare.average


def test_a_course_knows_the_noise_of_its_steps():
    """The variance follows the law: rate² · noise² / (reports · d) for each entry, by its scale."""
    made, rule, scales = built("PM"), StepRule(0.3, averaging=3.0), np.linspace(1, 2, D)
    begun = replace(ServerState.begin(np.zeros(D)), course=Course(np.zeros(D)))
    _, totals = heard(made)
    for given, by in ((None, 1.0), (scales, scales**2)):
        (leg,) = step(begun, rule, made, totals, given).course.legs
        expected = 0.3**2 * made.noise**2 / (40 * D) * by
        np.testing.assert_allclose(leg.variances, np.broadcast_to(expected, D))


def searched(start, noise, seed, *, bend=1.0, rounds=100, rate=0.1, power=3.0):
    """The squared distances of start, average and model from the best weights, 0.

    The loss is ``bend`` times half the squared distance; every round reports its slope with noise.
    """
    draw, rule = np.random.default_rng(seed), StepRule(rate, averaging=power)
    state = replace(ServerState.begin(start), course=Course(start))
    for _ in range(rounds):
        end = stepped(
            state.weights, rule, bend * state.weights + noise * draw.normal(size=len(start))
        )
        leg = Leg(state.weights, end, (rate * noise) ** 2)
        state = averaged(replace(state, course=state.course.then(leg)), rule, end)
    return [float(w @ w) for w in (start, state.average, state.model)]


def test_a_course_keeps_a_good_start_and_leaves_a_poor_one():
    good, poor = np.zeros(200), np.ones(200)
    kept = [searched(good, 3.0, seed) for seed in range(50)]
    assert all(average > 10 for _, average, _ in kept)
    assert not any(model for _, _, model in kept)
    # Where nothing is won or lost, a tenth of the ways look good by 1.5 standard errors, and more
    # than 22 of 50 with a chance of 1e-10. Each step's own noise would make all of them look good.
    assert sum(searched(good, 3.0, seed, bend=0.0)[2] > 0 for seed in range(50)) <= 22
    for seed in range(5):
        before, average, model = searched(poor, 0.3, seed)
        assert model == pytest.approx(average, rel=0.05)
        assert model < before / 10
    # Without noise it is where the slope ends.
    assert searched(poor, 0.0, 0, power=0.0)[2] == pytest.approx(0, abs=1e-6)


def test_a_step_that_is_much_too_long_is_taken_back():
    """Without noise: the way from 1 over -0.9 and 0.81 to -0.729 passes 0, the best place."""
    _, average, model = searched(np.ones(200), 0.0, 0, rounds=3, rate=1.9, power=0.0)
    assert average == pytest.approx(200 * 0.729**2)
    assert model < average / 100
