"""Shows the examples of docstrings as code: Markdown takes ``>>>`` for quotations."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(
    r"^(?P<indent> *)>>> .*(?:\n(?! *$).*)*(?:\n\n+ *>>> .*(?:\n(?! *$).*)*)*", re.M
)


class Doctests(Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples between fences; paragraphs after them stay as they are.

    So does a section of examples, which mkdocstrings knows.
    """
    head, section, examples = text.partition("Examples\n--------\n")
    return _EXAMPLE.sub(lambda found: _block(found[0], found["indent"]), head) + section + examples


def _block(example: str, indent: str) -> str:
    return f"{indent}```pycon\n{example}\n{indent}```"
