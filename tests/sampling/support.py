"""Many reports for statistical tests, in no time."""

import numpy as np

from fedsel import Reports
from fedsel.random import stream
from fedsel.sampling.simulated import cohort, report

TWINS = 200


def many_reports(made, vector, n, seed=0):
    """The reports of n clients on one vector, as each of them would encode it.

    They are drawn by the kernel. The first ones must be those that a device encodes, which takes a
    hundred times as long.
    """
    vector = np.asarray(vector, dtype=np.float32)
    nothing = np.zeros_like(vector)
    drawn = report(made, vector[None], cohort(n, seed=seed))
    encoded = [made.encode(vector, nothing, stream(seed, 0, i))[0] for i in range(min(n, TWINS))]
    assert drawn.rows(np.arange(len(encoded))) == Reports.of(encoded)
    return drawn
