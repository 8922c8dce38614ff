"""The page around its live parts: head, sections, links.

All addresses are relative to the page's own: a proxy may serve it below any path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsel._version import __version__
from fedsel.pages.markup import Markup, element, joined
from fedsel.service.dashboard.words import counted, moment, rule_sentence
from fedsel.service.view import RunSnapshot

POLICY = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
)
_COUNTS = ("Accepted", "Rejected", "Duplicate", "Late")
_LINKS = (
    ("join", "Take part", "from this browser, with records that stay in it"),
    ("v1/model.json", "Model (JSON)", "what has been learnt so far"),
    ("v1/model", "Model (float64)", "the same for programs"),
    ("v1/rounds", "All rounds (JSON)", "with times and what was measured"),
    ("v1/task", "Task (JSON)", "all that is public about the run"),
    ("v1/openapi.json", "OpenAPI", "the interface, described for programs"),
    ("metrics", "Metrics", "figures for Prometheus"),
    (
        "https://github.com/fedsel/fedsel/blob/main/SPEC.md",
        "Specification",
        "bytes and laws, for clients in other languages",
    ),
)


def pairs(values: Mapping[str, str], **attributes: str) -> Markup:
    """Names and values."""
    entries = [
        element("div", element("dt", name), element("dd", value)) for name, value in values.items()
    ]
    return element("dl", *entries, **attributes)


def live(name: str, tag: str, content: str, **attributes: str) -> Markup:
    """An element whose content the script replaces when the service sends another."""
    return element(tag, content, id=f"live-{name}", data_live=True, **attributes)


def render(
    view: RunSnapshot, fragments: Mapping[str, str], older: tuple[str, str] | None, now: float
) -> str:
    """The page; ``older``: rows and pager of earlier rounds, where those were asked for."""
    task, parts = view.task, {name: Markup(html) for name, html in fragments.items()}
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href="data:,"),
        element("title", f"{task.name} · fedsel"),
        element("link", rel="stylesheet", href="dashboard.css"),
        element("script", type="module", src="dashboard.js"),
    ]
    body = [
        element("a", "Skip to the run", href="#now", class_="skip"),
        _header(view, now),
        element(
            "main",
            _section("now", "Now", live("state", "div", parts["state"]), _counts(parts["counts"])),
            _section(
                "figures", "By round", live("figures", "div", parts["figures"], class_="charts")
            ),
            _section("privacy", "Privacy", live("privacy", "div", parts["privacy"])),
            _section("task", "Task", pairs(_facts(view), class_="settings-list stated")),
            _section("rounds", "Rounds", *_rounds(view, parts, older)),
        ),
        _footer(),
        live("said", "p", parts["said"], class_="said", role="status"),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{joined(head, chr(10))}\n</head>\n'
        f'<body class="dashboard">\n{joined(body, chr(10))}\n</body>\n</html>\n'
    )


def _header(view: RunSnapshot, now: float) -> Markup:
    task = view.task
    purpose = [element("p", task.purpose, class_="lead")] if task.purpose else []
    if task.recipient:
        purpose.append(element("p", f"For {task.recipient}", class_="for"))
    return element(
        "header",
        element("p", "fedsel service", class_="eyebrow"),
        element("h1", task.name),
        *purpose,
        element(
            "p",
            joined(["As of ", moment(now), ". Reload the page for news."]),
            id="connection",
            class_="connection",
            role="status",
        ),
    )


def _section(name: str, title: str, *content: str) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *content, id=name, aria_labelledby=f"{name}-title")


def _counts(content: Markup) -> Markup:
    headings = [element("th", "Reports", scope="col"), *_numbered(_COUNTS)]
    table = element(
        "table",
        element("caption", "Reports by what became of them", class_="unseen"),
        element("thead", element("tr", *headings)),
        live("counts", "tbody", content),
    )
    return _scrolling(table, "Reports by what became of them")


def _rounds(
    view: RunSnapshot, parts: Mapping[str, Markup], older: tuple[str, str] | None
) -> Sequence[Markup]:
    measures = ("Accuracy, %", "Loss") if view.task.evaluation is not None else ()
    headings = [
        *_numbered(("Round",)),
        element("th", "Stage", scope="col"),
        *_numbered((*_COUNTS, "Seconds", "Per second", *measures)),
    ]
    if older is None:
        body = live("rounds", "tbody", parts["rounds"])
        pages = live("pager", "p", parts["pager"], class_="pager")
    else:  # they are over, and stay as they are
        body = element("tbody", older[0])
        pages = element("p", older[1], class_="pager")
    table = element(
        "table",
        element("caption", "Rounds that are over, the latest first", class_="unseen"),
        element("thead", element("tr", *headings)),
        body,
        class_="rounds",
    )
    return [_scrolling(table, "Rounds"), pages]


def _numbered(names: Sequence[str]) -> list[Markup]:
    return [element("th", name, scope="col", class_="number") for name in names]


def _scrolling(content: Markup, label: str) -> Markup:
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def _facts(view: RunSnapshot) -> dict[str, str]:
    task, recipe = view.task, view.state.recipe
    solution = recipe.build()
    who = "with a signed token" if task.invitations == "signed" else "anyone who likes"
    return {
        "Purpose": task.purpose or "not stated",
        "Recipient": task.recipient or "not stated",
        "Solution": recipe.solution,
        **_model(view),
        "Entries of an update": f"{solution.dim:,}",
        "Bits of a report": f"{solution.bits:,}",
        "Epochs": f"{recipe.epochs:,}",
        "Rounds": f"{view.rounds:,}, {view.state.rounds_per_epoch:,} in an epoch",
        "Clients": f"{task.clients:,} planned in an epoch",
        "A round ends": rule_sentence(task.close_after),
        "Who may take part": who,
        "Learning rate": f"{float(recipe.learning_rate):.4g}",
        "Run": view.state.run.hex(),
    }


def _model(view: RunSnapshot) -> dict[str, str]:
    task = view.task
    if task.features is None:
        return {}
    facts = {"Model": f"linear, {task.loss} loss, {counted(task.feature_count or 0, 'feature')}"}
    known = None if view.state.plan is None else view.state.plan.known
    if known is not None:
        given = counted(int(known.given.sum()), "feature")
        facts["Public means"] = f"of {given}: free of ε, and taken to be known to all"
    return facts


def _footer() -> Markup:
    links = [
        element(
            "li",
            element("a", name, href=href, rel="noreferrer" if "://" in href else None),
            " ",
            element("span", text),
        )
        for href, name, text in _LINKS
    ]
    return element(
        "footer",
        element(
            "nav",
            element("h2", "For programs"),
            element("ul", *links),
            aria_label="For programs",
        ),
        element(
            "p", f"fedsel {__version__}. No names, tokens or addresses of clients are shown here."
        ),
    )
