"""Reports: words, update and residual in; report and residual out, for every private solution."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import words_of
from fedsel.device._client import saturated
from fedsel.mechanisms._reports import BOTTOM
from fedsel.recipe import Recipe
from fedsel.solutions import entries, entry
from fedsel.wire import Request, check_sendable
from tools.vectors.encoding import Case, Recorder, f32, f64, rational, recipe_fields

ABOUT = (
    "For every private solution: the update, the residual before, the words that are consumed, the "
    "report and the residual after, over the rounds of a run."
)

Vector = NDArray[np.float64]
RUN = bytes(range(16))
_REPRESENTATIVE = (
    "PM",
    "RS-HM",
    "PS-PM",
    "EXP-HM",
    "PE-Duchi",
    "PE-published-OW-O",
    "J",
    "UJ",
    "RJ",
)
"""One solution of each kind, for what does not depend on the mechanism."""


def private_names() -> list[str]:
    """Every name of the registry that devices can be asked for."""
    unfit = ("plain", "baseline", "own")
    known = (e for e in entries() if e.family not in unfit)
    return [e.name for e in known if e.selection is None or e.value is not None]


@final
@dataclass(frozen=True)
class Scenario:
    """A run of one device: what it is to show, its recipe, and the update of each round."""

    label: str
    recipe: Recipe
    updates: Sequence[Vector]
    rounds: Sequence[tuple[int, int]] = ()
    abstaining: bool = False
    zeros: bool = False

    def case(self) -> Case:
        """The case of the first streams that show what is wanted."""
        plays = (self._played(seed) for seed in itertools.count())
        return next(case for case, silent in plays if silent or not self.abstaining)

    def _played(self, seed: int) -> tuple[Case, bool]:
        recipe = check_sendable(self.recipe)
        solution = recipe.build()
        residual = np.zeros(solution.dim, dtype=np.float32)
        factor = float(recipe.learning_rate) if solution.rate_inside else 1.0
        steps, silent = [], False
        places = self.rounds or [(e, e) for e in range(len(self.updates))]
        for (epoch, number), update in zip(places, self.updates, strict=True):
            request = Request(RUN, epoch, number, recipe)
            gradient = saturated(saturated(update), factor)
            words = words_of(23, number, seed)
            recorder = Recorder(_among_zeros(words) if self.zeros else words)
            report, kept = solution.in_round(number).encode(gradient, residual, recorder)
            kept = kept.astype(np.float32)
            steps.append(
                {
                    "epoch": epoch,
                    "round": number,
                    "update_f64": f64(update),
                    "gradient_f32": f32(gradient),
                    "residual_before_f32": f32(residual),
                    "words": recorder.words,
                    "draws": recorder.draws,
                    "pairs": [list(pair) for pair in report.pairs()[0]],
                    "report": request.format.encode(number, report).hex(),
                    "residual_after_f32": f32(kept),
                }
            )
            silent |= bool((report.slot == BOTTOM).any())
            residual = kept
        case = {
            "solution": recipe.solution,
            "shows": self.label,
            "run": RUN.hex(),
            "recipe": recipe_fields(recipe),
            "portable": not entry(recipe.solution).public_matrix or recipe.solution in ("RJ", "FJ"),
            "charge": rational(recipe.charge),
            "report_bytes": Request(RUN, 0, 0, recipe).format.size,
            "steps": steps,
        }
        return case, silent


def _recipe(name: str, **changes: Any) -> Recipe:
    given: dict[str, Any] = {
        "epsilon": Fraction(4),
        "dim": 6,
        "epochs": 2,
        "mu": 0.2,
        "k": 2,
        "clip": 0.75,
        "momentum": 0.5,
        "ratio": 0.5,
        "seed": 7,
        "learning_rate": 0.3,
        "rho": 1.5,
        "words": 16 if name == "RC" else None,
        "bases": None,
        **changes,
    }
    return Recipe(name, **given)


def _updates(rounds: int, dim: int, seed: int = 0) -> list[Vector]:
    """Numbers of no particular order, with few binary digits: the same on every machine."""
    words = list(itertools.islice(words_of(24, rounds, seed), rounds * dim))
    numbers = np.array([(w >> 44) / (1 << 19) - 1.0 for w in words])
    return list(numbers.reshape(rounds, dim))


def _among_zeros(words: Iterator[int]) -> Iterator[int]:
    """The words, each after a zero: a zero is surplus for every n that is no power of two."""
    for value in words:
        yield 0
        yield value


def cases() -> Iterator[Case]:
    """Every case."""
    for scenario in scenarios():
        yield scenario.case()


def scenarios() -> Iterator[Scenario]:
    """What is shown, solution after solution."""
    for name in private_names():
        yield Scenario("every solution, two epochs", _recipe(name), _updates(2, 6))
    for name in _REPRESENTATIVE:
        yield from _numbers(name)
    yield from _picks()
    yield from _residuals()
    yield from _rotations()
    yield from _fresh_bases()
    yield from _sizes()
    yield from _words()
    yield from _answers()


def _numbers(name: str) -> Iterator[Scenario]:
    """Updates that a client may have, odd ones too."""
    tiny = np.array([1e-45, -1e-45, 1e-310, -0.0, 0.0, 3e-39])
    odd = {
        "ties": np.array([1.0, -1.0, 1.0, 0.5, -0.5, 0.0]),
        "zeros": np.zeros(6),
        "infinite, NaN and huge": np.array([np.inf, -np.inf, np.nan, 1e300, -1e39, 3.4e38]),
        "tiny, denormal and negative zero": tiny,
        "beyond the clip": np.array([0.75, -0.76, 100.0, -3e38, 0.7499999, -0.75]),
    }
    for label, update in odd.items():
        yield Scenario(label, _recipe(name), [update, update])


def _picks() -> Iterator[Scenario]:
    for name in ("PM", "RS-OW", "HM", "Duchi"):
        recipe = _recipe(name, epsilon=Fraction(16))
        yield Scenario("three picks", recipe, _updates(2, 6, 1))
    recipe = _recipe("PM", epsilon=Fraction(40), epochs=1)
    yield Scenario("every dimension picked", recipe, _updates(1, 6, 2))


def _residuals() -> Iterator[Scenario]:
    for name in ("PS-PM", "EXP-OW-O", "PE-HM-C"):
        recipe = _recipe(name, epochs=5, momentum=-0.75, epsilon=Fraction(10))
        yield Scenario("residual and momentum over five epochs", recipe, _updates(5, 6, 3))
    several = _recipe("PS-Duchi", momentum=0.9)
    rounds = ((0, 3), (0, 4), (1, 9))
    label = "several reports in an epoch, rounds with gaps"
    yield Scenario(label, several, _updates(3, 6, 4), rounds)
    huge = [np.full(6, 3e38), np.full(6, 3e38), np.full(6, -1e38)]
    label = "a residual that overflows, and a momentum that does"
    yield Scenario(label, _recipe("PS-PM", epochs=3, momentum=1e300), huge)
    for rate in (1e-30, 1e30):
        recipe = _recipe("PS-PM-O", learning_rate=rate)
        yield Scenario(f"a rate of {rate} inside", recipe, _updates(2, 6, 5))


def _rotations() -> Iterator[Scenario]:
    for bases, epsilon, dim in ((1, 2, 5), (3, 2, 6), (4, 20, 5), (16, 24, 13), (65536, 8, 3)):
        recipe = _recipe("RJ", bases=bases, epsilon=Fraction(epsilon), dim=dim)
        label = f"{bases} bases, ε of {epsilon // 2} per report"
        yield Scenario(label, recipe, _updates(2, dim, 6))
    for name in ("J", "RJ"):
        recipe = _recipe(name, rho=None)
        yield Scenario("directions alone: no radius", recipe, _updates(2, 6, 7))
        short = [0.01 * update for update in _updates(2, 6, 8)]
        yield Scenario("an update far shorter than the radius", _recipe(name), short)
    for seed in (0, (1 << 64) - 1):
        recipe = _recipe("RJ", seed=seed)
        rounds = ((0, 0), (1, (1 << 32) - 1))
        label = f"seed {seed}, first and last round"
        yield Scenario(label, recipe, _updates(2, 6, 9), rounds)


def _fresh_bases() -> Iterator[Scenario]:
    for epsilon, dim in ((1, 1), (8, 2), (2, 5), (4, 63), (1, 64), (8, 65), (2, 123), (1, 300)):
        recipe = _recipe("FJ", epsilon=Fraction(epsilon), dim=dim, k=1, epochs=1)
        label = f"d = {dim}, ε of {epsilon}"
        yield Scenario(label, recipe, _updates(1, dim, 17))
    yield Scenario("directions alone: no radius", _recipe("FJ", rho=None), _updates(2, 6, 18))
    rounds = ((0, 0), (1, (1 << 32) - 1))
    for dim in (6, 64):
        last = _recipe("FJ", seed=(1 << 64) - 1, dim=dim)
        yield Scenario("the last seed, first and last round", last, _updates(2, dim, 19), rounds)
        huge = [np.full(dim, 3e38), np.tile([np.inf, np.nan], dim // 2)]
        yield Scenario("scores that overflow", _recipe("FJ", dim=dim), huge)
    recipe = replace(_recipe("FJ", k=1, dim=40), epsilon=Fraction(30), epochs=1)
    yield Scenario("ε = 30: the rank is drawn first", recipe, _updates(1, 40, 20))


def _sizes() -> Iterator[Scenario]:
    for name in _REPRESENTATIVE:
        yield Scenario("d = 1", _recipe(name, dim=1, k=1), _updates(2, 1, 10))
        yield Scenario("d = 7, k a share", _recipe(name, dim=7, k=0.29), _updates(2, 7, 10))
    for name in ("EXP-PM", "PS-HM", "PE-PM", "PM", "J", "UJ", "RJ"):
        recipe = _recipe(name, dim=123, k=0.1, epochs=1)
        yield Scenario("d = 123, k a share", recipe, _updates(1, 123, 10))
    yield Scenario("d = 300", _recipe("RJ", dim=300, bases=16, epochs=1), _updates(1, 300, 11))


def _words() -> Iterator[Scenario]:
    """What is rare."""
    for name in ("PE-PM", "PE-published-Duchi", "UJ"):
        recipe = _recipe(name, dim=2, k=1)
        yield Scenario("⊥", recipe, _updates(2, 2, 12), abstaining=True)
    for name in (*_REPRESENTATIVE, "EXP-PM"):
        yield Scenario("words are rejected", _recipe(name), _updates(2, 6, 13), zeros=True)
    for name in ("PS-PM", "EXP-Duchi", "PE-OW", "J", "UJ", "RJ"):
        for epsilon in (Fraction(60), Fraction(1000)):
            recipe = replace(_recipe(name, k=1, dim=40), epsilon=epsilon / 2, epochs=1, mu=0.6)
            label = f"ε = {epsilon / 2}: the rank is drawn first"
            yield Scenario(label, recipe, _updates(1, 40, 14))
    recipe = _recipe("EXP-PM", epsilon=Fraction(1, 3), epochs=7, mu=0.29, dim=9)
    yield Scenario("an ε that is no binary fraction", recipe, _updates(7, 9, 15))
    recipe = _recipe("PM", epsilon=Fraction((1 << 64) - 1, (1 << 62) + 1), dim=9)
    yield Scenario("an ε of 64 bits", recipe, _updates(2, 9, 16))


def _answers() -> Iterator[Scenario]:
    """BR: who has which answer, for each kind of blocks, and both ways to draw."""
    for dim, k, points, classes, epsilon in (
        (2, 1, None, None, "1"),
        (6, 1, None, None, "4"),
        (6, 3, None, None, "1/5"),
        (10, 4, None, None, "1/2"),
        (10, 4, None, None, "30"),
        (20, 1, None, None, "8"),
        (20, 19, None, None, "3"),
        (40, 2, None, None, "8"),
        (2, 1, 3, 2, "1"),
        (7, 1, 7, 2, "1/5"),
        (6, 1, 7, 3, "1"),
        (6, 2, 7, 3, "20"),
        (10, 3, 31, 10, "1"),
        (10, 1, 41, 8, "2"),
        (10, 1, 31, 30, "7"),
        (2, 1, 131_071, 17, "2"),
        (3, 3, 131_071, 13_107, "8"),
        (5, 5, 65_537, 32_768, "250"),
    ):
        made = _recipe("BR", dim=dim, k=k, words=points, bases=classes, rho=None)
        recipe = replace(made, epsilon=2 * Fraction(epsilon))
        blocks = "subsets" if points is None else f"{classes} bases of {points} blocks"
        label = f"{blocks}, k = {k}, ε of {epsilon} per report"
        yield Scenario(label, recipe, [np.eye(dim)[0], np.eye(dim)[dim - 1]])
    odd = {
        "no entry above zero is no answer": [np.zeros(6), np.array([-1, -0.0, 0, -2, np.nan, 0])],
        "of several largest entries the first": [np.array([0, 2.0, 1, 2, -3, 2]), np.ones(6)],
        "entries that become alike": [
            np.array([1.0, 1 + 2.0**-30, 0.5, 0, 0, 0]),
            np.array([-np.inf, 3.5e38, 1e300, np.inf, np.nan, 0]),
        ],
        "tiny entries, and what becomes zero": [
            np.array([0, 0, 1e-45, 0, 3e-45, 0]),
            np.array([0, 7e-46, 0, 0, 0, 0]),
        ],
    }
    for label, updates in odd.items():
        yield Scenario(label, _recipe("BR"), updates)
        yield Scenario(label, _recipe("BR", k=1, words=7, bases=3, epsilon=Fraction(16)), updates)
    for k in (2, 5):
        recipe = _recipe("BR", dim=3, k=1, words=31, bases=30, epsilon=Fraction(2 * k))
        yield Scenario(f"no answer, ε of {k} per report", recipe, [np.zeros(3), -np.ones(3)])
    tiny = replace(_recipe("BR"), epsilon=Fraction(1, 10**18))
    yield Scenario("all weights are equal", tiny, _updates(2, 6, 21))
    for changes in ({"k": 2}, {"k": 1, "words": 7, "bases": 3}):
        updates = [np.eye(6)[answer] for answer in (0, 3, 5)]
        recipe = _recipe("BR", epochs=3, epsilon=Fraction(3), **changes)
        yield Scenario("words are rejected", recipe, updates, zeros=True)
