"""The compiled kernels: see native/module.c."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Key = tuple[int, int]
_Keys = _Key | NDArray[np.uint64]
_Integers = NDArray[np.int64]
_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]

class CompiledSolution: ...

def plan(tables: Any, /) -> CompiledSolution: ...
def run_rounds(
    plan: CompiledSolution,
    records: Any,
    loss: int,
    reg: float,
    factor: float,
    rate: float,
    decay_of_server: float,
    clients: _Integers,
    ends: _Integers,
    weights: _Doubles,
    residual: _Floats | None,
    key: _Keys,
    epoch: int,
    signs: _Floats | NDArray[np.uint32] | None,
    sums: _Integers,
    total: _Doubles,
    sent: _Integers,
    trace: _Doubles | None,
    /,
) -> int: ...
def send_vectors(
    plan: CompiledSolution,
    parts: Sequence[_Floats | tuple[_Floats, _Floats]],
    factors: _Floats | None,
    clients: _Integers,
    residual: _Floats | None,
    key: _Keys,
    epoch: int,
    signs: _Floats | NDArray[np.uint32] | None,
    sums: _Integers,
    total: _Doubles,
    sent: _Integers,
    /,
) -> int: ...
def judge(
    records: Any,
    rows: _Integers,
    loss: int,
    weights: _Floats,
    hits: _Doubles,
    losses: _Doubles,
    /,
) -> int: ...
def nonprivate_rounds(
    records: Any,
    clients: _Integers,
    ends: _Integers,
    reg: float,
    rate: float,
    weights: _Floats,
    total: _Floats,
    /,
) -> int: ...
def draw_dimensions(
    law: Any,
    vectors: NDArray[np.floating],
    key: _Key,
    epoch: int,
    clients: _Integers,
    chosen: _Integers,
    /,
) -> int: ...
def draw_symbols(
    law: Any,
    t: _Doubles,
    key: _Key,
    epoch: int,
    clients: _Integers,
    symbols: _Integers,
    /,
) -> int: ...
def shuffle(order: _Integers, key: _Key, epoch: int, /) -> int: ...
def drop(stays: NDArray[np.bool_], rate: float, key: _Key, epoch: int, /) -> int: ...
def public_signs(
    entropy: NDArray[np.uint32], spawn: NDArray[np.uint32], signs: _Floats, /
) -> int: ...
def add_codewords(
    numbers: tuple[int, int, int, int, int],
    key: tuple[int, int],
    slots: _Integers,
    steps: _Integers,
    sums: _Integers,
    /,
) -> int: ...
def take_words(words: NDArray[np.uint64], key: _Key, epoch: int, client: int, /) -> int: ...
def hadamard(x: _Floats, /) -> int: ...
def magnitude_at(rank: int, vector: _Floats, /) -> float: ...
def find_equal(vector: _Floats, sign: float, pivot: float, pick: int, /) -> int: ...
def logarithm(x: float, /) -> float: ...
def variants() -> tuple[str, ...]: ...
def use(name: str, /) -> str: ...
