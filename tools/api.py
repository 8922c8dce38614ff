"""Write docs/api.md: every public name, with the first clause of its docstring.

python tools/api.py
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
HEAD = """# API reference

These names are the whole public API. On the site each leads to its signature and docstring, most
with an example that the tests run; `help(fedsel.Recipe)` shows the same. What front ends are made
of is only named here.
[CONTRIBUTING.md](../CONTRIBUTING.md#versions-and-deprecations) says how names may change.
"""
PACKAGES = (
    "fedsel",
    *(
        f"fedsel.{name}"
        for name in (
            *("mechanisms", "solutions", "auto", "device", "server", "service", "wire"),
            *("preparation", "simulation", "experiments", "data", "sampling", "pages", "auditing"),
            *("asking", "statements", "tracking", "sklearn", "torch", "flower"),
        )
    ),
)

INNER = frozenset(
    f"fedsel.{name}"
    for name in (
        *("auto", "wire", "preparation", "simulation", "experiments", "sampling", "pages"),
        "statements",
    )
)
"""What front ends are made of: the page names their names, the site has their docstrings."""


def page() -> str:
    """The whole page; every name must have a docstring."""
    lacking: list[str] = []
    described: set[tuple[str, int]] = set()
    text = "\n".join([HEAD, *(section(name, described, lacking) for name in PACKAGES)])
    if lacking:
        raise SystemExit(f"without a docstring: {', '.join(lacking)}")
    return text


def section(name: str, described: set[tuple[str, int]], lacking: list[str]) -> str:
    """The list of one package; what an earlier package describes is named only."""
    package = import_module(name)
    items, inner, again = [], [], []
    for public in sorted(set(package.__all__) - {"__version__"}, key=lambda n: (n.lower(), n)):
        if not hasattr(package, public):  # a module that is imported on demand
            import_module(f"{name}.{public}")
        value = inspect.unwrap(getattr(package, public))
        if (public, id(value)) in described:
            again.append(f"`{public}`")
            continue
        described.add((public, id(value)))
        line = summary(package, public, value)
        if name in INNER:
            inner.append(f"`{public}`")
        else:
            items.append(f"- `{public}`: {line}")
        if line == ".":
            lacking.append(f"{name}.{public}")
    about = (package.__doc__ or "").splitlines()[0]
    lists = (("Names", inner), ("Also here", again))
    named = [
        line for head, names in lists if names for line in (f"{head}: {', '.join(names)}.", "")
    ]
    items += [""] if items else []
    return "\n".join([f"## `{name}`", "", about, "", *items, *named])


def summary(package: ModuleType, name: str, value: object) -> str:
    """The first clause of a docstring, or of the text below a constant."""
    if inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value):
        text = inspect.getdoc(value) or ""
    else:
        text = _below(package, name)
    line = re.split(r"\n\n|\n- |:\n|(?<=[.]) (?=[A-Z(])", text.strip(), maxsplit=1)[0]
    line = line.replace("\n", " ").replace("``", "`").partition("; ")[0]
    before, _, after = line.partition(": ")
    line = before if after and len(before.split()) > 3 else line
    if len(line.split()) > 9:  # the first of several clauses will do
        line = re.split(r", (?=(?:as|by|for|from|so|that|until|which|with|without)\b)", line)[0]
    return f"{line.rstrip('.')}."


def _below(package: ModuleType, name: str) -> str:
    """The string below the assignment of a constant: in this package, or wherever it is."""
    own = Path(str(package.__file__)).parent
    for file in [*sorted(own.rglob("*.py")), *sorted(PAGE.parents[1].glob("src/**/*.py"))]:
        body = ast.parse(file.read_text(encoding="utf-8")).body
        for statement, after in pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            named = any(isinstance(t, ast.Name) and t.id == name for t in targets)
            if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    return ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
