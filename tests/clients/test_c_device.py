"""The device in C: policies and ledgers of the vectors, crashes at every write, and kills."""

import json
import math
import random
import struct
import subprocess
import time
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks.c_client import SANITIZED, Runner, charge, compiled, policy_question
from benchmarks.differential import histories
from fedsel import Recipe
from fedsel.device import Policy
from fedsel.wire import Intent, Request

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

VECTORS = Path(__file__).parents[2] / "vectors"
MOST_DIM = 123
BEGIN = 1_700_000_000
PRICES = ("lifetime", "per_report")
KEYS = ("server_key", "signing_key", "least_seconds")


def _cases(file):
    return json.loads((VECTORS / f"{file}.json").read_text())["cases"]


@pytest.fixture
def runner(program):
    with Runner(program) as found:
        yield found


def _policy(values):
    """The policy of a vector, which writes an ε as a text."""
    table = {name: value for name, value in values.items() if name not in KEYS}
    table["menu"] = [_exact(item) for item in table["menu"]] if table.get("menu") else None
    return Policy.of(_exact(table))


def _exact(table):
    found = {k: Fraction(v) if k in PRICES and v is not None else v for k, v in table.items()}
    if found.get("per_window"):
        found["per_window"] = [Fraction(found["per_window"][0]), found["per_window"][1]]
    return found


def _created(ask, policy, now=BEGIN, place="ram"):
    ask("store", place)
    ask(*policy_question(policy))
    assert ask("create", now, MOST_DIM) == ["DONE"]


def _rational(text):
    return Fraction(*(int(part, 16) for part in text.split("/")))


def _time(digits):
    """Of two's complement: a clock may be before 1970."""
    return (int(digits, 16) ^ 1 << 63) - (1 << 63)


def _answer(ask, now, request, weights, update, words):
    """The report or the reason."""
    reason, report, _ = ask(
        "answer", now, request or "-", weights or "-", update or "-", words or "-"
    )
    assert (reason == "DONE") == (report != "-")
    return report if reason == "DONE" else reason


def test_sums_are_those_of_the_vectors(runner):
    for case in _cases("ledgers"):
        if case["kind"] == "added":
            asked = [charge(Fraction(case[name])) for name in ("spent", "charge")]
            assert str(_rational(runner.ask("added", *asked)[0])) == case["total"]


def test_verdicts_are_those_of_the_vectors(runner):
    judged = 0
    for case in _cases("policies"):
        if case["kind"] != "verdict":
            continue
        _created(runner.ask, _policy(case["policy"]))
        dim = Request.decode(bytes.fromhex(case["request"])).recipe.dim
        weights = "00" * (4 if dim > 1000 else 8) * dim
        told = _answer(runner.ask, BEGIN, case["request"], weights, "-", "seed:1")
        if "RC" in case["policy"]["solutions"]:
            assert told == "NOT_ALLOWED"  # this client leaves it out
        elif case["reason"] is None:
            assert len(told) >= 32
        else:
            assert told == case["reason"]
        judged += 1
    assert judged == 25


def test_ledgers_are_those_of_the_vectors(runner):
    called = 0
    for case in _cases("ledgers"):
        if case["kind"] != "ledger":
            continue
        _created(runner.ask, _policy(case["policy"]), case["calls"][0]["time"])
        for call in case["calls"]:
            update = call.get("update_f64", f"answer:{call.get('answer', 0) % (1 << 64):x}")
            asked = call["time"], call["request"], call["weights"], update
            told = _answer(runner.ask, *asked, ",".join(call.get("words") or []))
            assert told == call.get("report", call.get("reason")), case["shows"]
            reason, entries, spent, *_ = runner.ask("history")
            found = reason, int(entries, 16), str(_rational(spent))
            assert found == ("DONE", call["reports"], call["spent"]), case["shows"]
            if "report" in call:
                is_open, digest, right, *residual = runner.ask("run", call["request"])
                wanted = call["digest"], call["open"], call["residual_f32"]
                assert (digest, is_open == "1", residual[0]) == wanted, case["shows"]
                assert right == "1"
            called += 1
    assert called > 40


def _request_of(recipe_charge, number, purpose, recipient):
    plain = {"k": 2, "mu": 0.1, "rho": None, "learning_rate": 1.0, "averaging": 0.0}
    recipe = Recipe("PM", epsilon=recipe_charge, dim=6, spread=0.0, centre=0.0, **plain)
    return Request(number, 0, 0, recipe, Intent(purpose, recipient)).encode().hex()


def _is_written(epsilon):
    """Whether a policy in C can say an ε: 64 bits over 96."""
    return epsilon.numerator < 1 << 64 and epsilon.denominator < 1 << 96


def test_pasts_allow_what_the_vectors_say(runner):
    judged = left_out = 0
    for case in _cases("windows"):
        if case["kind"] != "past":
            continue
        if any(not _is_written(Fraction(one["limit"][0])) for one in case["standings"]):
            left_out += 1
            continue
        _created(runner.ask, _policy(case["policy"]), case["created"])
        for number, entry in enumerate(case["entries"]):
            price, texts = Fraction(entry["charge"]), (entry["purpose"], entry["recipient"])
            request = _request_of(price, (number + 1).to_bytes(16, "big"), *texts)
            assert runner.ask("entry", entry["time"], charge(price), request) == ["1"]
        for confirmed in case["confirmed"]:
            assert runner.ask("confirm", confirmed, "The_owner") == ["DONE"]
        now = math.floor(case["now"])
        held = runner.ask("held", now)
        wanted = [one["held"] for one in case["standings"]]
        assert [str(_rational(sum_)) for sum_ in held] == wanted, (case["shows"], case)
        asked = case["asked"]
        texts = asked["purpose"], asked["recipient"]
        request = _request_of(Fraction(asked["charge"]), b"asked now".ljust(16, b"\0"), *texts)
        told = _answer(runner.ask, now, request, "00" * 48, "00" * 48, "seed:1")
        assert (None if len(told) == 32 else told) == case["reason"], case["shows"]
        if case["reason"] is None:
            *_, at, price = runner.ask("history")
            assert (_time(at), str(_rational(price))) == (case["time"], asked["charge"])
        judged += 1
    assert (judged, left_out) == (165, 1)


def _limited(rows):
    """The question of a policy that has just these limits."""
    policy = Policy(1, 1, ["PM"], [6])
    question = [part for part in policy_question(policy) if not part.startswith("limit=")]
    for epsilon, seconds, *texts in rows:
        told = ":".join("*" if text is None else text.encode().hex() for text in texts)
        question.append(f"limit={charge(Fraction(epsilon))}:{seconds or 0:x}:{told}")
    return question


def test_limits_change_as_the_vectors_say(runner):
    for case in _cases("windows"):
        if case["kind"] != "change":
            continue
        runner.ask("store", "ram")
        runner.ask(*_limited(case["present"]))
        assert runner.ask("create", BEGIN, 6) == ["DONE"]
        runner.ask(*_limited(case["asked"]))
        assert runner.ask("open", BEGIN) == ["DONE" if case["allowed"] else "LEDGER"]
        assert runner.ask("open", BEGIN, "The_owner") == ["DONE"]
        assert runner.ask("open", BEGIN) == ["DONE"]


def test_random_histories_give_the_decisions_of_python(runner):
    for number, (task, wanted, _) in enumerate(histories(random.Random(40), 60)):
        steps, decisions, present = task["history"], [], None
        for place, step in enumerate(steps):
            told, present = _lived(runner.ask, place, step, present)
            decisions.append(told)
        python = ["LEDGER" if one in ("LIMITS", "LIFETIME") else one for one in wanted["decisions"]]
        assert decisions == python, number
        held = runner.ask("held", math.floor(steps[-1]["now"]))
        assert [str(_rational(sum_)) for sum_ in held] == [one[1] for one in wanted["standings"]]


def _lived(ask, number, step, present):
    """The decision of a step of benchmarks/differential.py, and the question of the policy."""
    now = math.floor(step["now"])
    if "policy" in step:
        return _opened(ask, now, step, present)
    if "confirm" in step:
        told = ask("confirm", now, "The_owner")[0]
        return ("confirmed" if told == "DONE" else told), present
    if "question" in step:
        answer = f"answer:{step['answer']:x}"
        told = _answer(ask, now, step["question"], "-", answer, f"seed:{number:x}")
    else:
        price = Fraction(step["charge"])
        request = _request_of(price, number.to_bytes(16, "big"), step["purpose"], step["recipient"])
        told = _answer(ask, now, request, "00" * 48, "00" * 48, "seed:1")
    if len(told) != 32:
        return told, present
    *_, at, paid = ask("history")
    return [_time(at), str(_rational(paid))], present


def _opened(ask, now, step, present):
    question = policy_question(_policy(step["policy"]))
    if present is None:
        ask("store", "ram")
    ask(*question)
    if present is None:
        assert ask("create", now, MOST_DIM) == ["DONE"]
    told = ask("open", now, *(["The_owner"] if step["by"] else []))[0]
    if told == "DONE":
        return "opened", question
    ask(*present)
    return told, present


def _question(dim):
    recipe = Recipe(
        "BR", epsilon=Fraction(1, 2), dim=dim, k=1, epochs=2, mu=0.0, rho=None,
        learning_rate=1.0, averaging=0.0, spread=0.0, centre=0.0,
    )  # fmt: skip
    return Request(dim.to_bytes(16, "big"), 0, 0, recipe).encode().hex()


def test_a_question_of_too_many_answers_is_refused(runner):
    """Beyond the memory of the device: nothing is charged."""
    ask = runner.ask
    _created(ask, Policy(400, 2, ["BR"], [100, 5000], runs=2))
    for words in (1, 49, 150, 199):
        told = ask("answer", BEGIN, _question(100), "-", "answer:7", "seed:1", words)
        assert told[:2] == ["MEMORY", "-"]
    reason, entries, *_ = ask("history")
    assert (reason, entries) == ("DONE", "0")
    assert ask("answer", BEGIN, _question(100), "-", "answer:7", "seed:1", 200)[0] == "DONE"
    # Nothing is kept for another epoch: a question needs no room for residuals.
    assert ask("answer", BEGIN, _question(5000), "-", "answer:4999", "seed:1")[0] == "DONE"


# ---- What may not be lost ----

POLICY = Policy(400, 2, ["PS-PM", "FJ"], [6], runs=2, reports_per_epoch=9_999)


def _task(run, round_, solution="PS-PM", epochs=2):
    plain = {"k": 2, "mu": 0.1, "rho": None, "learning_rate": 1.0, "averaging": 0.0}
    recipe = Recipe(
        solution, epsilon=Fraction(1, 2), dim=6, epochs=epochs, spread=0.0, centre=0.0, **plain
    )
    return Request(run.to_bytes(16, "big"), 0, round_, recipe).encode().hex()


UPDATE = struct.pack("<6d", 0.5, -2, 0.1, 0, 1, -0.25).hex()
WEIGHTS = "00" * 48


def _asked(ask, run, round_, seed=1):
    return _answer(ask, BEGIN, _task(run, round_), WEIGHTS, UPDATE, f"seed:{seed:x}")


@pytest.mark.parametrize("lost", ["lose", "keep"])
def test_a_crash_at_any_write_charges_what_it_answers(runner, lost):
    """The power fails after each byte and flush of a report of an open run, and of a new one."""
    ask = runner.ask
    for run in (1, 3):
        cut = 0
        while True:
            _created(ask, POLICY)
            first = [_asked(ask, 1, 0), _asked(ask, 2, 0)]
            ask("cut", cut)
            told = _asked(ask, run, 5, seed=9)
            ended = ask("crash", lost) == ["0"]
            assert ask("open", BEGIN) == ["DONE"], cut
            reason, entries, spent, *_ = ask("history")
            assert reason == "DONE"
            assert _rational(spent) == Fraction(int(entries, 16), 4), cut
            assert int(entries, 16) in ((2, 3) if len(told) != 32 else (3,)), cut
            assert len(told) == 32 or told == "INTERNAL"
            if run == 1:
                assert [_asked(ask, 1, 0), _asked(ask, 2, 0)] == first
            again = _asked(ask, run, 5, seed=10)
            assert len(again) == 32, (cut, again)
            assert again == told or len(told) != 32
            is_open, _, right, _ = ask("run", _task(run, 5))
            assert (is_open, right) == ("1", "1")
            assert len(_asked(ask, run, 6, seed=11)) == 32
            if ended:
                break
            cut += 1
        assert cut > 250


def test_whatever_is_changed_in_a_ledger_is_noticed(runner):
    ask = runner.ask
    _created(ask, POLICY)
    for round_ in range(3):
        assert len(_asked(ask, 1, round_)) == 32
    size = int(ask("damage", 0, 1 << 30, 0)[0], 16)
    for place in range(size):
        ask("damage", 0, place, 1 << (place % 8))
        assert ask("open", BEGIN) == ["LEDGER"], place
        assert _asked(ask, 1, 9) == "LEDGER"
        ask("damage", 0, place, 1 << (place % 8))
    assert ask("open", BEGIN) == ["DONE"]
    assert len(_asked(ask, 1, 9)) == 32


def test_a_log_that_was_put_back_is_noticed(runner):
    ask = runner.ask
    _created(ask, POLICY)
    _asked(ask, 1, 0)
    ask("copy", "take")
    _asked(ask, 1, 1)
    _asked(ask, 1, 2)
    ask("copy", "put")
    assert ask("open", BEGIN) == ["LEDGER"]
    assert ask("create", BEGIN, 6) == ["LEDGER"]


def test_a_ledger_that_lacks_is_not_begun_anew(runner):
    runner.ask("store", "ram")
    runner.ask(*policy_question(POLICY))
    assert runner.ask("open", BEGIN) == ["LEDGER"]
    assert _asked(runner.ask, 1, 0) == "LEDGER"
    assert runner.ask("history") == ["LEDGER"]


def test_a_residual_that_was_changed_is_noticed(runner):
    ask = runner.ask
    _created(ask, POLICY)
    _asked(ask, 1, 0)
    size = int(ask("damage", 2, 1 << 30, 0)[0], 16)
    assert size == 24
    ask("damage", 2, 3, 1)
    assert _asked(ask, 1, 1) == "LEDGER"


def test_damaged_requests_and_ledgers_crash_nothing(program, tmp_path):
    """A few thousand of them; test/fuzz.c takes any number."""
    flags = SANITIZED if program.name == "sanitized" else []
    fuzz = compiled(tmp_path / "fuzz", "-O1", *flags, main=("test/fuzz.c",))
    done = subprocess.run([fuzz, "6000", "3"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("6000 tries, no crash"), done.stderr[-4000:]


@pytest.mark.parametrize(
    "wrong",
    [
        "limit=0/1:0:*:*",
        "limit=1/0:0:*:*",
        f"limit=1/1:{3650 * 86400 + 1:x}:*:*",
        "per=1/0",
        "clip=0",
    ],
)
def test_a_policy_that_would_limit_nothing_is_refused(runner, wrong):
    ask = runner.ask
    _created(ask, POLICY)
    name, _, value = wrong.partition("=")
    over, _, rest = value.partition("/")
    if rest:
        below, *texts = rest.split(":")
        wrong = ":".join([f"{name}={over}/{int(below):024x}", *texts])
    question = [part for part in policy_question(POLICY) if not part.startswith(f"{name}=")]
    ask(*question, wrong)
    assert ask("open", BEGIN, "The_owner") == ["INTERNAL"]
    assert _asked(ask, 1, 0) in {"INTERNAL", "NOT_ALLOWED", "TOO_MUCH"}


def test_residuals_are_erased_with_their_runs(runner):
    """A further run closes the oldest; the last report of the last epoch erases its own."""
    ask = runner.ask
    policy = Policy(100, 2, ["PS-PM"], [6], runs=1)
    _created(ask, policy)
    for run in range(1, 25):
        assert len(_asked(ask, run, 0)) == 32
        assert 0 < int(ask("erased")[0], 16) <= 24
    _created(ask, policy)
    last = _task(1, 0, epochs=1)
    assert len(_answer(ask, BEGIN, last, WEIGHTS, UPDATE, "seed:1")) == 32
    assert ask("erased") == ["0"]


def test_a_device_that_is_killed_keeps_what_it_has_answered(program, tmp_path):
    """kill -9 at random instants: what left the device is charged, and answered alike for ever."""
    rng, told = random.Random(50), {}
    policy = [f"store {tmp_path}", " ".join(policy_question(POLICY))]
    with Runner(program) as runner:
        _created(runner.ask, POLICY, place=tmp_path)
    for number in range(40):
        begin = max(told, default=-1) + 1
        asked = [
            f"answer {BEGIN:x} {_task(1, begin + i)} {WEIGHTS} {UPDATE} seed:{number:x}"
            for i in range(60)
        ]
        reports = _killed(program, [*policy, *asked], rng.randint(2, 15), rng.uniform(0, 0.003))
        for i, parts in enumerate(reports[len(policy) :]):
            if len(parts) == 3 and parts[0] == "DONE":
                told[begin + i] = parts[1]
        with Runner(program) as runner:
            for line in policy:
                runner.ask(line)
            reason, entries, spent, *_ = runner.ask("history")
            assert (reason, _rational(spent)) == ("DONE", Fraction(int(entries, 16), 4))
            # One more may be charged than was told: its report was on its way.
            assert len(told) <= int(entries, 16)
            for place in list(told)[-3:]:
                assert _asked(runner.ask, 1, place, seed=99) == told[place]
    assert len(told) > 100


def _killed(program, lines, answers, seconds):
    """The answers of a program that is killed a while after so many, the last perhaps cut."""
    pipe = subprocess.PIPE
    text = "".join(f"{line}\n" for line in lines).encode()
    with subprocess.Popen(
        [program], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        process.stdin.write(text)
        told = b""
        while told.count(b"\n") < answers:
            told += process.stdout.read(1)
        time.sleep(seconds)
        process.kill()
        told += process.stdout.readall()
    return [line.split() for line in told.decode().split("\n")[:-1]]
