"""SPEC.md says enough on records, gradients, rounds that prepare, and the server's part."""

import math
import struct
from fractions import Fraction
from statistics import NormalDist

from tests.vectors import foreign, foreign_blocks, foreign_public
from tests.vectors.support import cases

LINEAR = {"squared": 2.0, "huber": 0.2}


def of(kind, name):
    return [case for case in cases(name) if case["kind"] == kind]


def rows(digits, kind="d"):
    size = struct.calcsize(kind)
    return [
        list(struct.unpack(f"<{len(row) // 2 // size}{kind}", bytes.fromhex(row))) for row in digits
    ]


def clipped(x, low=-1.0, high=1.0):
    return max(low, min(high, x))


def close(found, expected, tolerance):
    assert len(found) == len(expected)
    largest = max(abs(x) for x in expected)
    assert all(abs(a - b) <= tolerance * largest for a, b in zip(found, expected, strict=True))


def within(x, by):
    origin = by.get("origin", [0.0] * len(x))
    return [clipped((a - o) / s) for a, o, s in zip(x, origin, by["spread"], strict=True)]


def prepared(x, by):
    z = [a - c for a, c in zip(within(x, by), by["centre"], strict=True)]
    z += [by["intercept"]] * (by["intercept"] > 0)
    if "mixing" in by:
        z = [sum(m * v for m, v in zip(row, z, strict=True)) for row in by["mixing"]]
    norm = math.sqrt(sum(v * v for v in z)) or 1.0
    return [foreign_public.single(v / norm if by["unit"] else by["factor"] * v) for v in z]


def slope(loss, y, m):
    if loss == "logistic":
        return -y / (1 + math.exp(min(700.0, y * m)))
    if loss == "svm":
        return -y if y * m < 1 else 0.0
    return clipped(m - clipped(y), -LINEAR[loss], LINEAR[loss])


def test_updates_are_made_finite():
    for case in of("saturated", "updates"):
        (values,) = rows([case["values_f64"]])
        found = foreign.saturated(values, case["factor"])
        assert struct.pack(f"<{len(found)}f", *found).hex() == case["result_f32"]


def test_an_answer_is_a_unit_vector():
    for case in of("answered", "updates"):
        found = [float(entry == int(case["answer"])) for entry in range(case["dim"])]
        assert struct.pack(f"<{len(found)}f", *found).hex() == case["result_f32"]


def test_scales_of_features():
    for case in of("scale", "updates"):
        for x, told in zip(rows(case["records_f64"]), rows(case["rows_f32"], "f"), strict=True):
            found = []
            for v, low, high in zip(x, case["low"], case["high"], strict=True):
                centre = 0.0 if low <= 0 <= high else (low + high) / 2
                factor = 1 / max(high - centre, centre - low)
                found.append((clipped(v, low, high) - centre) * factor)
            close(found, told, case["tolerance"])


def test_prepared_records():
    for case in of("prepared", "updates"):
        for x, told in zip(rows(case["records_f64"]), rows(case["rows_f32"], "f"), strict=True):
            close(prepared(x, case["preparation"]), told, case["tolerance"])


def test_gradients():
    for case in of("gradient", "updates"):
        (w,) = rows([case["weights_f64"]])
        total = [0.0] * len(w)
        for x, y in zip(rows(case["records_f64"]), case["y"], strict=True):
            z = prepared([clipped(v) for v in x], case["preparation"])
            margin = sum(a * b for a, b in zip(z, w, strict=True))
            steep = slope(case["loss"], y, margin)
            total = [t + steep * v for t, v in zip(total, z, strict=True)]
        found = [t / len(case["y"]) + case["reg"] * v for t, v in zip(total, w, strict=True)]
        close(found, case["gradient"], case["tolerance"])


def logarithm(x):
    f, e = math.frexp(x)
    return e - 2 + 2 * f


def passed(plan, number):
    """The passes that are over before a round."""
    passes = plan.get("passes", [])
    ends = [math.ceil(plan["spread_rounds"] * (i + 1) / len(passes)) for i in range(len(passes))]
    return passes[: sum(number >= end for end in ends)]


def stage_of(plan, number):
    if number >= plan["spread_rounds"]:
        return "centre"
    return plan["passes"][len(passed(plan, number))] if "passes" in plan else "spread"


def told_of(x, plan, by, number):
    """The entries of (x, κ) in a round that prepares."""
    stage, loose = (
        stage_of(plan, number),
        [j for j, is_loose in enumerate(plan["loose"]) if is_loose],
    )
    if stage != "spread":
        asked = loose if stage == "origin" else range(plan["features"])
        u = [v if j in asked else 0.0 for j, v in enumerate(within(x, by))]
        u.append(0.1 * math.sqrt(len(asked)))
        norm = math.sqrt(sum(v * v for v in u))
        return [plan["radius"] * v / norm for v in u]
    about = [a - o for a, o in zip(x, by.get("origin", [0.0] * len(x)), strict=True)]
    logs = {
        j: clipped(-logarithm(4 * abs(about[j]) / by["spread"][j]) / plan["octaves"])
        for j in loose
        if about[j]
    }
    mean = sum(logs.values()) / max(1, len(logs))
    reach = 0.75
    if "passes" in plan:
        reach /= 2 ** (2 + min(2, passed(plan, number).count("spread")))
    factor = plan["radius"] / (reach * math.sqrt(len(loose)))
    entries = [factor * logs.get(j, mean) if j in loose else 0.0 for j in range(len(x))]
    return [*entries, 0.0]


def scattered(dim):
    def key(place):
        a = place * 0x9E3779B97F4A7C15 % 2**64
        return (a ^ a >> 29) * 0xBF58476D1CE4E5B9 % 2**64

    return sorted(range(dim), key=key)


def test_rounds_that_prepare():
    for case in of("place", "updates"):
        plan, records = case["plan"], rows(case["records_f64"])
        assert case["stage"] == stage_of(plan, case["round"])
        places = scattered(plan["dim"]) if plan["scattered"] else range(plan["dim"])
        found = [0.0] * plan["dim"]
        for x in records:
            for i, v in enumerate(told_of(x, plan, case["preparation"], case["round"])):
                found[places[i]] += v / len(records)
        close(found, rows([case["update_f32"]], "f")[0], case["tolerance"])


def units(recipe):
    """What the smallest step of a symbol stands for, window by window."""
    name, d, clip = recipe["solution"], recipe["dim"], recipe["clip"]
    epsilon = Fraction(recipe["epsilon"]) / recipe["epochs"]
    k = foreign.count(recipe["k"], d)
    if name == "UJ":
        low, high = foreign.unbiased(epsilon, k, d)
        return [clip * (2 * d * low + k * high) / (high - low)]
    if name in ("J", "RJ"):
        w = foreign.width(d)
        rotations = 1 if recipe["bases"] is None else foreign.rotations(epsilon, d)
        M = d if name == "J" else w * rotations
        k = foreign.best_k(epsilon, M)
        weights, _ = foreign.threshold(epsilon, k, 2 * M)
        lift = (max(weights) - min(weights)) / sum(weights)
        if name == "J":
            return [recipe["rho"] / (lift * math.sqrt(k))]
        normal = NormalDist()
        return [
            recipe["rho"] * math.sqrt(w) / (lift * 2 * M * normal.pdf(normal.inv_cdf(k / 2 / M)))
        ]
    factor, share = 1.0, epsilon - foreign.written(recipe["mu"]) * epsilon
    value = name.removesuffix("-O").rsplit("-", 1)[-1]
    if name == value or name.startswith("RS-"):
        picks = max(1, min(d, math.floor(epsilon / Fraction(5, 2))))
        factor, share = (d if name == value else 1) / picks, epsilon / picks
    windows, _ = foreign.symbol_law(value, share)
    etas = [Fraction(W * (H - L), W * H + G * L) * G for G, W, L, H in windows]
    return [clip * factor * float(1 / eta) for eta in etas]


def test_what_a_symbol_stands_for():
    for case in of("rounds", "server"):
        if case["recipe"]["solution"] != "FJ":  # an integral: tests/solutions/test_fresh.py
            close(units(case["recipe"]), case["units"], 1e-12)


def turned_back(recipe, means, number):
    """The update that means of all slots stand for."""
    if recipe["solution"] != "RJ":
        return means
    d, w = recipe["dim"], foreign.width(recipe["dim"])
    update = [0.0] * d
    for m in range(len(means) // w):
        row = means[m * w : (m + 1) * w]
        for _ in range((w - 1).bit_length()):
            pairs = list(zip(row[::2], row[1::2], strict=True))
            row = [a + b for a, b in pairs] + [a - b for a, b in pairs]
        own = foreign_public.signs(d, int(recipe["seed"]), number, m)
        update = [u + s * v / math.sqrt(w) for u, s, v in zip(update, own, row[:d], strict=True)]
    return update


def test_means_of_rounds():
    for case in of("rounds", "server"):
        for one in case["rounds"]:
            count = max(1, len(one["reports"]))
            columns = zip(*one["sums"], strict=True)
            means = [
                sum(u * int(n) for u, n in zip(case["units"], column, strict=True)) / count
                for column in columns
            ]
            found = turned_back(case["recipe"], means, one["round"])
            close(found, one["mean"], case["tolerance"])


def test_steps_of_the_server():
    for case in of("rounds", "server"):
        weights = average = case["start"]
        p, names = case["averaging"], ("mean", "weights", "average")
        for t, one in enumerate(case["rounds"], start=1):
            mean, after, smooth = (one[name] for name in names)
            if one["reports"]:
                weights = [w - case["decay"] * w for w in weights]
                weights = [w - case["rate"] * m for w, m in zip(weights, mean, strict=True)]
            share = 1.0 if t == 1 or not p else (p + 1) / (t + p)
            average = [a + share * (w - a) for a, w in zip(average, weights, strict=True)]
            close(weights, after, case["tolerance"])
            close(average, smooth, case["tolerance"])


def test_shares_of_answers():
    for case in of("shares", "server"):
        recipe = case["recipe"]
        blocks = foreign_blocks.Blocks(recipe)
        epsilon = Fraction(recipe["epsilon"]) / recipe["epochs"]
        weights, _ = foreign.threshold(epsilon, blocks.holding, blocks.size)
        p = [one / sum(weights) for one in (min(weights), max(weights))]
        slots = [
            struct.unpack_from("<I", bytes.fromhex(report), 8)[0] for report in case["reports"]
        ]
        sums, unit, shares = foreign_blocks.shares(recipe, slots, p)
        assert [str(count) for count in sums] == case["sums"]
        close([unit], [case["unit"]], case["tolerance"])
        close(shares, case["shares"], case["tolerance"])
