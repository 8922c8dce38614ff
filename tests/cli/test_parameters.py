"""The recipe is the only list of parameters: options, keys and columns of a run come from it."""

from dataclasses import fields, make_dataclass
from typing import Annotated

import pytest
import typer

from fedsel import Recipe
from fedsel.cli import app
from fedsel.experiments import PARAMETERS, SPEC_NAMES, Spec, override
from fedsel.recipe import Parameter, parameters_of

DERIVED = {"dim", "requested_solution"}
"""Fields that no user sets: they follow from the records and from the solution."""


@pytest.fixture(scope="module")
def options():
    """The options of fedsel run, without dashes, and their short forms."""
    command = typer.main.get_command(app).commands["run"]
    return {spelling.lstrip("-") for p in command.params for spelling in p.opts}


def test_every_field_of_the_recipe_is_a_parameter():
    named = {p.field for p in parameters_of(Recipe).values()}
    assert {f.name for f in fields(Recipe)} - named == DERIVED | {"measure"}  # has test records


@pytest.mark.parametrize("name", parameters_of(Recipe))
def test_a_parameter_of_the_recipe_is_an_option_a_key_and_a_column(name, options):
    parameter = parameters_of(Recipe)[name]
    assert name.replace("_", "-") in options
    assert not parameter.short or parameter.short in options
    assert name in next(Spec().cells()).parameters
    if name not in ("solution", "epsilon"):  # through which an experiment goes
        assert name in SPEC_NAMES
        assert PARAMETERS[name].name == name


def test_a_change_reaches_the_recipe():
    values = {"words": 64, "bases": 3, "clip": 2.0, "theta": 0.1, "centre": 0.2, "reg": 0.5}
    (cell,) = override(Spec(solutions=("RC",), epsilons=(1.0,)), values).cells()
    assert {name: cell.parameters[name] for name in values} == values
    fields_of = {name: parameters_of(Recipe)[name].field for name in values}
    assert {name: getattr(cell.recipe, fields_of[name]) for name in values} == values


def test_users_know_these_names():
    """What users write in commands and files, and read in results, does not change."""
    known = "dataset draw clients skew batch rounds dropout folds repeats seed solution epsilon "
    known += "model scale intercept unit_records epochs learning_rate averaging reg rho mu theta k "
    known += "clip momentum ratio words bases spread centre"
    assert {p.name for p in PARAMETERS.values()} == set(known.split())
    columns = set(next(Spec().cells()).parameters)
    assert columns == {*known.split(), "protocol", "curve"}


def test_a_new_field_is_a_parameter_under_its_name():
    about = Annotated[int | None, Parameter("A text.", "training", name="known")]
    record = make_dataclass("Record", [("one", about, 3), ("other", int, 0)])
    (parameter,) = parameters_of(record).values()
    assert (parameter.name, parameter.field, parameter.default) == ("known", "one", 3)
    assert parameter.kind == int | None
