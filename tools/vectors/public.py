"""Public data: what both ends derive from a seed, and the transforms that use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fedsel._internal.random import public_bits, public_key
from fedsel.solutions import Blocks
from fedsel.solutions._caps import raised_for
from fedsel.solutions._fresh import fresh_for, key_of_round
from fedsel.solutions._rotated import Rotated, hadamard
from fedsel.solutions._transforms import Projection, RandomDirections
from tools.vectors.encoding import Case, f32, integers, word

ABOUT = (
    "What both ends derive from public parameters: words of a seed and a purpose, signs of rotated "
    "bases, transforms, matrices of RC and …-RP, and blocks of answers."
)


def cases() -> Iterator[Case]:
    """Every case."""
    yield from _bits()
    yield from _signs()
    yield from _transforms()
    yield from _fresh_bases()
    yield from _matrices()
    yield from _blocks()


def _bits() -> Iterator[Case]:
    for seed in (0, 1, (1 << 32) - 1, 1 << 32, (1 << 64) - 1):
        for purpose in ("signs of round 0", "signs of round 7, rotation 3", "directions"):
            key = public_key(purpose)
            state = np.random.SeedSequence(seed, spawn_key=key).generate_state(2, np.uint64)
            words = public_bits(seed, purpose).random_raw(9)
            yield {
                "kind": "bits",
                "seed": str(seed),
                "purpose": purpose,
                "purpose_words": list(key),
                "key": [word(int(half)) for half in state],
                "words": [word(int(one)) for one in words],
            }


def _signs() -> Iterator[Case]:
    for dim, seed, number, rotations, bases in (
        (1, 0, 0, 1, 1),
        (5, 7, 0, 1, 1),
        (5, 7, 1, 2, 3),
        (64, 7, (1 << 32) - 1, 1, 1),
        (100, (1 << 64) - 1, 12, 4, 2),
    ):
        rotated = Rotated(dim, seed, number, rotations, bases)
        yield {
            "kind": "signs",
            "dim": dim,
            "seed": str(seed),
            "round": number,
            "rotations": rotations,
            "bases": bases,
            "signs": [
                [
                    "".join("+" if s > 0 else "-" for s in rotated.signs(b, r))
                    for r in range(rotations)
                ]
                for b in range(bases)
            ],
        }


def _transforms() -> Iterator[Case]:
    for width in (1, 2, 4, 8, 64):
        x = (np.arange(width) % 7 - 2.5).astype(np.float32) / np.float32(3)
        yield {"kind": "hadamard", "x_f32": f32(x), "result_f32": f32(hadamard(x))}
    for dim, rotations, bases, basis in ((1, 1, 1, 0), (5, 1, 1, 0), (6, 2, 3, 2), (100, 1, 1, 0)):
        rotated = Rotated(dim, 7, 3, rotations, bases, basis)
        vector = (np.arange(dim) % 11 - 4).astype(np.float32) / np.float32(7)
        yield {
            "kind": "scores",
            "dim": dim,
            "seed": "7",
            "round": 3,
            "rotations": rotations,
            "bases": bases,
            "basis": basis,
            "vector_f32": f32(vector),
            "scores_f32": f32(rotated.scores(vector)),
        }


def _fresh_bases() -> Iterator[Case]:
    """Scores and codewords of FJ, as one basis of a round has them."""
    for dim, epsilon, basis in (
        (1, 1, 0),
        (2, 8, 5),
        (63, 1, 77),
        (64, 1, 3),
        (123, 8, 9),
        (129, 1, 6),
        (300, 2, 4),
    ):
        fresh = replace(fresh_for(Fraction(epsilon), dim, 7), round=3, basis=basis)
        vector = (np.arange(dim) % 11 - 4).astype(np.float32) / np.float32(7)
        slots = [0, 1, fresh.size - 1]
        words = fresh.codewords(basis * fresh.size + np.array(slots))
        yield {
            "kind": "fresh",
            "dim": dim,
            "seed": "7",
            "round": 3,
            "codewords": fresh.size,
            "top": raised_for(Fraction(epsilon), dim),
            "bases": fresh.bases,
            "basis": basis,
            "key": list(key_of_round(7, 3)),
            "vector_f32": f32(vector),
            "scores_f32": f32(fresh.scores(vector)),
            "slots": slots,
            "totals": [integers(row) for row in words],
        }


def _matrices() -> Iterator[Case]:
    """Drawn with numpy's normal deviates: for whoever has them, and to be checked against."""
    for dim, codewords, seed in ((3, 8, 0), (6, 16, 7)):
        book = RandomDirections(dim, codewords, seed)
        yield {
            "kind": "directions",
            "dim": dim,
            "codewords": codewords,
            "seed": str(seed),
            "rows_f32": [f32(row) for row in book.matrix],
            "tolerance": 1e-6,
        }
    for dim, ratio, seed in ((4, 0.1, 0), (6, 0.5, 7)):
        projection = Projection(dim, ratio, seed)
        yield {
            "kind": "projection",
            "dim": dim,
            "ratio": ratio,
            "seed": str(seed),
            "rows_f32": [f32(row) for row in projection.matrix],
            "tolerance": 1e-6,
        }


def _blocks() -> Iterator[Case]:
    """The answers in the first blocks, some in the middle, and the last, of all bases."""
    for dim, taken, points, classes in (
        *((2, 1, None, 1), (6, 1, None, 1), (6, 2, None, 1), (6, 3, None, 1), (5, 4, None, 1)),
        *((128, 2, None, 1), (16, 5, None, 1), (65_536, 1, None, 1)),
        *((2, 1, 3, 2), (6, 1, 7, 2), (6, 1, 7, 3), (6, 2, 7, 3), (6, 5, 7, 6), (16, 2, 17, 4)),
        *((20, 1, 41, 8), (100, 1, 191, 19), (65_536, 2, 65_537, 8192), (9, 3, 131_071, 13_107)),
    ):
        blocks = Blocks(dim, taken, points, classes)
        every = blocks.size * blocks.bases
        some = (0, 1, every // 3, every // 2, every - 2, every - 1)
        slots = list(range(every)) if every <= 21 else sorted({*some, blocks.size - 1})
        held = blocks.members(np.array(slots))
        yield {
            "kind": "blocks",
            "dim": dim,
            "k": taken,
            "words": points,
            "bases": None if points is None else classes,
            "slots": slots,
            "answers": [[int(answer) for answer in block] for block in np.sort(held, axis=1)],
        }
