"""The options of ``fedsel run`` as an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from fedsel.cli.common import parse_top
from fedsel.errors import InvalidArgument
from fedsel.recipe import RECOMMENDED
from fedsel.solutions.registry import ONE_SYMBOL, PERTURBING, PLAIN, SELECTING

if TYPE_CHECKING:
    from fedsel.experiments import Spec


@final
@dataclass(frozen=True)
class Files:
    """What records are read from, if not by the name of a data set."""

    data: Path | None = None
    label: str | None = None
    header: bool | None = None
    public: Path | None = None
    public_mean: Path | None = None


def usual_names() -> str:
    """Solutions for a help text: the recommended first, then those of the paper, and plain ones.

    >>> usual_names()
    'FJ, J, UJ, RJ, RC, PM, HM, Duchi, OW, EXP-PM, PE-PM, PS-PM, NP'
    """
    first = sorted(ONE_SYMBOL, key=lambda name: name != RECOMMENDED)
    stages = [f"{name}-{next(iter(PERTURBING))}" for name in SELECTING if "published" not in name]
    return ", ".join((*first, *PERTURBING, *stages, PLAIN[0]))


def spec_of(given: dict[str, Any], files: Files) -> Spec:
    """The experiment of these options; what would be ignored is refused."""
    from fedsel.experiments.spec import Spec, override

    _refuse_ignored(given, files)
    options = {name: _READ[name](name, v) if name in _READ else v for name, v in given.items()}
    if files.data is not None:
        options["dataset"] = files.data.name
    spec = override(Spec(), options)
    return spec if files.public is None else _with_public(spec)


def _refuse_ignored(given: dict[str, Any], files: Files) -> None:
    """Records come from a file or from a data set by its name: not from both."""
    if files.data is None:
        of_files = {"label": files.label, "header": files.header, "public": files.public}
        ignored, allowed = of_files, "given together with --data"
    else:
        ignored = {name: given.get(name) for name in ("dataset", "draw")}
        allowed = "left out with --data"
    if files.public is not None and files.public_mean is not None:
        allowed = "left out with --public, whose rows tell the centre"
        raise InvalidArgument("public_mean", str(files.public_mean), allowed)
    for name, value in ignored.items():
        if value is not None:
            raise InvalidArgument(name, str(value) if isinstance(value, Path) else value, allowed)


def _with_public(spec: Spec) -> Spec:
    """Public rows give the bounds of features, if nobody has declared any."""
    if spec.scale not in (None, "unit", "symmetric"):
        raise InvalidArgument("scale", spec.scale, "unit or symmetric with --public")
    return replace(spec, scale=spec.scale or "unit")


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise InvalidArgument(name, text, "a number") from None


def _or_auto(name: str, text: str) -> float | str:
    if text.lower() == "auto":
        return "auto"
    try:
        return _number(name, text)
    except InvalidArgument:
        raise InvalidArgument(name, text, "a number, or auto") from None


def _share(name: str, text: str) -> float | str:
    """auto, a share of the rounds, or yes and no for the usual share and none."""
    from fedsel import auto

    usual: dict[str, float] = {"yes": getattr(auto, name.upper()), "no": 0.0}
    if text.lower() in usual:
        return usual[text.lower()]
    try:
        return _or_auto(name, text)
    except InvalidArgument:
        raise InvalidArgument(name, text, "auto, yes, no or a share of the rounds") from None


_READ: dict[str, Callable[[str, str], Any]] = {
    "batch": _number,
    "learning_rate": _or_auto,
    "mu": _or_auto,
    "rho": _or_auto,
    "centre": _share,
    "spread": _share,
    "k": lambda _, text: parse_top(text),
}
"""How texts that need not be numbers are read."""
