"""The synthetic data of the paper's experiments: a few strong features among many weak ones."""

from __future__ import annotations

import re

import numpy as np

from fedsel.data._dataset import Dataset
from fedsel.errors import InvalidArgument, check_count, check_finite

SIZES = {"syn-L": (100, 60_000), "syn-H": (300, 100_000)}
"""(d, n) of the paper's two synthetic data sets."""

BOUND = 6.0
"""A public bound that |x| exceeds with probability 2e-9, by the law of the records."""

_BLOCK = 2**20  # entries drawn at a time, which bounds the memory besides X


_NAME = re.compile(
    r"(?P<name>syn-[lh])(-(?P<c1>[0-9.]+)-(?P<c2>[0-9.]+))?(-(?P<labels>sparse|dense))?"
)


def load(name: str, seed: int = 0, *, labels: str | None = None) -> Dataset:
    """Load a synthetic data set by name: syn-L or syn-H, followed by c1 and c2 if they differ.

    >>> load("syn-L-0.1-0.6", seed=7)
    Dataset('syn-L-0.1-0.6', n=60000, d=100, dense)
    """
    d, n, c1, c2, rule = synthetic_parameters(name)
    return synthetic(d, n, c1, c2, labels or rule, seed)


def synthetic_parameters(name: object) -> tuple[int, int, float, float, str]:
    """Parse d, n, c1, c2 and the label rule from the name of a synthetic data set.

    >>> synthetic_parameters("SYN-h-0.1-0.6")
    (300, 100000, 0.1, 0.6, 'sparse')
    """
    match = _NAME.fullmatch(str(name).strip().lower())
    try:
        if match is None:
            raise ValueError
        c1, c2 = float(match["c1"] or 0.01), float(match["c2"] or 0.9)
    except ValueError:
        allowed = (
            "syn-L or syn-H, with c1 and c2 as numbers: syn-L-0.01-0.9 (a checkout of fedsel has "
            "adult, bank and kdd: python -m reproduction data --help)"
        )
        raise InvalidArgument("name", name, allowed) from None
    d, n = SIZES[f"syn-{match['name'][-1].upper()}"]
    return d, n, c1, c2, match["labels"] or "sparse"


def synthetic(
    d: int = 100,
    n: int = 60_000,
    c1: float = 0.01,
    c2: float = 0.9,
    labels: str = "sparse",
    seed: int = 0,
) -> Dataset:
    """Draw n records with d features of very different strength.

    x̄ ~ N(0, I); B ~ U[0, 1]^d once, shrunk to c1·B_j where B_j ≤ c2; x = x̄ ⊙ B; w ~ N(0, I).
    The label is sign(x·w) for "sparse" and sign(x̄·w) for "dense". Both are linear in x, but the
    second needs weights w_j/B_j, 1/c1 times greater for the weak features, which a regularised
    model or a few steps of descent do not reach. With one seed, fewer records are a prefix of more.

    >>> data = synthetic(d=4, n=1000, c2=0.5)
    >>> data.X.shape, sorted(set(data.y.tolist()))
    ((1000, 4), [-1, 1])

    Reference: Wangni, Wang, Liu & Zhang, "Gradient sparsification for communication-efficient
    distributed optimization", NeurIPS 2018, section 5.1.
    """
    d, n, seed = check_count("d", d), check_count("n", n), check_count("seed", seed, least=0)
    c1, c2 = _share("c1", c1), _share("c2", c2)
    if labels not in ("sparse", "dense"):
        raise InvalidArgument("labels", labels, "sparse or dense")
    strengths, weights, records = (
        np.random.Generator(np.random.Philox(child))
        for child in np.random.SeedSequence(seed).spawn(3)
    )
    B = strengths.random(d)
    B = np.where(c2 >= B, c1 * B, B).astype(np.float32)
    w = weights.standard_normal(d)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int8)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        full = records.standard_normal((min(step, n - start), d), np.float32)
        block = X[start : start + len(full)]
        np.multiply(full, B, out=block)
        scores = (full if labels == "dense" else block).astype(np.float64) @ w
        y[start : start + len(full)] = np.where(scores >= 0, 1, -1)  # sign(0) counts as +1
    return Dataset(
        _name(d, n, c1, c2, labels),
        X,
        y,
        tuple(f"x{j}" for j in range(d)),
        np.tile([-BOUND, BOUND], (d, 1)),
    )


def _share(name: str, value: float) -> float:
    number = float(check_finite(name, value, "a number in [0, 1]"))
    if not 0 <= number <= 1:
        raise InvalidArgument(name, value, "a number in [0, 1]")
    return number


def _name(d: int, n: int, c1: float, c2: float, labels: str) -> str:
    """The paper's name if it has one: syn-L-0.01-0.9."""
    known = {size: name for name, size in SIZES.items()}
    name = f"{known.get((d, n), f'syn-{d}x{n}')}-{c1:g}-{c2:g}"
    return name if labels == "sparse" else f"{name}-{labels}"
