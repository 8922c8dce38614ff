"""The statement of a fit: as text, as a page, and as a notebook shows it."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, solution
from fedsel.sklearn import FedSelClassifier, PrivacyStatement
from fedsel.statements._fits import fit_statement
from tests.statements.support import Text


def statement(name="PM", epsilon=2.0, **changes):
    made = solution(name, epsilon=epsilon, dim=8, epochs=changes.pop("epochs", 1))
    given = {"released": "the weights", "grouped": False, "seeded": False}
    return fit_statement(made, **{**given, **changes})


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 3))
    return FedSelClassifier(epsilon=2.0, feature_range=(-1, 1)).fit(X, X[:, 0] > 0)


def test_an_estimator_has_a_page_and_shows_itself_in_a_notebook(fitted):
    told = fitted.privacy_
    assert isinstance(told, PrivacyStatement)
    page, fragment = told.to_html(), told._repr_html_()
    assert page.startswith("<!doctype html>")
    assert "<html" not in fragment
    for text in (Text(page).text, Text(fragment).text):
        assert "loses ε = 2 in total" in text
        assert "at most 88 % certain" in text
        for fact in (*told.covered, *told.not_covered):
            assert f"{fact[0].upper()}{fact[1:]}." in text
    assert told.to_html() == page


def test_a_fit_says_what_a_shuffler_would_make_of_its_rounds(fitted):
    """200 clients in rounds of 2: a shuffler hides little, and both numbers stand there."""
    told = fitted.privacy_
    assert told.shuffled.reports == fitted.history_.fewest_reports == 2
    assert told.central(delta=0.2) == fitted.solution_.privacy.central(reports=2, delta=0.2)
    assert told.central(delta=0.2) == fitted.history_.central(delta=0.2)
    assert told.central(delta=0.2).epsilon < 2
    assert told.shuffled.sentence in str(told)
    for text in (Text(told.to_html()).text, Text(told._repr_html_()).text):
        for sentence in (told.shuffled.sentence, *told.shuffled.trust):
            assert sentence in text
    again = pickle.loads(pickle.dumps(told))
    assert again.shuffled.guarantee == told.shuffled.guarantee


def test_who_has_not_reported_has_nothing_to_shuffle():
    for told in (
        statement(),
        fit_statement(
            solution("NP", dim=8), released="x", grouped=False, seeded=False, fewest_reports=9
        ),
    ):
        assert told.shuffled is None
        assert "shuffled" not in str(told)
        with pytest.raises(InvalidArgument, match="private fit"):
            told.central()


def test_several_epochs_of_clients_that_remember_are_not_said_to_be_hidden():
    told = statement("PS-PM", epochs=2, fewest_reports=1000)
    assert told.shuffled.guarantee.epsilon == pytest.approx(2.0)
    assert "clients keep what they have not sent" in str(told)
    once = statement("PS-PM", fewest_reports=1000)
    assert once.shuffled.guarantee.epsilon < 1


def test_the_page_has_what_a_ledger_would_charge():
    told = statement(epsilon=Fraction(1, 3), epochs=3)
    assert told.charge == Fraction(1, 9)
    assert "0.111111111111 = 1/9 exactly, for one report" in Text(told.to_html()).text


def test_what_is_not_private_says_nothing_else():
    told = fit_statement(solution("NP", dim=8), released="x", grouped=False, seeded=False)
    text = Text(told.to_html()).text
    assert text.count("NOT PRIVATE") == 1
    assert "certain" not in text
    assert "Everything." in text
    assert (told.charge, told.private) == (None, False)


def test_alarms_come_first():
    seeded = statement(seeded=True)
    text = Text(seeded.to_html()).text
    assert text.index("NOT FOR RELEASE") < text.index("loses ε")
    beyond = fit_statement(
        solution("PS-PM-C", epsilon=1.0, dim=8), released="x", grouped=True, seeded=False
    )
    assert "THIS IS MORE THAN THE EPSILON" in Text(beyond.to_html()).text
    assert "a group of records" in Text(beyond.to_html()).text
    assert "THIS IS MORE" not in Text(statement().to_html()).text


def test_a_statement_of_before_is_still_one():
    """Without what is new."""
    told = statement()
    kept = pickle.loads(pickle.dumps(told))
    assert kept == told
    old = {name: value for name, value in vars(told).items() if name != "charge"}
    again = PrivacyStatement.__new__(PrivacyStatement)
    vars(again).update(old)
    assert again.charge is None
    assert "loses ε = 2" in Text(again.to_html()).text
