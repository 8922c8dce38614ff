"""Drawings in a page: their ids, look and text."""

import base64
import re

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.pages import Figure
from fedsel.pages._svg import Styles, inline
from tests.pages.sample import drawing, sections
from tests.pages.test_render import Tags, minimal, rendered


@pytest.mark.slow
def test_figures_share_no_id_and_every_reference_resolves():
    same = drawing(0)
    text = rendered(
        minimal(
            figures=(Figure(same, "c", "d"), Figure(same, "c", "d"), Figure(drawing(1), "", ""))
        ),
        minimal(figures=(Figure(same, "c", "d"),), name="b"),
        *sections(),
    )
    tags = Tags(text)
    references = [*tags.references, *re.findall(r"url\(#([^)]+)\)", tags.texts["style"])]
    assert len(tags.ids) == len(set(tags.ids))
    assert set(references) <= set(tags.ids)
    assert len(references) > 100
    for figure in re.findall(r"<figure>.*?</figure>", text, flags=re.DOTALL):
        own = Tags(figure)
        assert own.references
        assert set(own.references) <= set(own.ids)


def test_an_inlined_drawing_keeps_its_look_and_loses_its_frame():
    styles = Styles()
    source = drawing(0)
    made = inline(source, prefix="x-", alt="a <b>", styles=styles)
    for gone in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "style=", "xlink", "<!--", "http"):
        assert gone not in made
    assert re.match(r'<svg id="x-0" class="plot s\d+" viewBox="0 0 \S+ \S+" role="img" ', made)
    assert 'aria-label="a &lt;b&gt;"' in made
    assert not re.search(r"<svg[^>]* (width|height)=", made)
    assert ":where(#x-0) *{stroke-linejoin: round; stroke-linecap: butt}" in styles.text()
    declared = set(re.findall(r"(?:stroke|fill): (?:#\w+|none)", source))
    assert declared <= set(re.findall(r"(?:stroke|fill): (?:#\w+|none)", styles.text()))
    for kind in ("path", "use", "clipPath", "pattern", "rect"):
        assert made.count(f"<{kind} ") == len(re.findall(rf"<{kind}\b", source))


def test_text_in_a_drawing_stays_text():
    made = inline(drawing(text="none"), prefix="x-", alt="", styles=Styles())
    assert ">test accuracy (%)</text>" in made


def test_pictures_in_a_drawing_stay_in_the_page():
    import io

    from matplotlib.figure import Figure as Drawing

    figure, out = Drawing(), io.StringIO()
    figure.subplots().imshow(np.eye(3))
    figure.savefig(out, format="svg")
    made = inline(out.getvalue(), prefix="x-", alt="", styles=Styles())
    picture = re.search(r'<image [^>]*href="data:image/png;base64,([^"]*)"', made)
    assert base64.b64decode(picture[1], validate=True).startswith(b"\x89PNG")


@pytest.mark.parametrize("svg", ["", "<svg", "<html/>", "<svg/>"])
def test_what_is_no_drawing_is_refused(svg):
    with pytest.raises(InvalidArgument, match=r"^svg = "):
        inline(svg, prefix="x-", alt="", styles=Styles())


def test_a_style_cannot_leave_the_style_sheet():
    for bad in ("a: b} * {c: d", "</style>", "@import url(x)"):
        with pytest.raises(InvalidArgument, match=r"^style = "):
            Styles().name(bad)
