"""Counter-based streams: known answers, exact uniformity; and no seed on devices."""

import inspect
import itertools

import numpy as np
import pytest

from fedsel import InvalidArgument, Solution
from fedsel._internal.random import (
    Stream,
    Streams,
    SystemEntropy,
    philox,
    philox_key,
    stream,
    words_of,
)
from fedsel.checks import assert_follows
from fedsel.sampling import device

# The published known answers of Philox4x32-10: counter, key, result (32-bit words).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def test_philox_gives_its_known_answers(counter, key, result):
    parts = [np.array([x], np.uint64) for x in (*counter, *key)]
    first, second = (int(w[0]) for w in philox(*parts))
    assert (first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF, second >> 32) == result


@pytest.mark.parametrize(
    ("seed", "epoch", "client"), [(0, 0, 0), (5, 2**32 - 1, 2**63 - 1), (7, 3, 2**32)]
)
def test_the_kernel_draws_the_same_words(seed, epoch, client):
    """Eight blocks at a time, in vectors, against one at a time."""
    from fedsel.sampling._kernels import native

    for variant in native.variants():
        native.use(variant)
        drawn = np.empty(50, dtype=np.uint64)
        native.take_words(drawn, philox_key(seed), epoch, client)
        assert drawn.tolist() == list(itertools.islice(words_of(seed, epoch, client), 50))


BOUNDS = [1, 2, 3, 10, 2**32 + 1, 3 * 2**61 + 1, 2**63 + 1, 2**64 - 1]


def critical_words(n):
    """Words whose product with an odd n has a low half at the limits of what is drawn again."""
    inverse = pow(n, -1, 2**64) if n % 2 else 1
    surplus = 2**64 % n
    lows = [0, 1, surplus - 1, surplus, surplus + 1, n - 1, n, n + 1, 2**63, 2**64 - 1]
    return [low * inverse % 2**64 for low in lows]


@pytest.mark.parametrize("n", [*BOUNDS, 2**64])
def test_a_device_draws_by_the_rule_of_the_streams(n, monkeypatch):
    """On the same words the same numbers, and the same words are drawn again."""
    for word in critical_words(n):
        given = [word, 2**63 + 12345, 7, 2**64 - 5]
        left = iter(given)
        monkeypatch.setattr("os.urandom", lambda size, left=left: next(left).to_bytes(size))
        entropy, again = SystemEntropy(), Stream(rest := iter(given))
        assert entropy.below(n) == again.below(n) < n
        assert list(left) == list(rest)


def test_what_is_drawn_is_exactly_uniform():
    """Of n = ¾ · 2^64 numbers each has one word; every fourth word is drawn again."""
    n = 3 * 2**62
    for word in (*range(16), *range(2**64 - 8, 2**64)):
        words = iter([word, 2**64 - 1])
        again = word % 4 == 0
        assert Stream(words).below(n) == (n - 1 if again else word // 4 * 3 + word % 4 - 1)
        assert len(list(words)) == (not again)


@pytest.mark.parametrize(
    ("epoch", "client"), [(-1, 0), (2**32, 0), (0, -1), (0, 2**64), (0.5, 0), (0, None)]
)
def test_streams_that_there_are_not(epoch, client):
    """Epochs have 32 bits of the counter and clients 64: no two streams are one."""
    with pytest.raises(InvalidArgument, match=r"^(epoch|client) = "):
        words_of(0, epoch, client)
    if client == 0:
        with pytest.raises(InvalidArgument, match=r"^epoch = "):
            Streams(0, epoch, [0])
    last = next(words_of(0, 2**32 - 1, 2**64 - 1))
    assert Streams(0, 2**32 - 1, [2**64 - 1]).next_words(np.array([0])).tolist() == [last]


def test_streams_of_many_are_the_streams_of_each():
    clients = np.array([5, 0, 2**40 + 1, 7])
    many = Streams(3, 9, clients)
    singles = [stream(3, 9, int(c)) for c in clients]
    for n in (2, 10, 3 * 2**60, 2**63, 1):
        bound = np.full(4, n, dtype=np.uint64)
        together = many.below(bound, np.arange(4)).astype(np.uint64).tolist()
        assert together == [s.below(n) for s in singles]


def test_seed_epoch_and_client_give_different_streams():
    starts = {
        tuple(itertools.islice(words_of(seed, epoch, client), 2))
        for seed, epoch, client in itertools.product(range(3), range(3), range(3))
    }
    assert len(starts) == 27
    assert philox_key(1) != philox_key(1, 0)


def test_below_rejects_exactly_the_surplus():
    """n = 3 · 2^62 leaves 2^62 surplus products: without them each result is equally often."""
    n = 3 << 62
    kept = [w for w in (0, 1, 2, 3) if (w * n) % 2**64 >= 2**64 % n]
    entropy = Stream([0, 1, 2, 3])
    assert [entropy.below(n) for _ in kept] == [(w * n) >> 64 for w in kept]


@pytest.mark.parametrize("make", [SystemEntropy, lambda: stream(1, 2, 3)])
@pytest.mark.parametrize("n", [1, 2, 6, 100])
def test_below_is_uniform(make, n):
    entropy = make()
    drawn = np.array([entropy.below(n) for _ in range(20_000)])
    assert_follows(drawn, dict.fromkeys(range(n), 1 / n), f"below({n})")


def test_system_entropy_reaches_beyond_a_word():
    drawn = [SystemEntropy().below(2**100) for _ in range(200)]
    assert max(drawn) > 2**95
    assert max(drawn) < 2**100


def test_devices_cannot_be_seeded():
    for function in (device.select, device.perturb, device.report, Solution.encode):
        assert "seed" not in inspect.signature(function).parameters
    with pytest.raises(TypeError):
        SystemEntropy(1)


@pytest.mark.parametrize("bad", [-1, 1.5, "0", None])
def test_impossible_seeds_are_refused(bad):
    with pytest.raises(InvalidArgument, match=r"^seed = "):
        Streams(bad, 0, [0])


@pytest.mark.parametrize("bad", [-1, 2**32, 0.5])
def test_impossible_epochs_are_refused(bad):
    with pytest.raises(InvalidArgument, match=r"^epoch = "):
        Streams(0, bad, [0])
