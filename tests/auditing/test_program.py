"""Anybody's function of one value: attacked, enumerated where it can be, never accused wrongly."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from fedsel import solution
from fedsel.auditing import ProgramError, audit_program, audit_solution, values_within
from fedsel.auditing.finding_page import headline
from fedsel.errors import InvalidArgument

FEW = {"trials": 10_000, "pilot": 2_000, "seed": 1}
LAST_OUTPUT = 255


def right(answer, entropy):
    return answer if entropy.below(4) else not answer


def wrong(answer, entropy):
    return answer if entropy.below(10) else not answer


def laplace(x, entropy, scale=1.0):
    return x + entropy.laplace(scale=scale)


def piecewise(t, entropy, epsilon=1.0):
    """The textbook PM in floats."""
    h = math.exp(epsilon / 2)
    most = (h + 1) / (h - 1)
    left = (most + 1) / 2 * t - (most - 1) / 2
    right = left + most - 1
    if entropy.random() < h / (h + 1):
        return left + (right - left) * entropy.random()
    u = entropy.random() * (most + 1)
    return -most + u if u < left + most else right + (u - left - most)


@pytest.mark.parametrize(("claimed", "refuted"), [(1.0986, True), (1.0987, False)])
def test_a_claim_between_two_digits_is_decided_exactly(claimed, refuted):
    """The truth is ln 3 = 1.09861…: no experiment of this size could tell."""
    found = audit_program(right, inputs=[True, False], claimed=claimed, **FEW)
    assert found.exact.ratio == 3
    assert found.exact.probabilities == (Fraction(3, 4), Fraction(1, 4))
    assert found.refuted == refuted
    assert not found.finding.violated
    assert found.verdict == ("refuted" if refuted else "holds for these inputs")
    assert 0.9 < found.finding.lower_bound < math.log(3)


def test_a_wrong_randomised_response_is_refuted_by_both_answers():
    found = audit_program(wrong, inputs=[True, False], claimed=math.log(3), **FEW)
    assert found.refuted
    assert found.finding.violated
    assert found.exact.ratio == 9
    assert found.finding.words in ("output True", "output False")


@pytest.mark.parametrize("program", [laplace, piecewise])
def test_textbook_noise_in_floats_is_refuted_by_its_last_bits(program):
    found = audit_program(program, inputs=values_within(0, 1), claimed=1.0, **FEW)
    assert found.refuted
    assert "last bi" in found.finding.words
    assert found.exact is None
    assert "entropy." in found.why_not_exact


def test_the_values_of_textbook_noise_are_sound():
    settings = {"inputs": values_within(0, 1), "float_bits": False, **FEW}
    found = audit_program(laplace, claimed=1.0, **settings)
    assert found.verdict == "not refuted"
    half = audit_program(lambda x, e: laplace(x, e, 0.5), claimed=1.0, **settings)
    assert half.refuted
    assert "≤ output <" in half.finding.words or "output ≥" in half.finding.words


def test_an_impossible_output_has_no_epsilon():
    def leaks(x, entropy):
        return LAST_OUTPUT if x and entropy.below(1 << 40) < 1 else entropy.below(2)

    found = audit_program(leaks, inputs=[0, 1], claimed=20.0, **FEW)
    assert found.refuted
    assert found.exact.ratio is None
    assert found.exact.output == LAST_OUTPUT
    assert "infinite" in headline(found)


def test_draws_from_elsewhere_are_never_taken_for_exact():
    hidden = random.Random(3)

    def own(x, entropy):
        return x if hidden.random() < 0.5 else entropy.below(2)

    def rarely(x, entropy):  # two enumerations hardly ever differ: the experiment does
        return x if hidden.random() < 0.2 else 0

    found = audit_program(own, inputs=[0, 1], claimed=2.0, **FEW)
    assert found.exact is None
    assert "another source" in found.why_not_exact
    found = audit_program(rarely, inputs=[0, 1], claimed=2.0, **FEW)
    assert found.exact is None
    assert found.refuted


def test_an_experiment_overrules_an_enumeration_that_it_contradicts():
    calls = iter(range(10**9))

    def sly(x, entropy):  # honest as long as it is enumerated, and a traitor later
        honest = next(calls) < 100
        drawn = entropy.below(2)
        return drawn if honest else x

    found = audit_program(sly, inputs=[0, 1], claimed=1.0, **FEW)
    assert found.exact is None
    assert found.refuted


@pytest.mark.parametrize(
    "program",
    [
        lambda x, e: next(i for i in iter(lambda: e.below(6), None) if i > 0),
        lambda x, e: sum(int(e.below(2)) for _ in range(14)),
        lambda x, e: e.below(4) / 4,
        lambda x, e: int(e.below(1 << 59)) % 7,
    ],
)
def test_what_cannot_be_enumerated_is_still_attacked(program):
    found = audit_program(program, inputs=[0, 1], claimed=1.0, trials=1000, pilot=1000, seed=1)
    assert found.exact is None
    assert found.why_not_exact
    assert found.verdict == "not refuted"


@pytest.mark.parametrize(
    "output", [[1, 2], {"a": [1]}, {1, 2}, np.array([1.0, 2.0]), None, "text", (None, "x"), 1j]
)
def test_outputs_of_every_plain_kind_are_compared(output):
    def leak(x, entropy):
        return output if x else "nothing"

    found = audit_program(leak, inputs=[0, 1], claimed=1.0, trials=1000, pilot=1000, seed=1)
    assert found.refuted


def test_arrays_cannot_be_changed_by_who_is_audited():
    given = np.zeros(2)

    def writes(v, entropy):
        v += 1
        return int(v[0]) + entropy.below(2)

    audit_program(writes, inputs=[given, given + 1], claimed=1.0, trials=100, pilot=100, seed=1)
    assert not given.any()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda x, e: 1 // x, r"raised ZeroDivisionError \(.*\) for the input 0;"),
        (lambda x, e: object(), "returned an object for the input 0"),
        (lambda x, e: [object()], "returned an object"),
        (lambda x, e: (i for i in ()), "returned a generator"),
        (lambda x, e: len, "returned a builtin_function_or_method"),
    ],
)
def test_what_cannot_be_audited_says_why(program, said):
    with pytest.raises(ProgramError, match=said):
        audit_program(program, inputs=[0, 1], claimed=1.0, **FEW)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"claimed": -1}, "claimed"),
        ({"claimed": math.nan}, "claimed"),
        ({"delta": 1}, "delta"),
        ({"trials": 0}, "trials"),
        ({"seed": -1}, "seed"),
        ({"inputs": [1]}, "inputs"),
    ],
)
def test_impossible_settings_are_refused_by_name(change, name):
    settings = {"inputs": [0, 1], "claimed": 1.0, **FEW, **change}
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        audit_program(right, **settings)


def test_without_a_seed_no_two_audits_are_alike():
    settings = {"inputs": [0, 1], "claimed": 2.0, "trials": 1000, "pilot": 100}
    seeds = {audit_program(right, **settings).seed for _ in range(3)}
    assert len(seeds) == 3
    again = [audit_program(right, seed=4, **settings) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize("d", [None, 3])
def test_proposed_values_stay_in_their_range(d):
    proposed = values_within(2, 5, d)
    entries = np.concatenate([np.ravel(v) for v in proposed])
    assert entries.min() == 2
    assert entries.max() == 5
    assert len({np.asarray(v).tobytes() for v in proposed}) == len(proposed) >= 5
    with pytest.raises(InvalidArgument, match="range"):
        values_within(1, 1)


def test_a_solution_is_attacked_by_its_reports():
    control = solution("PS-PM-C", epsilon=2.0, dim=2, mu=0.5, k=1)  # which spends 3
    found = audit_solution(control, claimed=2.0, **FEW)
    assert found.refuted
    assert "it costs ε = 3" in found.why_not_exact
    fair = audit_solution(solution("PS-PM", epsilon=2.0, dim=2, mu=0.5, k=1), claimed=2.0, **FEW)
    assert fair.verdict == "not refuted"
    given = audit_solution(control, claimed=2.0, inputs=[[0.0, 1.0], [0.0, 0.9]], **FEW)
    assert given.finding.lower_bound < found.finding.lower_bound
    for wrong_inputs in ([[1.0, 0.0, 0.0]] * 2, [[1.0, 0.0]]):
        with pytest.raises(InvalidArgument, match="inputs"):
            audit_solution(control, claimed=2.0, inputs=wrong_inputs, **FEW)
