"""A device that answers a question: BR in requests."""

import numpy as np
import pytest

from fedsel import Policy, Recipe
from fedsel._internal.random import stream
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.device import Client, Reason, Refused
from fedsel.wire import Request

RUN = bytes(range(16))
NONE = b""


def asked(epoch=0, *, epsilon=3.0, epochs=3, answers=6, number=None):
    recipe = resolve_auto(
        Recipe("BR", epsilon=epsilon, epochs=epochs, dim=answers), PublicFacts(answers, 100, epochs)
    )
    return Request(RUN, epoch, epoch if number is None else number, recipe)


def device(folder, *, lifetime=10.0, seed=0):
    policy = Policy(lifetime, 1.0, ["BR"], [6], reports_per_epoch=1)
    client = Client(policy, folder, create=True)
    client._entropy = stream(seed, 0, 0)
    return client


def block(request, report):
    return int(request.format.decode(report)[1].slot[0])


def test_an_answer_is_a_report_of_its_unit_vector(quick_path):
    for answer in range(6):
        request, nothing = asked(), np.zeros(6)
        client = device(quick_path / str(answer), seed=answer)
        report = client.answer(request.encode(), NONE, answer)
        drawn = request.recipe.build().encode(np.eye(6)[answer], nothing, stream(answer, 0, 0))[0]
        assert block(request, report) == drawn.slot[0]
        other = device(quick_path / f"{answer} as a vector", seed=answer)
        assert other.answer(request.encode(), NONE, np.eye(6)[answer]) == report
        number = device(quick_path / f"{answer} as a number of numpy", seed=answer)
        assert number.answer(request.encode(), NONE, np.int64(answer)) == report


@pytest.mark.parametrize("answer", [-1, 6, 1.0, True, None, "3", [1], 10**30, np.zeros(5)])
def test_what_is_no_answer_is_reported_as_none(quick_path, answer):
    """A report all the same: whether a device answers must not depend on its data."""
    request = asked()
    report = device(quick_path / "a").answer(request.encode(), NONE, answer)
    none = device(quick_path / "b").answer(request.encode(), NONE, np.zeros(6))
    assert report == none


def test_the_function_sees_the_weights_that_are_measured(quick_path):
    seen = []

    def answer(weights):
        seen.append(weights)
        return 1

    weights = np.array([0.5, -2.0, 3.0])
    device(quick_path / "a").answer(asked().encode(), weights.tobytes(), answer)
    device(quick_path / "b").answer(asked().encode(), weights.astype(np.float32), answer)
    np.testing.assert_array_equal(seen, [weights, weights])


@pytest.mark.parametrize("weights", [b"1234567", np.array([np.nan]), np.zeros((2, 2)), [1.0], None])
def test_weights_that_are_none_are_refused(quick_path, weights):
    with pytest.raises(Refused) as refused:
        device(quick_path / "a").answer(asked().encode(), weights, 1)
    assert refused.value.reason is Reason.WEIGHTS


@pytest.mark.parametrize("answers", [(4, 4, 4), (4, 2, 2)])
def test_every_epoch_costs_the_same_whatever_the_answers_are(quick_path, answers):
    """What is charged, and so what is refused later, must not depend on the data."""
    client = device(quick_path / "a")
    for epoch, answer in enumerate(answers):
        client.answer(asked(epoch).encode(), NONE, answer)
    assert [entry.charge for entry in client.history().entries] == [asked().recipe.charge] * 3


@pytest.mark.parametrize("answer", [4, 2])
def test_the_same_request_has_the_same_report_at_no_cost_whatever_the_answer_is(quick_path, answer):
    client = device(quick_path / "a", lifetime=1.0)
    report = client.answer(asked().encode(), NONE, 4)
    assert client.answer(asked().encode(), NONE, answer) == report
    assert client.history().spent == asked().recipe.charge


@pytest.mark.parametrize("answer", [4, 2])
def test_without_budget_a_later_epoch_is_refused_whatever_the_answer_is(quick_path, answer):
    client = device(quick_path / "a", lifetime=1.0)
    client.answer(asked(0).encode(), NONE, 4)
    with pytest.raises(Refused) as refused:
        client.answer(asked(1).encode(), NONE, answer)
    assert refused.value.reason is Reason.EXHAUSTED


def test_a_new_question_is_refused_without_budget(quick_path):
    client = device(quick_path / "a", lifetime=1.0)
    client.answer(asked().encode(), NONE, 1)
    other = Request(bytes(16), 0, 0, asked().recipe)
    with pytest.raises(Refused) as refused:
        client.answer(other.encode(), NONE, 1)
    assert refused.value.reason is Reason.EXHAUSTED


def test_a_question_that_changed_within_a_run_is_refused(quick_path):
    client = device(quick_path / "a")
    client.answer(asked(0).encode(), NONE, 1)
    with pytest.raises(Refused) as refused:
        client.answer(asked(1, epsilon=1.5).encode(), NONE, 1)
    assert refused.value.reason is Reason.CONFLICT
    assert client.history().spent == asked().recipe.charge


def test_a_share_of_k_is_no_request(quick_path):
    """Which blocks there are must be said in integers, not follow from what a device computes."""
    recipe = Recipe(
        "BR", epsilon=1.0, dim=6, mu=0.0, rho=None, learning_rate=1.0, averaging=0.0, bases=None
    )
    with pytest.raises(Refused) as refused:
        device(quick_path / "a").answer(Request(RUN, 0, 0, recipe).encode(), NONE, 1)
    assert refused.value.reason is Reason.MALFORMED
