"""The vectors as a foreign program reads them: what is in the files goes through the public API."""

import hashlib
import unicodedata
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Client, Policy, Recipe, Reports, solution
from fedsel._internal.models import LinearModel
from fedsel._internal.random import Stream
from fedsel.device import Ledger, LinearRecords, Reason, Refused, Request
from fedsel.device._client import evaluated
from fedsel.errors import InvalidArgument
from fedsel.preparation import FeatureScale, Plan, PlanState, Preparation, advanced
from fedsel.server._step import ServerState, StepRule, step
from fedsel.solutions import Blocks
from fedsel.wire import (
    Intent,
    InvalidMessage,
    ModelQuestion,
    Question,
    ReportFormat,
    Sealing,
    Shuffled,
    SignedRound,
    UnknownVersion,
    check_sendable,
    measured_question,
)
from fedsel.wire._request import check_text
from tests.vectors.support import cases


def of(kind, name):
    found = [case for case in cases(name) if case["kind"] == kind]
    assert found
    return found


def array(case, name):
    kind = {"f32": "<f4", "f64": "<f8"}[name[-3:]]
    digits = case[name]
    if isinstance(digits, list):
        return np.array([np.frombuffer(bytes.fromhex(row), kind) for row in digits])
    return np.frombuffer(bytes.fromhex(digits), kind)


def words(case):
    return Stream(int(word, 16) for word in case["words"])


def recipe_of(fields):
    k = fields["k"]
    return Recipe.of(
        {
            **fields,
            "epsilon": Fraction(fields["epsilon"]),
            "k": k["count"] if "count" in k else float(k["share"]),
            "seed": int(fields["seed"]),
            "averaging": 0.0,
            "spread": 0.0,
            "centre": 0.0,
        }
    )


def close(found, expected, tolerance):
    largest = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


def test_reports():
    for case in cases("reports"):
        recipe = recipe_of(case["recipe"])
        made = recipe.build()
        form = Request(bytes.fromhex(case["run"]), 0, 0, recipe).format
        assert str(recipe.charge) == case["charge"]
        assert form.size == case["report_bytes"]
        for moment in case["steps"]:
            gradient, before = (array(moment, n) for n in ("gradient_f32", "residual_before_f32"))
            stream = words(moment)
            report, kept = made.in_round(moment["round"]).encode(gradient, before, stream)
            with pytest.raises(StopIteration):  # every word was taken
                next(stream._random_words)
            assert form.encode(moment["round"], report).hex() == moment["report"]
            assert np.asarray(kept, "<f4").tobytes().hex() == moment["residual_after_f32"]


def test_reports_show_what_they_should():
    steps = [moment for case in cases("reports") for moment in case["steps"]]
    assert any(not moment["pairs"] for moment in steps)
    assert any(len(moment["pairs"]) > 1 for moment in steps)
    assert any(len(moment["words"]) > len(moment["draws"]) for moment in steps)
    assert {case["recipe"]["dim"] for case in cases("reports")} >= {1, 5, 7, 123, 300}


def test_requests():
    for case in cases("requests"):
        data = bytes.fromhex(case["request"])
        if "reason" in case:
            with pytest.raises((InvalidMessage, InvalidArgument)) as error:
                check_sendable(Request.decode(data).recipe)
            unknown = isinstance(error.value, UnknownVersion)
            assert case["reason"] == ("VERSION" if unknown else "MALFORMED")
            continue
        fields = case["fields"]
        intent = Intent(fields["purpose"], fields["recipient"])
        place = (bytes.fromhex(fields["run"]), fields["epoch"], fields["round"])
        request = Request(*place, recipe_of(fields["recipe"]), intent)
        assert Request.decode(data) == request
        assert request.encode() == data
        assert data[4] == fields["version"]


def test_bytes_of_reports():
    for case in of("report", "messages"):
        of_run = (bytes.fromhex(case["run"]), case["slots"], case["symbols"])
        form = ReportFormat(*of_run, case["picks"], case["abstains"])
        decoded = form.decode(bytes.fromhex(case["report"]))
        if case["round"] is None:
            assert decoded is None, case["shows"]
        else:
            number, report = decoded
            assert number == case["round"]
            assert [list(pair) for pair in report.pairs()[0]] == case["pairs"]


def test_characters():
    """Any later version of Unicode decides the normal form of these texts alike."""
    visible, marks = (
        {
            code
            for first, last in of(kind, "messages")[0]["ranges"]
            for code in range(first, last + 1)
        }
        for kind in ("visible", "marks")
    )
    old, marks = unicodedata.ucd_3_2_0, marks & visible
    some = [*sorted(visible - marks)[::500], *range(0x41, 0x7B), *range(0x1100, 0x1113)]
    texts = [chr(code) for code in visible - marks]
    texts += [chr(letter) + chr(mark) for letter in some for mark in marks]
    texts += [chr(first) + chr(second) for first in some for second in some]
    for text in texts:
        normal = unicodedata.normalize("NFC", text) == text
        assert normal == (old.normalize("NFC", text) == text), ascii(text)
    letters = "".join(chr(code) for code in sorted(visible - marks)[1:50])
    assert check_text("purpose", letters) == letters


def test_sealed_reports():
    for case in of("sealed", "messages"):
        sealing = Sealing(bytes.fromhex(case["request"]), case["server_key"])
        assert sealing.tag.hex() == case["tag"]
        label = b"fedsel sealed report 1" + bytes.fromhex(case["server_key"])
        digest = hashlib.sha256(label + bytes.fromhex(case["request"]))
        assert digest.hexdigest() == case["tag"]
    assert sum("message" in case for case in of("sealed", "messages")) == 1


def test_signed_rounds():
    for case in of("signed", "messages"):
        message = bytes.fromhex(case["message"])
        if "reason" in case:
            with pytest.raises(InvalidMessage, match=case["reason"]):
                SignedRound.verify(message, case["key"])
            continue
        signed, parts = SignedRound.verify(message, case["key"]), b""
        assert signed.time == case["time"]
        for name in ("task", "request", "weights", "preparing"):
            part = bytes.fromhex(case[name])
            assert signed.covers(**{name: part})
            assert not signed.covers(**{name: part + b" "})
            parts += hashlib.sha256(part).digest()
        assert message[:-64] == b"FSSR\x01" + case["time"].to_bytes(8, "little") + parts


def test_what_people_are_told_of_a_shuffled_run():
    for case in of("shuffled", "messages"):
        shuffled = Shuffled.of_dict(case["values"])
        assert shuffled.rule.honest == case["values"]["honest"]
        assert shuffled.said(Fraction(case["local"])) == case["said"]
        assert shuffled.condition == case["condition"]


def test_a_sealed_report_opens():
    x25519 = pytest.importorskip(
        "cryptography.hazmat.primitives.asymmetric.x25519", reason="needs fedsel[shuffling]"
    )
    (case,) = (case for case in of("sealed", "messages") if "message" in case)
    private = x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(case["private_key"]))
    assert private.public_key().public_bytes_raw().hex() == case["server_key"]
    sealing = Sealing(bytes.fromhex(case["request"]), case["server_key"])
    tag, content = Sealing.split(bytes.fromhex(case["message"]))
    assert tag.hex() == case["tag"]
    assert sealing.unseal(content, private).hex() == case["report"]


def test_charges():
    for case in of("charge", "policies"):
        recipe = Request.decode(bytes.fromhex(case["request"])).recipe
        assert recipe.charge == Fraction(case["charge"])
        assert recipe.build().privacy.ratio == Fraction(case["ratio"])


def policy_of(fields):
    exact = {name: Fraction(fields[name]) for name in ("lifetime", "per_report")}
    if "per_window" in fields:
        epsilon, length = fields["per_window"]
        exact["per_window"] = (Fraction(epsilon), length)
    return Policy.of({**fields, **exact})


def test_policies(quick_path):
    for number, case in enumerate(of("verdict", "policies")):
        client = Client(policy_of(case["policy"]), quick_path / str(number), create=True)
        message = bytes.fromhex(case["request"])
        dim = Request.decode(message).recipe.dim
        try:
            client.answer(message, np.zeros(dim), np.zeros(dim))
            reason = None
        except Refused as refused:
            reason = refused.reason.name
        assert reason == case["reason"], case["shows"]


def test_tables_that_are_policies_and_others():
    for case in of("table", "policies"):
        if "wrong" in case:
            with pytest.raises(ValueError, match=case["wrong"]):
                Policy.of(case["values"])
        else:
            assert Policy.of(case["values"]) == policy_of(case["policy"])


def test_ledgers(quick_path):
    for number, case in enumerate(of("ledger", "ledgers")):
        policy, ledger = policy_of(case["policy"]), Ledger(quick_path / str(number))
        ledger._now = lambda case=case: case["calls"][0]["time"]
        ledger.create(policy)
        client = Client(policy, quick_path / str(number))
        for call in case["calls"]:
            client._entropy, client._now = words(call), lambda call=call: call["time"]
            message, weights = bytes.fromhex(call["request"]), bytes.fromhex(call["weights"])
            update = call["answer"] if "answer" in call else array(call, "update_f64")
            if "reason" in call:
                with pytest.raises(Refused) as error:
                    client.answer(message, weights, update)
                assert error.value.reason is Reason[call["reason"]], case["shows"]
            else:
                report = client.answer(message, weights, update)
                assert report.hex() == call["report"]
                digests = {e.report: e.digest for e in client.history().entries}
                assert digests[report].hex() == call["digest"]
            history = client.history()
            assert (len(history.entries), str(history.spent)) == (call["reports"], call["spent"])
            if "digest" in call:
                asking = Request.decode(message).recipe.solution == "BR"
                kind = b"<f4" if len(weights) == 24 and not asking else b"<f8"
                assert hashlib.sha256(message + kind + weights).hexdigest() == call["digest"]


def test_answers():
    for case in of("answered", "updates"):
        found = evaluated(int(case["answer"]), np.zeros(3), case["dim"], {}, answers=True)
        assert found.astype("<f4").tobytes().hex() == case["result_f32"]


def test_gradients_and_places():
    for case in of("gradient", "updates"):
        model = LinearModel(case["loss"], case["reg"])
        records = LinearRecords(array(case, "records_f64"), case["y"], model)
        update = records.update(0, Preparation.of_dict(case["preparation"]))
        close(update(array(case, "weights_f64")), case["gradient"], case["tolerance"])
    for case in of("place", "updates"):
        plan = Plan(**{**case["plan"], "loose": tuple(case["plan"]["loose"])})
        X, learnt = array(case, "records_f64"), Preparation.of_dict(case["preparation"])
        assert plan.stage(case["round"]) == case["stage"]
        found = plan.vector(case["round"], X, learnt)
        close(found, array(case, "update_f32"), case["tolerance"])


def test_records():
    for case in of("scale", "updates"):
        scale = FeatureScale.of((case["low"], case["high"]), len(case["low"]))
        found = scale.apply(array(case, "records_f64"))
        close(found, array(case, "rows_f32"), case["tolerance"])
    for case in of("prepared", "updates"):
        preparation = Preparation.of_dict(case["preparation"])
        found = preparation.records(array(case, "records_f64"))
        close(found, array(case, "rows_f32"), case["tolerance"])


def test_rounds_of_the_server():
    for case in of("rounds", "server"):
        recipe = recipe_of(case["recipe"])
        made, form = recipe.build(), Request(bytes(range(16)), 0, 0, recipe).format
        rule = StepRule(case["rate"], case["decay"], case["averaging"])
        state = ServerState.begin(np.array(case["start"]))
        close(made.alphabet.units, case["units"], case["tolerance"])
        for one in case["rounds"]:
            totals = made.in_round(one["round"]).totals()
            received = [form.decode(bytes.fromhex(report)) for report in one["reports"]]
            if received:
                totals.add(Reports.of(report for _, report in received))
            assert [[str(s) for s in row] for row in totals.sums.tolist()] == one["sums"]
            now = made.in_round(one["round"])
            close(now.expand(totals.mean()), one["mean"], case["tolerance"])
            state = step(state, rule, now, totals)
            close(state.weights, one["weights"], case["tolerance"])
            close(state.average, one["average"], case["tolerance"])


def test_shares():
    for case in of("shares", "server"):
        recipe = recipe_of(case["recipe"])
        made, form = recipe.build(), Request(bytes(range(16)), 0, 0, recipe).format
        totals = made.totals()
        for report in case["reports"]:
            totals.add(Reports.of([form.decode(bytes.fromhex(report))[1]]))
        assert [str(s) for s in totals.sums[0].tolist()] == case["sums"]
        close(made.alphabet.units, np.array([case["unit"]]), case["tolerance"])
        close(made.expand(totals.mean()), np.array(case["shares"]), case["tolerance"])
        assert sum(case["shares"]) == pytest.approx(1) or case["recipe"]["words"]


def test_blocks():
    for case in of("blocks", "public"):
        points = (case["words"], case["bases"]) if case["words"] else ()
        blocks = Blocks(case["dim"], case["k"], *points)
        held = np.sort(blocks.members(np.array(case["slots"])), axis=1)
        assert held.tolist() == case["answers"]


def test_what_rounds_that_prepare_teach():
    for case in of("learnt", "server"):
        plan = Plan(**{**case["plan"], "loose": tuple(case["plan"]["loose"])})
        before = Preparation.of_dict(case["before"])
        state = PlanState(before, np.array(case["total_before"]), case["reports_before"])
        after = advanced(plan, state, case["round"], np.array(case["mean"]), case["reports"])
        for name, value in case["after"].items():
            close(getattr(after.preparation, name), np.array(value, float), case["tolerance"])


def test_laws_by_the_names_of_solutions():
    """Sizes that a solution is composed with."""
    for case in of("rotations", "laws"):
        if case["dim"] <= 128:
            epsilon = Fraction(case["epsilon"])
            made = solution("RJ", epsilon=epsilon, dim=case["dim"], bases=2, rho=1.0)
            assert made.alphabet.slots == 2 * case["width"] * case["rotations"]
    for case in of("codewords", "laws"):
        made = solution("RC", epsilon=1.0, dim=case["dim"], rho=1.0)
        assert made.alphabet.slots == case["codewords"]
    for case in of("flat_picks", "laws"):
        made = solution("PM", epsilon=Fraction(case["epsilon"]), dim=case["d"])
        assert made.alphabet.picks == case["picks"]


def test_questions_about_people():
    for case in of("people", "questions"):
        question = Question.of_dict(case["question"])
        names = [*question.names]
        assert (names, question.solution, question.count) == tuple(
            case[name] for name in ("names", "solution", "count")
        )
        if case.get("labels") is not None:
            assert [*question.labels] == case["labels"]
        for row, (kind, wanted) in zip(case["cells"], answers_of(case), strict=True):
            found = getattr(question, kind)([dict(zip(names, row, strict=True))])[0]
            assert found == wanted or (np.isnan(found) and np.isnan(wanted))
    for case in of("no_question", "questions"):
        with pytest.raises(InvalidArgument):
            Question.of_dict(case["question"])


def answers_of(case):
    """What each record gives, and by which method."""
    if case["count"] == 1:
        return [("numbers", number) for number in array(case, "numbers_f64")]
    return [("answers", answer) for answer in case["answers"]]


def test_questions_about_a_model():
    for case in of("model", "questions"):
        question = ModelQuestion.of_dict(case["question"])
        assert question.count == case["count"]
        assert [[*axis] for axis in question.axes] == case["axes"]
        margins = np.array([[np.nan if x is None else x for x in row] for row in case["margins"]])
        labels = np.array([np.nan if x is None else x for x in case["labels"]])
        for row, label, wanted in zip(margins, labels, case["answers"], strict=True):
            assert question.answers(row[None], label[None]).tolist() == [wanted]
    for case in of("no_model_question", "questions"):
        with pytest.raises((InvalidArgument, KeyError, TypeError, AttributeError)):
            ModelQuestion.of_dict(case["question"])
    for case in of("runs", "questions"):
        run = bytes.fromhex(case["run"])
        for number, name in enumerate(case["measuring"]):
            assert (
                hashlib.sha256(b"fedsel measuring" + run + bytes([number])).hexdigest()[:32] == name
            )
            assert measured_question(run, bytes.fromhex(name)) == number
