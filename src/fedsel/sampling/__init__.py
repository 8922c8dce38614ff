"""One definition of each mechanism, three ways to run it.

- `device`: one vector, any `Entropy` (by default the operating system's), integers only;
- `batch`: many clients with numpy, readable;
- `kernel`: many clients with numba, fast.

All three draw the same integers in the same order, so that on the same words they give the same
reports:

1. ⊥: if the law has one, below(total + bottom) ≥ total abstains.
2. By rejection, where few attempts are expected: x = below(d · maximum) is dimension
   j = x // maximum, the answer if all weights are alike. Else, with g larger and t equal
   magnitudes, its rank is g + below(t); accepted if x mod maximum < weight(rank), else again.
   Otherwise by rank: the rank at below(total), and below(t) picks one of those that share its
   magnitude.
3. The window, if there are several: below(sum of coins). The cell: t is an integer in
   0 … INPUT_STEPS; times G, the remainder r rounds up if below(INPUT_STEPS) < r. The symbol:
   x = below(window total) is symbol x // L if x < N·L, else cell + (x − N·L) // (H − L).
"""
