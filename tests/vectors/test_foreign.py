"""SPEC.md says enough: a client that was written by it alone gives the bytes of the vectors."""

import struct
from fractions import Fraction

import pytest

from tests.vectors import foreign, foreign_blocks, foreign_fresh, foreign_public
from tests.vectors.support import cases

REPORTS = [case for case in cases("reports") if case["portable"]]


def singles(digits):
    return list(struct.unpack(f"<{len(digits) // 8}f", bytes.fromhex(digits)))


def doubles(digits):
    return list(struct.unpack(f"<{len(digits) // 16}d", bytes.fromhex(digits)))


def packed(values):
    return struct.pack(f"<{len(values)}f", *values).hex()


@pytest.mark.slow
def test_every_report_of_every_portable_solution():
    assert len({case["solution"] for case in REPORTS}) == 77
    for case in REPORTS:
        recipe, run = case["recipe"], bytes.fromhex(case["run"])
        residual = [0.0] * recipe["dim"]
        for step in case["steps"]:
            words = foreign.Words(step["words"])
            g = foreign.saturated(doubles(step["update_f64"]))
            if recipe["solution"].endswith("-O"):
                g = foreign.saturated(g, recipe["learning_rate"])
            assert packed(g) == step["gradient_f32"], case["shows"]
            assert packed(residual) == step["residual_before_f32"]
            pairs, residual = foreign.report(recipe, step["round"], g, residual, words)
            where = (case["solution"], case["shows"])
            assert words.draws == step["draws"], where
            assert pairs == step["pairs"], where
            assert words.left == 0
            assert foreign.message(run, step["round"], pairs).hex() == step["report"], where
            assert packed(residual) == step["residual_after_f32"], where


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["selection", "value", "J", "UJ", "rotations", "fresh", "blocks", "exp_lower"]
)
def test_laws(kind):
    found = [case for case in cases("laws") if case["kind"] == kind]
    assert found
    for case in found:
        epsilon = Fraction(case.get("epsilon", case.get("x")))
        if kind == "exp_lower":
            assert foreign.exp_lower(epsilon) * 2**128 == int(case["times_2_128"])
        elif kind == "selection" and case["d"] <= 123:
            law = foreign.selection_law(case["mechanism"], epsilon, case.get("top"), case["d"])
            assert law == (spread_out(case), int(case["bottom"])), case
        elif kind == "value":
            if case["mechanism"] == "OW" and epsilon > 9 and epsilon != 26:
                continue  # half a second each; 26 is where floats that cancel find another
            windows, coins = foreign.symbol_law(case["mechanism"], epsilon)
            told = [tuple(int(w[n]) for n in ("G", "W", "L", "H")) for w in case["windows"]]
            assert (windows, [str(coin) for coin in coins]) == (told, case["coins"]), case
        elif kind == "J" and case["slots"] <= 1024:
            assert foreign.best_k(epsilon, case["slots"]) == case["top"]
            law = foreign.threshold(epsilon, case["top"], 2 * case["slots"])
            assert law == (spread_out(case), 0)
        elif kind == "UJ":
            low, high = foreign.unbiased(epsilon, case["top"], case["d"])
            assert (str(low), str(high)) == (case["L"], case["H"])
        elif kind == "fresh":
            growth = foreign.exp_lower(epsilon)
            assert foreign_fresh.share(growth, case["dim"]) == case["share"]
            assert foreign_fresh.sizes(growth, case["dim"]) == (case["codewords"], case["top"])
        elif kind == "blocks":
            blocks = foreign_blocks.Blocks({**case, "k": {"count": case["k"]}})
            assert (blocks.size, blocks.holding) == (case["slots"], case["top"])
            law = foreign.threshold(epsilon, case["top"], case["slots"])
            assert law == (spread_out(case), 0)
        elif kind == "rotations" and case["dim"] <= 128:
            assert foreign.rotations(epsilon, case["dim"]) == case["rotations"], case


def spread_out(case):
    pairs = zip(case["weights"], case["counts"], strict=True)
    return [int(weight) for weight, count in pairs for _ in range(int(count))]


def test_public_data():
    for case in cases("public"):
        if case["kind"] == "bits":
            words = foreign_public.public_words(
                int(case["seed"]), case["purpose"], len(case["words"])
            )
            assert [f"{word:016x}" for word in words] == case["words"]
        elif case["kind"] == "signs":
            for basis, rows in enumerate(case["signs"]):
                for rotation, row in enumerate(rows):
                    m = basis * case["rotations"] + rotation
                    made = foreign_public.signs(case["dim"], int(case["seed"]), case["round"], m)
                    assert "".join("+" if s > 0 else "-" for s in made) == row
        elif case["kind"] == "hadamard":
            assert packed(foreign_public.hadamard(singles(case["x_f32"]))) == case["result_f32"]
        elif case["kind"] == "scores":
            seed, vector = int(case["seed"]), singles(case["vector_f32"])
            of = (case["round"], case["rotations"], case["basis"])
            assert packed(foreign.scores(vector, seed, *of)) == case["scores_f32"]
        elif case["kind"] == "fresh":
            of = (case["dim"], case["top"], int(case["seed"]), case["round"], case["basis"])
            own, vector = foreign_fresh.Basis(*of), singles(case["vector_f32"])
            assert foreign_fresh.bases(case["codewords"]) == case["bases"]
            assert packed(own.scores(vector, case["codewords"])) == case["scores_f32"]
            for slot, total in zip(case["slots"], case["totals"], strict=True):
                assert [str(v) for v in own.counted(slot)] == total
        elif case["kind"] == "blocks":
            blocks = foreign_blocks.Blocks({**case, "k": {"count": case["k"]}})
            for slot, answers in zip(case["slots"], case["answers"], strict=True):
                assert blocks.answers(slot) == answers
                basis, block = divmod(slot, blocks.size)
                held = [x for x in range(min(40, blocks.M)) if blocks.holds(basis, block, x)]
                assert held == [x for x in answers if x < min(40, blocks.M)]


def test_draws():
    for case in cases("draws"):
        words = foreign.Words(case["words"])
        if case["kind"] == "below":
            assert str(words.below(int(case["n"]))) == case["value"]
        elif case["kind"] == "dimension":
            vector = singles(case["vector_f32"])
            of = (case["mechanism"], Fraction(case["epsilon"]), case["top"], len(vector))
            law = foreign.selection_law(*of)
            drawn = foreign.dimension(law, [abs(v) for v in vector], words)
            assert drawn == case["dimension"]
        elif case["kind"] == "symbol":
            law = foreign.symbol_law(case["mechanism"], Fraction(case["epsilon"]))
            assert foreign.symbol(law, *doubles(case["t_f64"]), words) == case["symbol"]
        if case["kind"] != "distinct":
            assert words.left == 0
