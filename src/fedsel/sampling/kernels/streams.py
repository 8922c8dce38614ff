"""The kernel's source of random words: Philox four blocks at a time, and exact 128-bit products.

`fedsel.random.philox` and `fedsel.exact.mulhi` are the definitions; what is here must equal them,
and is written for the processor's vectors.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

_BLOCKS = 4
_WORDS = 2 * _BLOCKS
KEY_0, KEY_1, EPOCH, CLIENT = range(_WORDS, _WORDS + 4)
STATE = _WORDS + 4
"""Length of a stream's state: eight words, then the stream's address.

How many words were taken is not in it but in a variable that every draw takes and returns: it
stays in a register.
"""

_WORD, _BITS = ir.IntType(64), 32
_VECTOR = ir.VectorType(_WORD, _BLOCKS)
_MASK = 0xFFFFFFFF


def _constant(*values: int) -> ir.Constant:
    lanes = values if len(values) == _BLOCKS else values * _BLOCKS
    return ir.Constant(_VECTOR, [ir.Constant(_WORD, v) for v in lanes])


@intrinsic  # type: ignore[misc,untyped-decorator,unused-ignore]
def _refill(_context: Any, state: Any, _block: Any) -> Any:
    """Fill a stream's words from the four blocks that begin at this one."""
    return numba.void(state, numba.int64), _emit_refill


def _emit_refill(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, value=arguments[0]).data

    def load(index: int) -> Any:
        return builder.load(builder.gep(data, [_WORD(index)]))

    def spread(value: Any) -> Any:
        lane = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.IntType(32)(0))
        return builder.shuffle_vector(
            lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), _BLOCKS), [0] * _BLOCKS)
        )

    mask, half = _constant(_MASK), _constant(_BITS)
    client = spread(load(CLIENT))
    c0 = builder.and_(builder.add(spread(arguments[1]), _constant(0, 1, 2, 3)), mask)
    c1 = spread(load(EPOCH))
    c2, c3 = builder.and_(client, mask), builder.lshr(client, half)
    k0, k1 = spread(load(KEY_0)), spread(load(KEY_1))
    for _ in range(10):
        product_0 = builder.mul(_constant(0xD2511F53), c0)
        product_1 = builder.mul(_constant(0xCD9E8D57), c2)
        c0 = builder.xor(builder.xor(builder.lshr(product_1, half), c1), k0)
        c1 = builder.and_(product_1, mask)
        c2 = builder.xor(builder.xor(builder.lshr(product_0, half), c3), k1)
        c3 = builder.and_(product_0, mask)
        k0 = builder.and_(builder.add(k0, _constant(0x9E3779B9)), mask)
        k1 = builder.and_(builder.add(k1, _constant(0xBB67AE85)), mask)
    for offset, low, high in ((0, c0, c1), (_BLOCKS, c2, c3)):
        words = builder.or_(low, builder.shl(high, half))
        place = builder.bitcast(builder.gep(data, [_WORD(offset)]), _VECTOR.as_pointer())
        builder.store(words, place, align=8)
    return context.get_dummy_value()


@intrinsic  # type: ignore[misc,untyped-decorator,unused-ignore]
def mulhi(_context: Any, _a: Any, _b: Any) -> Any:
    """High 64 bits of the product of two uint64."""
    return numba.uint64(numba.uint64, numba.uint64), _emit_mulhi


def _emit_mulhi(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
    wide = ir.IntType(128)
    product = builder.mul(*(builder.zext(a, wide) for a in arguments))
    return builder.trunc(builder.lshr(product, wide(64)), _WORD)


@numba.njit(inline="always")
def new_stream(state: Any, key: Any, epoch: Any, client: Any) -> Any:
    """Start the stream of a client; returns how many words were taken: none."""
    state[KEY_0] = np.uint64(key[0])
    state[KEY_1] = np.uint64(key[1])
    state[EPOCH] = np.uint64(epoch)
    state[CLIENT] = np.uint64(client)
    return 0


@numba.njit(inline="always")
def next_word(state: Any, taken: Any) -> Any:
    """The next 64-bit word, and how many were taken: block b gives the words 2b and 2b + 1."""
    place = taken & (_WORDS - 1)
    if place == 0:
        _refill(state, taken >> 1)
    return state[(place >> 1) + (place & 1) * _BLOCKS], taken + 1


@numba.njit(inline="always")
def below(state: Any, taken: Any, n: Any) -> Any:
    """A uniform integer in 0 … n−1, exactly, and how many words were taken.

    Multiply-and-shift with rejection (Lemire 2019).
    """
    bound = np.uint64(n)
    word, taken = next_word(state, taken)
    low = word * bound
    if low < bound:
        surplus = (np.uint64(0) - bound) % bound
        while low < surplus:
            word, taken = next_word(state, taken)
            low = word * bound
    return np.int64(mulhi(word, bound)), taken


def inverse(n: int) -> int:
    """⌊(2^64 − 1)/n⌋, with which `divide` divides by n."""
    return ((1 << 64) - 1) // n if n else 0


@numba.njit(inline="always")
def divide(x: Any, n: Any, inverse_of_n: Any) -> Any:
    """x // n for 0 ≤ x < 2^63, by a product: the estimate is right or one too small."""
    quotient = np.int64(mulhi(np.uint64(x), inverse_of_n))
    if x - quotient * n >= n:
        quotient += 1
    return quotient
