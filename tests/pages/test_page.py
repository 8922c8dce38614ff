"""The report page as text: escaped, self-contained, with ids that meet only where they should."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.pages import Figure, Overview, Section, Table, Verdict, render, write_page
from fedsel.pages._svg import Styles, inline
from tests.pages.sample import drawing, page, sections

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&#60;\x00\ud800</style>--%"
VOID = {"meta", "link", "br", "wbr"}


class Tags(HTMLParser):
    """Elements, ids, references and text of a page; a wrongly nested element fails."""

    def __init__(self, text):
        super().__init__()
        self.names, self.ids, self.references, self.attributes = [], [], [], []
        self.texts, self._open = {}, []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        for key, value in attrs:
            self.attributes.append((tag, key, value))
            if key == "id":
                self.ids.append(value)
            if (key == "href" and value.startswith("#")) or key == "aria-labelledby":
                self.references.append(value.lstrip("#"))
            self.references += re.findall(r"url\(#([^)]+)\)", value or "")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open:
            self.texts[self._open[-1]] = self.texts.get(self._open[-1], "") + data


def minimal(**fields):
    given = {"name": "a", "title": "A", "where": "", "text": (), "command": "", "settings": {}}
    return Section(**{**given, **fields})


def rendered(*given, title="T", summary=(), facts=None, overview=None):
    return render(
        given, title=title, summary=summary, facts=facts or {}, overview=overview or Overview()
    )


def hostile_section():
    h = HOSTILE
    return Section(
        name=h,
        title=h,
        where=h,
        text=(h, h),
        facts={h: h},
        points=(h,),
        command=h,
        settings={h: h},
        figures=(Figure(drawing(), h, h),),
        tables=(Table(h, (h, h, h), ((h, 1.5, None), (h, 2, h)), note=h),),
        verdicts=(Verdict(h, h, h, h, h), Verdict(h, h, f"holds {h}", h, h)),
        missing=(h,),
        notice=h,
        files=(h, "javascript:alert(1)", "//elsewhere.example/x", "https://elsewhere.example"),
        seconds=1.0,
    )


@pytest.mark.slow
def test_a_hostile_string_in_every_field_stays_text():
    text = rendered(hostile_section(), title=HOSTILE, summary=(HOSTILE,), facts={HOSTILE: HOSTILE})
    tags, harmless = Tags(text), Tags(page())
    assert set(tags.names) <= {*harmless.names, "wbr"}
    assert tags.names.count("script") == tags.names.count("style") == 1
    assert not [key for _, key, _ in tags.attributes if key.startswith("on") or key == "src"]
    assert "\x00" not in text
    text.encode()  # no lone surrogates
    assert "alert(1)" in tags.texts["h1"]
    links = [value for tag, key, value in tags.attributes if tag == "a" and key == "href"]
    assert len(links) > 5
    assert all(re.match(r"#|\./[^:]*$", link) for link in links)


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


def test_nothing_is_loaded_from_anywhere():
    tags = Tags(page())
    for tag, key, value in tags.attributes:
        if key in {"src", "srcset", "action", "data", "poster", "style"} or key.startswith("on"):
            pytest.fail(f"{tag} has {key}")
        if key == "href":
            assert re.match(r"#|\./|data:", value), value
    assert not {"iframe", "object", "embed", "base", "form", "img"} & set(tags.names)
    for text in (tags.texts["style"], tags.texts["script"]):
        assert not re.search(r"https?:|@import|url\((?!#)|fetch\(|XMLHttp|import\(", text)


def test_the_policy_admits_this_style_and_this_script_alone():
    text = page()
    policy = dict(
        part.strip().split(" ", 1)
        for part in re.search(r'Security-Policy" content="([^"]*)"', text)[1].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert "unsafe" not in str(policy)
    for name in ("style", "script"):
        content = re.search(rf"<{name}>(.*?)</{name}>", text, flags=re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{name}-src"] == f"'sha256-{digest}'"


def test_empty_sections_and_empty_pages():
    tags = Tags(rendered())
    assert "Nothing was run." in tags.texts["p"]
    tags = Tags(rendered(minimal(), minimal(), minimal(name="")))
    assert {"a", "a-2", "section"} <= set(tags.ids)
    assert "No claim was put to the test." in tags.texts["p"]
    assert not {"figure", "table", "pre", "dl"} & set(tags.names)
    assert Tags(rendered(minimal(tables=(Table("t", ("a",), ()), Table("t", (), ())))))


def test_cells_of_all_sorts():
    rows = (
        ("a", 1, 0.126, None, np.float64(2.5), "1.5 ± 0.2"),
        ("b", 20_000, -0.001, None, np.int64(3), "−10.5 ± 0.2"),
        (None, None, float("nan"), None, float("-inf"), None),
    )
    text = rendered(minimal(tables=(Table("t", ("text", "i", "f", "none", "np", "s"), rows),)))
    cells = re.findall(r"<t[dh]( scope=\"row\")?([^>]*)>([^<]*)</t[dh]>", text)
    shown = [cell[2] for cell in cells if "data-type" not in cell[1] and "scope" not in cell[1]]
    assert shown[:6] == ["a", "1", "0.13", "–", "2.50", "1.5 ± 0.2"]
    assert shown[6:12] == ["b", "20,000", "0.00", "–", "3", "−10.5 ± 0.2"]
    assert shown[12:] == ["–", "–", "not a number", "–", "−∞", "–"]
    assert 'data-value="0.126"' in text
    assert 'data-value="-10.5"' in text
    assert 'data-value="-Infinity"' in text
    assert "nan" not in re.findall(r'data-value="([^"]*)"', text)


def test_a_row_that_does_not_fit_is_refused():
    with pytest.raises(InvalidArgument, match=r"^row = .*must be 2 cells"):
        Table("t", ("a", "b"), ((1,),))


def test_the_same_data_give_the_same_page():
    """Although matplotlib salts its ids anew and dates every drawing."""
    first, second = drawing(5), drawing(5)
    assert first != second
    pages = [rendered(minimal(figures=(Figure(svg, "c", "a"),))) for svg in (first, second)]
    assert pages[0] == pages[1]


def test_the_overview_links_every_verdict_to_its_section():
    text = page()
    row = r'<tr role="row" data-kind="(\w+)">.*?<a href="#([^"]+)"'
    rows = re.findall(row, text, flags=re.DOTALL)
    expected = [(v.kind.key, s.name) for s in sections() for v in s.verdicts]
    assert rows == expected


def test_a_page_of_one_section_has_neither_overview_nor_contents():
    alone = render([minimal()], title="T", summary=[], facts={})
    assert "The claims at a glance" not in alone
    assert "nav" not in Tags(alone).names
    two = render([minimal(), minimal(name="b")], title="T", summary=[], facts={})
    assert "nav" in Tags(two).names


def test_an_overview_is_in_the_words_of_its_page():
    words = Overview(title="Who was asked", where="On device", nothing="Nobody was asked.")
    given = Verdict("c", "phone 7", "holds", "", "")
    text = rendered(minimal(verdicts=(given,)), overview=words)
    assert "Who was asked" in text
    assert ">On device<" in text
    assert "Nobody was asked." in rendered(minimal(), overview=words)


def test_a_page_is_written_as_a_whole(quick_path):
    path = quick_path / "finding.html"
    path.write_text("old")
    write_page(path, "new ε")
    assert path.read_text(encoding="utf-8") == "new ε"
    assert [p.name for p in quick_path.iterdir()] == ["finding.html"]


def test_a_long_word_may_break_and_stays_one_word():
    """It would push a table off the paper; short ones stay whole."""
    word, hyphened = "x" * 30, "EXP-PM"
    text = rendered(minimal(tables=(Table("t", ("a", "b"), ((word, hyphened),)),)))
    assert "xxxxxxxxxxxx<wbr>xxxxxxxxxxxx<wbr>xxxxxx" in text
    assert '<span class="word">EXP-PM</span>' in text
    assert word in Tags(text).texts["th"]


def test_facts_points_and_the_title_of_what_is_missing():
    text = rendered(minimal(facts={"a": "b"}, points=("one", "two"), missing=("m",), notice="N"))
    assert "<dt>a</dt><dd>b</dd>" in text
    assert '<ul class="points"><li>one</li><li>two</li></ul>' in text
    assert "N</p><ul><li>m</li></ul>" in text
    assert 'class="points"' not in rendered(minimal())
