"""A task: the public choices of a run, on which server and device must agree."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_epsilon,
    check_finite,
    check_kind,
    check_positive,
)
from fedsel.mechanisms.base import MAX_DIMENSION
from fedsel.mechanisms.selection import Share, Top, check_top
from fedsel.solutions import Solution, solution
from fedsel.solutions.registry import canonical, default_words

MOST_PROJECTED = 1 << 24
"""Entries of a public projection that a device is asked to hold at most."""

_WORD = 1 << 64
_LAYOUT = struct.Struct("<24sQQQIdB8sdddQddI")
_NAME_BYTES = 24
_COUNT, _SHARE = 0, 1


def decimal(name: str, value: object) -> Fraction:
    """An ε as the decimal that the user wrote: 0.1 is one tenth, and ten of them are 1.

    >>> decimal("epsilon", 0.1)
    Fraction(1, 10)
    """
    number = check_epsilon(name, value)
    return number if isinstance(number, Fraction) else Fraction(repr(number))


@final
@dataclass(frozen=True)
class Task:
    """A private solution by name, with all that defines its law: what `fedsel.solution` takes.

    ``epsilon`` is that of all ``epochs`` together and exact. ``learning_rate`` is α: the server
    steps by it, or (…-O) each device multiplies its update with it. Nothing of size ``dim`` is
    built before `solution` is asked for.

    >>> task = Task("ps-pm", epsilon=2.0, dim=100, epochs=5)
    >>> task.name, task.charge
    ('PS-PM', Fraction(2, 5))
    >>> Task.decode(task.encode()) == task
    True
    """

    name: str
    epsilon: Epsilon
    dim: int
    epochs: int = 1
    mu: float = 0.1
    k: Top = 0.1
    clip: float = 1.0
    momentum: float = 0.0
    ratio: float = 0.1
    seed: int = 0
    learning_rate: float = 1.0
    rho: float | None = None
    words: int | None = None

    def __post_init__(self) -> None:
        check_kind("name", self.name, str)
        put = object.__setattr__
        put(self, "name", canonical(self.name))
        epsilon = decimal("epsilon", self.epsilon)
        if max(epsilon.numerator, epsilon.denominator) >= _WORD:
            raise InvalidArgument("epsilon", self.epsilon, "a ratio of integers of 64 bits")
        put(self, "epsilon", epsilon)
        put(self, "dim", check_count("dim", self.dim, most=MAX_DIMENSION))
        put(self, "epochs", check_count("epochs", self.epochs, most=(1 << 32) - 1))
        put(self, "mu", float(check_finite("mu", self.mu)))
        if not 0 <= self.mu < 1:
            raise InvalidArgument("mu", self.mu, "in [0, 1)")
        put(self, "k", check_top(self.k))
        if self.k > self.dim:
            raise InvalidArgument("k", self.k, f"at most dim = {self.dim}")
        put(self, "clip", check_positive("clip", self.clip))
        put(self, "momentum", float(check_finite("momentum", self.momentum)))
        put(self, "ratio", float(check_finite("ratio", self.ratio)))
        if not 0 < self.ratio <= 1:
            raise InvalidArgument("ratio", self.ratio, "in (0, 1]")
        put(self, "seed", check_count("seed", self.seed, least=0, most=_WORD - 1))
        put(self, "learning_rate", check_positive("learning_rate", self.learning_rate))
        if self.rho is not None:
            put(self, "rho", check_positive("rho", self.rho))
        if self.words is not None:
            put(self, "words", check_count("words", self.words, most=(1 << 32) - 1))

    @property
    def solution(self) -> Solution:
        """The solution, both ends of it; refused if it is not private."""
        return _built(self)

    @property
    def charge(self) -> Fraction:
        """What one report costs: a rational proved to be at least its exact ε."""
        return _charge(self)

    @property
    def rate(self) -> float:
        """What the server multiplies the mean with: α, or 1 where the devices do it (…-O)."""
        return 1.0 if self.solution.rate_inside else self.learning_rate

    def encode(self) -> bytes:
        """The task in bytes, of one length for all tasks."""
        counted = not isinstance(self.k, float)
        assert isinstance(self.epsilon, Fraction)  # noqa: S101
        return _LAYOUT.pack(
            self.name.encode("ascii"),
            self.epsilon.numerator,
            self.epsilon.denominator,
            self.dim,
            self.epochs,
            self.mu,
            _COUNT if counted else _SHARE,
            struct.pack("<Q", self.k) if counted else struct.pack("<d", self.k),
            self.clip,
            self.momentum,
            self.ratio,
            self.seed,
            self.learning_rate,
            self.rho or 0.0,  # neither is ever 0: that stands for none
            self.words or 0,
        )

    @classmethod
    def decode(cls, data: bytes) -> Task:
        """The task of these bytes; anything else raises a ValueError."""
        if len(data) != TASK_BYTES:
            raise ValueError("not a task")
        name, numerator, denominator, dim, epochs, mu, kind, k, *rest = _LAYOUT.unpack(data)
        clip, momentum, ratio, seed, learning_rate, rho, words = rest
        if denominator == 0 or kind not in (_COUNT, _SHARE):
            raise ValueError("not a task")
        top: Top = struct.unpack("<Q" if kind == _COUNT else "<d", k)[0]
        task = cls(
            name=name.rstrip(b"\0").decode("ascii"),
            epsilon=Fraction(numerator, denominator),
            dim=dim,
            epochs=epochs,
            mu=mu,
            k=top if kind == _COUNT else Share(top),
            clip=clip,
            momentum=momentum,
            ratio=ratio,
            seed=seed,
            learning_rate=learning_rate,
            rho=rho if rho != 0 else None,
            words=words or None,
        )
        if task.encode() != data:  # one task, one encoding
            raise ValueError("not a task")
        return task


TASK_BYTES = _LAYOUT.size


@lru_cache(maxsize=16)
def _built(task: Task) -> Solution:
    parameters = "epsilon dim epochs mu k clip momentum ratio seed rho words"
    made_of = {name: getattr(task, name) for name in parameters.split()}
    # Before anything of that size is made: the projection is q × d, the codebook M × d.
    entries = Fraction(0)
    if task.name.endswith("-RP"):
        entries = Fraction(repr(task.ratio)) * task.dim * task.dim
    elif task.name == "RC":
        entries = Fraction(task.words or default_words(task.dim)) * task.dim
    if entries > MOST_PROJECTED:
        raise InvalidArgument("dim", task.dim, f"smaller: a matrix is above {MOST_PROJECTED}")
    made = solution(task.name, **made_of)
    if made.alphabet is None or made.privacy.ratio is None:
        raise InvalidArgument("name", task.name, "a private solution, such as PS-PM or PM")
    return made


@lru_cache(maxsize=16)
def _charge(task: Task) -> Fraction:
    charge = _built(task).privacy.charge
    assert charge is not None  # noqa: S101 - `_built` has checked it
    return charge
