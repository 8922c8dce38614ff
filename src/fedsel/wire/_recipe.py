"""The bytes of a recipe: what devices must know of it.

    solution       24 bytes   ASCII, padded with zeros
    epsilon        8 + 8      numerator and denominator
    dim            8
    epochs         4
    mu             8          float
    k              1 + 8      0 and a count, or 1 and a share (float)
    clip, momentum, ratio     8 each, floats
    seed           8
    learning_rate  8          float
    rho            8          float, 0 for none
    words          4          0 for none
    bases          4          only where it is given: in requests of version 2

All integers are little-endian and unsigned. What the server does alone (the average, λ) is not in
it, nor which rounds prepare: their reports are like all others.
"""

from __future__ import annotations

import struct
from fractions import Fraction

from fedsel.errors import InvalidArgument
from fedsel.mechanisms._selection import Share, Top
from fedsel.recipe import PRIVATE, Recipe

_WORD = 1 << 64
_LAYOUT = struct.Struct("<24sQQQIdB8sdddQddI")
_COUNT, _SHARE = 0, 1
_BASES = struct.Struct("<I")

RECIPE_BYTES = _LAYOUT.size
LONG_RECIPE_BYTES = RECIPE_BYTES + _BASES.size
"""Without and with a number of bases."""
MOST_SLOTS = 1 << 32
"""Slots that the four bytes of a report can tell apart."""
MOST_PROJECTED = 1 << 24
"""Entries of a public projection or codebook that a device is asked to hold at most."""


def check_sendable(recipe: Recipe) -> Recipe:
    """The recipe, if devices can be asked for it: private, decided, and of a size they can hold."""
    epsilon = recipe.epsilon
    if not isinstance(epsilon, Fraction):
        raise InvalidArgument("solution", recipe.solution, PRIVATE)
    if max(epsilon.numerator, epsilon.denominator) >= _WORD:
        raise InvalidArgument("epsilon", epsilon, "a ratio of integers of 64 bits")
    recipe.require("learning_rate")
    solution = recipe.build()
    # Before anything of that size is made.
    if solution.transform.entries > MOST_PROJECTED:
        raise InvalidArgument("dim", recipe.dim, f"smaller: a matrix is above {MOST_PROJECTED}")
    if solution.transform.slots > MOST_SLOTS:
        raise InvalidArgument("bases", recipe.bases, f"fewer: at most {MOST_SLOTS} slots in all")
    if not solution.private:
        raise InvalidArgument("solution", recipe.solution, PRIVATE)
    return recipe


def encode_recipe(recipe: Recipe) -> bytes:
    """The bytes of a recipe that `check_sendable` accepts."""
    recipe.require("dim", "learning_rate")
    recipe = recipe.plain
    counted = not isinstance(recipe.k, float)
    epsilon = Fraction(recipe.epsilon or 0)
    packed = _LAYOUT.pack(
        recipe.solution.encode("ascii"),
        epsilon.numerator,
        epsilon.denominator,
        recipe.dim,
        recipe.epochs,
        recipe.mu,
        _COUNT if counted else _SHARE,
        struct.pack("<Q", recipe.k) if counted else struct.pack("<d", recipe.k),
        recipe.clip,
        recipe.momentum,
        recipe.ratio,
        recipe.seed,
        recipe.learning_rate,
        recipe.rho or 0.0,  # never 0 itself: that stands for none
        recipe.words or 0,
    )
    return packed if recipe.bases is None else packed + _BASES.pack(recipe.bases)


def decode_recipe(data: bytes) -> Recipe:
    """The recipe of these bytes; anything else raises a ValueError.

    Nothing of size ``dim`` is built.

    >>> recipe = Recipe("PS-PM", 2.0, dim=100, learning_rate=0.5, mu=0.1, averaging=0.0).plain
    >>> decode_recipe(encode_recipe(recipe)) == recipe
    True
    """
    if len(data) not in (RECIPE_BYTES, LONG_RECIPE_BYTES):
        raise ValueError("not a recipe")
    name, numerator, denominator, dim, epochs, mu, kind, k, *rest = _LAYOUT.unpack_from(data)
    clip, momentum, ratio, seed, learning_rate, rho, codewords = rest
    if denominator == 0 or kind not in (_COUNT, _SHARE):
        raise ValueError("not a recipe")
    top: Top = struct.unpack("<Q" if kind == _COUNT else "<d", k)[0]
    recipe = Recipe(
        solution=name.rstrip(b"\0").decode("ascii"),
        epsilon=Fraction(numerator, denominator),
        dim=dim,
        epochs=epochs,
        learning_rate=learning_rate,
        averaging=0.0,
        rho=rho if rho != 0 else None,
        mu=mu,
        k=top if kind == _COUNT else Share(top),
        clip=clip,
        momentum=momentum,
        ratio=ratio,
        words=codewords or None,
        bases=_BASES.unpack_from(data, RECIPE_BYTES)[0] if len(data) > RECIPE_BYTES else None,
        seed=seed,
        spread=0.0,
        centre=0.0,
    )
    if encode_recipe(recipe) != data:  # one recipe, one encoding
        raise ValueError("not a recipe")
    return recipe
