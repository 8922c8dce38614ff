"""Which local ε a central goal allows: proved, of few digits, and near the largest."""

import pytest

from fedsel import InvalidArgument, amplify, local_budget, solution
from fedsel.mechanisms.central import CentralGuarantee, compose
from fedsel.mechanisms.central import _budget as budget
from fedsel.mechanisms.central._budget import gaussian_distance, proved_budget, rough_budget


def rj(epsilon):
    return solution("RJ", epsilon=epsilon, dim=32, rho=1.0)


def test_the_largest_local_epsilon_for_a_central_goal():
    local, found = proved_budget(rj, epsilon=0.5, delta=1e-6, reports=2_000)
    assert found.epsilon <= 0.5
    assert 2 < local < 4
    assert float(f"{local:.3g}") == local  # a person can type it in
    assert found.local == pytest.approx(local)
    assert amplify(rj(local), reports=2_000, delta=1e-6).epsilon <= 0.5
    assert amplify(rj(local * 1.02), reports=2_000, delta=1e-6).epsilon > 0.5
    assert local_budget(rj, epsilon=0.5, delta=1e-6, reports=2_000) == found


@pytest.mark.slow
def test_several_epochs_share_a_goal():
    goal = {"epsilon": 0.5, "delta": 1e-5, "reports": 500}
    once, _ = proved_budget(rj, **goal)
    local, found = proved_budget(rj, **goal, epochs=4)
    assert found.epsilon <= 0.5
    assert found == compose(rj(local), reports=500, epochs=4, delta=1e-5)
    assert once / 3 < local < once
    more = compose(rj(local * 1.05), reports=500, epochs=4, delta=1e-5)
    assert more.epsilon > 0.5


def test_clients_that_remember_share_the_goal_by_adding_up():
    def remembering(epsilon):
        return solution("PS-PM", epsilon=3 * epsilon, dim=4, epochs=3)

    goal = {"epsilon": 1.5, "delta": 1e-6, "reports": 5_000, "epochs": 3}
    local, found = proved_budget(remembering, **goal)
    assert local == pytest.approx(0.5)
    assert found.epsilon <= 1.5
    assert rough_budget(remembering, **goal) == local


def test_a_goal_that_everything_keeps_has_the_most_that_is_allowed():
    found = local_budget(rj, epsilon=8.0, delta=1e-6, reports=10, most=4.0)
    assert found.local == pytest.approx(4.0)


def test_gaussian_noise_is_measured_as_balle_and_wang_do():
    """Their analytic formula: at μ = 1 and ε = 1 δ is Φ(−0.5) − e·Φ(−1.5) = 0.1269."""
    assert gaussian_distance(1.0, 0.126936737507) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"reports": 0}, "reports"),
        ({"epochs": 0}, "epochs"),
        ({"most": -1.0}, "most"),
    ],
)
def test_wrong_arguments_are_named(changes, name):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        local_budget(rj, **{"epsilon": 1.0, "delta": 1e-6, "reports": 10, **changes})


def of_local(epsilon):
    return solution("Duchi", epsilon=epsilon, dim=3)


@pytest.mark.parametrize("optimism", [1.0, 0.2, 50.0])
def test_a_budget_is_proved_whatever_was_guessed(monkeypatch, optimism):
    rough = budget.rough_delta
    monkeypatch.setattr(budget, "rough_delta", lambda *given: optimism * rough(*given))
    found = local_budget(of_local, epsilon=0.5, reports=20, delta=0.01)
    assert (found.epsilon, found.delta, found.reports) == (0.5, 0.01, 20)
    assert amplify(of_local(found.local), reports=20, epsilon=0.5).delta <= 0.01
    if optimism == 1:
        assert amplify(of_local(1.03 * found.local), reports=20, epsilon=0.5).delta > 0.01
    assert found.local > 0.5


def test_a_budget_beyond_the_goal_or_the_most():
    keeps_anything = {"epsilon": 0.5, "reports": 20, "delta": 0.999}
    assert local_budget(of_local, most=0.75, **keeps_anything).local == pytest.approx(0.75)
    assert local_budget(of_local, most=0.25, **keeps_anything).local == pytest.approx(0.25)
    with pytest.raises(InvalidArgument, match=r"^epsilon = 0.5: must be larger"):
        local_budget(lambda _: of_local(8.0), epsilon=0.5, reports=2, delta=1e-9)


def test_several_epochs_are_proved_as_several(monkeypatch):
    """One proof at the goal is for one epoch alone; what meets a goal exactly keeps it."""
    asked = []

    def composed(_, **how):
        asked.append(how)
        return CentralGuarantee(0.5, 0.01, 20, 1.0)

    monkeypatch.setattr(budget, "compose", composed)
    assert budget._kept(of_local(1.0), 0.5, 0.01, 20, 2).epsilon == 0.5
    assert budget._kept(of_local(1.0), 0.49, 0.01, 20, 3) is None
    assert asked == [{"reports": 20, "epochs": n, "delta": 0.01} for n in (2, 3)]
    for proved, kept in ((0.01, True), (0.0101, False)):
        monkeypatch.setattr(budget, "proved_delta", lambda *_, proved=proved: proved)
        assert (budget._kept(of_local(1.0), 0.5, 0.01, 20, 1) is not None) == kept
    assert len(asked) == 2


@pytest.mark.parametrize("unit", [1e-5, 1e-3, 1e-2, 0.1, 1.0])
def test_a_number_of_three_digits_is_its_own(unit):
    for digits in range(100, 1000):
        number = round(digits * unit, 12)
        assert budget._three_digits(number) == number
        assert budget._three_digits(number + 0.9 * unit) == number
