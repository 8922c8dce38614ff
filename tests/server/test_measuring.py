"""Which rounds ask what, and what a checkpoint keeps of the answers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel.measuring import Measured
from fedsel.measuring._planning import question_recipe
from fedsel.sampling.answers import report_answers
from fedsel.server import Aggregator, Counts
from fedsel.server._checkpoint import Checkpoint
from fedsel.server._measuring import Measuring, asking_run, measuring_rounds
from fedsel.server._plan import ServerPlan
from fedsel.wire import Intent, Question, Request, Verdict, measured_question
from tests.service.support import reports_for

ROUNDS, EPOCHS = 8, 2


def begun(**changes):
    given = {"epsilon": 4.0, "epochs": EPOCHS, "measure": 0.5, **changes}
    facts = PublicFacts(dim=4, clients=100, rounds=ROUNDS * EPOCHS, norm=1.0)
    recipe = resolve_auto(Recipe(**given), facts)
    measured = Measured(2, linear=True, bins=4, spread=True)
    measuring = Measuring(measured, 4, Fraction(4))
    return Checkpoint.begin(recipe, rounds_per_epoch=ROUNDS, measuring=measuring)


def with_reports(state, count=20):
    """The checkpoint after a round with reports, from its bytes."""
    request = Request.decode(state.request().encode())
    totals = state.solution_of(state.round).totals()
    rows = b"".join(reports_for(request, count, seed=state.round))
    totals.add(state.format_of(state.round).decode_many(rows).reports)
    assert totals.count == count
    after = state.advanced(totals, Counts(count))
    read = Checkpoint.decode(after.encode())
    assert read.encode() == after.encode()
    return read


def test_the_last_rounds_of_an_epoch_measure_and_change_no_weight():
    state, stages = begun(), []
    run = state.run
    while not state.finished:
        number, request = state.round, state.request()
        stages.append(state.stage)
        after = with_reports(state)
        changed = not np.array_equal(after.state.weights, state.state.weights)
        measures = number % ROUNDS >= 4
        assert changed != measures
        assert (measured_question(run, request.run) is not None) == measures
        assert request.round == number
        if measures:
            assert request.epoch == 0
            assert request.recipe.epochs == 1
            assert request.recipe.charge <= 4
            assert request.recipe.dim == state.question.count
            np.testing.assert_array_equal(state.sent, state.state.model)
        else:
            assert state.question is None
            np.testing.assert_array_equal(state.sent, state.state.weights)
        state = after
    assert stages == (["training"] * 4 + ["measuring"] * 4) * EPOCHS
    assert set(state.measurements) == {0, 1}
    # One round asks where scores lie, three ask about the classes.
    assert [one.clients for one in state.measurements.values()] == [80, 80]
    assert [(one.epoch, one.number, one.count) for one in state.answered] == [
        (0, 0, 20), (0, 1, 60), (1, 0, 20), (1, 1, 60),
    ]  # fmt: skip


def test_the_question_follows_from_the_checkpoint_alone():
    state = begun()
    for _ in range(5):
        state = with_reports(state)
    assert state.question == Checkpoint.decode(state.encode()).question
    first = state.question
    state = with_reports(state)
    assert state.question == first  # within an epoch bins do not move


def test_reports_of_other_rounds_are_told_apart():
    state, rows = begun(), {}
    while state.round < 6:
        rows[state.round] = reports_for(state.request(), 1)[0]
        assert state.round_of(rows[state.round]) == state.round
        state = with_reports(state)
    assert [state.round_of(row) for row in rows.values()] == list(range(6))
    # In the format of a question, for a round that trains.
    forged = replace(state.format_of(5)).encode(1, state.format_of(5).decode(rows[5])[1])
    assert state.round_of(forged) is None
    assert state.round_of(b"nothing of the kind") is None


def test_an_aggregator_takes_each_round_in_its_format(tmp_path):
    checkpoint = begun()
    with Aggregator(
        checkpoint.recipe, tmp_path, rounds_per_epoch=ROUNDS, measuring=checkpoint.measuring
    ) as server:
        late = None
        for number in range(ROUNDS):
            request = Request.decode(server.request())
            rows = reports_for(request, 3, seed=number)
            if late is not None:
                assert server.receive("late", late) is Verdict.LATE
            for name, row in enumerate(rows[:2]):
                assert server.receive(name, row) is Verdict.ACCEPTED
            assert server.receive_many(rows[2], [2]).accepted == 1
            late = rows[0]
            assert server.step().accepted == 3
        assert server.measurements[0].clients == 12
    with Aggregator(
        checkpoint.recipe, tmp_path, rounds_per_epoch=ROUNDS, measuring=checkpoint.measuring
    ) as again:
        assert again.round == ROUNDS
        assert again.measurements[0].clients == 12


def test_a_plan_trains_with_the_rounds_that_do_not_measure():
    plan = ServerPlan(Recipe(epsilon=4.0, measure=0.25), 1000, 20, norm=1.0)
    without = ServerPlan(Recipe(epsilon=4.0), 1000, 15, norm=1.0)
    assert plan.training_rounds == without.training_rounds == 15
    measuring = plan.measuring_of(plan.recipe_of(4), 2)
    assert measuring.rounds == 5
    assert Measuring.of_dict(measuring.to_dict()) == measuring
    with pytest.raises(InvalidArgument, match="measure"):
        plan.measuring_of(plan.recipe_of(4), None)


def test_what_measuring_will_tell_is_said_beforehand():
    known = Measuring(Measured(2, linear=True), 1, Fraction(2))
    assert known.said(51_720, 10) == (
        "about 5,172 devices measure the model in an epoch and do not train; its accuracy will be"
        " known to ± 2.0 points"
    )
    few = known.said(100, 10)
    assert "which says little: for ± 10 points it takes 207" in few
    assert "accuracy" not in Measuring(Measured(0, linear=False), 1, Fraction(2)).said(100, 10)


@pytest.mark.parametrize("rounds", range(2, 30))
@pytest.mark.parametrize("epochs", [1, 3])
def test_some_rounds_train_and_some_measure(rounds, epochs):
    for measure in (0.01, 0.1, 0.5, 0.99):
        assert 1 <= measuring_rounds(measure, rounds, epochs) < rounds


def test_a_run_that_asks_counts_answers_by_epoch():
    question = Question("histogram", {"job": ["cook", "smith", "other"]})
    recipe = question_recipe(question, 2.0, epochs=2)
    state = Checkpoint.begin(recipe, asks=True)
    assert state.stage == "asking"
    for answer in (0, 2):
        totals = state.solution_of(state.round).totals()
        totals.add(report_answers(recipe.build(), [answer] * 50))
        state = Checkpoint.decode(state.advanced(totals, Counts(50)).encode())
    assert [(one.epoch, one.count) for one in state.answered] == [(0, 50), (1, 50)]
    assert state.finished
    assert state.answered[0].totals(recipe).count == 50


def test_the_run_of_a_question_follows_from_what_is_asked():
    question = Question("histogram", {"age": (0, 100)}, bins=4)
    recipe, intent = question_recipe(question, 1.0), Intent("why", "who")
    same = asking_run(Question.of_dict(question.to_dict()), question_recipe(question, 1.0), intent)
    assert asking_run(question, recipe, intent) == same
    others = [
        asking_run(Question("histogram", {"age": (0, 99)}, bins=4), recipe, intent),
        asking_run(question, question_recipe(question, 1.5), intent),
        asking_run(question, recipe, Intent("why", "else")),
        asking_run(question, recipe, Intent("whywho", "")),
    ]
    assert len({same, *others}) == 5
