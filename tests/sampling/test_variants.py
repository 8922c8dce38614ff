"""Every set of instructions draws what a device draws: on all kinds of vectors, at every size.

The kernels for vectors of 512 bits look at many attempts at once and guess where a vector's top
ends; those without vectors are compiled only where a compiler has none. None may change a report.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsel import Reports, solution
from fedsel._internal.random import philox_key, stream
from fedsel.sampling._kernels import ReportKernel, native
from fedsel.simulation import Population, Training, train
from tests.sampling.support import SHAPES, instructions  # noqa: F401 (a fixture)

ROOT = Path(__file__).parents[2]
SEED = 5
DEVICES = 6
"""How many of the clients of a cohort are encoded as a device does it."""

pytestmark = pytest.mark.usefixtures("instructions")


def reports_by_variant(made, vectors, clients):
    for variant in native.variants():
        native.use(variant)
        yield variant, ReportKernel(made, SEED).reports(2, clients, vectors)


def check_reports(made, vectors):
    clients = np.arange(len(vectors)) * 977
    nothing = np.zeros(made.dim, dtype=np.float32)
    encoded = Reports.of(
        [
            made.encode(vector, nothing, stream(SEED, 2, int(client)))[0]
            for vector, client in zip(vectors[:DEVICES], clients, strict=False)
        ]
    )
    found = dict(reports_by_variant(made, vectors, clients))
    for variant, reports in found.items():
        assert reports == found["base"], variant
        assert reports.rows(np.arange(DEVICES)) == encoded, variant


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["J", "RJ", "PS-PM"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0])
def test_reports_are_those_of_devices(name, epsilon, shape):
    rng = np.random.default_rng(3)
    d = 100
    vectors = np.array([SHAPES[shape](rng, d) for _ in range(150)], dtype=np.float32)
    check_reports(solution(name, epsilon=epsilon, dim=d, rho=1.0, mu=0.9), vectors)


@pytest.mark.parametrize("name", ["J", "RJ"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(
    "d", [2, 3, 8, 15, 16, 17, 31, 33, 63, 64, 65, 112, 127, 128, 129, 200, 257, 513, 1000, 5000]
)
def test_whatever_the_size_of_vectors(name, epsilon, d):
    """Of all shapes in turn, so that a guess from one vector is wrong for the next."""
    rng = np.random.default_rng(d)
    shapes = [SHAPES[shape] for shape in SHAPES]
    vectors = [shapes[i % len(shapes)](rng, d) for i in range(44)]
    made = solution(name, epsilon=epsilon, dim=d, rho=0.5)
    check_reports(made, np.array(vectors, dtype=np.float32))


@pytest.mark.parametrize("rotations", [1, 2])
@pytest.mark.parametrize("bases", [1, 3])
def test_several_bases_and_rotations(bases, rotations):
    from dataclasses import replace

    made = solution("RJ", epsilon=3.0, dim=50, rho=1.0)
    made = replace(made, transform=replace(made.transform, bases=bases, rotations=rotations))
    vectors = np.random.default_rng(1).standard_normal((90, 50)).astype(np.float32)
    check_reports(made, vectors)


@pytest.mark.parametrize("name", ["J", "RJ", "PS-PM", "NP"])
@pytest.mark.parametrize("d", [5, 96, 1000])
@pytest.mark.parametrize("batch", [1, 7, 8, 20])
def test_weights_do_not_depend_on_instructions_nor_on_what_is_done_side_by_side(name, d, batch):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((61, d)).astype(np.float32)
    y = np.where(rng.random(61) < 0.5, 1, -1)
    training = Training(solution(name, epsilon=4.0, dim=d), 0.5, batch, seed=1)
    found = []
    for variant in native.variants():
        native.use(variant)
        found.append(train(training, Population(X, y)).weights)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("epoch", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("client", [0, 7, 2**32, 2**62 + 12345])
def test_words_are_those_of_the_definition(epoch, client):
    expected = stream(SEED, epoch, client)
    numbers = [expected.below(2**64) for _ in range(70)]
    for variant in native.variants():
        native.use(variant)
        words = np.zeros(70, dtype=np.uint64)
        native.take_words(words, philox_key(SEED), epoch, client)
        assert words.tolist() == numbers, variant


@pytest.mark.parametrize("d", [1, 31, 32, 33, 127, 128, 129, 1000])
def test_public_signs_are_those_of_the_transform(d):
    from fedsel.sampling._kernels import signs_of

    made = solution("RJ", epsilon=2.0, dim=d)
    for variant in native.variants():
        native.use(variant)
        signs = signs_of(made, 3, 2)
        for t in (0, 1):
            expected = made.in_round(3 + t).transform.signs(0, 0)
            np.testing.assert_array_equal(signs[t], expected, err_msg=variant)


PROGRAM = """
import numpy as np
from fedsel import solution
from fedsel.sampling._kernels import native
from fedsel.sampling._kernels import ReportKernel
print(native.variants())
rng = np.random.default_rng(0)
for name in ("J", "RJ", "PS-PM", "UJ"):
    for d in (5, 100, 300):
        kernel = ReportKernel(solution(name, epsilon=3.0, dim=d), 1)
        reports = kernel.reports(0, np.arange(80), rng.standard_normal((80, d)).astype(np.float32))
        print(name, d, reports.pairs())
"""


@pytest.mark.slow  # compiles the kernels once more: some five seconds
def test_a_compiler_without_vectors_makes_the_same_reports(tmp_path):
    import shutil

    copy = tmp_path / "source"
    shutil.copytree(
        ROOT / "src/fedsel",
        copy / "fedsel",
        ignore=shutil.ignore_patterns("_native*", "__pycache__"),
    )
    flags = {"CFLAGS": "-g0 -O1 -DFEDSEL_PLAIN_LANES -DFEDSEL_NO_AVX2"}
    build = [sys.executable, str(ROOT / "hatch_build.py"), str(copy)]
    subprocess.run(build, env={**os.environ, **flags}, check=True, capture_output=True)
    told = []
    for path in (copy, ROOT / "src"):
        environment = {**os.environ, "PYTHONPATH": str(path)}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        told.append(run.stdout.splitlines())
    assert told[0][0] == "('base',)"
    assert told[0][1:] == told[1][1:]
