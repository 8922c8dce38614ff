"""The interface to the compiled kernels, which draw the reports of many clients.

The kernels are C (`native/`), compiled when the package is built. `Tables` mirrors
`native/tables.h`: a solution as plain numbers and arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import MissingExtra
from fedsel._internal.extras import native as native  # noqa: PLC0414 - others take it from here
from fedsel._internal.random import fresh_seeds, philox_key, public_key
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.mechanisms import (
    FlatPicks,
    FullGradient,
    Identity,
    RankLaw,
    SignedSampling,
    SymbolLaw,
    TwoStage,
    UnbiasedJoint,
    Value,
)
from fedsel.mechanisms._reports import Reports
from fedsel.sampling._batch import Outer, Part
from fedsel.solutions import (
    Coordinates,
    Projection,
    RandomDirections,
    Rotated,
    Solution,
)
from fedsel.solutions._baselines import PrivUnit, SignDS
from fedsel.solutions._fresh import Fresh, key_of_round

if native is None:
    raise MissingExtra(
        "simulations need fedsel's compiled kernels, which this installation lacks: install a "
        "wheel of this platform, or a C compiler and then: pip install --force-reinstall fedsel"
    )

_WHOLE, _VALUES, _SIGNS, _BASELINE = 0, 1, 2, 3
_COORDINATES, _ROTATED, _MATRIX, _FRESH = 0, 1, 2, 3


class Ranks(NamedTuple):
    """A `RankLaw` for the kernels; without ``counts`` each weight belongs to one rank."""

    weights: NDArray[np.int64]
    counts: NDArray[np.int64] | None
    bottom: int
    by_rejection: bool


class Symbols(NamedTuple):
    """A `SymbolLaw` for the kernels: a row (coin, G, W, L, H) for each window."""

    windows: NDArray[np.int64]


def ranks_of(law: RankLaw) -> Ranks:
    """Convert a `RankLaw` for the kernels."""
    return Ranks(law.weights, None if law.dense else law.counts, law.bottom, law.by_rejection)


def symbols_of(law: SymbolLaw) -> Symbols:
    """Convert a `SymbolLaw` for the kernels."""
    rows = [(c, w.G, w.W, w.L, w.H) for c, w in zip(law.coins, law.windows, strict=True)]
    return Symbols(np.array(rows, dtype=np.int64))


_IDENTITY = symbols_of(Identity().law).windows


class Sign(NamedTuple):
    """A `OneSymbol` mechanism. J reads ``ranks`` and ``radius`` (0: never negate)."""

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
    """A solution in the form that the kernels read; unused fields are None.

    ``kind`` is the kind of mechanism, ``basis`` of transform. ``ranked`` says whether all scores
    are needed, ``flat`` whether slots are drawn at random, ``plain`` whether numbers are sent
    unchanged; ``scale`` belongs to baselines. A report uses one of ``bases``, each with
    ``slots`` = ``rotations`` · ``width``; ``root`` is √width.
    """

    dim: int
    slots: int
    bases: int
    width: int
    plain: bool
    decays_at_server: bool
    momentum: float
    root: float
    units: NDArray[np.float64]
    kind: int = _VALUES
    basis: int = _COORDINATES
    rotations: int = 1
    factors: int = 0
    picks: int = 1
    ranked: bool = False
    flat: bool = False
    clip: float = 1.0
    scale: float = 1.0
    ranks: Ranks | None = None
    windows: NDArray[np.int64] = _IDENTITY
    sign: Sign | None = None
    baseline: BaselineNumbers | None = None
    matrix: NDArray[np.float32] | None = None  # (M, d)
    recovery: NDArray[np.float64] | None = None  # (M, d)


def _two_stage(mechanism: TwoStage, size: int) -> dict[str, Any]:
    ranks = ranks_of(mechanism.selection.law(size))
    return {"ranked": True, "ranks": ranks, "clip": mechanism.clip, **_value(mechanism.value)}


def _flat(mechanism: FlatPicks, size: int) -> dict[str, Any]:  # noqa: ARG001
    flat = {"flat": True, "picks": mechanism.picks, "clip": mechanism.clip}
    return flat | _value(mechanism.value)


def _value(value: Value) -> dict[str, Any]:
    return {} if value.plain else {"windows": symbols_of(value.law).windows}


def _signed(mechanism: SignedSampling, size: int) -> dict[str, Any]:
    sign = Sign(False, ranks_of(mechanism.law(size)), radius=float(mechanism.radius or 0.0))
    return {"kind": _SIGNS, "ranked": True, "sign": sign}


def _joint(mechanism: UnbiasedJoint, size: int) -> dict[str, Any]:
    (low, high), unused = mechanism.weights(size), ranks_of(RankLaw([1], [2 * size]))
    top, clip = mechanism.top(size), mechanism.clip
    sign = Sign(True, unused, low=low, high=high, top=top, clip=clip)
    return {"kind": _SIGNS, "sign": sign, "clip": clip}


def _priv_unit(mechanism: PrivUnit, size: int) -> dict[str, Any]:  # noqa: ARG001
    radius, quantiles = float(mechanism.radius or 0.0), np.array(mechanism.quantiles)
    numbers = BaselineNumbers(mechanism.inside, radius, quantiles=quantiles)
    return {"kind": _BASELINE, "scale": float(mechanism.scale), "baseline": numbers}


def _sign_ds(mechanism: SignDS, size: int) -> dict[str, Any]:  # noqa: ARG001
    shares = np.cumsum(mechanism.shares(mechanism.size, mechanism.threshold))
    numbers = BaselineNumbers(shares=shares, top=mechanism.top)
    return {"kind": _BASELINE, "scale": float(mechanism.scale), "baseline": numbers}


_MECHANISMS: dict[type, Callable[[Any, int], dict[str, Any]]] = {
    FullGradient: lambda mechanism, size: {"kind": _WHOLE},  # noqa: ARG005
    TwoStage: _two_stage,
    FlatPicks: _flat,
    SignedSampling: _signed,
    UnbiasedJoint: _joint,
    PrivUnit: _priv_unit,
    SignDS: _sign_ds,
}
"""Maps a mechanism on M scores to its fields of `Tables`."""


def _fresh(transform: Fresh) -> dict[str, Any]:
    rotations = transform.size // transform.width
    return {"basis": _FRESH, "rotations": rotations, "factors": transform.factors}


def _matrix(transform: RandomDirections | Projection) -> dict[str, Any]:
    return {"basis": _MATRIX, "matrix": transform.matrix, "recovery": transform.recovery}


_TRANSFORMS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Coordinates: lambda transform: {},  # noqa: ARG005
    Rotated: lambda transform: {"basis": _ROTATED, "rotations": transform.rotations},
    Fresh: _fresh,
    RandomDirections: _matrix,
    Projection: _matrix,
}
"""Maps a transform to its fields of `Tables`."""


def known(solution: Solution) -> bool:
    """Whether the kernels support this solution. Others run as on a device."""
    mechanism, transform = type(solution.mechanism), type(solution.transform)
    if not solution.transform.shares_codewords:
        return mechanism is SignedSampling and transform is Fresh and not solution.accumulates
    return mechanism in _MECHANISMS and transform in _TRANSFORMS


def tables_of(solution: Solution) -> Tables:
    """Convert a solution for the kernels."""
    if not known(solution):
        raise InvalidArgument(
            "solution", solution.name, "made of fedsel's own mechanisms and transforms"
        )
    mechanism, transform, size = solution.mechanism, solution.transform, solution.transform.size
    fields = _MECHANISMS[type(mechanism)](mechanism, size)
    fields |= _TRANSFORMS[type(transform)](transform)
    width = size // fields.get("rotations", 1)
    return Tables(
        dim=solution.dim,
        slots=size,
        bases=transform.bases,
        width=width,
        plain=solution.alphabet.plain,
        decays_at_server=mechanism.decays_at_server,
        momentum=float(solution.feedback.momentum),
        root=math.sqrt(width),
        units=solution.alphabet.units,
        **fields,
    )


def signs_of(
    solution: Solution, first: int, count: int
) -> NDArray[np.float32] | NDArray[np.uint32] | None:
    """The public randomness of the bases of ``count`` rounds from ``first`` on, or None.

    Fresh bases: the key of each round (count, 2). Rotated ones: their signs
    (count · bases · rotations, d), round after round, in the order of `Rotated.combine`.
    """
    transform, rounds = solution.transform, range(first, first + count)
    if type(transform) is Fresh:
        keys = [key_of_round(transform.seed, number) for number in rounds]
        return np.array(keys, dtype=np.uint32).reshape(count, 2)
    if type(transform) is not Rotated:
        return None
    in_round = range(transform.bases * transform.rotations)
    keys_of_signs = [
        public_key(transform.purpose(t, number)) for t in rounds for number in in_round
    ]
    seed = transform.seed.to_bytes(max(16, -(-transform.seed.bit_length() // 32) * 4), "little")
    signs = np.empty((len(keys_of_signs), solution.dim), dtype=np.float32)
    spawn = np.array(keys_of_signs, dtype=np.uint32).reshape(len(keys_of_signs), 4)
    native.public_signs(np.frombuffer(seed, dtype="<u4").astype(np.uint32), spawn, signs)
    return signs


class ReportKernel:
    """The compiled sampler of one solution, with the ``totals`` of reports since the last clear.

    Vectors are multiplied by ``factors`` (d,) before they are reported. Without a ``seed`` every
    report uses fresh random bits (`fresh_seeds`).
    """

    def __init__(
        self, solution: Solution, seed: int | None, factors: NDArray[np.float32] | None = None
    ) -> None:
        self.solution, self._factors = solution, factors
        self._key = None if seed is None else philox_key(seed)
        tables = tables_of(solution)
        self._compiled = native.plan(tables)
        self._sent = np.zeros((1, 2 * tables.picks), dtype=np.int64)
        self.in_round(getattr(solution.transform, "round", 0))
        self.totals = solution.totals()
        # Shared memory: the kernel adds to the sums that the server decodes.
        places = solution.transform.places
        self._total = np.zeros(places)
        self._sums = np.zeros((len(tables.units), places), dtype=np.int64)
        self.totals.sums = self._total[None] if tables.plain else self._sums

    def in_round(self, number: int) -> None:
        """Switch to the transform of this round."""
        self._signs = signs_of(self.solution, number, 1)

    def send(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        parts: Sequence[Part],
        residual: NDArray[np.float32] | None = None,
        sent: NDArray[np.int64] | None = None,
    ) -> None:
        """Draw the reports of clients (n,) on vectors (n, d), given in parts, or all on one row.

        ``residual`` (N, d) is read and written; ``sent`` (n, 2·picks) receives the reports.
        """
        held = [
            (_held(p.left), _held(p.right)) if isinstance(p, Outer) else _held(p) for p in parts
        ]
        entries = sum(
            p[0].shape[1] * p[1].shape[1] if isinstance(p, tuple) else p.shape[1] for p in held
        )
        if entries != self.solution.dim:
            raise InvalidArgument("parts", f"{entries} entries", f"{self.solution.dim} entries")
        done = native.send_vectors(
            self._compiled,
            held,
            self._factors,
            np.ascontiguousarray(clients, dtype=np.int64),
            residual,
            fresh_seeds(len(clients)) if self._key is None else self._key,
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
        """Draw and return the reports (n, picks)."""
        sent = np.zeros((max(2, len(clients)), self._sent.shape[1]), dtype=np.int64)
        self.send(epoch, clients, [rows], sent=sent)
        return Reports(sent[: len(clients), ::2], sent[: len(clients), 1::2])


def _held(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert a part (n, size) for the kernels; a view if it needs no conversion."""
    return np.ascontiguousarray(part, np.float32).reshape(len(part), -1)
