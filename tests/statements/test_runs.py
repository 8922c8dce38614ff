"""The statement of a server's run: what its clients released, and what it says of trust."""

import json
from fractions import Fraction

import pytest

from fedsel import Aggregator, InvalidArgument, Reports
from fedsel.device import Request
from fedsel.mechanisms.central import add_up, compose
from fedsel.statements import RunStatement, certainty
from fedsel.statements._runs import TRUST, TRUST_ON_FLOWER
from tests.statements.support import HOSTILE, KEYBOARD, Text
from tests.wire.support import complete

RECIPE = complete("PM", epsilon=3, dim=4, epochs=3)


def served(folder, heard=(2, 0, 1), **stated):
    """A server whose epochs, of two rounds each, have had so many reports."""
    server = Aggregator(RECIPE, folder, rounds_per_epoch=2, **stated)
    form = Request.decode(server.request()).format
    for epoch, count in enumerate(heard):
        for number in (2 * epoch, 2 * epoch + 1):
            for client in range(count):
                server.receive(f"{number} {client}", form.encode(number, Reports([1], [0])))
            server.receive("hostile", b"nonsense")
            server.step()
    return server


def test_what_was_released_is_that_of_the_epochs_with_reports(tmp_path):
    statement = RunStatement.of(served(tmp_path))
    assert statement.per_report == 1
    assert [(e.epoch, e.rounds, e.accepted, e.dropped, e.released) for e in statement.epochs] == [
        (0, 2, 4, 2, 1),
        (1, 2, 0, 2, 1),
        (2, 2, 2, 2, 2),
    ]
    assert (statement.released, statement.planned, statement.reports) == (2, 3, 6)
    assert "a client has released at most 2, and at most 3 after 3 epochs." in str(statement)
    assert "at most 88 % certain" in str(statement)


def test_before_the_first_round_nothing_is_released(tmp_path):
    statement = RunStatement.of(Aggregator(RECIPE, tmp_path))
    assert (statement.released, statement.epochs) == (0, ())
    assert "No round is over yet." in Text(statement.to_html()).text
    assert "50 %" in str(statement)


def test_as_json_and_as_a_page(tmp_path):
    server = served(tmp_path, purpose=KEYBOARD.purpose, recipient=KEYBOARD.recipient)
    statement = RunStatement.of(
        server, refusals={"EXHAUSTED": 7, "OTHER": 1}, trust=TRUST_ON_FLOWER
    )
    told = json.loads(json.dumps(statement.to_dict()))
    assert (told["purpose"], told["recipient"]) == (KEYBOARD.purpose, KEYBOARD.recipient)
    assert (told["released_exact"], told["planned_exact"], told["run"]) == (
        "2",
        "3",
        server.run.hex(),
    )
    assert told["certainty_released"] == certainty(2)
    assert [e["released"] for e in told["epochs"]] == [1.0, 1.0, 2.0]
    text = Text(statement.to_html()).text
    for sentence in (*TRUST, *TRUST_ON_FLOWER, KEYBOARD.purpose, "OTHER", "at most ε = 2"):
        assert sentence in text
    assert "the budget of this device does not suffice for the report" in text
    fragment = statement._repr_html_()
    assert "<style" not in fragment
    assert "<script" not in fragment
    assert KEYBOARD.recipient in Text(fragment).text


def test_both_numbers_are_stated_with_who_is_trusted_for_which(tmp_path):
    """The smallest round that had reports decides; an epoch without any costs nothing."""
    statement = RunStatement.of(served(tmp_path, heard=(6, 0, 4)))
    shuffled = statement.shuffled
    assert (shuffled.reports, shuffled.epochs, shuffled.delta) == (4, 2, 1e-6)
    expected = add_up(RECIPE.build(), reports=4, epochs=2, delta=1e-6)
    assert shuffled.guarantee == expected
    told = json.loads(json.dumps(statement.to_dict()))
    assert told["if_shuffled"] == {
        "epsilon": expected.epsilon,
        "delta": 1e-6,
        "reports": 4,
        "epochs": 2,
        "local": 2.0,
    }
    text = Text(statement.to_html()).text
    for sentence in (*shuffled.trust, shuffled.sentence, "if shuffled"):
        assert sentence in text
    assert "For local ε = 2: only the device must be trusted" in text
    assert shuffled.sentence in str(statement)
    assert "2 epochs added up" in shuffled.sentence
    assert set(shuffled.trust) <= set(told["trust"])


@pytest.mark.slow
def test_central_guarantees_compose_the_epochs_that_had_reports(tmp_path):
    statement = RunStatement.of(served(tmp_path, heard=(30, 0, 30)))
    found = statement.central(delta=1e-2)
    assert found == compose(RECIPE.build(), reports=30, epochs=2, delta=1e-2)
    assert found.epsilon < add_up(RECIPE.build(), reports=30, epochs=2, delta=1e-2).epsilon
    empty = RunStatement.of(served(tmp_path / "empty", heard=()))
    assert empty.shuffled is None
    assert empty.to_dict()["if_shuffled"] is None
    with pytest.raises(InvalidArgument, match="no reports yet"):
        empty.central()


def test_an_exact_price_is_said_exactly(tmp_path):
    recipe = complete("PM", epsilon=Fraction(1, 3), dim=4, epochs=3)
    text = Text(RunStatement.of(Aggregator(recipe, tmp_path)).to_html()).text
    assert "0.111111111111 = 1/9 exactly" in text


def test_what_a_server_states_does_nothing_on_its_page(tmp_path):
    server = served(tmp_path, purpose=HOSTILE.purpose, recipient=HOSTILE.recipient)
    for page in (RunStatement.of(server).to_html(), RunStatement.of(server)._repr_html_()):
        assert HOSTILE.purpose in Text(page).text
        assert "<img" not in page
        assert page.count("<script>") == (1 if page.startswith("<!doctype") else 0)
