"""Ask a question of clients that are simulated, or of the reports that clients have sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.progress import note
from fedsel._internal.random import Streams, fresh_seeds
from fedsel._internal.settings import check_omitted, naming
from fedsel.asking._answer import Answer
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    InvalidData,
    SeededNoiseWarning,
    check_count,
    check_finite,
    check_float,
    check_kind,
    warn_user,
)
from fedsel.measuring import least_clients, question_recipe
from fedsel.measuring._tally import LEVEL, deviations
from fedsel.mechanisms._reports import Reports, Totals
from fedsel.recipe import Recipe, decimal
from fedsel.sampling.answers import report_answers, report_numbers
from fedsel.solutions._blocks import MOST_ANSWERS
from fedsel.wire import Category, Number, Question, Schema
from fedsel.wire._columns import as_cells, is_record_list

Given = NDArray[Any]
"""What each client has to say: the number of an answer, or a number on [−1, 1]."""
Split = Literal["clients", "epsilon"]
VALUE = "value"
"""The name of a column that has none."""
ASKING = 16
"""The purpose of the streams by which clients answer."""
_AT_ONCE = 1 << 16
"""Clients whose reports are drawn at a time."""


@overload
def ask(
    values: Any,
    question: Question | str,
    epsilon: Epsilon,
    *,
    columns: Any = ...,
    levels: Sequence[Any] | None = ...,
    bounds: tuple[float, float] | None = ...,
    where: Any = ...,
    bins: int | None = ...,
    quantiles: Sequence[float] | None = ...,
    level: float = ...,
    population: bool = ...,
    names: Sequence[str] | None = ...,
    seed: int | None = ...,
    split: Split = ...,
    shares: Sequence[float] | None = ...,
) -> Answer: ...


@overload
def ask(
    values: Any,
    question: Sequence[Question],
    epsilon: Epsilon,
    *,
    level: float = ...,
    population: bool = ...,
    names: Sequence[str] | None = ...,
    seed: int | None = ...,
    split: Split = ...,
    shares: Sequence[float] | None = ...,
) -> list[Answer]: ...


def ask(
    values: Any,
    question: Question | str | Sequence[Question],
    epsilon: Epsilon,
    *,
    columns: Any = None,
    levels: Sequence[Any] | None = None,
    bounds: tuple[float, float] | None = None,
    where: Any = None,
    bins: int | None = None,
    quantiles: Sequence[float] | None = None,
    level: float = LEVEL,
    population: bool = False,
    names: Sequence[str] | None = None,
    seed: int | None = None,
    split: Split = "clients",
    shares: Sequence[float] | None = None,
) -> Answer | list[Answer]:
    """Ask clients, one for each record, and estimate what they say from their private reports.

    - ``values``: a data frame, a mapping of columns, a list of records, rows with ``names``, or the
      cells of one column; or `Reports` that were collected, which are added up.
    - ``question``: "count", "histogram", "mean", "quantiles" or "cross table", or a `Question`. Of
      a text, ``columns`` are a `Schema` or its columns; of one column it is the name, and
      ``levels`` or ``bounds`` say what is public. ``where``, ``bins`` and ``quantiles`` are those
      of `Question`.
    - ``epsilon``: what a client spends in all.
    - ``level``: how probably an interval holds the truth. It is about these clients, with
      ``population`` about the people of whom they are a random sample.
    - ``seed``: None draws from the operating system. A seed repeats the draws, for simulations.

    Several questions share a client: with ``split="clients"`` each client answers one of them, at
    random, with all of ε; with ``split="epsilon"`` each answers all, and ε is divided. ``shares``
    says how much of the clients, or of ε, each question has.

    >>> jobs = ["cook"] * 700 + ["smith"] * 300
    >>> print(ask(jobs, "histogram", 8.0, levels=["cook", "smith", "other"]))
    Of 1,000 clients the most, ... %), have value = cook; ε = 8 per client.
    """
    deviations(level)
    check_kind("population", population, bool)
    exact = decimal("epsilon", epsilon)
    if seed is not None:
        check_count("seed", seed, least=0)
    several, asked = _listed(question)
    given = {"columns": columns, "levels": levels, "bounds": bounds, "where": where}
    given |= {"bins": bins, "quantiles": quantiles}
    questions = [_question(one, values, given, several=several) for one in asked]
    parts = _parts(questions, exact, split, shares)
    about: dict[str, Any] = {"level": level, "population": population}
    if isinstance(values, Reports):
        found = [_of_reports(values, parts, **about)]
    else:
        answers = [_answers(one, values, names) for one in questions]
        found = _simulated(parts, answers, split, seed, **about)
    return found if several else found[0]


@dataclass(frozen=True)
class _Part:
    """A question with its recipe, and the share of the clients that answer it."""

    question: Question
    recipe: Recipe
    clients: Fraction

    @property
    def clients_needed(self) -> int:
        """The fewest clients in all of whose answers anything can be said."""
        return -(-least_clients(self.recipe.build()) // self.clients)


def _check_enough(parts: Sequence[_Part], clients: int) -> None:
    """Refuse so few clients that an interval would reach over half of the range."""
    part = max(parts, key=lambda part: part.clients_needed)
    needed = part.clients_needed
    if clients >= needed:
        return
    many = f"{needed:,}" if needed < 10**9 else f"{float(needed):.1e}"
    split = " if each answers one question" if part.clients < 1 else ""
    epsilon = float(part.recipe.epsilon or 0)
    raise InvalidArgument(
        "values",
        f"{clients:,} clients",
        f"{many} or more{split}: with fewer nothing can be said of the {part.question} at"
        f" ε = {epsilon:g}",
    )


# --- what is asked -------------------------------------------------------------------------------


def _listed(question: Any) -> tuple[bool, Sequence[Any]]:
    """Whether there may be several questions, and all that there are."""
    several = isinstance(question, list | tuple)
    return several, question if several else [question]


def _question(question: Any, values: Any, given: Mapping[str, Any], *, several: bool) -> Question:
    if isinstance(question, Question):
        check_omitted("omitted beside a Question, which has it", **given)
        return question
    if several or not isinstance(question, str):
        allowed = "a Question, a list of Questions, or the kind of one"
        raise InvalidArgument("question", question, allowed)
    columns, where = _columns(values, given), given["where"]
    if question == "count":
        if where is not None and not isinstance(where, Mapping) and len(columns) == 1:
            where = dict.fromkeys(columns, where)
        if isinstance(where, Mapping) and set(where) <= set(columns):
            columns = {name: columns[name] for name in where}  # the others are not asked for
    bins, quantiles = given["bins"], given["quantiles"]
    if isinstance(quantiles, Sequence | np.ndarray) and not isinstance(quantiles, str):
        quantiles = tuple(quantiles)
    return Question(question, columns, where, bins, quantiles)  # type: ignore[arg-type]


def _columns(values: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns with what is public about them: a schema's, or one of levels or bounds."""
    columns, levels, bounds = given["columns"], given["levels"], given["bounds"]
    if columns is not None and not isinstance(columns, str):
        allowed = "omitted beside columns, which have them; columns may be a name"
        check_omitted(allowed, levels=levels, bounds=bounds)
        schema = columns if isinstance(columns, Schema) else Schema.of_dict({"columns": columns})
        if isinstance(schema.columns, int):
            raise InvalidArgument("columns", schema.columns, "columns by name")
        return dict(schema.columns)
    if (levels is None) == (bounds is None):
        allowed = 'the public levels, as ["cook", "smith"], or bounds = (low, high), or columns'
        if levels is not None:
            allowed = "omitted beside bounds: a column has levels, or it is a number"
        raise InvalidArgument("levels", levels, allowed)
    name = _name(values) if columns is None else columns
    return {name: _number(bounds) if levels is None else _category(levels)}


def _number(bounds: Any) -> Number:
    wanted = "(low, high) with low < high"
    if not isinstance(bounds, list | tuple | np.ndarray) or len(bounds) != 2:
        raise InvalidArgument("bounds", bounds, wanted)
    low, high = (check_float("bounds", x, wanted) for x in bounds)
    if not low < high:
        raise InvalidArgument("bounds", bounds, wanted)
    return Number(low, high)


def _category(levels: Any) -> Category:
    if isinstance(levels, str) or not hasattr(levels, "__len__"):
        raise InvalidArgument("levels", levels, "a list of different texts")
    check_count("levels", len(levels), least=2, most=MOST_ANSWERS)
    return Category(tuple(levels.tolist() if hasattr(levels, "tolist") else levels))


def _name(values: Any) -> str:
    """The name of the only column, where it has one."""
    names = list(values) if isinstance(values, Mapping) else [getattr(values, "name", None)]
    return names[0] if len(names) == 1 and isinstance(names[0], str) and names[0] else VALUE


def _parts(
    questions: Sequence[Question],
    epsilon: Fraction,
    split: str,
    shares: Sequence[float] | None,
) -> list[_Part]:
    """Each question with its share of the clients or of ε, which add up exactly."""
    if not questions:
        raise InvalidArgument("question", [], "at least one Question")
    if split not in get_args(Split):
        raise InvalidArgument("split", split, '"clients" or "epsilon"')
    portions = [Fraction(1, len(questions))] * len(questions)
    if shares is not None:
        wanted = f"{len(questions)} numbers > 0, one for each question"
        if not isinstance(shares, list | tuple) or len(shares) != len(questions):
            raise InvalidArgument("shares", shares, wanted)
        checked = [Fraction(str(check_finite("shares", share, wanted))) for share in shares]
        if min(checked) <= 0:
            raise InvalidArgument("shares", [*shares], wanted)
        portions = [share / sum(checked) for share in checked]
    if split == "clients":
        recipes = [question_recipe(one, epsilon) for one in questions]
        return [_Part(*part) for part in zip(questions, recipes, portions, strict=True)]
    return [
        _Part(one, question_recipe(one, epsilon * portion), Fraction(1))
        for one, portion in zip(questions, portions, strict=True)
    ]


# --- reports that were collected -----------------------------------------------------------------


def _of_reports(reports: Reports, parts: Sequence[_Part], **about: Any) -> Answer:
    if len(parts) > 1:
        raise InvalidArgument("question", f"{len(parts)} questions", "one, whose Reports these are")
    (part,) = parts
    solution = part.recipe.build()
    slots, symbols = np.atleast_2d(reports.slot), np.atleast_2d(reports.symbol)
    known = (slots >= 0) & (slots < solution.transform.slots)
    known &= (symbols >= 0) & (symbols < solution.alphabet.symbols)
    fits = slots.shape[1] == solution.alphabet.picks and symbols.dtype.kind == "i"
    if not fits or not known.all():
        raise InvalidData(
            f"values: they hold reports that are none of {solution.name} for the {part.question} at"
            f" ε = {float(part.recipe.epsilon or 0):g}"
        )
    _check_enough(parts, reports.clients)
    totals = solution.totals()
    totals.add(Reports(slots, symbols))
    return Answer.of(part.question, part.recipe, totals, **about)


# --- clients that are simulated ------------------------------------------------------------------


def _answers(question: Question, values: Any, names: Sequence[str] | None) -> Given:
    """What each client has to say; a record that says nothing is refused."""
    is_table = isinstance(values, Mapping) or is_record_list(values)
    if not is_table and names is None and not hasattr(values, "columns"):
        with _naming_values():
            cells = as_cells(values, 1)
        if len(question.names) > 1:
            allowed = f"a table with the columns {', '.join(question.names)}"
            raise InvalidArgument("values", "one column", allowed)
        values = dict.fromkeys(question.names, cells)
    read = question.numbers if question.count == 1 else question.answers
    with _naming_values():
        answers: Given = read(values, names)
    if not len(answers):
        raise InvalidData("values: there is no record, and so nobody to ask")
    question.check_answered(answers)
    return answers


@contextmanager
def _naming_values() -> Iterator[None]:
    """Have errors about a table name the argument that it is."""
    try:
        with naming({"table": "values"}):
            yield
    except InvalidData as error:
        raise InvalidData(str(error).replace("table: ", "values: ", 1)) from None


def _simulated(
    parts: Sequence[_Part],
    answers: Sequence[Given],
    split: str,
    seed: int | None,
    **about: Any,
) -> list[Answer]:
    clients = len(answers[0])
    _check_enough(parts, clients)
    if seed is not None:
        warn_user(
            "seed is fixed: whoever knows or guesses it can repeat the draws and undo the noise of"
            " every client. Do not publish these answers; seed=None draws from the operating"
            " system. In simulations, ignore fedsel.errors.SeededNoiseWarning.",
            SeededNoiseWarning,
        )
    groups = [np.arange(clients)] * len(parts)
    if split == "clients" and len(parts) > 1:
        groups = _groups(clients, [part.clients for part in parts], seed)
    with note("asking", sum(map(len, groups))) as tell:
        found = []
        for number, (part, own, some) in enumerate(zip(parts, answers, groups, strict=True)):
            totals = part.recipe.build().totals()
            for begin in range(0, len(some), _AT_ONCE):
                block = some[begin : begin + _AT_ONCE]
                streams = None if seed is None else Streams(seed, 0, block, ASKING, number)
                _draw(part, own[block], streams, totals)
                tell(len(block))
            found.append(Answer.of(part.question, part.recipe, totals, everyone=clients, **about))
    return found


def _draw(part: _Part, answers: Given, streams: Streams | None, totals: Totals) -> None:
    solution = part.recipe.build()
    report = report_numbers if part.question.count == 1 else report_answers
    totals.add(report(solution, answers, streams))


def _groups(
    clients: int, portions: Sequence[Fraction], seed: int | None
) -> list[NDArray[np.int64]]:
    """Which clients answer each question: an order drawn for them, cut where the shares end."""
    everyone = np.arange(clients)
    if seed is None:
        streams = Streams.of_bits(fresh_seeds(clients))
    else:
        streams = Streams(seed, 0, everyone, ASKING)
    order = np.argsort(streams.next_words(everyone), kind="stable")
    ends = [round(clients * sum(portions[: i + 1])) for i in range(len(portions) - 1)]
    return [np.sort(group) for group in np.split(order, ends)]
