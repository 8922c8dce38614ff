"""The client in C against every vector that concerns it, and beside Python on random tasks."""

import decimal
import itertools
import json
import math
import random
import re
import runpy
import shutil
import struct
import subprocess
import sys
import unicodedata
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.c_client import FOLDER, Runner, bits, compiled, ratio
from benchmarks.differential import InC, compare
from fedsel import Aggregator, PublicFacts, Recipe, resolve_auto
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._selection import Share
from fedsel.wire import InvalidMessage, Request
from fedsel.wire._request import check_text

VECTORS = Path(__file__).parents[2] / "vectors"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def runner(program):
    with Runner(program) as found:
        yield found


def _cases(file):
    return json.loads((VECTORS / f"{file}.json").read_text())["cases"]


def _numbers(parts):
    return [int(part, 16) for part in parts]


# ---- Laws ----


def _count(k, d):
    return k["count"] if "count" in k else max(1, int(Fraction(str(k["share"])) * d))


def _same_law(parts, case, n):
    """A law of two weights, or of a table, as a vector writes it."""
    top, high, low, bottom, total, rejection = _numbers(parts[:6])
    weights = [int(w) for w in case["weights"]]
    counts = [int(c) for c in case["counts"]]
    if len(parts) > 6:
        assert _numbers(parts[6].split(",")) == weights
    elif len(weights) == 1:
        assert ([high, low], counts) == ([weights[0]] * 2, [n])
    else:
        assert ([high, low], [top, n - top]) == (weights, counts)
    wanted = [int(case["bottom"]), int(case["total"]), int(case["by_rejection"])]
    assert [bottom, total, rejection] == wanted


def _selection(ask, case):
    d = case["d"]
    k = case.get("top", 1)
    parts = ask("select", case["mechanism"], *ratio(case["epsilon"]), k, d)
    if case["mechanism"] == "EXP" and len(parts) == 6:
        assert {case["total"]} == {str(d)}
        return
    _same_law(parts, case, d)


def _value(ask, case):
    tails, symbols, *windows = ask("value", case["mechanism"], *ratio(case["epsilon"]))
    wanted = [[w["G"], w["W"], int(w["L"]), int(w["H"]), int(w["total"])] for w in case["windows"]]
    assert [_numbers(window.split(",")) for window in windows] == wanted
    assert int(symbols, 16) == case["symbols"]
    coins = [(1 << 32) - int(tails, 16), int(tails, 16)] if len(windows) > 1 else [1]
    assert [str(coin) for coin in coins] == case["coins"]


def _joint(ask, case):
    d = case["d"]
    parts = ask("unbiased", *ratio(case["epsilon"]), case["top"], d)
    assert _numbers(parts) == [int(case["L"]), int(case["H"])]
    assert _count(case["k"], d) == case["top"]


def _fresh_sizes(ask, case):
    share, *sizes = ask("fresh", *ratio(case["epsilon"]), case["dim"])
    assert share == bits(case["share"])
    assert _numbers(sizes) == [case["codewords"], case["top"], case["factors"]]


def _budget(ask, case):
    each = Fraction(case["epsilon"]) / case["epochs"]
    parts = _numbers(ask("split", *ratio(each), bits(case["mu"])))
    first, second = Fraction(*parts[:2]), Fraction(*parts[2:])
    assert [str(each), str(first), str(second)] == [
        case["per_report"],
        case["selection"],
        case["value"],
    ]


def _exp_lower(ask, case):
    assert _numbers(ask("exp", *ratio(case["x"]))) == [int(case["times_2_128"])]


def _log_upper(ask, case):
    steps = int(ask("log", *ratio(case["ratio"]))[0], 16)
    assert str(Fraction(steps, 1 << 36)) == case["log"]


def _signed(ask, case):
    parts = ask("best", *ratio(case["epsilon"]), case["slots"])
    _same_law(parts, case, 2 * case["slots"])
    assert int(parts[0], 16) == case["top"]


def _rotations(ask, case):
    parts = ask("rotations", *ratio(case["epsilon"]), case["dim"])
    assert _numbers(parts) == [case["width"], case["rotations"]]


def _request_of(solution, epsilon, dim, **fields):
    plain = {"k": 1, "mu": 0.1, "rho": None, "learning_rate": 1.0}
    recipe = Recipe(solution, epsilon=epsilon, dim=dim, **(plain | fields))
    return Request(bytes(16), 0, 0, recipe).encode()


def _planned(ask, request):
    """Charge, length, slots and symbols of a request; or the reason."""
    reason, *parts = ask("report", request)
    if not parts:
        return reason
    numerator, denominator, length, slots, symbols, _ = _numbers(parts)
    return str(Fraction(numerator, denominator)), length, slots, symbols


def _flat_picks(ask, case):
    request = _request_of("PM", Fraction(case["epsilon"]), case["d"])
    assert _planned(ask, request.hex())[1] == 8 + 8 * case["picks"]


def _codebook(ask, case):
    request = _request_of("RC", 1, case["dim"])
    planned = _planned(ask, request.hex())
    if case["dim"] * case["codewords"] > 1 << 24:
        assert planned == "MALFORMED"
    else:
        assert planned[2] == case["codewords"]


def _design(case):
    return case["dim"], case["k"], case["words"] or 0, case["bases"] or 0


def _blocks(ask, case):
    size, holding, _ = ask("blocks", *_design(case), 0, "0")
    assert _numbers([size, holding]) == [case["slots"], case["top"]]
    parts = ask("select", "PS", *ratio(case["epsilon"]), case["top"], case["slots"])
    _same_law(parts, case, case["slots"])


LAWS = {
    "exp_lower": _exp_lower,
    "log_upper": _log_upper,
    "budget": _budget,
    "flat_picks": _flat_picks,
    "selection": _selection,
    "value": _value,
    "J": _signed,
    "UJ": _joint,
    "rotations": _rotations,
    "codewords": _codebook,
    "fresh": _fresh_sizes,
    "blocks": _blocks,
}


# ---- Public numbers and draws ----


def _bits(ask, case):
    purpose = case["purpose"].encode().hex()
    *key, words = ask("bits", int(case["seed"]), purpose, len(case["words"]))
    assert key == case["key"]
    assert re.findall("." * 16, words) == case["words"]


def _scores(ask, case):
    rotations, width = case["rotations"], 1 << (case["dim"] - 1).bit_length()
    place = int(case["seed"]), case["round"]
    blocks = [
        ask("rotated", *place, case["basis"] * rotations + i, width, case["vector_f32"])[0]
        for i in range(rotations)
    ]
    assert "".join(blocks) == case["scores_f32"]


def _signs(ask, case):
    """A sign is the first score of a unit vector."""
    dim = case["dim"]
    width = 1 << (dim - 1).bit_length()
    all_signs = [signs for basis in case["signs"] for signs in basis]
    for rotation, signs in enumerate(all_signs):
        for i, sign in enumerate(signs):
            vector = struct.pack(f"<{dim}f", *(float(j == i) for j in range(dim))).hex()
            place = int(case["seed"]), case["round"], rotation
            [scores] = ask("rotated", *place, width, vector)
            assert struct.unpack_from("<f", bytes.fromhex(scores))[0] == float(f"{sign}1")


def _hadamard(ask, case):
    assert ask("hadamard", case["x_f32"]) == [case["result_f32"]]


def _fresh_scores(ask, case):
    place = int(case["seed"]), case["round"], case["basis"]
    asked = ask("codewords", *place, case["codewords"], case["top"], case["vector_f32"])
    assert asked == [case["scores_f32"]]


def _members(ask, case):
    some = [0, 1, case["dim"] - 1, *(x for block in case["answers"] for x in block)]
    asked = [x for x in dict.fromkeys(some) if x < case["dim"]][:60]
    for slot, answers in zip(case["slots"], case["answers"], strict=True):
        *_, held = ask("blocks", *_design(case), slot, ",".join(f"{x:x}" for x in asked))
        assert held == "".join(f"{x in answers:d}" for x in asked)


def _left_out(ask, case):
    """Matrices of normal numbers, which this client has not."""


PUBLIC = {
    "bits": _bits,
    "signs": _signs,
    "hadamard": _hadamard,
    "scores": _scores,
    "fresh": _fresh_scores,
    "blocks": _members,
    "directions": _left_out,
    "projection": _left_out,
}


def _used(parts, case):
    assert parts[-1] == f"{len(case['words']):x}"
    return parts[:-1]


def _below(ask, case):
    assert _used(ask("below", int(case["n"]), ",".join(case["words"])), case) == [
        f"{int(case['value']):x}"
    ]


def _dimension(ask, case):
    law = case["mechanism"], *ratio(case["epsilon"]), case["top"], len(case["vector_f32"]) // 8
    parts = _used(ask("dimension", *law, case["vector_f32"], ",".join(case["words"])), case)
    wanted = "nothing" if case["dimension"] is None else f"{case['dimension']:x}"
    assert parts == [wanted]


def _symbol(ask, case):
    t = bytes.fromhex(case["t_f64"])[::-1].hex()
    law = case["mechanism"], *ratio(case["epsilon"])
    assert _used(ask("symbol", *law, t, ",".join(case["words"])), case) == [f"{case['symbol']:x}"]


def _distinct(ask, case):
    parts = _used(ask("distinct", case["d"], case["picks"], ",".join(case["words"])), case)
    assert parts == [",".join(f"{slot:x}" for slot in case["slots"])]


DRAWS = {"below": _below, "dimension": _dimension, "symbol": _symbol, "distinct": _distinct}


CHECKS = {"laws": LAWS, "public": PUBLIC, "draws": DRAWS}


@pytest.mark.parametrize("file", CHECKS)
def test_vectors_agree(runner, file):
    cases, checks = _cases(file), CHECKS[file]
    assert {case["kind"] for case in cases} == set(checks)
    for case in cases:
        checks[case["kind"]](runner.ask, case)


@pytest.mark.parametrize(
    "design", [(6, 1, 0, 0), (6, 3, 0, 0), (9, 8, 0, 0), (5, 2, 7, 3), (13, 5, 13, 6)], ids=str
)
def test_blocks_are_found_by_their_number(runner, design):
    """What the draw by rank needs: of those that hold an answer, and of the others."""
    dim, k, words, bases = design
    size = math.comb(dim, k) if not bases else words
    for basis in range(bases or 1):
        for answer in range(dim):
            asked = [basis * size + block for block in range(size)]
            held = [runner.ask("blocks", *design, slot, answer)[2] == "1" for slot in asked]
            for holding in (False, True):
                found = _numbers(runner.ask("block_at", *design, basis, answer, int(holding)))
                assert found == [block for block in range(size) if held[block] == holding]


# ---- Requests, charges and reports ----


def _fields(parts):
    """The fields of a request, as vectors write them."""
    version, run, epoch, round_, purpose, recipient, name, *rest = parts
    top, bottom, dim, epochs, mu, count, share, clip, momentum, ratio_, seed, *more = rest
    rate, rho, words, bases = more
    recipe = {
        "solution": name,
        "epsilon": str(Fraction(int(top, 16), int(bottom, 16))),
        "dim": int(dim, 16),
        "epochs": int(epochs, 16),
        "mu": _double(mu),
        "k": {"count": int(count, 16)} if int(count, 16) else {"share": _double(share)},
        "clip": _double(clip),
        "momentum": _double(momentum),
        "ratio": _double(ratio_),
        "seed": str(int(seed, 16)),
        "learning_rate": _double(rate),
        "rho": _double(rho) or None,
        "words": int(words, 16) or None,
        "bases": int(bases, 16) or None,
    }
    texts = [bytes.fromhex(text[1:]).decode() for text in (purpose, recipient)]
    return {
        "version": int(version, 16),
        "run": run,
        "epoch": int(epoch, 16),
        "round": int(round_, 16),
        "purpose": texts[0],
        "recipient": texts[1],
        "recipe": recipe,
    }


def _double(digits):
    return struct.unpack(">d", bytes.fromhex(digits))[0]


def test_requests_say_what_vectors_say(runner):
    for case in _cases("requests"):
        reason, *parts = runner.ask("request", case["request"] or "-")
        if "fields" in case:
            assert _fields(parts) == case["fields"], case["shows"]
        elif reason == "DONE":  # parameters that do not go together
            assert _planned(runner.ask, case["request"]) == case["reason"], case["shows"]
        else:
            assert reason == case["reason"], case["shows"]


def test_texts_have_the_characters_of_the_vectors(runner):
    ranges = {
        c["kind"]: c["ranges"] for c in _cases("messages") if c["kind"] in ("visible", "marks")
    }
    seen = {code for first, last in ranges["visible"] for code in range(first, last + 1)}
    marks = {code for first, last in ranges["marks"] for code in range(first, last + 1)}
    answers = runner.ask("seen", 0, 0x110000)
    for code, answer in enumerate(answers):
        normal = _normal(chr(code)), _normal("a" + chr(code))
        alone = code in seen and code not in marks and code != 0x20 and normal[0]
        after = code in seen and code != 0x20 and all(normal)
        assert answer == f"{after:d}{alone:d}", hex(code)
    assert len(answers) == 0x110000


def _normal(text):
    return unicodedata.ucd_3_2_0.normalize("NFC", text) == text


def test_texts_are_judged_as_python_judges_them(runner):
    """Random marks on random letters, in any order: most are not in normal form."""
    rng = random.Random(3)
    ranges = {
        c["kind"]: c["ranges"] for c in _cases("messages") if c["kind"] in ("visible", "marks")
    }
    marks = [chr(c) for first, last in ranges["marks"] for c in range(first, last + 1)]
    letters = [chr(c) for c in range(0x41, 0x1F00) if chr(c).isalpha()]
    letters += ["\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\u30cf"] * 40
    common = [chr(c) for c in range(0x300, 0x346)] + ["\u3099", "\u09be", "\u09d7", "\u0dca"]
    accepted = 0
    for _ in range(20_000):
        parts = []
        for _ in range(rng.randint(1, 3)):
            parts.append(rng.choice(letters))
            parts += rng.choices(rng.choice([marks, common]), k=rng.choice([0, 0, 1, 2, 3, 4, 5]))
        text = "".join(parts)
        if rng.random() < 0.5:
            text = unicodedata.ucd_3_2_0.normalize("NFC", text)
        try:
            right = check_text("purpose", text) == text
        except InvalidArgument:
            right = False
        accepted += right
        assert runner.ask("text", text.encode().hex()) == [f"{right:d}"], ascii(text)
    assert 2_000 < accepted < 18_000


def test_charges_are_those_of_the_vectors(runner):
    for case in _cases("policies"):
        if case["kind"] == "charge":
            assert _planned(runner.ask, case["request"])[0] == case["charge"], case["request"]


def _request(case, step):
    recipe = case["recipe"]
    intent = struct.pack("<II", step["epoch"], step["round"])
    bases, k = recipe["bases"], recipe["k"]
    head = b"FSRQ" + bytes([1 + (bases is not None)]) + bytes.fromhex(case["run"]) + intent
    epsilon = ratio(recipe["epsilon"])
    top = struct.pack("<BQ", 0, k["count"]) if "count" in k else struct.pack("<Bd", 1, k["share"])
    fields = [
        recipe["solution"].encode().ljust(24, b"\0"),
        struct.pack("<QQQId", *epsilon, recipe["dim"], recipe["epochs"], recipe["mu"]),
        top,
        struct.pack("<ddd", recipe["clip"], recipe["momentum"], recipe["ratio"]),
        struct.pack("<Qd", int(recipe["seed"]), recipe["learning_rate"]),
        struct.pack("<dI", recipe["rho"] or 0.0, recipe["words"] or 0),
        b"" if bases is None else struct.pack("<I", bases),
    ]
    return (head + b"".join(fields)).hex()


@pytest.mark.parametrize("room", [0, 1 << 20], ids=["least memory", "all scores in memory"])
def test_reports_are_those_of_the_vectors(runner, room):
    reported = 0
    for case in _cases("reports"):
        for step in case["steps"]:
            place = case["recipe"]["solution"], case["shows"], step["round"]
            asked = step["update_f64"], step["residual_before_f32"], ",".join(step["words"])
            parts = runner.ask("report", _request(case, step), *asked, room)
            reason, numerator, denominator, length, _, _, keeps, drawn, *rest = parts
            charge = str(Fraction(int(numerator, 16), int(denominator, 16)))
            assert (reason, charge) == ("DONE", case["charge"]), place
            assert int(length, 16) == case["report_bytes"], place
            if not case["portable"]:
                assert drawn == "UNSUPPORTED"
                continue
            report, kept, used = rest
            after = step["residual_after_f32"] if keeps == "1" else kept[1:]
            assert (report, kept[1:]) == (step["report"], after), place
            assert int(used, 16) == len(step["words"]), place
            reported += 1
    assert reported > 400


def test_without_random_words_there_is_no_report(runner):
    for case in _cases("reports"):
        step = case["steps"][0]
        fewer = ",".join(step["words"][:-1]) or "-"
        asked = step["update_f64"], step["residual_before_f32"], fewer
        if case["portable"]:
            assert runner.ask("report", _request(case, step), *asked)[7:] == ["INTERNAL"]


def test_numbers_on_the_edge_give_the_laws_of_python(runner):
    """Shares of 2^-1074, ε of 64 bits, all epochs: what the multi-word numbers have to hold."""
    epsilons = [Fraction(500), Fraction(1, 2**64 - 1), Fraction(2**64 - 59, 2**64 - 1)]
    epsilons += [Fraction(2**64 - 1, 2**56 + 1), Fraction(499_999_999_999, 1_000_000_007)]
    asked = 0
    for epsilon, epochs, mu in itertools.product(
        epsilons, [1, 97, 2**32 - 1], [0.0, 5e-324, 2.0**-1022, 1e-300, 0.3, 1 - 2**-53]
    ):
        for solution in ["EXP-PM", "PS-Duchi-C", "PE-HM", "PE-published-PM-C", "PM", "UJ", "FJ"]:
            fields = {"epochs": epochs, "mu": mu, "k": Share(5e-324) if mu else 2}
            request = _request_of(solution, epsilon, 40, **fields)
            found = _planned(runner.ask, request.hex())
            try:
                wanted = str(Request.decode(request).recipe.charge)
            except (InvalidArgument, InvalidMessage, ValueError):
                wanted = None
            assert (found[0] if found != "MALFORMED" else None) == wanted, (solution, fields)
            asked += 1
    assert asked == 630


def test_shortest_decimals_are_those_of_python(runner):
    rng = random.Random(1)
    values = [rng.random() * 10.0 ** -rng.randint(0, 320) for _ in range(2_000)]
    values += [2.0**-i for i in range(1075)] + [1 - 2**-53, 5e-324, 1e-5, 9.5e-7, 2**-1022 - 5e-324]
    for x in values:
        if x > 0:
            digits, power = _numbers(runner.ask("shortest", bits(x)))
            assert Fraction(digits, 10**power) == Fraction(repr(x)), x


def test_division_is_exact(runner):
    """Numbers that make the guess of a digit wrong, and numbers of the last word."""
    rng = random.Random(2)
    for _ in range(2_000):
        a, b, c = (_patchy(rng, rng.choice([1, 2, 3, 20, 38])) for _ in range(3))
        assert _numbers(runner.ask("divide", a, b, c)) == [a * b, *divmod(a * b, c)]
    assert runner.ask("divide", 1 << 1300, 1 << 1300, 1) == ["poisoned"]


def _patchy(rng, words):
    """A number of so many words of 32 bits, with runs of zeros and ones."""
    ones = 0xFFFFFFFF
    kinds = [0, ones, 1 << 31, ones - 1, 1, rng.getrandbits(32)]
    number = 0
    for _ in range(words):
        number = number << 32 | rng.choice(kinds)
    return number or 1


def test_reals_have_the_digits_that_they_promise(runner):
    decimal.getcontext().prec = 100
    for x in [1.0, 0.5, 1e-9, 2.0**-60, 0.693147, 7.25, 100.0, 499.75]:
        digits, exponent, back, its = runner.ask("real", bits(x))
        found = [
            Decimal(int(d, 16)) * Decimal(2) ** int(e) for d, e in ((digits, exponent), (back, its))
        ]
        power = Decimal(x).exp()
        assert abs(found[0] / power - 1) < Decimal(2) ** -230
        assert abs(found[1] - Decimal(x)) < Decimal(2) ** -230 * max(1, Decimal(x))


def test_random_tasks_give_the_bytes_of_python(program):
    """Some ten seconds with the sanitizers; benchmarks/differential.py --client c makes more."""
    agreed, rounded, differing = compare(count=400, seed=30, client=InC(program))
    assert (rounded, differing) == (0, [])
    assert agreed >= 400


def test_random_tasks_of_fresh_bases_give_the_bytes_of_python(program):
    agreed, _, differing = compare(count=200, seed=31, solutions=["FJ"], client=InC(program))
    assert differing == []
    assert agreed >= 200


# ---- The package ----


def test_the_example_answers_a_server_once(program, tmp_path):
    recipe = resolve_auto(
        Recipe("FJ", epsilon=2.0, epochs=5), PublicFacts(dim=4, clients=1, rounds=5)
    )
    server = Aggregator(recipe, tmp_path / "server")
    example = compiled(tmp_path / "example", "-O2", main=("example.c", "posix/posix.c"))
    (tmp_path / "ledger").mkdir()
    names = [tmp_path / f"{name}.bin" for name in ("request", "weights", "report")]
    names[0].write_bytes(server.request())
    names[1].write_bytes(server.weights.astype("<f8").tobytes())

    def run(*arguments, text=""):
        command = [example, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return done.returncode

    folder = tmp_path / "ledger"
    assert run("answer", folder, *names) == 1
    assert run("create", folder) == 0
    assert run("create", folder) == 1
    assert run("answer", folder, *names, text="1 0 0.5 -1\n") == 0
    first = names[2].read_bytes()
    assert run("answer", folder, *names, text="0 1 0 0\n") == 0
    assert names[2].read_bytes() == first
    server.receive("a client", first)
    assert server.step().accepted == 1
    names[1].write_bytes(b"")
    assert run("answer", folder, *names) == 1


def test_the_tables_are_those_of_their_program():
    tables = runpy.run_path(str(FOLDER / "tools" / "tables.py"))
    assert tables["TABLES"].read_text() == tables["text"]()


def test_a_device_needs_what_the_pages_say(program, tmp_path):
    """64 KB of code and tables, 12 KB of stack, and no recursion."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: only it writes the frames of functions")
    command = [sys.executable, str(FOLDER / "tools" / "measure.py")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code, frame, *stacks = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) bytes", told))
    assert code < 64 << 10
    assert frame < 4 << 10
    assert max(stacks) < 12 << 10
    assert len(stacks) == 4


@pytest.mark.parametrize("name", ["gcc", "clang"])
@pytest.mark.parametrize("optimized", ["-O0", "-O3", "-Os"])
def test_a_compiler_has_no_complaint(name, optimized, tmp_path, monkeypatch):
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    monkeypatch.setenv("CC", name)
    with Runner(compiled(tmp_path / "runner", optimized)) as runner:
        for case in _cases("draws"):
            DRAWS[case["kind"]](runner.ask, case)
