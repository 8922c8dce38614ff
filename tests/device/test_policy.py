"""The owner's policy: from a file or an object, exact, and never more than was written."""

import math
import reprlib
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("lifetime = nan", "lifetime"),
        ("lifetime = inf", "lifetime"),
        ("lifetime = ", "policy"),
        ("lifetime = 1e999999", "lifetime"),
        ("lifetime = 1e99999999999999999999", "lifetime"),
        ("lifetime = 1e-999999999", "lifetime"),
        ("weight_bound = 1e400", "weight_bound"),
        ("clip = 1e400", "clip"),
        ("least_seconds = 1e400", "least_seconds"),
        (f"runs = {10**300}", "runs"),
        (f"runs = {'9' * 5000}", "runs"),
        (f"dimensions = [\n  1,\n  {'9' * 5000},\n]\nclip = 1.0", "dimensions"),
        (f"solutions = {'[' * 5000}", "policy"),
        ("[other]", "other"),
        ("[solutions]\nPM = 1", "solutions"),
        ('solutions = ["PN"]', "solutions"),
    ],
    ids=reprlib.repr,
)
def test_files_that_are_no_policy(tmp_path, change, name):
    file = tmp_path / "policy.toml"
    key = change.split(" =")[0].split("]")[0].strip("[")
    kept = [x for x in TEXT.splitlines() if not x.startswith((key + " ", "clip "))]
    file.write_text("\n".join([*kept, change]))
    spelled = "policy" if name == "policy" else f"{name} in policy.toml"
    with pytest.raises(InvalidArgument, match=f"^{spelled} = "):
        Policy.load(file)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.0", 1),
        ("0.0", 0),
        ("0e-400", 0),
        ("1e-300", Fraction(1, 10**300)),
        ("0." + "3" * 300, Fraction(10**300 // 3, 10**300)),
    ],
    ids=reprlib.repr,
)
def test_a_number_of_a_file_is_that_number(tmp_path, text, number):
    name = "lifetime" if number else "least_seconds"
    file = tmp_path / "policy.toml"
    kept = [x for x in TEXT.splitlines() if not x.startswith(name)]
    file.write_text("\n".join([*kept, f"{name} = {text}"]))
    assert getattr(Policy.load(file), name) == number


@pytest.mark.parametrize("change", ["least_seconds = -1.0", "clip = 0.0", "lifetime = -0.0"])
def test_no_number_of_a_file_is_made_to_fit(tmp_path, change):
    test_files_that_are_no_policy(tmp_path, change, change.split(" =")[0])


@pytest.mark.parametrize("text", ["1e301", "1e-301", "0." + "3" * 301], ids=reprlib.repr)
def test_a_number_of_a_file_has_at_most_three_hundred_digits(tmp_path, text):
    test_files_that_are_no_policy(tmp_path, f"lifetime = {text}", "lifetime")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^policy = "):
        Policy.load(tmp_path / "none.toml")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match=r"^policy = "):
        Policy.load(tmp_path / "latin")


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_what_must_be_given(name):
    with pytest.raises(InvalidArgument, match=f"^{name} = None: must be set"):
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
        ("lifetime", Fraction(1, 10**700)),
        ("weight_bound", Fraction(10**400)),
        ("least_seconds", Fraction(10**400)),
        ("clip", 10**400),
        ("runs", 1 << 64),
        ("reports_per_epoch", 10**4000),
        ("solutions", {"PM": 1}),
        ("solutions", ["PN"]),
    ],
    ids=reprlib.repr,
)
def test_impossible_values_are_named(name, value):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Policy.of({**GIVEN, name: value})


DAY = 86_400.0


@pytest.mark.parametrize(
    ("name", "most", "too_much"),
    [
        ("runs", (1 << 32) - 1, 1 << 32),
        ("reports_per_day", (1 << 32) - 1, 1 << 32),
        ("reports_per_epoch", (1 << 32) - 1, 1 << 32),
        ("least_seconds", DAY, math.nextafter(DAY, math.inf)),
        ("lifetime", Fraction(1, 10**600 - 1), Fraction(1, 10**600)),
    ],
    ids=lambda value: reprlib.repr(value) if isinstance(value, str) else "",
)
def test_limits_are_met_and_not_passed(name, most, too_much):
    assert getattr(Policy.of({**GIVEN, name: most}), name) == most
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Policy.of({**GIVEN, name: too_much})


def test_what_an_owner_allows_who_says_nothing_else():
    policy = Policy.of(GIVEN)
    assert (policy.clip, policy.reports_per_epoch, policy.runs) == (1, 1, 1)
    assert (policy.reports_per_day, policy.weight_bound, policy.least_seconds) == (None, 10**6, 0)


@pytest.mark.parametrize("name", [field.name for field in fields(Policy)])
def test_a_policy_is_not_changed_afterwards(name):
    with pytest.raises(FrozenInstanceError):
        setattr(Policy.of(GIVEN), name, 10)


NUMBERS = st.one_of(
    st.sampled_from(
        ["inf", "-inf", "nan", "+nan", "true", "false", "0.0", "-0.0", "1e400", "1e-400"]
    ),
    st.sampled_from(["1e99999999", "1979-05-27", "07:32:00", "1e308", "5e-324", '"PM"', '"1.0"']),
    st.integers(-(10**4250), 10**4250).map(str),
    st.integers(-3, 3).map(str),
    st.integers(0, 5000).map(lambda digits: "9" * (digits + 1)),
    st.decimals(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:e}"),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:e}"),
)
VALUES = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda x: f"[{', '.join(x)}]"),
        inner.map(lambda x: f"{{a = {x}}}"),
    ),
    max_leaves=4,
)


def loaded(file):
    """The policy of a file, or the error that says why it is none."""
    try:
        return Policy.load(file)
    except InvalidArgument as error:
        return error


@given(name=st.sampled_from([field.name for field in fields(Policy)]), value=VALUES)
def test_whatever_a_file_says_of_a_field_is_a_policy_or_an_error_that_names_it(
    name, value, tmp_path_factory
):
    file = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    lines = [x for x in TEXT.splitlines() if not x.startswith(name + " ")]
    file.write_text("\n".join([*lines, f"{name} = {value}"]))
    found = loaded(file)
    if isinstance(found, InvalidArgument):
        assert found.name == f"{name} in fuzzed.toml"
        assert len(str(found)) < 600
        assert found.__cause__ is None
    else:
        assert 0 < found.clip < math.inf
        assert 0 < found.weight_bound < math.inf
        assert len(str(found.lifetime)) + len(str(found.per_report)) < 2500


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


def test_columns_are_names_and_none_is_allowed_but_those():
    policy = Policy(**GIVEN, columns=["age", "größe 2"])
    assert policy.columns == ("age", "größe 2")
    assert policy.forbidden(["age", "größe 2"]) is None
    assert policy.forbidden([]) is None
    assert policy.forbidden(["age", "Age", "job"]) == 'the column "Age"'
    assert policy.forbidden(None) == "columns without names"
    assert Policy(**GIVEN).forbidden(None) is None
    for wrong in ("age", [], ["age", ""], ["a\nge"], [3]):
        with pytest.raises(InvalidArgument, match=r"^columns = "):
            Policy(**GIVEN, columns=wrong)
