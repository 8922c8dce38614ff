"""How exact shares of answers are: BR beside all known protocols, and what its intervals hold.

Three comparisons in one run, each in tables (and as JSON) and in the figure:

- Error: n times the mean squared error of a share, for M answers of n clients. BR is simulated, its
  reports drawn and decoded as in a run, beside its formula and the exact formulas of direct
  encoding (GRR), OUE, BLH, OLH, subset selection (SS), Hadamard response (HR) and projective
  geometry response (PG), and beside RJ and FJ on one-hot updates. GRR, OUE, OLH and SS of
  multi-freq-ldpy and HR of pure-ldp report and count in an environment of their own, which this
  script makes with pip; where that fails it says so, and the formulas remain.
- Cost: bits of a report, and seconds per million reports, in the same run for all.
- Coverage: how often the 95 % intervals of `Tally` hold the truth, for the clients who answered and
  for the people whose sample they are: simulated, with answers from M to 1 times as rare as the
  first (Zipf), and exactly, for every true count of an answer.

All formulas are for given clients, whose M answers are equally common: the error of all but HR does
not depend on how common answers are.

Example:
    python benchmarks/frequencies.py --plot docs/images/frequencies.png   # about ten minutes
    python benchmarks/frequencies.py --quick --json
    python benchmarks/frequencies.py --markdown --rivals FOLDER           # keeps the environment
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.signal import fftconvolve
from scipy.stats import binom

from fedsel import Recipe, Solution, solution
from fedsel._internal.progress import Bar
from fedsel._internal.random import Streams, fresh_seeds, own_stream
from fedsel.auto._numbers import bases_for
from fedsel.measuring import Tally
from fedsel.measuring._tally import LEVEL, score_intervals
from fedsel.pages import new_figure, palette
from fedsel.sampling.answers import report_answers
from fedsel.sampling.simulated import cohort, report
from fedsel.solutions import Blocks, best_blocks

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Row = dict[str, Any]

ANSWERS = (2, 4, 8, 16, 32, 64, 100, 256, 1024, 10_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
ENTRIES = 20_000
"""Squared errors that a simulated mean is taken of: its standard error is about 1 %."""
SHOWN = (16, 256, 10_000)
"""Numbers of answers that are compared with other libraries, and drawn."""
COVERED = (2, 5, 20, 256)
CLIENTS = (50, 200, 1_000, 10_000)
GOAL, LEAST = 1.05, 0.93
SEED = 2026
PACKAGES = ("multi-freq-ldpy", "pure-ldp")
UNDECLARED = ("xxhash<4", "scikit-learn", "statsmodels", "matplotlib")
"""What these need beside what they ask for: later versions of xxhash refuse texts."""
AT_ONCE = 1 << 21


# --- formulas -------------------------------------------------------------------------------------


class Protocol(NamedTuple):
    """n times the mean squared error of a share, and the bits of a report."""

    error: float
    bits: float


def by_coins(answers: int, own: float, other: float) -> float:
    """The error where an answer counts with these chances for a client who has it, or not."""
    spread = own * (1 - own) / answers + (1 - 1 / answers) * other * (1 - other)
    return spread / (own - other) ** 2


def by_design(answers: int, growth: float, v: int, k: int) -> float:
    """The error of blocks of k of v answers, of which each two share equally many blocks."""
    own = k * growth / (k * growth + v - k)
    return by_coins(answers, own, (own * (k - 1) + (1 - own) * k) / max(1, v - 1))


def direct(answers: int, growth: float) -> Protocol:
    return Protocol(by_design(answers, growth, answers, 1), math.log2(answers))


def unary(answers: int, growth: float) -> Protocol:
    return Protocol(by_coins(answers, 0.5, 1 / (growth + 1)), answers)


def hashed(answers: int, growth: float, values: int | None = None) -> Protocol:
    """Local hashing to so many values, by default the best number, with a seed of 63 bits."""
    g = round(growth) + 1 if values is None else values
    return Protocol(by_coins(answers, growth / (growth + g - 1), 1 / g), 63 + math.log2(g))


def subsets(answers: int, growth: float) -> Protocol:
    """All subsets of the best size."""
    ideal = answers / (growth + 1)
    sizes = {min(answers - 1, max(1, math.floor(ideal) + i)) for i in (0, 1)}
    found = [(by_design(answers, growth, answers, k), k) for k in sizes]
    error, k = min(found)
    return Protocol(error, math.log2(math.comb(answers, k)))


def hadamard(answers: int, growth: float) -> Protocol:
    """Hadamard response (Acharya, Sun and Zhang 2019) with rows of the best length b.

    A group has b − 1 answers and b reports; half of these are for an answer. It counts as 1/2 or
    −1/2 in its group and as 0 elsewhere.
    """
    found = []
    for power in range(1, answers.bit_length() + 1):
        size = 1 << power
        groups = -(-answers // (size - 1))
        total = growth + 2 * groups - 1
        unit = 2 * total / (growth - 1)
        full, rest = divmod(answers, size - 1)
        together = (full * (size - 1) ** 2 + rest**2) / answers**2
        seen = (together * (growth + 1) + (1 - together) * 2) / total
        found.append((unit**2 / 4 * seen - 1 / answers, math.log2(groups * size)))
    return Protocol(*min(found))


def projective(answers: int, growth: float) -> Protocol:
    """Projective geometry response (Feldman, Nelson, Nguyen and Talwar 2022), of the best prime."""
    found = []
    for q in range(2, math.ceil(4 * growth) + 4):
        if all(q % p for p in range(2, math.isqrt(q) + 1)):
            t = next(t for t in range(2, 40) if (q**t - 1) // (q - 1) >= answers)
            v, k = ((q**i - 1) // (q - 1) for i in (t, t - 1))
            found.append((by_design(answers, growth, v, k), math.log2(v)))
    return Protocol(*min(found))


PROTOCOLS: dict[str, Callable[[int, float], Protocol]] = {
    "GRR": direct,
    "OUE": unary,
    "BLH": lambda answers, growth: hashed(answers, growth, 2),
    "OLH": hashed,
    "SS": subsets,
    "HR": hadamard,
    "PG": projective,
}


def blocks_of(answers: int, epsilon: float) -> Blocks:
    return best_blocks(Fraction(str(epsilon)), answers)


def formulas(answers: int, epsilon: float) -> Row:
    """The exact errors of all protocols, and by how much BR is above the best of them."""
    others = {name: one(answers, math.exp(epsilon)) for name, one in PROTOCOLS.items()}
    blocks = blocks_of(answers, epsilon)
    known = {"BR": Protocol(blocks.error(epsilon), blocks.bits), **others}
    best = min(others, key=lambda name: others[name].error)
    return {
        "answers": answers,
        "epsilon": epsilon,
        "errors": {name: one.error for name, one in known.items()},
        "bits": {name: math.ceil(one.bits - 1e-9) for name, one in known.items()},
        "best": best,
        "ratio": known["BR"].error / others[best].error,
    }


# --- errors ---------------------------------------------------------------------------------------


def zipf(answers: int) -> Doubles:
    """Shares from the most to the least common answer."""
    shares = 1 / np.arange(1, answers + 1)
    return np.asarray(shares / shares.sum())


@lru_cache(maxsize=2)
def _incidence(blocks: Blocks) -> Doubles:
    """Whether each block of all bases holds each answer."""
    table = np.zeros((blocks.size * blocks.bases, blocks.answers))
    np.put_along_axis(table, blocks.members(np.arange(len(table))), 1, axis=1)
    return table


def tallies(made: Solution, held: Integers, epoch: int) -> Iterator[Tally]:
    """What the reports of clients with these answers say, run by run (runs, n)."""
    blocks, (runs, n) = cast(Blocks, made.transform), held.shape
    slots = blocks.size * blocks.bases
    for begin in range(0, runs, max(1, AT_ONCE // n)):
        some = held[begin : begin + max(1, AT_ONCE // n)]
        streams = Streams(SEED, epoch, np.arange(begin * n, begin * n + some.size))
        reports = report_answers(made, some.ravel(), streams)
        if slots * (len(some) + blocks.answers) > AT_ONCE * 8:  # few runs of many blocks
            for first in range(0, some.size, n):
                totals = made.totals()
                totals.add(reports.rows(np.arange(first, first + n)))
                yield Tally.of(made, totals)
            continue
        run = np.repeat(np.arange(len(some)), n)
        seen = np.bincount(run * slots + reports.slot[:, 0], minlength=len(some) * slots)
        counted = seen.reshape(len(some), slots).astype(float) @ _incidence(blocks)
        for one in np.rint(counted).astype(np.int64):
            yield Tally(made, one, n)


def simulated(answers: int, epsilon: float, truth: str) -> Row:
    """n times the mean squared error of a share of BR, and of the shares made consistent."""
    n = 100 if answers <= 32 else 1_000
    runs = max(4, ENTRIES // (answers - 1))
    one = np.arange(n) % answers
    if truth == "zipf":
        one = np.random.default_rng(SEED).choice(answers, n, p=zipf(answers))
    shares = np.bincount(one, minlength=answers) / n
    made = solution("BR", epsilon=epsilon, dim=answers)
    epoch = 2 * ANSWERS.index(answers) + (truth == "zipf")
    found = np.array(
        [
            (np.mean((tally.raw - shares) ** 2), np.mean((tally.shares - shares) ** 2))
            for tally in tallies(made, np.tile(one, (runs, 1)), epoch)
        ]
    )
    (error, consistent), deviation = n * found.mean(axis=0), n * found[:, 0].std(ddof=1)
    return {
        "answers": answers,
        "epsilon": epsilon,
        "truth": truth,
        "error": float(error),
        "deviation": float(deviation / math.sqrt(runs)),
        "consistent": float(consistent),
        "formula": cast(Blocks, made.transform).error(epsilon),
    }


ONE_HOT_CLIENTS, ONE_HOT_ANSWERS = 10_000, (16, 256)


def one_hot(name: str, answers: int, epsilon: float) -> Row:
    """The error of RJ or FJ, whose update is 1 at a client's answer and else 0."""
    n, bases = ONE_HOT_CLIENTS, bases_for(Recipe(name, epsilon=epsilon), answers, 1)
    made = solution(name, epsilon=epsilon, dim=answers, rho=1.0, bases=bases)
    held = np.arange(n) % answers
    rows = np.eye(answers, dtype=np.float32)[held]
    errors = []
    for run in range(max(4, ENTRIES // answers // 10)):
        totals = made.totals()
        totals.add(report(made, rows, cohort(n, seed=SEED, epoch=run)))
        shares = made.expand(totals.mean())
        errors.append(n * float(np.mean((shares - np.bincount(held) / n) ** 2)))
    return {
        "solution": name,
        "answers": answers,
        "epsilon": epsilon,
        "error": float(np.mean(errors)),
        "deviation": float(np.std(errors, ddof=1) / math.sqrt(len(errors))),
        "bits": made.bits,
    }


# --- other libraries, and costs -------------------------------------------------------------------


def rival_python(folder: Path) -> tuple[Path | None, str]:
    """The Python of an environment with the other libraries, or why there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = [*PACKAGES, *UNDECLARED]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, f"pip finds no {' or '.join(PACKAGES)}: compared with formulas alone"
    return python, ""


RIVALS = ("GRR", "OUE", "OLH", "SS", "HR")
COMPARED = {16: (100, 200), 256: (500, 24), 10_000: (100, 10)}
"""Clients and runs for M answers: thousands of squared errors."""


def rivals(
    python: Path, cells: list[tuple[int, float, int, int]], tell: Callable[[], None]
) -> list[Row]:
    """The rows of benchmarks/frequencies_rivals.py for (M, ε, clients, runs)."""
    script = Path(__file__).with_name("frequencies_rivals.py")
    command, found = [str(python), str(script), json.dumps(cells)], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            found.append(json.loads(line))
            tell()
    if process.returncode:
        raise SystemExit(f"{script.name} failed")
    return found


TIMED = {16: 20_000, 256: 20_000, 10_000: 2_000}
"""So many reports are timed for M answers, at ε = 1."""
DEVICE_REPORTS = 500


def own_times(answers: int, repeats: int) -> list[Row]:
    """Seconds per million reports of BR: of a cohort, of a device after another, and counted."""
    made, n = solution("BR", epsilon=1.0, dim=answers), TIMED[answers]
    held = np.arange(n) % answers

    def cohort_reports() -> Any:
        return report_answers(made, held)

    nothing, rows = np.zeros(answers, np.float32), np.eye(answers, dtype=np.float32)
    bits = fresh_seeds(DEVICE_REPORTS)

    def device_reports() -> None:
        for answer, own in zip(held.tolist(), bits, strict=False):
            made.encode(rows[answer], nothing, own_stream(own, 0))

    reports = cohort_reports()

    def count() -> None:
        totals = made.totals()
        totals.add(reports)
        _ = Tally.of(made, totals).raw

    counted = 1e6 * best_time(count, repeats) / n
    drawn = {
        "BR, cohort": 1e6 * best_time(cohort_reports, repeats) / n,
        "BR, device": 1e6 * best_time(device_reports, repeats) / DEVICE_REPORTS,
    }
    return [
        {"answers": answers, "method": name, "draw": draw, "count": counted}
        for name, draw in drawn.items()
    ]


def best_time(call: Callable[[], Any], repeats: int) -> float:
    call()

    def once() -> float:
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    return min(once() for _ in range(repeats))


# --- coverage -------------------------------------------------------------------------------------

ASKED = ("mean place", "first half", "last quarter")
"""What is linear in the shares: the mean number of an answer, and two sums of shares."""
EVERY = 5
"""Of more than a hundred answers these are asked in each fifth run: their errors take long."""


def asked(answers: int) -> Doubles:
    """The weights of these (3, M)."""
    place = np.arange(answers)
    last = place >= min(answers - 1, 3 * answers // 4)
    return np.array([place / (answers - 1), place < answers / 2, last], dtype=float)


def covered(answers: int, epsilon: float, n: int, runs: int) -> Iterator[Row]:
    """How often intervals hold the clients' shares, and those of the people they are drawn from."""
    made, people = solution("BR", epsilon=epsilon, dim=answers), zipf(answers)
    place = COVERED.index(answers) * len(CLIENTS) + CLIENTS.index(n)
    rng = np.random.default_rng((SEED, place, round(10 * epsilon)))
    held = rng.choice(answers, size=(runs, n), p=people)
    weights, every = asked(answers), EVERY if answers > 100 else 1
    single = {False: np.zeros(answers), True: np.zeros(answers)}
    linear = {False: np.zeros(len(ASKED)), True: np.zeros(len(ASKED))}
    width = {False: 0.0, True: 0.0}
    for run, tally in enumerate(tallies(made, held, 100 + place)):
        own = np.bincount(held[run], minlength=answers) / n
        for population, truth in ((False, own), (True, people)):
            low, high = tally.intervals(population=population).T
            single[population] += (low <= truth + 1e-12) & (truth <= high + 1e-12)
            width[population] += float(np.mean(high - low)) / runs
            if run % every:
                continue
            for number, row in enumerate(weights):
                estimate = tally.together if number else tally.linear
                found, true = estimate(row, population=population), float(row @ truth)
                linear[population][number] += found.low - 1e-12 <= true <= found.high + 1e-12
    for population in (False, True):
        shares = single[population] / runs
        yield {
            "answers": answers,
            "epsilon": epsilon,
            "clients": n,
            "population": population,
            "runs": runs,
            "mean": float(shares.mean()),
            "worst": float(shares.min()),
            "width": width[population],
            "exact": exact_coverage(tally.coins, n, population),
            **dict(zip(ASKED, (linear[population] * every / runs).tolist(), strict=True)),
        }


def exact_coverage(coins: tuple[float, float], n: int, population: bool) -> float:
    """The least chance that an interval holds a share: of many true counts among n clients.

    What makes shares consistent can only widen an interval, and is left out.
    """
    own, other = coins
    counts = np.arange(n + 1)
    low, high = score_intervals(counts.astype(float), n, coins, LEVEL, population=population).T
    few = np.arange(min(n, 40) + 1)
    places = np.unique(np.concatenate([few, np.linspace(0, n, 161).astype(np.int64)]))
    chances = []
    for count in places:
        if population:
            law = binom.pmf(counts, n, other + count / n * (own - other))
        else:
            law = fftconvolve(
                binom.pmf(np.arange(count + 1), count, own),
                binom.pmf(np.arange(n - count + 1), n - count, other),
            )
        holds = (low <= count / n + 1e-12) & (count / n <= high + 1e-12)
        chances.append(float(law[holds].sum()))
    return min(chances)


# --- all of it ------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """What a run measures."""

    answers: Sequence[int] = ANSWERS
    epsilons: Sequence[float] = EPSILONS
    shown: Sequence[int] = SHOWN
    covered: Sequence[int] = COVERED
    clients: Sequence[int] = CLIENTS
    runs: int = 1_000
    repeats: int = 5


QUICK = Plan((2, 16, 256), (1.0, 4.0), (16, 256), (2, 20), (50, 1_000), 200, 2)


def measure(plan: Plan, folder: Path) -> dict[str, Any]:
    """Everything, with progress on stderr."""
    cells = list(product(plan.answers, plan.epsilons))
    found: dict[str, Any] = {"formulas": [formulas(*cell) for cell in cells]}
    one_hots = list(product(("RJ", "FJ"), ONE_HOT_ANSWERS, plan.epsilons))
    rival_rows = len(plan.shown) * (len(plan.epsilons) + 1) * len(RIVALS)
    intervals = list(product(plan.covered, plan.epsilons, plan.clients))
    load = sum(1 + n * plan.runs / 1e6 for _, _, n in intervals)
    with Bar(len(cells) + len(one_hots) / 4 + 20 + rival_rows / 2 + load) as bar:
        found["simulated"] = []
        for m, e in cells:
            bar.update(f"errors: M = {m:,}, ε = {e:g}")
            found["simulated"] += [simulated(m, e, truth) for truth in ("uniform", "zipf")]
            bar.update(advance=1)
        found["one-hot"] = []
        for name, m, e in one_hots:
            bar.update(f"errors: {name}, M = {m}, ε = {e:g}")
            found["one-hot"].append(one_hot(name, m, e))
            bar.update(advance=1 / 4)
        bar.update("making an environment")
        python, found["lacking"] = rival_python(folder)
        bar.update("timing", advance=20)
        found["times"] = [row for m in plan.shown for row in own_times(m, plan.repeats)]
        found["rivals"] = []
        if python is not None:
            bar.update("other libraries")
            compared = [(m, e, *COMPARED[m]) for m in plan.shown for e in plan.epsilons]
            timed = [(m, 1.0, TIMED[m], 1 if m > 1_000 else 2) for m in plan.shown]
            rows = rivals(python, compared + timed, lambda: bar.update(advance=1 / 2))
            places = len(compared) * len(RIVALS)
            found["rivals"], found["times"] = rows[:places], found["times"] + rows[places:]
        found["covered"] = []
        for m, e, n in intervals:
            bar.update(f"coverage: M = {m}, ε = {e:g}, n = {n:,}")
            found["covered"] += covered(m, e, n, plan.runs)
            bar.update(advance=1 + n * plan.runs / 1e6)
    return found


class Shown(NamedTuple):
    """A table, for a terminal or a page."""

    title: str
    headings: list[str]
    rows: list[list[str]]

    def rich(self) -> Table:
        table = Table(title=self.title)
        for place, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if place else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        lines = [self.headings, ["---"] + ["---:"] * (len(self.headings) - 1), *self.rows]
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(x)} |" for x in lines), ""])


def select(rows: list[Row], **wanted: Any) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def tables(found: dict[str, Any]) -> Iterator[Shown]:
    yield _against_the_best(found["formulas"])
    for answers in dict.fromkeys(row["answers"] for row in found["times"]):
        yield _of_all(found, answers)
    yield _times(found["times"])
    yield _coverage(found["covered"])


def _against_the_best(rows: list[Row]) -> Shown:
    epsilons = sorted({row["epsilon"] for row in rows})
    lines = []
    for m in dict.fromkeys(row["answers"] for row in rows):
        here = [select(rows, answers=m, epsilon=e)[0] for e in epsilons]
        cells = [f"{r['errors']['BR']:.3g} ({_percent(r['ratio'])})" for r in here]
        lines.append([f"{m:,}", *cells, _span([r["bits"]["BR"] for r in here])])
    title = "n × mean squared error of a share by BR, and by how much it is above the best other"
    return Shown(title, ["M", *(f"ε = {e:g}" for e in epsilons), "bits"], lines)


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _span(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _of_all(found: dict[str, Any], answers: int) -> Shown:
    """Formulas, and in brackets what was measured."""
    here = select(found["formulas"], answers=answers)
    seen = {
        (row["method"], row["epsilon"]): row for row in select(found["rivals"], answers=answers)
    }
    for row in select(found["simulated"], answers=answers, truth="uniform"):
        seen["BR", row["epsilon"]] = row
    lines = []
    for name in here[0]["errors"]:
        cells = []
        for row in here:
            one = seen.get((name, row["epsilon"]))
            known = "" if one is None else f" ({_measured(one)})"
            cells.append(f"{row['errors'][name]:.3g}{known}")
        lines.append([name, *cells, _span([row["bits"][name] for row in here])])
    for name in ("RJ", "FJ"):
        rows = select(found["one-hot"], answers=answers, solution=name)
        if rows:
            cells = [f"({_measured(row)})" for row in rows]
            lines.append([f"{name}, one-hot", *cells, _span([row["bits"] for row in rows])])
    title = f"M = {answers:,}: n × mean squared error of a share (measured ± standard error)"
    return Shown(title, ["", *(f"ε = {row['epsilon']:g}" for row in here), "bits"], lines)


def _measured(row: Row) -> str:
    return f"{row['error']:.3g} ± {float(format(row['deviation'], '.1g')):g}"


def _times(rows: list[Row]) -> Shown:
    """Seconds per million reports, and in brackets their sum over that of BR's cohort."""
    sizes = list(dict.fromkeys(row["answers"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        cells = []
        for m in sizes:
            row, own = (select(rows, answers=m, method=x)[0] for x in (name, "BR, cohort"))
            ratio = (row["draw"] + row["count"]) / (own["draw"] + own["count"])
            shown = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
            cells.append(f"{row['draw']:.3g} + {row['count']:.3g} ({shown})")
        lines.append([name, *cells])
    title = "Seconds per million reports at ε = 1, drawn + counted (together, over BR's cohort)"
    return Shown(title, ["", *(f"M = {m:,}, n = {TIMED[m]:,}" for m in sizes)], lines)


def _coverage(rows: list[Row]) -> Shown:
    """The least over all ε, in percent: clients / population."""

    def least(m: int, n: int, names: Sequence[str]) -> str:
        both = (select(rows, answers=m, clients=n, population=p) for p in (False, True))
        return " / ".join(f"{100 * min(r[x] for r in one for x in names):.1f}" for one in both)

    lines = []
    for m, n in dict.fromkeys((row["answers"], row["clients"]) for row in rows):
        columns = (("mean",), ("worst",), ("exact",), ASKED)
        width = " / ".join(
            f"{100 * select(rows, answers=m, clients=n, population=p, epsilon=1.0)[0]['width']:.3g}"
            for p in (False, True)
        )
        lines.append([f"{m}", f"{n:,}", *(least(m, n, names) for names in columns), width])
    title = (
        f"Coverage of 95 % intervals in {rows[0]['runs']:,} runs, in percent: the least over all ε,"
        " for clients / population"
    )
    names = ["M", "n", "mean over answers", "worst answer", "exact, worst count"]
    return Shown(title, [*names, "worst sum or mean", "width at ε = 1"], lines)


def summary(found: dict[str, Any]) -> Iterator[str]:
    """Where the goals are met, and where not."""
    if found["lacking"]:
        yield found["lacking"]
    else:
        yield f"measured by {', '.join(dict.fromkeys(r['library'] for r in found['rivals']))}"
    rows = found["formulas"]
    worst = max(rows, key=lambda row: row["ratio"])
    within = sum(row["ratio"] <= GOAL for row in rows)
    yield (
        f"BR is within 5 % of the best other formula in {within} of {len(rows)} cells; the most is "
        f"{_percent(worst['ratio'])} (M = {worst['answers']:,}, ε = {worst['epsilon']:g})"
    )
    off = [abs(r["error"] - r["formula"]) / r["deviation"] for r in found["simulated"]]
    yield (
        f"simulated errors are up to {max(off):.1f} standard errors from the formula, on average "
        f"{np.mean(off):.2f} ({len(off)} cells, uniform and Zipf-like answers)"
    )
    gains = [r["error"] / r["consistent"] for r in select(found["simulated"], truth="zipf")]
    yield f"errors of consistent shares (Zipf): {min(gains):.1f} to {max(gains):,.0f} times smaller"
    libraries = [r for r in found["rivals"] if r["method"] != "HR"]  # its groups are its own
    off = [
        abs(r["error"] - known["errors"][r["method"]]) / r["deviation"]
        for r in libraries
        for known in select(rows, answers=r["answers"], epsilon=r["epsilon"])
    ]
    if off:
        yield (
            f"measured errors of GRR, OUE, OLH and SS are up to {max(off):.1f} standard errors from"
            f" the formula, on average {np.mean(off):.2f} ({len(off)} cells)"
        )
    for name, said in (
        ("mean", "mean over answers"),
        ("worst", "worst answer"),
        ("exact", "worst true count, exactly"),
        *((name, name) for name in ASKED),
    ):
        least, below = min(row[name] for row in found["covered"]), 0
        below = sum(row[name] < LEAST for row in found["covered"])
        yield (
            f"coverage, {said}: at least {100 * least:.1f} %, below 93 % in {below} of "
            f"{len(found['covered'])} cells"
        )


STYLES: dict[str, dict[str, Any]] = {
    "BR": {"color": palette.RED, "linestyle": palette.SOLID, "marker": "o", "linewidth": 3},
    "SS": {"color": palette.BLACK, "linestyle": palette.DASHED, "marker": "x"},
    "GRR": {"color": palette.ORANGE, "linestyle": palette.DASHED, "marker": "v"},
    "OUE": {"color": palette.BLUE, "linestyle": palette.DASH_DOT, "marker": "s"},
    "OLH": {"color": palette.SKY, "linestyle": palette.DOTTED, "marker": "^"},
    "HR": {"color": palette.GREEN, "linestyle": palette.DASHED, "marker": "D"},
}
HIGHEST = 8.0
"""The largest ratio that is drawn."""


def draw(found: dict[str, Any], path: Path) -> None:
    """Errors against ε; below, coverage by M, n and ε."""
    sizes = [m for m in SHOWN if select(found["formulas"], answers=m)]
    figure = new_figure(12, 10)
    above, below = cast(Any, figure.subfigures(2, 1, height_ratios=(1, 1.3)))
    for axes, m in zip(above.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
        _draw_errors(axes, found, m)
    above.suptitle("Mean squared error of a share, over the least of all other formulas")
    handles, labels = above.axes[0].get_legend_handles_labels()
    above.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    panels: dict[str, tuple[tuple[bool, ...], tuple[str, ...]]] = {
        "clients: worst answer": ((False,), ("worst",)),
        "people: worst answer": ((True,), ("worst",)),
        "both: worst true count, exactly": ((False, True), ("exact",)),
        "both: worst of three sums and means": ((False, True), ASKED),
    }
    for axes, (title, what) in zip(below.subplots(1, 4, sharey=True), panels.items(), strict=True):
        _draw_coverage(axes, found["covered"], *what)
        axes.set_title(title, fontsize=9)
    below.supxlabel("ε", fontsize=9)
    below.suptitle("Coverage of 95 % intervals (%); red: below 93")
    figure.savefig(path, dpi=110)


def _draw_errors(axes: Any, found: dict[str, Any], answers: int) -> None:
    """Formulas as lines, what was measured as markers beside each other."""
    rows = select(found["formulas"], answers=answers)
    epsilons = [row["epsilon"] for row in rows]
    least = {row["epsilon"]: row["errors"][row["best"]] for row in rows}
    shown: dict[str, list[Row]] = {
        name: select(found["rivals"], answers=answers, method=name) for name in RIVALS
    }
    shown["BR"] = select(found["simulated"], answers=answers, truth="uniform")
    for place, (name, style) in enumerate(STYLES.items()):
        line = {**style, "marker": "", "label": name}
        axes.plot(epsilons, [row["errors"][name] / least[row["epsilon"]] for row in rows], **line)
        x = [row["epsilon"] * 2 ** (0.05 * place - 0.125) for row in shown[name]]
        y = [row["error"] / least[row["epsilon"]] for row in shown[name]]
        axes.plot(x, y, **{**style, "linestyle": "none", "markersize": 5})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.85, HIGHEST)
    ticks = (1, 1.05, 1.5, 2, 4, 8)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.set_xticks(epsilons, [f"{e:g}\n{least[e]:.3g}" for e in epsilons], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("ε, and below it n × the least error", fontsize=8)
    axes.set_title(f"M = {answers:,} (lines: formulas, markers: measured)", fontsize=9)
    axes.grid(alpha=0.3)


def _draw_coverage(axes: Any, rows: list[Row], modes: Sequence[bool], names: Sequence[str]) -> None:
    places = list(dict.fromkeys((row["answers"], row["clients"]) for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    table = np.empty((len(places), len(epsilons)))
    for (i, (m, n)), (j, e) in product(enumerate(places), enumerate(epsilons)):
        here = select(rows, answers=m, clients=n, epsilon=e)
        table[i, j] = 100 * min(r[x] for r in here if r["population"] in modes for x in names)
        missed = table[i, j] < 100 * LEAST
        colour = palette.RED if missed else "black"
        axes.text(j, i, f"{table[i, j]:.1f}", ha="center", va="center", color=colour, fontsize=8)
    axes.imshow(table, cmap="Blues", vmin=90, vmax=104, aspect="auto")
    axes.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
    axes.set_yticks(range(len(places)), [f"M = {m}, n = {n:,}" for m, n in places], fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few M, ε and runs: a minute")
    parser.add_argument("--rivals", type=Path, help="where to keep the other libraries")
    parser.add_argument("--json", action="store_true", help="print all rows as JSON")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the page")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="where to write the figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(QUICK if options.quick else Plan(), options.rivals or Path(folder))
    if options.plot:
        draw(found, options.plot)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for table in tables(found):
        if options.markdown:
            print(table.markdown())
        else:
            Console().print(table.rich())
    for line in summary(found):
        print(f"- {line}")


if __name__ == "__main__":
    main()
