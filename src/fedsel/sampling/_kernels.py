"""A solution in the form that the kernels read: plain numbers and arrays (`native/tables.h`).

Reports of many simulated clients on vectors that are computed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import MissingExtra
from fedsel._internal.native import native as native  # noqa: PLC0414 - others take it from here
from fedsel._internal.random import key_of, own_bits, public_key
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.mechanisms import (
    FlatPicks,
    FullGradient,
    Identity,
    OneSymbol,
    SignedSampling,
    TwoStage,
    UnbiasedJoint,
    Value,
    ValueReports,
)
from fedsel.mechanisms._laws import RankLaw, SymbolLaw
from fedsel.reports import Reports
from fedsel.sampling._parts import Outer, Part
from fedsel.solutions import Coordinates, Projection, RandomDirections, Rotated, Solution
from fedsel.solutions._baselines import Baseline, PrivUnit, SignDS
from fedsel.solutions._fresh import Fresh, key_of_round

if native is None:
    raise MissingExtra(
        "simulations need fedsel's compiled kernels, which this installation lacks: install a "
        "wheel of this platform, or a C compiler and then: pip install --force-reinstall fedsel"
    )

WHOLE, VALUES, SIGNS, BASELINE = 0, 1, 2, 3
COORDINATES, ROTATED, MATRIX, FRESH = 0, 1, 2, 3


class Ranks(NamedTuple):
    """A `RankLaw`; without ``counts`` each weight is that of one rank."""

    weights: NDArray[np.int64]
    counts: NDArray[np.int64] | None
    bottom: int
    by_rejection: bool


class Symbols(NamedTuple):
    """A `SymbolLaw`: a row (coin, G, W, L, H) for each window."""

    windows: NDArray[np.int64]


class Sign(NamedTuple):
    """A `OneSymbol` mechanism: J reads ``ranks`` and ``radius`` (0: nothing is negated)."""

    unbiased: bool
    ranks: Ranks
    radius: float = 0.0
    low: int = 0
    high: int = 0
    top: int = 0
    clip: float = 1.0


class BaselineNumbers(NamedTuple):
    """A baseline: PrivUnit reads ``quantiles`` (2, knots), SignDS cumulated ``shares`` (h + 1,)."""

    inside: float = 0.0
    radius: float = 0.0
    quantiles: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None
    top: int = 0


class Tables(NamedTuple):
    """A solution as the kernels read it; what it does not use is None.

    ``kind`` is that of its mechanism, ``basis`` that of its transform. ``ranked`` says whether all
    scores are needed, ``flat`` whether slots are drawn at random, ``plain`` whether numbers leave
    as they are; ``scale`` is that of a baseline's report. Of ``bases`` a report takes one, with
    ``slots`` = ``rotations`` · ``width``; ``root`` is √width.
    """

    kind: int
    basis: int
    dim: int
    slots: int
    bases: int
    rotations: int
    width: int
    factors: int
    picks: int
    ranked: bool
    flat: bool
    plain: bool
    decays_at_server: bool
    clip: float
    momentum: float
    scale: float
    root: float
    ranks: Ranks | None
    windows: NDArray[np.int64]
    units: NDArray[np.float64]
    sign: Sign | None
    baseline: BaselineNumbers | None
    matrix: NDArray[np.float32] | None  # (M, d)
    recovery: NDArray[np.float64] | None  # (M, d)


def ranks_of(law: RankLaw) -> Ranks:
    """A `RankLaw` as the kernels read it."""
    return Ranks(law.weights, None if law.dense else law.counts, law.bottom, law.by_rejection)


def symbols_of(law: SymbolLaw) -> Symbols:
    """A `SymbolLaw` as the kernels read it."""
    rows = [(c, w.G, w.W, w.L, w.H) for c, w in zip(law.coins, law.windows, strict=True)]
    return Symbols(np.array(rows, dtype=np.int64))


_MECHANISMS = (FullGradient, TwoStage, FlatPicks, SignedSampling, UnbiasedJoint, PrivUnit, SignDS)
_TRANSFORMS = (Coordinates, Rotated, RandomDirections, Projection)


def known(solution: Solution) -> bool:
    """Whether the kernels can run this solution; another is run as a device runs it."""
    mechanism, transform = type(solution.mechanism), type(solution.transform)
    if transform is Fresh:
        return mechanism is SignedSampling and not solution.accumulates
    return mechanism in _MECHANISMS and transform in _TRANSFORMS


def tables_of(solution: Solution) -> Tables:
    """A solution as the kernels read it."""
    if not known(solution):
        raise InvalidArgument(
            "solution", solution.name, "of fedsel's own mechanisms and transforms"
        )
    mechanism, transform, M = solution.mechanism, solution.transform, solution.transform.size
    value = mechanism.value if isinstance(mechanism, ValueReports) else None
    symbols = (value if isinstance(value, Value) else Identity()).law
    kind, basis, matrix, recovery, rotations, factors = VALUES, COORDINATES, None, None, 1, 0
    if isinstance(mechanism, Baseline):
        kind = BASELINE
    elif mechanism.whole:
        kind = WHOLE
    elif isinstance(mechanism, OneSymbol):
        kind = SIGNS
    if isinstance(transform, Rotated):
        basis, rotations = ROTATED, transform.rotations
    elif isinstance(transform, Fresh):
        basis, rotations, factors = FRESH, M // transform.width, transform.factors
    elif isinstance(transform, RandomDirections | Projection):
        basis, matrix, recovery = MATRIX, transform.matrix, transform.recovery
    return Tables(
        kind=kind,
        basis=basis,
        dim=solution.dim,
        slots=M,
        bases=transform.bases,
        rotations=rotations,
        width=M // rotations,
        factors=factors,
        picks=1 if mechanism.whole else mechanism.picks,
        ranked=isinstance(mechanism, TwoStage | SignedSampling),
        flat=isinstance(mechanism, FlatPicks),
        plain=solution.alphabet.plain,
        decays_at_server=mechanism.decays_at_server,
        clip=float(getattr(mechanism, "clip", 1.0)),
        momentum=float(solution.feedback.momentum),
        scale=float(mechanism.scale) if isinstance(mechanism, Baseline) else 1.0,
        root=math.sqrt(M // rotations),
        ranks=ranks_of(mechanism.selection.law(M)) if isinstance(mechanism, TwoStage) else None,
        windows=symbols_of(symbols).windows,
        units=solution.alphabet.units,
        sign=_sign_of(mechanism, M) if isinstance(mechanism, OneSymbol) else None,
        baseline=_numbers_of(mechanism) if isinstance(mechanism, Baseline) else None,
        matrix=matrix,
        recovery=recovery,
    )


def signs_of(
    solution: Solution, first: int, count: int
) -> NDArray[np.float32] | NDArray[np.uint32] | None:
    """What the bases of the rounds from ``first`` on are made of; None for other transforms.

    Fresh bases: the key of each round (count, 2). Rotated ones: their signs
    (count · bases · rotations, d), those of a round one after another, as `Rotated.combine` has
    them.
    """
    transform = solution.transform
    if isinstance(transform, Fresh):
        rounds_ahead = range(first, first + count)
        keys_of_rounds = [key_of_round(transform.seed, number) for number in rounds_ahead]
        return np.array(keys_of_rounds, dtype=np.uint32).reshape(count, 2)
    if not isinstance(transform, Rotated):
        return None
    in_round = range(transform.bases * transform.rotations)
    rounds = range(first, first + count)
    keys = [public_key(transform.purpose(t, rotation)) for t in rounds for rotation in in_round]
    seed = transform.seed.to_bytes(max(16, -(-transform.seed.bit_length() // 32) * 4), "little")
    signs = np.empty((len(keys), solution.dim), dtype=np.float32)
    spawn = np.array(keys, dtype=np.uint32).reshape(len(keys), 4)
    native.public_signs(np.frombuffer(seed, dtype="<u4").astype(np.uint32), spawn, signs)
    return signs


def _sign_of(mechanism: OneSymbol, d: int) -> Sign:
    if isinstance(mechanism, SignedSampling):
        return Sign(False, ranks_of(mechanism.law(d)), radius=float(mechanism.radius or 0.0))
    if not isinstance(mechanism, UnbiasedJoint):
        raise InvalidArgument("mechanism", mechanism, "a SignedSampling or an UnbiasedJoint")
    low, high = mechanism.weights(d)
    unused = ranks_of(RankLaw([1], [2 * d]))
    return Sign(True, unused, low=low, high=high, top=mechanism.top(d), clip=mechanism.clip)


def _numbers_of(mechanism: Baseline) -> BaselineNumbers:
    if isinstance(mechanism, PrivUnit):
        radius = float(mechanism.radius or 0.0)
        return BaselineNumbers(mechanism.inside, radius, quantiles=np.array(mechanism.quantiles))
    if not isinstance(mechanism, SignDS):
        raise InvalidArgument("mechanism", mechanism, "a baseline of fedsel.solutions._baselines")
    shares = np.cumsum(mechanism.shares(mechanism.size, mechanism.threshold))
    return BaselineNumbers(shares=shares, top=mechanism.top)


class ReportKernel:
    """The reports of one solution, compiled; ``totals`` are those since they were cleared.

    Vectors are multiplied by ``factors`` (d,) before they are reported. Without a ``seed`` every
    report is drawn from bits of its own (`fedsel._internal.random.own_bits`).
    """

    def __init__(
        self, solution: Solution, seed: int | None, factors: NDArray[np.float32] | None = None
    ) -> None:
        self.solution, self._factors = solution, factors
        self._key = None if seed is None else key_of(seed)
        tables = tables_of(solution)
        self._plan = native.plan(tables)
        self._sent = np.zeros((1, 2 * tables.picks), dtype=np.int64)
        self.in_round(getattr(solution.transform, "round", 0))
        self.totals = solution.totals()
        # One array, seen by both: the kernel adds to the sums that the server decodes.
        places = solution.transform.places
        self._total = np.zeros(places)
        self._sums = np.zeros((len(tables.units), places), dtype=np.int64)
        self.totals.sums = self._total[None] if tables.plain else self._sums

    def in_round(self, number: int) -> None:
        """Use the transform of this round from now on."""
        self._signs = signs_of(self.solution, number, 1)

    def send(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        parts: Sequence[Part],
        residual: NDArray[np.float32] | None = None,
        sent: NDArray[np.int64] | None = None,
    ) -> None:
        """Let clients (n,) report on vectors (n, d) in parts side by side, or all on the only row.

        ``residual`` (N, d) is read and written; ``sent`` (n, 2·picks) receives the reports.
        """
        held = [
            (_held(p.left), _held(p.right)) if isinstance(p, Outer) else _held(p) for p in parts
        ]
        entries = sum(
            p[0].shape[1] * p[1].shape[1] if isinstance(p, tuple) else p.shape[1] for p in held
        )
        if entries != self.solution.dim:
            raise InvalidArgument("parts", f"{entries} entries", f"{self.solution.dim} in all")
        done = native.send_vectors(
            self._plan,
            held,
            self._factors,
            np.ascontiguousarray(clients, dtype=np.int64),
            residual,
            own_bits(len(clients)) if self._key is None else self._key,
            epoch,
            self._signs,
            self._sums,
            self._total,
            self._sent if sent is None else sent,
        )
        if done < len(clients):
            raise InvalidData("update: every entry must be finite")
        self.totals.count += len(clients)

    def reports(self, epoch: int, clients: NDArray[np.int64], rows: NDArray[np.float32]) -> Reports:
        """The reports (n, picks) themselves."""
        sent = np.zeros((max(2, len(clients)), self._sent.shape[1]), dtype=np.int64)
        self.send(epoch, clients, [rows], sent=sent)
        return Reports(sent[: len(clients), ::2], sent[: len(clients), 1::2])


def _held(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """A part (n, size) as the kernels read it; a view if it is so already."""
    return np.ascontiguousarray(part, np.float32).reshape(len(part), -1)
