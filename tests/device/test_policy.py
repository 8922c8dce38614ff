"""The owner's policy: from a file or an object, exact, and never more than was written."""

from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.device import Policy, Reason
from tests.wire.support import complete

TEXT = """
lifetime = 0.3
per_report = 0.1
solutions = ["ps-pm", "PM"]
dimensions = [100, 123]
clip = 2
reports_per_epoch = 1
reports_per_day = 24
"""
GIVEN = {"lifetime": 1.0, "per_report": 0.5, "solutions": ["PM"], "dimensions": [8]}


def test_a_file_says_what_it_says(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(TEXT)
    policy = Policy.load(file)
    assert policy.lifetime == Fraction(3, 10)
    assert policy.per_report == Fraction(1, 10)
    assert policy.solutions == ("PS-PM", "PM")
    assert policy.dimensions == (100, 123)
    assert (policy.clip, policy.reports_per_day) == (2.0, 24)
    same = Policy(0.3, 0.1, ["PS-PM", "PM"], [100, 123], clip=2.0, reports_per_day=24)
    assert policy == same


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("epsilon = 3", "epsilon"),
        ("lifetime = nan", "policy"),
        ("lifetime = inf", "policy"),
        ("lifetime = ", "policy"),
        ("lifetime = 1e999999", "lifetime"),
        ("[other]", "other"),
    ],
)
def test_files_that_are_no_policy(tmp_path, change, name):
    file = tmp_path / "policy.toml"
    lines = [x for x in TEXT.splitlines() if not x.startswith(change.split(" =")[0] + " ")]
    file.write_text("\n".join([*lines, change]))
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Policy.load(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^policy = "):
        Policy.load(tmp_path / "none.toml")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match=r"^policy = "):
        Policy.load(tmp_path / "latin")


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_what_must_be_given(name):
    with pytest.raises(InvalidArgument, match=f"^{name} = None: must be given"):
        Policy.of({key: value for key, value in GIVEN.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lifetime", 0),
        ("lifetime", float("nan")),
        ("lifetime", "2"),
        ("lifetime", True),
        ("per_report", -1.0),
        ("solutions", "PM"),
        ("solutions", []),
        ("solutions", [7]),
        ("dimensions", 8),
        ("dimensions", [0]),
        ("dimensions", [8.0]),
        ("dimensions", [2**33]),
        ("clip", 0.0),
        ("clip", float("inf")),
        ("reports_per_epoch", 0),
        ("reports_per_day", 1.5),
        ("runs", 0),
        ("weight_bound", float("nan")),
        ("least_seconds", -1.0),
        ("least_seconds", float("nan")),
    ],
)
def test_impossible_values_are_named(name, value):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Policy.of({**GIVEN, name: value})


@pytest.mark.parametrize("name", ["NP", "NP-K", "PS", "EXP-O"])
def test_a_solution_that_is_not_private_is_no_policy(name):
    with pytest.raises(InvalidArgument, match="a private solution"):
        Policy.of({**GIVEN, "solutions": [name]})


@pytest.mark.parametrize(
    "change", [{"solution": "HM"}, {"dim": 9}, {"dim": 1 << 32}, {"clip": 1.0000001}]
)
def test_recipes_that_the_policy_does_not_allow(change):
    asked = {"solution": "PM", "epsilon": 0.1, "dim": 8, **change}
    policy = Policy.of(GIVEN)
    assert policy.objection(complete(**asked)) is Reason.NOT_ALLOWED
    assert policy.objection(complete("PM", epsilon=0.1, dim=8, clip=0.5)) is None
