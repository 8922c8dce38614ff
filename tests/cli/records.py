"""Small tables of records, as files that a user may have."""

import numpy as np


def people(n, seed=0):
    """(age, income, job, rich) of n people as texts; who is rich follows from the others."""
    draw = np.random.default_rng(seed)
    age, job = draw.uniform(20, 80, n), draw.integers(0, 3, n)
    income = draw.lognormal(10, 0.5, n)
    margin = (age - 50) / 15 + (np.log(income) - 10) + (job - 1) + draw.normal(0, 0.5, n)
    rich = np.where(margin > 0, "yes", "no")
    return [
        (f"{a:.1f}", f"{i:.0f}", "abc"[j], r)
        for a, i, j, r in zip(age, income, job, rich, strict=True)
    ]


# Options of `fedsel run` that are soon done with such a table.
QUICK = ("--folds", "2", "--repeats", "1", "--batch", "0.05", "--jobs", "1")
HEADER = "age,income,job,rich"


def write_people(path, n=600, seed=0, *, header=HEADER):
    """A CSV file of people."""
    lines = [",".join(row) for row in people(n, seed)]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n")
    return path
