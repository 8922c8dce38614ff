"""TOML files and the names in them: what is read, and what is said where something is wrong."""

import pytest

from fedsel._internal.settings import check_keys, check_omitted, naming_file, read_toml
from fedsel.errors import InvalidArgument


def test_the_values_of_a_file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("a = 0.1\n[b]\nc = 'ü'\n", encoding="utf-8")
    assert read_toml("own", file, parse_float=str) == {"a": "0.1", "b": {"c": "ü"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"^own = '.*own.toml': must be a TOML file that can be read \(No such file"),
        (b"\xff\xfe", r"^own = '.*own.toml': must be valid TOML \(.*utf-8"),
        (b"a = [", r"^own = '.*own.toml': must be valid TOML \(.*at end of document"),
        (b"a = 1\nb = ?", r"^own = '.*own.toml': must be valid TOML \(.*line 2, column 5"),
        (b"a = " + b"[" * 5000, r"^own = '.*own.toml': must be valid TOML \("),
        (b"a = 1\nb = " + b"9" * 5000, r"^b in own.toml = 'thousands of digits': must be a short"),
        (b"9" * 5000, r"^own in own.toml = 'thousands of digits': must be a shorter number"),
    ],
)
def test_what_keeps_a_file_from_being_read(tmp_path, content, message):
    file = tmp_path / "own.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=message) as caught:
        read_toml("own", file)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"closeafter": 1}, r"^t\.closeafter = 1: must be a known key, such as close_after$"),
        ({"close-after": 1}, r"^t\.close-after = 1: must be a known key, such as close_after$"),
        ({"colour": 1}, r"^t\.colour = 1: must be a known key: name, close_after$"),
        ({"close_after": 1}, r"^t\.name = None: must be set: it has no default$"),
    ],
)
def test_unknown_and_missing_keys_are_named_as_they_are_spelled(given, message):
    with pytest.raises(InvalidArgument, match=message):
        check_keys(given, ["name", "close_after"], required=["name"], within="t.")


def test_the_first_setting_that_is_given_is_refused(tmp_path):
    check_omitted("omitted", a=None)
    for value in (0, "", False, ()):
        with pytest.raises(InvalidArgument, match=r"^b = .*: must be omitted$"):
            check_omitted("omitted", a=None, b=value, c=1)
    with pytest.raises(InvalidArgument, match=rf"^b = '{tmp_path}': must be omitted$"):
        check_omitted("omitted", b=tmp_path)


def test_errors_inside_of_a_file_name_it_and_others_do_not(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^a in own.toml = 1"), naming_file("x/own.toml"):
        raise InvalidArgument("a", 1, "2")
    with pytest.raises(KeyError), naming_file("own.toml"):
        raise KeyError("a")
