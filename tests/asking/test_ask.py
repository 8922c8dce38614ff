"""fedsel.ask: values of every kind, questions that share clients, and what is refused."""

import itertools
import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest

import fedsel
from fedsel import InvalidArgument, InvalidData, Reports, Schema, ask
from fedsel.asking import Answer
from fedsel.asking import _ask as asking
from fedsel.errors import SeededNoiseWarning
from fedsel.measuring import question_recipe
from fedsel.sampling.answers import report_answers, report_numbers
from fedsel.wire import Number, Question
from tests.asking.people import COLUMNS, COUNT, JOBS, QUESTIONS, TABLE

SURE = 500.0
"""So much ε that answers are what clients have said."""
SHARES = {job: float((TABLE["job"] == job).mean()) for job in JOBS}


@pytest.fixture
def seeded():
    """Draws that can be repeated: the warning of seeds is the subject of one test alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        yield


def values_of(answer):
    return {label: share.value for label, share in answer.shares.items()}


# --- values of every kind ------------------------------------------------------------------------


def table_as(kind):
    if kind == "mapping":
        return TABLE
    if kind == "lists":
        return {name: column.tolist() for name, column in TABLE.items()}
    if kind == "records":
        return [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    library = pytest.importorskip(kind)
    make = library.table if kind == "pyarrow" else library.DataFrame
    return make({"job": TABLE["job"].tolist(), "age": TABLE["age"]})


@pytest.mark.parametrize("kind", ["mapping", "lists", "records", "pandas", "polars", "pyarrow"])
def test_without_noise_the_answers_are_those_of_the_table(kind):
    table = table_as(kind)
    found = ask(table, "histogram", SURE, columns={"job": JOBS})
    assert values_of(found) == pytest.approx(SHARES)
    mean = ask(table, "mean", SURE, columns="age", bounds=(0, 80)).mean
    assert mean.value == pytest.approx(TABLE["age"].mean(), abs=1e-3)
    counted = ask(table, "count", SURE, columns=COLUMNS, where={"job": "cook"})
    assert counted.number.value == pytest.approx(COUNT * SHARES["cook"])
    assert counted.question.names == ("job",)  # the others are not asked for
    crossed = ask(table, QUESTIONS["cross table"], SURE)
    assert crossed.margins["job"]["nurse"].value == pytest.approx(SHARES["nurse"])
    inside = (TABLE["job"] == "cook") & (TABLE["age"] < 20)
    assert crossed.shares["cook", "0 to 20"].value == pytest.approx(inside.mean())


def cells_as(kind):
    """The jobs, and the name of the column, where it has one."""
    jobs = TABLE["job"].tolist()
    if kind in ("pandas", "category"):
        dtype = None if kind == "pandas" else "category"
        return pytest.importorskip("pandas").Series(jobs, name="job", dtype=dtype), "job"
    if kind == "polars":
        return pytest.importorskip("polars").Series("job", jobs), "job"
    if kind == "pyarrow":
        return pytest.importorskip("pyarrow").array(jobs), "value"
    if kind == "mapping":
        return {"job": jobs}, "job"
    return {"list": jobs, "tuple": tuple(jobs), "array": TABLE["job"]}[kind], "value"


ALONE = ["list", "tuple", "array", "mapping", "pandas", "category", "polars", "pyarrow"]


@pytest.mark.parametrize("kind", ALONE)
def test_the_cells_of_one_column(kind):
    cells, name = cells_as(kind)
    found = ask(cells, "histogram", SURE, levels=JOBS)
    assert values_of(found) == pytest.approx(SHARES)
    assert found.question.names == (name,)
    if kind != "mapping":
        named = ask(cells, "histogram", SURE, levels=JOBS, columns="work")
        assert named.question.names == ("work",)


def test_public_levels_and_bounds():
    numbers = np.arange(100) % 4
    for levels in ([0, 1, 2, 3], range(4), np.arange(4), ["0", "1", "2", "3"]):
        found = ask(numbers, "histogram", SURE, levels=levels)
        assert set(values_of(found).values()) == {0.25}
    for bounds in ((0, 4), [0.0, 4.0], np.array([0, 4])):
        assert ask(numbers, "mean", SURE, bounds=bounds).mean.value == pytest.approx(1.5, abs=1e-3)
    schema = Schema({"x": (0, 4), "y": JOBS}, label="z")
    counted = ask({"x": numbers}, "count", SURE, columns=schema, where={"x": (1, 3)})
    assert counted.number.value == pytest.approx(50)
    assert ask(numbers, "count", SURE, bounds=(0, 4), where=(1, 3)).number.value == 50
    cooks = ask(TABLE["job"], "count", SURE, levels=JOBS, where=["cook", "nurse"]).number
    assert cooks.value == pytest.approx(COUNT * (SHARES["cook"] + SHARES["nurse"]))
    rows = np.stack([np.zeros(100), numbers], axis=1)
    named = ask(rows, "mean", SURE, columns="b", bounds=(0, 4), names=["a", "b"])
    assert named.mean.value == pytest.approx(1.5, abs=1e-3)


def test_missing_numbers_have_an_answer_where_the_column_says_which():
    ages = [*range(80), None, math.nan, "?"] * 3
    known = ask(ages, "quantiles", SURE, columns={"value": Number(0, 80, indicator=True)})
    assert known.quantiles[0.5].value == pytest.approx(40, abs=1)
    assert known.shares["missing"].value == pytest.approx(3 / 83)
    given = ask(ages, "mean", SURE, columns={"value": Number(0, 80, missing=80)})
    assert given.mean.value == pytest.approx((79 * 40 + 3 * 80) / 83, abs=0.01)


# --- draws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_seed_repeats_the_draws_and_says_so(name):
    with pytest.warns(SeededNoiseWarning, match="seed is fixed: .* Do not publish these answers"):
        first = ask(TABLE, QUESTIONS[name], 4.0, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        again, other = (ask(TABLE, QUESTIONS[name], 4.0, seed=seed) for seed in (3, 4))
    assert first.as_dict() == again.as_dict() != other.as_dict()


@pytest.mark.parametrize("name", QUESTIONS)
def test_without_a_seed_every_answer_is_drawn_anew(name):
    # Two sums may be equal, once in about 50; all of nine once in 1e13.
    drawn = [ask(TABLE, QUESTIONS[name], 2.0).as_dict() for _ in range(9)]
    assert any(one != drawn[0] for one in drawn)


@pytest.mark.usefixtures("seeded")
def test_draws_do_not_depend_on_how_many_are_drawn_at_a_time(monkeypatch):
    whole = ask(TABLE, QUESTIONS["histogram"], 1.0, seed=1)
    monkeypatch.setattr(asking, "_AT_ONCE", 64)
    assert ask(TABLE, QUESTIONS["histogram"], 1.0, seed=1).as_dict() == whole.as_dict()


@pytest.mark.parametrize("name", QUESTIONS)
def test_reports_that_were_collected_elsewhere(name):
    question = QUESTIONS[name]
    made = question_recipe(question, 4.0).build()
    if question.count == 1:
        reports = report_numbers(made, question.numbers(TABLE))
    else:
        reports = report_answers(made, question.answers(TABLE))
    found = ask(reports, question, 4.0)
    assert found.clients == found.everyone == COUNT
    if question.count > 1:
        decoded = made.decode(reports)
        for value, raw in zip(values_of(found).values(), decoded, strict=True):
            assert value == pytest.approx(raw, abs=abs(min(0, decoded.min())) + 1e-9)
    else:
        assert found.mean.value == pytest.approx(question.number(made.decode(reports)[0]))
    assert isinstance(found, Answer)


# --- several questions ---------------------------------------------------------------------------

BOTH = [QUESTIONS["histogram"], QUESTIONS["mean"]]


def test_clients_that_answer_one_question_each():
    found = ask(TABLE, BOTH, 4.0)
    assert [answer.clients for answer in found] == [500, 500]
    assert [answer.everyone for answer in found] == [COUNT, COUNT]
    assert [answer.epsilon for answer in found] == [4, 4]
    three = ask(TABLE, [*BOTH, QUESTIONS["numbers"]], 4.0, shares=(0.5, 0.3, 0.2))
    assert [answer.clients for answer in three] == [500, 300, 200]
    assert "; ε = 4 per client, 300 of whom answered." in str(three[1])


def test_clients_that_answer_every_question():
    found = ask(TABLE, BOTH, 3.0, split="epsilon")
    assert [answer.clients for answer in found] == [COUNT, COUNT]
    assert [answer.epsilon for answer in found] == [Fraction(3, 2)] * 2
    thirds = ask(TABLE, BOTH, 3.0, split="epsilon", shares=[1, 2])
    assert [answer.epsilon for answer in thirds] == [1, 2]
    exact = ask(TABLE, BOTH, 0.7 * 10, split="epsilon", shares=[0.1, 0.2])
    assert sum(answer.epsilon for answer in exact) == 7


def test_one_question_in_a_list_gives_a_list():
    (alone,) = ask(TABLE, [QUESTIONS["histogram"]], SURE)
    assert values_of(alone) == pytest.approx(SHARES)
    assert alone.clients == COUNT


@pytest.mark.usefixtures("seeded")
def test_each_client_answers_once_and_who_is_random():
    groups = asking._groups(1000, [Fraction(1, 4), Fraction(3, 4)], 5)
    assert sorted(np.concatenate(groups)) == list(range(1000))
    assert [len(group) for group in groups] == [250, 750]
    other = asking._groups(1000, [Fraction(1, 4), Fraction(3, 4)], 6)
    assert set(groups[0]) != set(other[0])
    unseeded = asking._groups(1000, [Fraction(1, 4), Fraction(3, 4)], None)
    # Of 1000 at random about a quarter: beyond 6 standard deviations once in 1e9.
    assert abs(np.sum(unseeded[0] < 500) - 125) < 6 * math.sqrt(250 * 0.25 * 0.75)


@pytest.mark.usefixtures("seeded")
def test_intervals_of_a_sample_of_the_clients_are_about_all_of_them():
    """At an ε without noise a part of the clients does not know the others' answers."""
    whole = ask(TABLE, QUESTIONS["histogram"], SURE, seed=1)
    halves = ask(TABLE, BOTH, SURE, seed=1)[0]
    for job in JOBS:
        one = whole.shares[job]
        assert one.high - one.low <= 1.001 / COUNT  # half a client on each side
        part = halves.shares[job]
        assert part.high - part.low > 2 * 1.9 * math.sqrt(SHARES[job] * (1 - SHARES[job]) / 500)
    people = ask(TABLE, QUESTIONS["histogram"], SURE, seed=1, population=True)
    assert people.shares["cook"].high - people.shares["cook"].low > 0.04
    assert "the intervals are about all people of whom they are" in str(people)


@pytest.mark.slow
@pytest.mark.usefixtures("seeded")
def test_splitting_clients_is_more_accurate_at_small_epsilon():
    """What the documentation says, on 200 runs of each."""
    error = {"clients": [], "epsilon": []}
    questions = [QUESTIONS["histogram"], QUESTIONS["numbers"]]
    for split, seed in itertools.product(error, range(200)):
        found = ask(TABLE, questions, 1.0, split=split, seed=seed)[0]
        error[split].append(np.mean([(found.shares[j].value - SHARES[j]) ** 2 for j in JOBS]))
    assert np.mean(error["clients"]) < 0.8 * np.mean(error["epsilon"])


# --- what is refused -----------------------------------------------------------------------------

TWO = {"levels": ["cook", "smith"]}
COOKS = ["cook"] * 500
REFUSED = [
    ((COOKS, "histogram", math.nan), TWO, "epsilon = nan: must be a number > 0 and ≤ 500"),
    ((COOKS, "histogram", math.inf), TWO, "epsilon = inf: must be a number > 0"),
    ((COOKS, "histogram", 0), TWO, "epsilon = 0: must be a number > 0"),
    ((COOKS, "histogram", -1), TWO, "epsilon = -1: must be a number > 0"),
    ((COOKS, "histogram", 1e-13), TWO, "epsilon = 1e-13: must be at least 1e-12"),
    ((COOKS, "histo", 1), TWO, "question = 'histo': must be one of count, histogram"),
    ((COOKS, None, 1), TWO, "question = None: must be a Question, a list of Questions, or the k"),
    ((COOKS, [], 1), {}, "question = []: must be at least one Question"),
    ((COOKS, ["count"], 1), TWO, "question = 'count': must be a Question"),
    ((COOKS, "histogram", 1), {}, "levels = None: must be the public levels"),
    ((COOKS, "histogram", 1), {**TWO, "bounds": (0, 1)}, "levels = ['cook', 'smith']: must be om"),
    ((COOKS, "histogram", 1), {"columns": {"x": (0, 1)}, **TWO}, "levels = ['cook', 'smith']: mu"),
    ((COOKS, "histogram", 1), {"levels": ["cook"]}, "levels = 1: must be an integer in 2 … 65536"),
    ((COOKS, "histogram", 1), {"levels": range(10**9)}, "levels = 1000000000: must be an integer"),
    ((COOKS, "histogram", 1), {"levels": "cook"}, "levels = 'cook': must be a list of different"),
    ((COOKS, "histogram", 1), {"levels": ["a", "a"]}, "levels = ('a', 'a'): must be a list of di"),
    ((COOKS, "histogram", 1), {"levels": 5}, "levels = 5: must be a list of different texts"),
    ((COOKS, "histogram", 1), {"bounds": (5, 5)}, "bounds = (5, 5): must be (low, high) with low"),
    ((COOKS, "histogram", 1), {"bounds": 5}, "bounds = 5: must be (low, high) with low < high"),
    ((COOKS, "histogram", 1), {"bounds": (0, math.inf)}, "bounds = inf: must be (low, high)"),
    ((COOKS, "histogram", 1), {"bounds": (0, 1), "bins": 10**9}, "bins = 1000000000: must be"),
    ((COOKS, "histogram", 1), {"columns": 3}, "columns = 3: must be columns by name"),
    ((COOKS, "count", 1), TWO, "where = None: must be what is counted"),
    ((COOKS, "count", 1), {**TWO, "where": "x"}, "where = 'x': must be a level of value: cook, s"),
    ((COOKS, "quantiles", 1), {"bounds": (0, 1), "quantiles": [2]}, "quantiles = [2]: must be as"),
    ((COOKS, "mean", 1), TWO, "column = 'value': must be one of numbers for a mean"),
    ((COOKS[:3], "histogram", 1), TWO, "values = '3 clients': must be 65 or more: with fewer not"),
    ((COOKS, "histogram", 1e-9), TWO, "values = '500 clients': must be 6.1e+19 or more"),
    ((COOKS, "cross table", 1), {"columns": COLUMNS}, "values = 'one column': must be a table wi"),
    ((TABLE, BOTH, 1), {"split": "both"}, 'split = \'both\': must be "clients" or "epsilon"'),
    ((TABLE, BOTH, 1), {"shares": [1]}, "shares = [1]: must be 2 numbers > 0, one for each quest"),
    ((TABLE, BOTH, 1), {"shares": [1, 0]}, "shares = [1, 0]: must be 2 numbers > 0"),
    ((TABLE, BOTH, 1), {"shares": [1, math.nan]}, "shares = nan: must be 2 numbers > 0"),
    ((TABLE, BOTH, 1), {"bins": 4}, "bins = 4: must be omitted beside a Question, which has it"),
    ((TABLE, BOTH, 1), {"shares": [0.99, 0.01]}, "values = '1,000 clients': must be 8,100 or more"),
    ((TABLE, BOTH, 0.01), {"split": "epsilon"}, "values = '1,000 clients': must be 5,534,112 or m"),
    ((TABLE, "histogram", 1), {"columns": {"jobs": JOBS}}, "column = 'jobs': must be a column of"),
    ((COOKS, "histogram", 1), {**TWO, "seed": -1}, "seed = -1: must be an integer ≥ 0"),
    ((COOKS, "histogram", 1), {**TWO, "level": 1.0}, "level = 1.0: must be in (0, 1)"),
    ((COOKS, "histogram", 1), {**TWO, "population": 1}, "population = 1: must be a bool"),
    ((Reports([[0]] * 99, [[0]] * 99), BOTH, 1), {}, "question = '2 questions': must be one, who"),
    ((Reports([[0]] * 9, [[0]] * 9), "histogram", 1), TWO, "values = '9 clients': must be 65 or"),
]


@pytest.mark.parametrize(("given", "more", "complaint"), REFUSED, ids=[x[2][:40] for x in REFUSED])
def test_wrong_arguments_are_refused_before_anything_is_drawn(given, more, complaint, monkeypatch):
    monkeypatch.setattr(asking, "_draw", None)
    with pytest.raises(InvalidArgument, match=re.escape(complaint)) as error:
        ask(*given, **more)
    assert "\n" not in str(error.value)


NO_DATA = [
    (([], "histogram", 1), TWO, "values: there is no record, and so nobody to ask"),
    (({"x": []}, "histogram", 1), {"columns": {"x": JOBS}}, "values: there is no record"),
    (("cook", "histogram", 1), TWO, "values: must be an array with 1 dimension(s)"),
    ((None, "histogram", 1), TWO, "values: must be an array with 1 dimension(s)"),
    (([[1, 2], [3, 4]], "mean", 1), {"bounds": (0, 5)}, "values: must be an array with 1 dim"),
    (({"job": COOKS, "age": [1]}, "cross table", 1), {"columns": COLUMNS}, "values: every column"),
    (([*COOKS, "nurse"], "histogram", 1), TWO, "value: 1 of 501 records gives no answer: name"),
    (([*range(99), None], "mean", 1), {"bounds": (0, 99)}, "value: 1 of 100 records gives no an"),
    ((Reports([[2]] * 99, [[0]] * 99), "histogram", 1), TWO, "values: they hold reports that are"),
    ((Reports([[-1]] * 99, [[0]] * 99), "histogram", 1), TWO, "none of BR for the histogram of v"),
    ((Reports([[0]] * 99, [[1]] * 99), "histogram", 1), TWO, "values: they hold reports that are"),
    ((Reports([[0]] * 99, [[0.5]] * 99), "histogram", 1), TWO, "values: they hold reports that"),
    ((Reports([[0, 1]] * 99, [[0, 0]] * 99), "histogram", 1), TWO, "values: they hold reports"),
]


@pytest.mark.parametrize(("given", "more", "complaint"), NO_DATA, ids=[x[2][:40] for x in NO_DATA])
def test_wrong_data_is_refused_before_anything_is_drawn(given, more, complaint, monkeypatch):
    monkeypatch.setattr(asking, "_draw", None)
    with pytest.raises(InvalidData, match=re.escape(complaint)) as error:
        ask(*given, **more)
    assert "cook" not in str(error.value)


def test_it_is_loaded_when_it_is_first_used():
    assert fedsel.ask is ask
    assert "ask" in fedsel.__all__


def test_a_question_needs_its_own_columns_alone():
    """Cells of other columns are not read, whatever they hold."""
    table = {"job": TABLE["job"], "notes": [object()] * COUNT}
    assert values_of(ask(table, QUESTIONS["histogram"], SURE)) == pytest.approx(SHARES)


def test_a_million_clients_do_not_wait():
    answers = np.arange(1_000_000) % 3
    found = ask(answers, "histogram", 1.0, levels=[0, 1, 2])
    assert found.clients == 1_000_000
    # About 1/3 each: beyond 6 standard deviations once in 1e9.
    assert all(abs(share.value - 1 / 3) < 6 * share.error for share in found.shares.values())


def test_questions_by_name_are_questions():
    named = ask(TABLE, "cross table", SURE, columns=COLUMNS, bins=2)
    made = ask(TABLE, Question("cross table", COLUMNS, bins=2), SURE)
    assert named.as_dict() == made.as_dict()
