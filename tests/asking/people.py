"""A thousand people, who are the same in every test."""

import numpy as np

from fedsel.wire import Question

COUNT = 1000
JOBS = ["cook", "smith", "nurse", "clerk"]
COLUMNS = {"job": JOBS, "age": (0.0, 80.0)}
TABLE = {
    "job": np.array([JOBS[(i * i) % 7 % 4] for i in range(COUNT)], dtype=object),
    "age": np.array([(i * 37) % 81 * 0.9 for i in range(COUNT)]),
}
QUESTIONS = {
    "count": Question("count", COLUMNS, where={"job": "cook", "age": (20, 60)}),
    "histogram": Question("histogram", {"job": JOBS}),
    "numbers": Question("histogram", {"age": (0, 80)}, bins=5),
    "mean": Question("mean", {"age": (0, 80)}),
    "quantiles": Question("quantiles", {"age": (0, 80)}, bins=8),
    "cross table": Question("cross table", COLUMNS),
}
