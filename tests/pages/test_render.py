"""The report page as text: escaped, self-contained, and the same for the same data."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from fedsel.errors import InvalidArgument
from fedsel.pages import Figure, Overview, Section, Table, Verdict, render, write_page
from tests.pages.sample import drawing, page

HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&#60;\x00\ud800</style>--%"
VOID = {"meta", "link", "br", "wbr", "img"}


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
    assert not [key for _, key, _ in tags.attributes if key.startswith("on")]
    assert all(value.startswith("data:image/") for _, key, value in tags.attributes if key == "src")
    assert "\x00" not in text
    text.encode()  # no lone surrogates
    assert "alert(1)" in tags.texts["h1"]
    links = [value for tag, key, value in tags.attributes if tag == "a" and key == "href"]
    assert len(links) > 5
    assert all(re.match(r"#|\./[^:]*$", link) for link in links)


def test_nothing_is_loaded_from_anywhere():
    tags = Tags(page())
    for tag, key, value in tags.attributes:
        if key == "src":
            assert value.startswith("data:image/svg+xml;base64,")
        elif key in {"srcset", "action", "data", "poster", "style"} or key.startswith("on"):
            pytest.fail(f"{tag} has {key}")
        if key == "href":
            assert re.match(r"#|\./|data:", value), value
    assert not {"iframe", "object", "embed", "base", "form"} & set(tags.names)
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


def test_the_same_data_give_the_same_page():
    assert drawing(5) == drawing(5)
    assert page() == page()


def test_a_drawing_is_an_image_with_its_alt_text():
    svg = drawing(1)
    (image,) = re.findall("<img [^>]*>", rendered(minimal(figures=(Figure(svg, "c", "a <b>"),))))
    coded = re.search('src="data:image/svg[+]xml;base64,([^"]*)"', image)[1]
    assert base64.b64decode(coded, validate=True).decode() == svg
    assert 'alt="a &lt;b&gt;"' in image


@pytest.mark.parametrize("svg", ["", "<svg", "<html/>", "<svg/>"])
def test_what_is_no_drawing_is_refused(svg):
    with pytest.raises(InvalidArgument, match=r"^svg = "):
        Figure(svg, "", "")


def test_a_page_of_one_section_has_neither_overview_nor_contents():
    alone = render([minimal()], title="T", summary=[], facts={})
    assert "The claims at a glance" not in alone
    assert "nav" not in Tags(alone).names
    two = render([minimal(), minimal(name="b")], title="T", summary=[], facts={})
    assert "nav" in Tags(two).names


def test_a_page_is_written_as_a_whole(quick_path):
    path = quick_path / "finding.html"
    path.write_text("old")
    write_page(path, "new ε")
    assert path.read_text(encoding="utf-8") == "new ε"
    assert [p.name for p in quick_path.iterdir()] == ["finding.html"]
