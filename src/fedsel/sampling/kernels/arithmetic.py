"""Floating-point building blocks of the training kernel that give the same bits on every machine.

A compiler may add up a sum in any order only if it is allowed to; then the result depends on the
width of the processor's vectors. Here the order is fixed: eight lanes, then a fixed tree. The
exponential is a polynomial, not the platform's library.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

_LANES = 8
_UNROLLED = 4


@intrinsic  # type: ignore[misc,untyped-decorator,unused-ignore]
def dot(_context: Any, x: Any, y: Any) -> Any:
    """x · y of two contiguous float32 arrays, summed in a fixed order, vectorised."""
    signature = numba.float32(x, y)
    return signature, _emit_dot


def _emit_dot(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = [
        context.make_array(kind)(context, builder, value=value)
        for kind, value in zip(signature.args, arguments, strict=True)
    ]
    size = cgutils.unpack_tuple(builder, arrays[0].shape, 1)[0]
    vector = ir.VectorType(ir.FloatType(), _LANES)
    zero = ir.Constant(vector, [ir.Constant(ir.FloatType(), 0.0)] * _LANES)
    sums = [cgutils.alloca_once_value(builder, zero) for _ in range(_UNROLLED)]

    def product(start: Any) -> Any:
        factors = []
        for array in arrays:
            place = builder.bitcast(builder.gep(array.data, [start]), vector.as_pointer())
            factors.append(builder.load(place, align=4))
        return builder.fmul(*factors)

    def add_products(start: Any, count: int) -> None:
        for i in range(count):
            at = builder.add(start, start.type(i * _LANES))
            builder.store(builder.fadd(builder.load(sums[i]), product(at)), sums[i])

    done = size.type(0)
    for count in (_UNROLLED, 1):
        step = count * _LANES
        end = builder.and_(size, size.type(-step))
        with cgutils.for_range_slice(builder, done, end, size.type(step), size.type) as (start, _):
            add_products(start, count)
        done = end
    pairs = [builder.load(s) for s in sums]
    while len(pairs) > 1:
        pairs = [builder.fadd(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    parts = [builder.extract_element(pairs[0], ir.IntType(32)(i)) for i in range(_LANES)]
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [builder.fadd(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
    total = cgutils.alloca_once_value(builder, parts[0])
    with cgutils.for_range_slice(builder, done, size, size.type(1), size.type) as (i, _):
        factors = [builder.load(builder.gep(array.data, [i])) for array in arrays]
        builder.store(builder.fadd(builder.load(total), builder.fmul(*factors)), total)
    return builder.load(total)


_CACHE_LINE = 64


@intrinsic  # type: ignore[misc,untyped-decorator,unused-ignore]
def prefetch(_context: Any, row: Any) -> Any:
    """Ask for a contiguous row before it is needed: shuffled clients lie anywhere in memory."""
    return numba.void(row), _emit_prefetch


def _emit_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    row = context.make_array(signature.args[0])(context, builder, value=arguments[0])
    count = cgutils.unpack_tuple(builder, row.shape, 1)[0]
    width = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
    pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    start = builder.bitcast(row.data, pointer)
    size, step = builder.mul(count, count.type(width)), count.type(_CACHE_LINE)
    with cgutils.for_range_slice(builder, count.type(0), size, step, count.type) as (at, _):
        builder.call(fetch, [builder.gep(start, [at]), integer(0), integer(3), integer(1)])
    return context.get_dummy_value()


@intrinsic  # type: ignore[misc,untyped-decorator,unused-ignore]
def copy_from(_context: Any, _address: Any, target: Any, _start: Any, _count: Any) -> Any:
    """Copy ``count`` float32 from an address in memory to a contiguous array, from ``start`` on."""
    return numba.void(numba.uint64, target, numba.int64, numba.int64), _emit_copy


def _emit_copy(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, target, start, count = arguments
    pointer = ir.IntType(8).as_pointer()
    array = context.make_array(signature.args[1])(context, builder, value=target)
    place = builder.bitcast(builder.gep(array.data, [start]), pointer)
    cgutils.raw_memcpy(builder, place, builder.inttoptr(address, pointer), count, 4)
    return context.get_dummy_value()


_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_POWERS = 2.0 ** np.arange(-1022, 1024)


@numba.njit(inline="always")
def exp(x: Any) -> Any:
    """e^x for |x| ≤ 700 within 1e-15: 2^n times a polynomial on [−ln2/2, ln2/2]."""
    n = np.floor(x * _LOG2_E + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    # Taylor to degree 13: the remainder is below 2e-17.
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _POWERS[np.int64(n) + 1022]


@numba.njit(inline="always")
def sigmoid(x: Any) -> Any:
    """1/(1 + e^−x), without overflow."""
    if x >= 0:
        return 1.0 / (1.0 + exp(-min(x, 700.0)))
    e = exp(max(x, -700.0))
    return e / (1.0 + e)
