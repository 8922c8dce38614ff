"""The registry of solution names, to which users can add their own compositions."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import _lru_cache_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from fedsel.errors import InvalidArgument, check_kind
from fedsel.solutions._entries import Entry, our_entries
from fedsel.solutions._solution import Solution

if TYPE_CHECKING:
    from fedsel.recipe import Recipe

NAME_BYTES = 24
"""The longest name that fits into a request."""
_ENTRIES = {known.name: known for known in our_entries()}
_BY_LOWER = {name.lower(): name for name in _ENTRIES}


def entry(name: str, argument: str = "name") -> Entry:
    """The entry of a name, in any capitalisation. ``argument`` is named in errors.

    >>> entry("ps-duchi-c").name, entry("PE-published-PM").selection, entry("PM").selection
    ('PS-Duchi-C', 'PE-published', None)
    """
    return _ENTRIES[canonical(name, argument)]


def entries() -> list[Entry]:
    """All entries, those that users registered last."""
    return list(_ENTRIES.values())


def own_entries() -> list[Entry]:
    """The entries that users registered."""
    return [known for known in entries() if known.family == "own"]


def names() -> list[str]:
    """Every name."""
    return list(_ENTRIES)


_CACHES: list[_lru_cache_wrapper[Any]] = []
_Result = TypeVar("_Result")


def cleared_on_unregister(cache: _lru_cache_wrapper[_Result]) -> _lru_cache_wrapper[_Result]:
    """Empty a cache when a name is unregistered: the name may then mean another composition."""
    _CACHES.append(cache)
    return cache


def register(name: str, compose: Callable[[Recipe], Solution]) -> None:
    """Register your own composition under a name for all front ends, servers and devices.

    ``compose`` builds the solution from a `fedsel.Recipe` in which nothing is automatic. The recipe
    holds the total ε, and `Recipe.budget` the ε of a report. Both ends must register the same.

    >>> from fedsel import Feedback, Rotated, TwoStage, solution
    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> def rotated(recipe):
    ...     budget, dim = recipe.budget, recipe.dim
    ...     selection = PerturbedSampling(budget.selection, recipe.k)
    ...     stages = TwoStage(selection, Duchi(budget.value))
    ...     return Solution("R-PS-Duchi", dim, stages, recipe.epochs, Rotated(dim),
    ...                     Feedback(accumulate=True), budget.per_epoch, "on a rotated basis")
    >>> register("R-PS-Duchi", rotated)
    >>> solution("r-ps-duchi", epsilon=2.0, dim=100).privacy.per_report
    2.0
    >>> unregister("R-PS-Duchi")
    """
    check_kind("name", name, str)
    if not name.isascii() or not 0 < len(name) <= NAME_BYTES or name.lower() in _BY_LOWER:
        taken = f"; {_BY_LOWER[name.lower()]} is taken" if name.lower() in _BY_LOWER else ""
        allowed = f"a new name of at most {NAME_BYTES} ASCII letters{taken}"
        raise InvalidArgument("name", name, allowed)
    if not callable(compose):
        raise InvalidArgument("compose", compose, "a function of a Recipe")
    _ENTRIES[name] = Entry(name, "own", compose)
    _BY_LOWER[name.lower()] = name


def adopt(own: Iterable[Entry]) -> None:
    """Register what another process has registered, unless it is known here."""
    for known in own:
        if known.name not in _ENTRIES:
            register(known.name, known.compose)


def unregister(name: str) -> None:
    """Remove a name that `register` added."""
    own = [known.name for known in own_entries()]
    if name not in own:
        raise InvalidArgument(
            "name", name, f"a name that you registered: {', '.join(own) or 'there is none'}"
        )
    del _ENTRIES[name], _BY_LOWER[name.lower()]
    for cache in _CACHES:
        cache.cache_clear()


def canonical(name: str, argument: str = "name") -> str:
    """A solution's name as the paper writes it.

    >>> canonical("ps-duchi")
    'PS-Duchi'
    """
    check_kind(argument, name, str)
    found = _BY_LOWER.get(name.lower())
    if found is None:
        close = difflib.get_close_matches(name.lower(), _BY_LOWER, n=4, cutoff=0.4)
        listed = ", ".join(_BY_LOWER[c] for c in close) or "FJ, J, PM, PS-PM, NP"
        raise InvalidArgument(argument, name, f"a known solution, such as {listed}")
    return found


def build(recipe: Recipe) -> Solution:
    """Build the solution of a recipe in which nothing is automatic."""
    known = entry(recipe.solution)
    returned = f"compose({known.name})"
    try:
        built = known.compose(recipe)
    except InvalidArgument:
        raise
    except Exception as error:  # whatever a user's function does
        if known.family != "own":
            raise
        raise InvalidArgument(returned, error, "a Solution") from error
    check_kind(returned, built, Solution)
    if (built.name, built.dim, built.epochs) != (known.name, recipe.dim, recipe.epochs):
        wanted = f"{known.name} with dim = {recipe.dim} and epochs = {recipe.epochs}"
        raise InvalidArgument("compose", built, wanted)
    return built
