"""Randomness as an argument: the operating system on a device, counter-based streams in simulation.

Every random decision of fedsel is ``below(n)``, an exactly uniform integer in 0 … n−1. Simulated
clients draw it from 64-bit words of Philox4x32-10 (Salmon et al. 2011) addressed by
(seed, epoch, client, position): a result never depends on threads, batches or their order.
`philox` is the definition; the compiled kernels (sampling/native/streams.inc) must equal it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import mulhi
from fedsel.errors import check_count

Words = NDArray[np.uint64]

_WORD = 1 << 64
_LOW_WORD = _WORD - 1


class SystemEntropy:
    """The operating system's cryptographic source: what a device uses. It has no seed.

    Proof: docs/proofs/sampling.md, D1.

    >>> 0 <= SystemEntropy().below(6) < 6
    True
    """

    @staticmethod
    def below(n: int, /) -> int:
        if n > _WORD:
            return secrets.randbelow(n)
        while True:
            product = int.from_bytes(os.urandom(8)) * n
            low = product & _LOW_WORD
            # Only low < n can be surplus (Lemire 2019): the costly remainder is rarely computed.
            if low >= n or low >= _WORD % n:
                return product >> 64

    def __repr__(self) -> str:
        return "SystemEntropy()"


SYSTEM = SystemEntropy()


_SHIFT = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
_MULTIPLY_0 = np.uint64(0xD2511F53)
_MULTIPLY_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_ONE = np.uint64(1)
_AT_A_TIME = 8


def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any]:
    """Philox4x32-10: a 128-bit block, as two 64-bit words, of a counter and a key of 32-bit parts.

    >>> zero = np.zeros(1, np.uint64)
    >>> [hex(int(w[0])) for w in philox(zero, zero, zero, zero, zero, zero)]
    ['0xe169c58d6627e8d5', '0x9b00dbd8bc57ac4c']
    """
    for _ in range(10):
        product_0 = _MULTIPLY_0 * c0
        product_1 = _MULTIPLY_1 * c2
        c0 = (product_1 >> _SHIFT) ^ c1 ^ k0
        c1 = product_1 & _MASK
        c2 = (product_0 >> _SHIFT) ^ c3 ^ k1
        c3 = product_0 & _MASK
        k0 = (k0 + _WEYL_0) & _MASK
        k1 = (k1 + _WEYL_1) & _MASK
    return c0 | (c1 << _SHIFT), c2 | (c3 << _SHIFT)


def philox_key(seed: int, *purpose: int) -> tuple[int, int]:
    """The 64-bit Philox key, in two halves, of a seed and a purpose.

    >>> philox_key(0) != philox_key(1) != philox_key(1, 0)
    True
    """
    check_count("seed", seed, least=0)
    state = np.random.SeedSequence(seed, spawn_key=purpose).generate_state(2, np.uint32)
    return int(state[0]), int(state[1])


def fresh_seeds(reports: int) -> Words:
    """128 bits of the operating system for each report of a cohort, (reports, 2): no seed.

    A kernel draws a report from them where nobody may be able to undo its noise. The bits of one
    report are independent of all others, are used once and are not kept. So even an observer who
    knows every other client and everything ever published knows no more of them than the report
    itself reveals, and nothing has to be hard to invert. One key for all reports would need a
    generator that cannot be inverted, and Philox is not designed for that. Over 2^128 seeds the law
    of a report is exact up to a relative error near 2^-64. `own_stream` turns the bits into words.

    >>> fresh_seeds(3).shape
    (3, 2)
    """
    drawn = np.frombuffer(os.urandom(16 * check_count("reports", reports, least=0)), np.uint64)
    return drawn.reshape(-1, 2)


def public_generator(seed: int, purpose: str) -> np.random.Generator:
    """The generator of a public matrix, the same at both ends: one stream a seed and purpose.

    The purpose is a text, not a number, so that it never equals a stream of simulated data: a
    projection drawn from the stream of the model to be learnt would reveal it.

    >>> public_generator(0, "signs").integers(0, 2, 8).tolist()
    [...]
    """
    return np.random.Generator(public_bits(seed, purpose))


def public_bits(seed: int, purpose: str) -> np.random.Philox:
    """The bits of `public_generator`: numpy guarantees them, but not what generators return."""
    return np.random.Philox(np.random.SeedSequence(seed, spawn_key=public_key(purpose)))


def public_key(purpose: str) -> tuple[int, ...]:
    """Four 32-bit words that stand for a purpose."""
    return struct.unpack("<4I", hashlib.sha256(purpose.encode()).digest()[:16])


class Streams:
    """The streams of many simulated clients, drawn from together with numpy.

    ``below`` draws the next integer of each client in ``which`` (positions in ``clients``).

    >>> streams = Streams(seed=1, epoch=0, clients=np.arange(3))
    >>> many = streams.below(np.full(3, 6), np.arange(3))
    >>> [stream(1, 0, i).below(6) for i in range(3)] == many.tolist()
    True
    """

    def __init__(
        self,
        seed: int,
        epoch: int,
        clients: Iterable[int] | NDArray[np.integer],
        *purpose: int,
    ) -> None:
        self._start(philox_key(seed, *purpose), epoch, np.asarray(clients))

    @classmethod
    def of_bits(cls, bits: Words, epoch: int = 0) -> Self:
        """The streams of reports from their own bits (n, 2): `own_stream` for each.

        >>> bits = fresh_seeds(2)
        >>> many = Streams.of_bits(bits).below(np.full(2, 6), np.arange(2))
        >>> [own_stream(one, 0).below(6) for one in bits] == many.tolist()
        True
        """
        streams = cls.__new__(cls)
        streams._start((bits[:, 0] & _MASK, bits[:, 0] >> _SHIFT), epoch, bits[:, 1])
        return streams

    def _start(self, key: tuple[Any, Any], epoch: int, clients: NDArray[np.integer]) -> None:
        self.epoch = check_count("epoch", epoch, least=0, most=(1 << 32) - 1)
        self.clients: Words = clients.astype(np.uint64)
        self._keys = [np.broadcast_to(np.asarray(k, np.uint64), len(clients)) for k in key]
        self._position = np.zeros(len(clients), dtype=np.uint64)

    def next_words(self, which: NDArray[np.integer]) -> Words:
        """The next 64-bit word of each of the chosen clients."""
        position, client = self._position[which], self.clients[which]
        self._position[which] += _ONE
        first, second = _block(
            (self._keys[0][which], self._keys[1][which]), self.epoch, client, position >> _ONE
        )
        return np.where(position & _ONE, second, first)

    def below(self, n: NDArray[np.integer], which: NDArray[np.integer]) -> NDArray[np.int64]:
        """Uniform in 0 … n−1, exactly: multiply-and-shift with rejection (Lemire 2019)."""
        bound = n.astype(np.uint64)
        result = np.empty(len(which), dtype=np.int64)
        # 2^64 mod n low products are surplus, and are drawn again.
        surplus = (-bound) % bound
        todo = np.arange(len(which))
        while len(todo):
            random_words = self.next_words(which[todo])
            accepted = random_words * bound[todo] >= surplus[todo]
            result[todo] = mulhi(random_words, bound[todo]).astype(np.int64)
            todo = todo[~accepted]
        return result


def _block(key: tuple[Any, Any], epoch: int, client: Words, block: Words) -> tuple[Words, Words]:
    """The two words of each (client, block) in an epoch."""
    shape = np.broadcast(client, block).shape
    epochs, k0, k1 = (np.broadcast_to(np.asarray(x, np.uint64), shape) for x in (epoch, *key))
    return philox(block, epochs, client & _MASK, client >> _SHIFT, k0, k1)


class Stream:
    """`Entropy` from given 64-bit words, by the rule that batch and kernel follow.

    >>> Stream([2**63 + 1]).below(10)
    5
    """

    def __init__(self, random_words: Iterable[int]) -> None:
        self._random_words = iter(random_words)

    def below(self, n: int, /) -> int:
        while True:
            product = next(self._random_words) * n
            if product & _LOW_WORD >= _WORD % n:
                return product >> 64


def stream(seed: int, epoch: int, client: int, *purpose: int) -> Stream:
    """The stream of one simulated client."""
    return Stream(words_of(seed, epoch, client, *purpose))


def own_stream(bits: Words, epoch: int) -> Stream:
    """The stream of one report from its own 128 bits (2,): half of them key, half counter.

    >>> 0 <= own_stream(fresh_seeds(1)[0], 0).below(6) < 6
    True
    """
    own, client = (int(half) for half in bits)
    return Stream(_words((own & int(_MASK), own >> 32), epoch, client))


def words_of(seed: int, epoch: int, client: int, *purpose: int) -> Iterator[int]:
    """The 64-bit words of one simulated client, one after another."""
    check_count("epoch", epoch, least=0, most=(1 << 32) - 1)
    check_count("client", client, least=0, most=(1 << 64) - 1)
    return _words(philox_key(seed, *purpose), epoch, client)


def _words(key: tuple[int, int], epoch: int, client: int) -> Iterator[int]:
    who = np.array([client], dtype=np.uint64)
    for start in itertools.count(step=_AT_A_TIME):
        blocks = np.arange(start, start + _AT_A_TIME, dtype=np.uint64)
        yield from np.stack(_block(key, epoch, who, blocks), axis=1).ravel().tolist()
