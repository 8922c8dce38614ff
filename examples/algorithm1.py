"""Algorithm 1 of FedSel in plain Python: one client after another, one report each.

This is what the simulator does at memory speed, and what the tests compare it with:

    python examples/algorithm1.py
"""

import numpy as np

from fedsel import Reports, solution
from fedsel.device import LinearModel
from fedsel.sampling import stream


def algorithm_1(composed, model, alpha, X, y, rounds, *, seed=0, groups=None):
    """The weights w after all epochs, and the reports of every round.

    ``rounds(epoch)`` gives the cohorts of an epoch, lists of clients; client i holds the records
    groups[i], or record i alone.
    """
    w, t, sent = np.zeros(composed.dim), 0, []  # 1: initialise w, r
    residual = {}
    factor, rate = (alpha, 1.0) if composed.rate_inside else (1.0, alpha)
    for epoch in range(composed.epochs):  # 4: for each epoch
        for cohort in rounds(epoch):  # 5: for each round of clients
            now, reports = composed.in_round(t), []
            for i in cohort:  # 7: each client by itself
                rows = [i] if groups is None else groups[i]
                # 8: its gradient; λw is the server's to add where it would decide ties
                margins = X[rows] @ w.astype(np.float32)
                slopes = model.slopes(margins, y[rows]) * (factor / len(rows))
                decay = 0.0 if composed.decays_at_server else factor * model.reg
                gradient = (decay * w).astype(np.float32)
                for slope, x in zip(slopes, X[rows], strict=True):
                    gradient = gradient + np.float32(slope) * x
                # 9: r ← r + g; select j; clip and perturb; send (j, symbol); r_j ← 0
                before = residual.get(i, np.zeros(composed.dim, dtype=np.float32))
                report, residual[i] = now.encode(gradient, before, stream(seed, epoch, i))
                reports.append(report)
            if composed.decays_at_server:
                w = w - alpha * model.reg * w
            w = w - rate * now.decode(Reports.of(reports))  # 10-11: average and step
            sent.append(reports)
            t += 1
    return w, sent


def main():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X @ rng.normal(size=10) > 0, 1, -1).astype(np.int8)

    def rounds(epoch):
        return np.array_split(np.random.default_rng(epoch).permutation(len(X)), 20)

    for name, alpha in (("NP", 8.0), ("FJ", 4.0), ("PS-PM", 8.0), ("PM", 2.0)):
        composed = solution(name, epsilon=4.0, dim=10, rho=0.4, mu=0.1)
        w, _ = algorithm_1(composed, LinearModel(), alpha, X, y, rounds)
        right = np.mean(np.sign(X @ w) == y)
        epsilon, bits = composed.privacy.total, composed.bits
        print(f"{name:6} ε = {epsilon:<4g} accuracy {right:.1%}, {bits} bits each")


if __name__ == "__main__":
    main()
