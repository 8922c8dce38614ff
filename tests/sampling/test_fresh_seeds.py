"""Reports that are drawn from bits of their own: the kernels against encode, and bad arrays."""

from dataclasses import replace

import numpy as np
import pytest

from fedsel import solution
from fedsel._internal.models import LinearModel
from fedsel._internal.random import fresh_seeds, own_stream, philox_key, stream
from fedsel.sampling import _kernels
from fedsel.sampling._kernels import ReportKernel, known
from fedsel.server import ServerState
from fedsel.simulation import Population, Training, _stages, train
from fedsel.simulation._clients import LinearClients
from fedsel.solutions import names

D, N = 9, 40
BITS = np.random.default_rng(1).integers(0, 2**64, (N, 2), dtype=np.uint64)
PRIVATE = [
    name
    for name in sorted(names())
    if not (made := solution(name, epsilon=4.0, dim=D)).alphabet.plain and known(made)
]


@pytest.fixture
def known_bits(monkeypatch):
    """The bits of the operating system, for once known."""
    taken = []

    def given(count):
        first = sum(taken)
        taken.append(count)
        return np.ascontiguousarray(BITS[first : first + count])

    monkeypatch.setattr(_kernels, "fresh_seeds", given)
    monkeypatch.setattr(_stages, "fresh_seeds", given)


@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.usefixtures("known_bits")
def test_the_kernels_draw_what_encode_draws(name):
    made = solution(name, epsilon=4.0, dim=D, k=3)
    rows = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
    sent = ReportKernel(made, None).reports(2, np.arange(N), rows)
    nothing = np.zeros(D, dtype=np.float32)
    for row, bits, report in zip(rows, BITS, sent.pairs(), strict=True):
        alone, _ = made.encode(row, nothing, own_stream(bits, 2))
        assert alone.pairs()[0] == report


@pytest.mark.usefixtures("known_bits")
def test_linear_rounds_draw_each_report_from_its_place():
    """The third client of a call takes the third bits, whatever its number."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(N, D)).astype(np.float32), np.ones(N, dtype=np.int8)
    made = solution("PS-PM", epsilon=4.0, dim=D, k=3)
    clients = LinearClients(Population(X, y), LinearModel())
    stage = _stages.CompiledStage(Training(made, batch=N), clients)
    stage.sent = np.zeros((N, 2), dtype=np.int64)
    order = rng.permutation(N)
    list(stage.run(ServerState.begin(np.zeros(D)), 0, order, np.array([N]), keep=False))
    gradients = (-0.5 * X).astype(np.float32)
    for place, client in enumerate(order):
        row = gradients[client]
        alone, _ = made.encode(row, np.zeros(D, np.float32), own_stream(BITS[place], 0))
        assert alone.pairs()[0] == ((stage.sent[place, 0], stage.sent[place, 1]),)


def test_the_bits_are_fresh_and_many():
    drawn = np.concatenate([fresh_seeds(1000), fresh_seeds(1000)])
    assert drawn.dtype == np.uint64
    assert len(np.unique(drawn)) == 4000  # a pair of 64 bits meets with a chance of 2^-40
    assert fresh_seeds(0).shape == (0, 2)


def test_a_stream_depends_on_every_bit():
    def words(bits, epoch=0):
        drawn = own_stream(bits, epoch)
        return [drawn.below(1 << 64) for _ in range(4)]

    zeros = np.zeros(2, dtype=np.uint64)
    seen = {tuple(words(zeros)), tuple(words(zeros, epoch=1))}
    for half in (0, 1):
        for bit in range(64):
            changed = zeros.copy()
            changed[half] = np.uint64(1) << np.uint64(bit)
            seen.add(tuple(words(changed)))
    assert len(seen) == 130
    # With the key of a seed it is that seed's stream.
    low, high = philox_key(7)
    as_bits = np.array([low | high << 32, 5], dtype=np.uint64)
    other = stream(7, 3, 5)
    assert words(as_bits, epoch=3) == [other.below(1 << 64) for _ in range(4)]


BAD = {
    "too few": BITS[:-1].copy(),
    "too many": np.vstack([BITS, BITS[:1]]),
    "one column": BITS[:, :1].copy(),
    "three columns": np.hstack([BITS, BITS[:, :1]]),
    "flat": BITS.ravel(),
    "signed": BITS.view(np.int64),
    "32 bits": BITS.astype(np.uint32),
    "with gaps": np.hstack([BITS, BITS])[:, ::2],
    "foreign byte order": BITS.astype(">u8"),
    "a list": BITS.tolist(),
    "nothing": None,
    "three halves": (1, 2, 3),
    "words": ("a", "b"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("rounds", [False, True])
def test_bits_that_do_not_fit_are_refused(what, rounds, monkeypatch):
    made = solution("PS-PM", epsilon=2.0, dim=D)
    rows = np.ones((N, D), dtype=np.float32)
    for module in (_kernels, _stages):
        monkeypatch.setattr(module, "fresh_seeds", lambda count: BAD[what])

    def call():
        if rounds:
            train(Training(made, batch=N), Population(rows, np.ones(N, dtype=np.int8)))
        else:
            ReportKernel(made, None).send(0, np.arange(N), [rows])

    with pytest.raises((ValueError, TypeError, BufferError)):
        call()


@pytest.mark.parametrize("name", ["RJ", "PS-PM", "PM"])
def test_a_seed_decides_and_none_does_not(name):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, D)).astype(np.float32), np.ones(200, dtype=np.int8)
    made = solution(name, epsilon=1.0, dim=D, epochs=2)
    people, unseeded = Population(X, y), Training(made, batch=20)
    assert unseeded.seed is None
    fresh = [train(unseeded, people) for _ in range(2)]
    assert (fresh[0].weights != fresh[1].weights).any()
    seeded = [train(replace(unseeded, seed=5), people) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].weights, seeded[1].weights)
    assert [h.seeded for h in (*fresh, *seeded)] == [False, False, True, True]
