"""Small charts: what they draw is where the numbers say."""

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fedsel.service._charts import bar_chart, grouped, line_chart, ticks

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, numbers)
def test_ticks_enclose_all(low, high):
    low, high = sorted((low, high))
    found = ticks(low, high)
    room = 1e-6 * max(1.0, abs(low), abs(high))
    assert found[0] <= low + room
    assert found[-1] >= high - room
    assert 2 <= len(found) <= 12
    assert found == sorted(set(found))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 60))
def test_groups_keep_every_value(values, most):
    groups = grouped(list(enumerate(values)), most)
    assert len(groups) <= most
    assert [n for g in groups for n in range(g.first, g.last + 1)] == list(range(len(values)))
    assert groups[-1].latest == values[-1]


def test_bars_are_as_high_as_their_values():
    drawing = ElementTree.fromstring(
        bar_chart(grouped([(0, 50.0), (1, 100.0)], 60), alt="Two", level=100.0)
    )
    low, high = drawing.findall("rect")
    assert float(high.get("height")) == 2 * float(low.get("height"))
    goal = drawing.find("line[@class='goal']")
    assert goal.get("y1") == high.get("y")
    assert drawing.get("aria-label") == "Two"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_lines_stay_within_the_drawing(values):
    drawing = ElementTree.fromstring(line_chart(grouped(list(enumerate(values)), 120), alt="<&>"))
    for pair in drawing.find("polyline").get("points").split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 360
        assert 0 <= y <= 190
