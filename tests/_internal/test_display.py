"""Templates: everything that they print is escaped, and nothing in it misleads a reader."""

import pytest
from jinja2 import UndefinedError

from fedsel._internal.display import macro, rendered, safe

HOSTILE = "<b>\"'&\x00\ud800\u202e"


def test_values_are_escaped_and_what_cannot_be_shown_is_replaced():
    page = rendered("statements/fragment.html", title=HOSTILE, summary=[], facts={}, sections=[])
    assert "<h3>&lt;b&gt;&#34;&#39;&amp;\ufffd\ufffd\ufffd</h3>" in page
    page.encode()


def test_parts_of_a_page_are_escaped_once():
    part = macro("service/dashboard/parts.html", "figures", drawn=[(HOSTILE, safe("<svg>"), "a&b")])
    assert "<h3>&lt;b&gt;" in part
    assert "<svg>" in part
    assert "a&amp;b" in part
    assert str(safe("{}").format(part)) == str(part)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        rendered("statements/fragment.html", title="a")
