"""Write docs/api.md: every public name, with the first line of its docstring.

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

The public API is what `fedsel.__all__` and the `__all__` of the packages below list, and nothing
else. On the site each name leads to its signature and its docstring, most with an example that the
tests run. In Python, `help(fedsel.Recipe)` shows the same.
[CONTRIBUTING.md](../CONTRIBUTING.md#versions-and-deprecations) says how names may change.
`python tools/api.py` writes this page.
"""
PACKAGES = (
    "fedsel",
    *(
        f"fedsel.{name}"
        for name in (
            *("mechanisms", "solutions", "auto", "device", "server", "service", "wire"),
            *("preparation", "simulation", "experiments", "data", "sampling", "pages", "auditing"),
            *("statements", "tracking", "sklearn", "torch", "flower"),
        )
    ),
)


def page() -> str:
    """The whole page; every name must have a docstring."""
    lacking: list[str] = []
    text = "\n".join([HEAD, *(section(name, lacking) for name in PACKAGES)])
    if lacking:
        raise SystemExit(f"without a docstring: {', '.join(lacking)}")
    return text


def section(name: str, lacking: list[str]) -> str:
    """The table of one package."""
    package = import_module(name)
    names = sorted(
        set(package.__all__) - {"__version__"}, key=lambda public: (public.lower(), public)
    )
    rows = [f"| `{public}` | {summary(package, public, lacking)} |" for public in names]
    about = (package.__doc__ or "").splitlines()[0]
    return "\n".join([f"## `{name}`", "", about, "", "| name | |", "|---|---|", *rows, ""])


def summary(package: ModuleType, name: str, lacking: list[str]) -> str:
    """The first sentence or line of a docstring, or of the text below a constant."""
    root = import_module("fedsel")
    if package is not root and name in root.__all__:
        return "See `fedsel`."
    if not hasattr(package, name):  # a module that is imported on demand
        import_module(f"{package.__name__}.{name}")
    value = inspect.unwrap(getattr(package, name))
    if inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value):
        text = inspect.getdoc(value) or ""
    else:
        text = _below(package, name)
    line = re.split(r"\n\n|\n- |:\n|(?<=[.]) (?=[A-Z])", text.strip(), maxsplit=1)[0]
    line = line.replace("\n", " ")
    if not line:
        lacking.append(f"{package.__name__}.{name}")
    return line.replace("``", "`").replace("|", "\\|")


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
