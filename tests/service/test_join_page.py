"""The page at /join in a real browser: what leaves it, what is charged, and how it is used."""

import json

import pytest

from fedsel.service import Task
from fedsel.statements import in_percent, meaning
from fedsel.wire import Model, measured_question
from tests.browsing import CONTRAST, width_is_kept
from tests.service.support import reports_for, running
from tests.service.visiting import (
    HEADER,
    QUESTION,
    TABLE,
    Visitor,
    choose,
    join_task,
    ledger_facts,
    measured_task,
    shown_reports,
    take_part,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

ACCEPTED = "#reports [data-outcome=accepted]"
WAITING = "#reports [data-outcome=waiting]"


@pytest.fixture
def service(quick_path):
    with running(join_task(), quick_path / "store") as client:
        yield client


@pytest.fixture
def visitor(browser, service):
    made = Visitor(browser, service.address)
    yield made
    made.close()


def test_the_reports_bytes_are_all_that_leaves(service, visitor):
    token = service.invitations.invite("device")
    tab = visitor.open(token)
    assert tab.inner_text("#purpose") == "Predict who leaves"
    asked = tab.inner_text("#asked")
    assert "Example Telecom" in asked
    assert "2 reports of 16 bytes, one an epoch" in asked
    choose(tab)
    assert visitor.uploads() == []
    tab.check("#anew-yes")
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    ((outcome, report),) = shown_reports(tab)
    assert outcome == "accepted"
    assert tab.inner_text("#left-words").startswith("16 bytes: this report, with your invitation.")
    assert visitor.uploads() == [(report, token)]
    assert len(report) == 16
    assert ledger_facts(tab) == {"ε spent": "1", "ε left": "1", "ε in total": "2", "Reports": "1"}
    own = f"{service.address}/"
    assert all(r.url.startswith(own) for r in visitor.requests)
    assert not any("?" in r.url or token in r.url.split("#")[0] for r in visitor.requests)
    told = {r.url for r in visitor.requests if token in json.dumps(r.headers)}
    assert told == {f"{own}v1/invitation", f"{own}v1/reports"}
    began = {r.url.removeprefix(own): r.timing["startTime"] for r in visitor.requests}
    waited = began["v1/reports"] - began["v1/rounds/0/preparing"]
    assert waited > 990  # an update is hidden in a second, whatever it takes
    assert tab.url == f"{own}join"  # the token is kept, and gone from the address bar
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 1
    assert tab.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [
        0,
        0,
        "",
    ]


def test_it_goes_on_until_the_run_is_over(browser, quick_path):
    with running(join_task(close_after={"reports": 1}, invitations="open"), quick_path) as service:
        visitor = Visitor(browser, service.address)
        tab = visitor.open()
        assert tab.is_hidden("#invitation")
        take_part(tab)
        tab.get_by_text("The run is over. Thank you: you spent ε = 2 in all.").wait_for()
        assert [outcome for outcome, _ in shown_reports(tab)] == ["accepted"] * 2
        assert "of your 3 records" in tab.inner_text("#own")
        assert tab.locator("#coefficients tbody tr").count() == 2
        (_, name), (_, again) = visitor.uploads()
        assert name == again  # a random name of its own, kept beside the ledger
        assert len(name) == 32
        later = visitor.open_over()
        assert later.inner_text("#purpose") == "Predict who leaves"
        assert "Example Telecom" in later.inner_text("#asked")
        assert [outcome for outcome, _ in shown_reports(later)] == ["accepted"] * 2
        visitor.close()


def test_rounds_of_an_epoch_share_their_devices(browser, quick_path):
    """A page answers a round that it has chosen at random; this one has chosen the last."""
    task = join_task(close_after={"reports": 1}, rounds_per_epoch=3, epochs=1, epsilon=1)
    with running(task, quick_path) as service:
        visitor = Visitor(browser, service.address)
        visitor.context.add_init_script("Math.random = () => 0.999")
        tab = visitor.open(service.invitations.invite("device"))
        take_part(tab)
        for number in range(2):
            tab.get_by_text("Your turn is a later round of this epoch").wait_for()
            (report,) = reports_for(service.request(), 1)
            assert service.send(report) == (200, "accepted")
            service.wait_for(number + 1)
        tab.get_by_text("The run is over. Thank you").wait_for()
        ((body, _),) = visitor.uploads()
        assert int.from_bytes(body[4:8], "little") == 2
        assert service.get("/v1/rounds")["rounds"][2]["accepted"] == 1
        visitor.close()


def test_a_device_without_usable_records_answers_all_the_same(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    choose(tab, f"{HEADER}\n1,2,perhaps\n", "0 records are ready. One is left out:")
    tab.check("#anew-yes")
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    assert [len(body) for body, _ in visitor.uploads()] == [16]


def test_a_tab_killed_between_charge_and_send_sends_the_same_bytes_later(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    # Not held back: Chromium may let go what waits when its tab is closed.
    tab.route("**/v1/reports", lambda route: route.abort())
    with tab.expect_request("**/v1/reports"):
        take_part(tab)
    tab.wait_for_selector(WAITING)
    ((_, report),) = shown_reports(tab)
    tab.close()
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 0
    later = visitor.open()
    assert shown_reports(later) == [("waiting", report)]
    later.click("#send-now")
    later.wait_for_selector(ACCEPTED)
    assert shown_reports(later) == [("accepted", report)]
    assert {body for body, _ in visitor.uploads()} == {report}
    assert ledger_facts(later)["ε spent"] == "1"
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 1
    take_part(later)  # one report an epoch, however often one comes back
    later.get_by_text("Your report of this epoch is made.").wait_for()
    assert shown_reports(later) == [("accepted", report)]


def test_a_second_tab_waits_for_the_first(service, visitor):
    token = service.invitations.invite("device")
    first, second = visitor.open(token), visitor.open(token)
    choose(second)
    take_part(first)
    first.wait_for_selector(ACCEPTED)
    second.get_by_text("Another tab of this browser is taking part. This one waits.").wait_for()
    assert second.is_disabled("#go")
    second.wait_for_selector(ACCEPTED)
    assert shown_reports(second) == shown_reports(first)
    first.close()
    second.get_by_text("The other tab has ended.").wait_for()
    second.click("#go")
    second.get_by_text("Your report of this epoch is made.").wait_for()
    assert ledger_facts(second)["Reports"] == "1"
    assert len(visitor.uploads()) == 1


def test_two_tabs_at_once_are_one_charge(service, visitor):
    token = service.invitations.invite("device")
    tabs = [visitor.open(token) for _ in range(2)]
    for tab in tabs:
        choose(tab)
        tab.check("#anew-yes")
    for tab in tabs:
        tab.evaluate("setTimeout(() => document.getElementById('go').click(), 200)")
    tabs[0].locator(ACCEPTED).or_(tabs[0].get_by_text("Another tab of this")).first.wait_for()
    tabs[1].locator(ACCEPTED).or_(tabs[1].get_by_text("Another tab of this")).first.wait_for()
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 1
    assert len({body for body, _ in visitor.uploads()}) == 1


def test_cleared_storage_is_refused_unless_the_person_begins_anew(service, visitor):
    token = service.invitations.invite("device")
    tab = visitor.open(token)
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    session = tab.context.new_cdp_session(tab)
    clear = {"origin": service.address, "storageTypes": "all"}
    session.send("Storage.clearDataForOrigin", clear)
    tab.get_by_text("Stopped: the ledger is gone. Nothing is sent.").wait_for()
    assert "its data was cleared" in tab.inner_text("#anew")
    assert tab.is_disabled("#go")
    tab.close()
    session = (later := visitor.open(service.invitations.invite("device"))).context.new_cdp_session(
        later
    )
    session.send("Storage.clearDataForOrigin", clear)
    later = visitor.open(service.invitations.invite("device"))
    choose(later)
    assert later.is_disabled("#go")
    assert "There is no ledger in this browser" in later.inner_text("#anew")
    assert len(visitor.uploads()) == 1
    later.check("#anew-yes")
    later.click("#go")
    later.wait_for_selector(ACCEPTED)
    assert ledger_facts(later)["ε spent"] == "1"


def test_limits_are_the_persons(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    sentence = tab.inner_text("#meaning").replace("\u00a0", " ")
    assert sentence == meaning(2, "your device")
    tab.fill("#lifetime", "-1")
    assert "ε in total: must be a number > 0" in tab.inner_text("#limits-said")
    tab.fill("#lifetime", "1.5")
    assert "Enough for 1 of the 2 reports" in tab.inner_text("#limits-said")
    tab.fill("#per-report", "0.9")
    assert "more than you allow" in tab.inner_text("#limits-said")
    take_part(tab)
    tab.get_by_text("Stopped: the report would cost more than the policy").wait_for()
    assert visitor.uploads() == []
    assert ledger_facts(tab)["ε spent"] == "0"
    tab.fill("#per-report", "1")
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    assert ledger_facts(tab)["ε left"] == "0.5"


def test_a_total_above_the_ledgers_is_raised_by_the_person_alone(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    tab.fill("#lifetime", "1")
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    tab.click("#stop")
    tab.get_by_text("Paused.").wait_for()
    raises = "This raises the limits of your ledger, on record."
    assert raises not in tab.inner_text("#limits-said")
    tab.fill("#lifetime", "2")
    assert raises in tab.inner_text("#limits-said")
    tab.click("#go")
    tab.wait_for_selector("#ledger-facts >> text=to ε = 2")
    facts = ledger_facts(tab)
    assert (facts["ε in total"], facts["ε left"]) == ("2", "1")
    # Another tab has lowered it: neither what this one shows nor what it keeps raises it.
    tab.click("#stop")
    tab.get_by_text("Paused.").wait_for()
    other = visitor.open(service.invitations.invite("device"))
    other.fill("#lifetime", "1.5")
    choose(other)
    other.click("#go")
    other.wait_for_selector("#ledger-facts >> text=1.5")
    other.click("#stop")
    other.get_by_text("Paused.").wait_for()
    tab.click("#go")
    tab.get_by_text("Stopped: the lifetime of the policy is above").wait_for()
    assert raises in tab.inner_text("#limits-said")
    assert ledger_facts(tab)["ε in total"] == "1.5"


AHEAD = "const real = Date.now; Date.now = () => real() + 61 * 86400000"


def test_a_budget_renews_by_a_clock_that_the_person_confirms(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    tab.fill("#per-report", "1")
    tab.click("#renewal summary")
    tab.fill("#window", "-1")
    assert "ε in any such time: must be a number > 0" in tab.inner_text("#limits-said")
    tab.fill("#window", "1")
    assert "Enough now for 1 of the 2 reports" in tab.inner_text("#limits-said")
    tab.fill("#lifetime", "")
    assert "What is sent in any 30 days, by itself" in tab.inner_text("#meaning")
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    facts = ledger_facts(tab)
    left = "Left now of ε = 1 in any 30 days"
    assert (facts["ε spent, ever"], facts[left], "ε in total" in facts) == ("1", "0", False)
    assert facts["Comes back next"].startswith("ε = 1, ")
    tab.click("#stop")
    tab.get_by_text("Paused.").wait_for()
    assert "Too little is left now for a report." in tab.inner_text("#limits-said")
    # The window comes back as it was. Much later the person is asked what time it is.
    later = visitor.open(service.invitations.invite("device"))
    assert later.input_value("#window") == "1"
    assert later.is_hidden("#clock")
    later.evaluate(AHEAD)
    choose(later)
    later.wait_for_selector("#clock")
    assert later.is_disabled("#go")
    later.check("#clock-yes")
    later.click("#go")
    later.wait_for_selector("#ledger-facts >> text=Clock confirmed")
    assert ledger_facts(later)[left] == "1"


def test_wrong_invitations(service, visitor):
    tab = visitor.open("no.invitation")
    take_part(tab)
    tab.get_by_text("This is no whole invitation").wait_for()
    token = service.invitations.invite("device")
    tab.fill("#token", service.invitations.invite("gateway"))
    tab.click("#go")
    tab.get_by_text("This invitation is not for a device.").wait_for()
    assert visitor.uploads() == []
    head, claims, signature = token.split(".")
    tab.fill("#token", f"{head}.{claims}.{signature[::-1]}")  # only the service can tell
    tab.click("#go")
    tab.get_by_text("The service does not know this invitation.").wait_for()
    assert (visitor.uploads(), ledger_facts(tab)["ε spent"]) == ([], "0")
    tab.fill("#token", token)
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    assert len(visitor.uploads()) == 1
    assert ledger_facts(tab)["Reports"] == "1"


def test_what_cannot_be_sent_is_sent_again(service, visitor):
    """The network fails at the report, then altogether: the same bytes when it is back."""
    tab = visitor.open(service.invitations.invite("device"))
    tab.context.set_offline(True)
    choose(tab)  # all that comes before sending works without a network
    tab.check("#anew-yes")
    tab.click("#go")
    tab.get_by_text("The service cannot be reached.").wait_for()
    assert visitor.uploads() == []
    tab.route("**/v1/reports", lambda route: route.abort(), times=1)
    tab.context.set_offline(False)
    tab.wait_for_selector(ACCEPTED)
    failed, sent = visitor.uploads()
    assert failed == sent
    assert ledger_facts(tab)["Reports"] == "1"


def test_a_failing_service_is_not_said_to_have_refused_what_was_charged(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    answers = [500, 401]
    tab.route("**/v1/reports", lambda route: route.fulfill(status=answers.pop(0)))
    take_part(tab)
    tab.wait_for_selector(WAITING)
    assert "charged, and not known to have arrived" in tab.inner_text("#reports")
    assert tab.inner_text("#left-words").startswith("One report is charged and may have left")
    tab.get_by_text("Stopped: the service does not take this invitation any more.").wait_for()
    assert answers == []
    said = tab.inner_text("#state")
    assert "What was charged stays charged" in said
    assert "nothing was spent" not in said
    assert ledger_facts(tab)["ε spent"] == "1"
    tab.unroute("**/v1/reports")
    tab.click("#send-now")
    tab.wait_for_selector(ACCEPTED)
    assert len({body for body, _ in visitor.uploads()}) == 1


def test_a_strange_answer_ends_it_and_what_was_charged_is_kept(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    tab.route("**/v1/reports", lambda route: route.fulfill(status=202), times=1)
    take_part(tab)
    tab.get_by_text("does not answer as a service of fedsel would").wait_for()
    tab.click("#send-now")
    tab.wait_for_selector(ACCEPTED)
    assert ledger_facts(tab)["Reports"] == "1"


def test_a_keyboard_is_enough(service, visitor):
    tab = visitor.open(service.invitations.invite("device"))

    def go_to(name):
        for _ in range(40):
            tab.keyboard.press("Tab")
            if tab.evaluate("document.activeElement.id") == name:
                return
        raise AssertionError(name)

    go_to("file")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("ArrowRight")
    go_to("feature-0")
    tab.keyboard.type("41")
    go_to("feature-1")
    tab.keyboard.type("12.5")
    go_to("typed-label")
    tab.keyboard.type("stays")
    assert tab.inner_text("#data-said") == "One record is ready."
    go_to("lifetime")
    tab.keyboard.press("End")
    tab.keyboard.type(".5")
    go_to("anew-yes")
    tab.keyboard.press("Space")
    go_to("go")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(ACCEPTED)
    assert ledger_facts(tab)["ε in total"] == "2.5"
    assert tab.evaluate("document.activeElement.id") == "stop"
    tab.keyboard.press("Enter")
    tab.get_by_text("Paused. Nothing more is sent").wait_for()
    tab.wait_for_function("document.activeElement.id === 'go'")


MESSY = {
    "label": "vote",
    "classes": ["red", "green", "blue", "none"],
    "columns": [
        {"name": "age", "range": [18, 90], "indicator": True},
        {"name": "job", "levels": ["cook", "smith"], "indicator": True},
        {"name": "born", "date": ["month"], "format": "DD.MM.YYYY"},
        {"name": "seen", "date": ["year", "hour"], "range": ["2020-01-01", "2029-12-31"]},
        {"name": "pay", "range": "private"},
    ],
}
ASKED = ("/v1/rounds/open", "/v1/model.json", "/v1/rounds/open/request", "/v1/task")


def messy_task(**changes):
    schema = {"features": None, "feature_range": None, "labels": None, "schema": MESSY}
    return join_task(**{**schema, "spread": 0, "centre": 0, "epsilon": 40, **changes})


def test_a_record_of_any_columns_and_many_classes_is_typed(browser, quick_path):
    with running(messy_task(close_after={"reports": 1}, invitations="open"), quick_path) as service:
        visitor = Visitor(browser, service.address)
        tab = visitor.open()
        assert "“red”, “green”, “blue” or “none”" in tab.inner_text("#columns-wanted")
        tab.click("#columns summary")
        listed = tab.inner_text("#column-list")
        assert "a number from 18 to 90" in listed
        assert "a date (DD.MM.YYYY), of which the model sees: month" in listed
        tab.check("[value=typed]")
        assert tab.is_disabled("#go")  # what it is to learn from is not there yet
        fields = [tab.locator(f"#feature-{i}") for i in range(5)]
        kinds = [field.get_attribute("type") for field in fields]
        assert kinds == ["number", None, "date", "datetime-local", "number"]
        assert fields[0].get_attribute("max") == "90"
        assert fields[3].get_attribute("min") == "2020-01-01T00:00"
        assert fields[1].locator("option").all_inner_texts() == [
            "not known",
            "cook",
            "smith",
            "another",
        ]
        assert tab.locator("#typed-label option").all_inner_texts() == [
            "choose …",
            *MESSY["classes"],
        ]
        tab.select_option("#typed-label", "blue")
        assert tab.inner_text("#data-said") == "One record is ready."  # all blank: all missing
        fields[0].fill("31")
        fields[1].select_option("another")
        fields[2].fill("2001-04-30")
        fields[3].fill("2024-02-29T18:05")
        fields[4].fill("-2e3")
        told = tab.evaluate(TYPED, MESSY)
        # age, missing, cook, smith, missing, April, 2024, six in the evening, pay
        assert told == [31, 0, 0, 0, 0, 0, 1, 2024, 0, -1, -2000]
        tab.check("#anew-yes")
        tab.click("#go")
        tab.get_by_text("The run is over. Thank you").wait_for()
        model = service.get("/v1/model.json")
        assert len(model["weights"]) == 4 * 12
        record = {"age": 31, "job": "nurse", "born": "30.04.2001", "seen": "2024-02-29T18:05"}
        said = Model.decode(json.dumps(model).encode()).predict([{**record, "pay": -2000}])[0]
        assert tab.inner_text("#says-words").startswith(f"“{said}”, which is ")
        assert tab.locator("#says-shares tbody tr").count() == 4
        assert tab.locator("#coefficients tbody tr").count() == 11
        visitor.close()


TYPED = """async (values) => {
  const { Schema } = await import("/join/client/index.js");
  const { typedForm } = await import("/join/asking.js");
  const form = typedForm(new Schema(values));
  const there = document.querySelectorAll("#typed input, #typed select");
  form.elements.forEach((made, i) => {
    made.querySelector("input, select").value = there[i].value;
  });
  return [...new Schema(values).encode(form.cells())];
}"""


def test_asking_the_model_tells_the_service_nothing(browser, quick_path):
    with running(messy_task(close_after={"reports": 5}), quick_path) as service:
        for number in range(2):
            for report in reports_for(service.request(), 5, number):
                service.send(report)
            service.wait_for(number + 1)
        visitor = Visitor(browser, service.address)
        tab = visitor.context.new_page()
        tab.goto(f"{service.address}/join")
        tab.get_by_text("The model can still be asked about your data.").wait_for()
        tab.wait_for_selector("#coefficients tbody tr")
        assert tab.is_hidden("#go")
        assert tab.is_hidden("#says")
        assert "asking tells the service nothing" in tab.text_content("#says")
        known = json.dumps(service.get("/v1/model.json")).encode()
        before = [r.url for r in visitor.requests]
        assert {u.removeprefix(service.address) for u in before if "/v1/" in u} <= {*ASKED}
        tab.check("[value=typed]")
        tab.fill("#feature-0", "70")
        tab.select_option("#feature-1", "cook")
        wanted = Model.decode(known).predict_proba([{"age": 70, "job": "cook"}])[0]
        shown = tab.locator("#says-shares tbody tr").all_inner_texts()
        best = MESSY["classes"][int(wanted.argmax())]
        assert tab.inner_text("#says-words") == f"“{best}”."
        assert [row.split("\t")[0] for row in shown] == [
            MESSY["classes"][c] for c in (-wanted).argsort(kind="stable")
        ]
        tab.check("[value=file]")
        rows = "age,job,born,seen,pay,vote\n20,cook,,,,red\n80,smith,1.2.1990,,7,green\n,,,,,?\n"
        choose(tab, rows, "2 records are ready. One is left out")
        assert not tab.is_visible("#label-column")
        choose(tab, rows.replace("vote", "hue"), "2 records are ready. One is left out")
        assert tab.input_value("#label-column") == "hue"  # not the task's name: the page says so
        assert tab.is_visible("#label-column")
        assert "of your 2 records" in tab.inner_text("#own")
        for number, record in enumerate(
            [{"age": 20, "job": "cook"}, {"age": 80, "job": "smith"}, {}]
        ):
            tab.fill("#record", str(number + 1))
            more = {"born": "1.2.1990", "pay": 7} if number == 1 else {}
            said = Model.decode(known).predict([{**record, **more}])[0]
            assert tab.inner_text("#says-words").startswith(f"“{said}”")
        tab.wait_for_timeout(500)
        assert [r.url for r in visitor.requests] == before
        visitor.close()


def test_a_question_is_answered_from_what_is_typed(browser, quick_path):
    with running(Task.of(QUESTION), quick_path) as service:
        visitor = Visitor(browser, service.address)
        tab = visitor.open()
        words = "Which of the 12 combinations of “job” and “age” is yours."
        assert words in tab.inner_text("#question")
        assert "smith × 20 to 40" in tab.text_content("#possible-answers")
        assert tab.inner_text("#asked").split("\n")[::2][-1] == "Mechanism"
        assert "one report of 16 bytes" in tab.inner_text("#asked")
        assert "BR, 12 answers" in tab.inner_text("#asked")
        assert tab.is_hidden("#model-part")
        assert tab.inner_text("#columns-wanted") == "Columns job, age; others are not read."
        tab.check("[value=typed]")
        assert tab.locator("#typed label").all_inner_texts() == ["job", "age"]  # and no label
        options = tab.locator("#feature-0 option").all_inner_texts()
        assert options == ["choose …", "cook", "smith", "other", "not known"]
        assert tab.get_attribute("#feature-1", "max") == "80"
        tab.check("#anew-yes")
        tab.fill("#feature-1", "33")
        assert tab.is_disabled("#go")
        tab.select_option("#feature-0", "smith")
        assert tab.inner_text("#data-said") == "One record is ready."
        tab.click("#go")
        tab.wait_for_selector(ACCEPTED)
        said = tab.inner_text("#reports")
        assert "It answered: which of the 12 combinations of “job” and “age” is yours." in said
        assert "Its 12 possible answers" in said
        ((body, _),) = visitor.uploads()
        assert len(body) == 16
        assert not any("smith" in r.url or "33" in (r.post_data or "") for r in visitor.requests)
        assert ledger_facts(tab)["ε spent"] == "2"
        visitor.close()


def test_a_question_is_answered_from_a_file(browser, quick_path):
    """At an ε at which the report says the answer: what cannot be read counts as "other"."""
    asked = {**QUESTION, "epsilon": 60, "clients": 40}
    with running(Task.of({**asked, "close_after": {"reports": 1}}), quick_path) as service:
        visitor = Visitor(browser, service.address)
        tab = visitor.open()
        choose(tab, "age,task\n33,x\n", "The header has no column “job”.")
        choose(tab, 'age,job,pay\n"33",nurse,7\n70,nurse,8\n', "2 records are ready. One of them")
        assert not tab.is_visible("#label-choice")
        tab.check("#anew-yes")
        tab.click("#go")
        tab.get_by_text("The run is over. Thank you").wait_for()
        (found,) = service.get("/v1/answers")["answers"]
        best = max(found["shares"], key=lambda one: one["value"])
        assert best["answer"] in (["other", "20 to 40"], ["other", "60 to 80"])
        assert tab.inner_text("#answer") == found["sentence"]
        visitor.close()


def test_a_page_that_measures_says_so(browser, quick_path):
    """Chance has this browser measure: it waits while others train, and reports once."""
    with running(measured_task(), quick_path) as service:
        run = bytes.fromhex(service.get("/v1/task")["run"])
        visitor = Visitor(browser, service.address)
        visitor.context.add_init_script("Math.random = () => 0.1")
        tab = visitor.open(service.invitations.invite("device"))
        assert "Some devices measure the model" in tab.inner_text("#measuring")
        take_part(tab)
        tab.get_by_text("Chance has chosen this device to measure the model").wait_for()
        for number in range(4):
            (report,) = reports_for(service.request(), 1)
            assert service.send(report) == (200, "accepted")
            service.wait_for(number + 1)
        assert measured_question(run, service.request().run) == 0
        tab.wait_for_selector(ACCEPTED)
        said = tab.inner_text("#reports")
        assert "It measured the model: whether the model is right about you: your class" in said
        possible = tab.text_content("#reports details")
        assert "class stays, score below" in possible
        assert "class leaves, score from" in possible
        assert ledger_facts(tab)["Reports"] == "1"
        later = visitor.open()  # what is known of the report is kept
        later.wait_for_selector(ACCEPTED)
        assert "your class, and the range of its score" in later.inner_text("#reports")
        visitor.close()


def test_a_page_that_trains_says_so(browser, quick_path):
    """Two epochs: in between others measure, and what is left for training is enough."""
    task = measured_task(epochs=2, rounds_per_epoch=2, measure=0.5, clients=20)
    with running(task, quick_path) as service:
        visitor = Visitor(browser, service.address)
        visitor.context.add_init_script("Math.random = () => 0.1")
        tab = visitor.open(service.invitations.invite("device"))
        assert "one report of ε = 6 instead" in tab.inner_text("#limits-said")
        tab.fill("#per-report", "3")
        assert "It trains and does not measure" in tab.inner_text("#limits-said")
        take_part(tab)
        tab.get_by_text("Other devices measure the model in this round.").wait_for()
        (report,) = reports_for(service.request(), 1)
        assert service.send(report) == (200, "accepted")
        tab.get_by_text("Your last report is made.").wait_for()
        assert [outcome for outcome, _ in shown_reports(tab)] == ["accepted"] * 2
        assert tab.inner_text("#reports").count("It trained the model.") == 2
        visitor.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_questions_on_phones_and_for_screen_readers(browser, quick_path, scheme):
    with running(Task.of(QUESTION), quick_path) as service:
        size = {"width": 380, "height": 800}
        visitor = Visitor(browser, service.address, viewport=size, color_scheme=scheme)
        tab = visitor.open()
        tab.check("[value=typed]")
        tab.click("#possible summary")
        assert width_is_kept(tab)
        tab.select_option("#feature-0", "smith")
        tab.fill("#feature-1", "33")
        tab.check("#anew-yes")
        tab.click("#go")
        tab.wait_for_selector(ACCEPTED)
        tab.click("#reports summary")
        assert width_is_kept(tab)
        assert tab.evaluate(CONTRAST) == []
        visitor.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones_and_screen_readers(browser, service, scheme):
    visitor = Visitor(
        browser, service.address, viewport={"width": 380, "height": 800}, color_scheme=scheme
    )
    tab = visitor.open(service.invitations.invite("device"))
    assert width_is_kept(tab)
    tab.evaluate("document.querySelector('details').open = true")
    tab.check("[value=typed]")
    assert width_is_kept(tab)
    tab.check("[value=file]")
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    unnamed = """() => [...document.querySelectorAll("input, select, progress, button, a")]
      .filter((e) => !(e.labels?.length || e.textContent.trim())).map((e) => e.outerHTML)"""
    assert tab.evaluate(unnamed) == []
    assert tab.locator("[role=status]").count() >= 4
    visitor.close()


READ = """async ([text, values]) => {
  const { Schema } = await import("/join/client/index.js");
  const { parseTable, DataProblem } = await import("/join/csv.js");
  const { labelColumns, recordsOf } = await import("/join/data.js");
  const schema = new Schema(values);
  try {
    const table = parseTable(text);
    const label = labelColumns(schema, table.header).at(-1);
    const { X, y, unread, leftOut } = recordsOf(schema, table, label);
    return { X: X.map((row) => [...row]), y, unread: Object.fromEntries(unread), leftOut };
  } catch (error) {
    if (!(error instanceof DataProblem)) throw error;
    return error.message;
  }
}"""


def test_tables(visitor):
    tab = visitor.open()

    def read(text, schema, **columns):
        listed = [{"name": name, **column} for name, column in columns.items()]
        return tab.evaluate(READ, [text, {"columns": listed, **schema}])

    schema = {"classes": ["no", "yes"]}
    columns = {"a": {"range": [0, 99]}, "b, c": {"range": [-9, 9]}}
    right = {"X": [[1, -2.5], [30, 0.001]], "y": ["yes", "no"], "unread": {}, "leftOut": 0}
    lines = ['x,"b, c",a,label', "z,-2.5,1,yes", '"say ""hi"",\nyou", 1e-3 ,30,"no"']
    for text in ("\n".join(lines), "\ufeff" + "\r\n".join(lines) + "\r\n\r\n"):
        assert read(text, schema, **columns) == right
    for text, wrong in {
        "": "The file is empty.",
        'a,"b, c",label\n': "The file has a header, but no record below it.",
        "a,label\n1,yes": "The header has no column “b, c”.",
        'a,"b, c"\n1,2': "Besides the columns that are asked for there is none with the label.",
        'a,a,"b, c",label\n1,1,2,yes': "The header has the column “a” twice.",
        'a,"b, c",label\n1,2,yes\n\n1,2': "Line 4 has 2 fields, the header has 3.",
        'a,"b, c",label\n1,2,"yes': "Line 2: a quote is never closed.",
        'a,"b, c",label\n1,"2"3,yes': "Line 2: after a closing quote the field must end.",
    }.items():
        assert read(text, schema, **columns) == wrong
    # What is in a record never decides whether a person can take part: it counts as missing.
    for cell, unread in {
        "": {},
        " ": {},
        "NaN": {"a": 1},
        "0x10": {"a": 1},
        "1e999": {"a": 1},
    }.items():
        found = read(f'a,"b, c",label\n{cell},4,yes\n3,4,no', schema, **columns)
        assert found == {
            "X": [[49.5, 4], [3, 4]],
            "y": ["yes", "no"],
            "unread": unread,
            "leftOut": 0,
        }
    found = read('a,"b, c",label\n1,1,"may\nbe"', schema, **columns)
    assert found == {"X": [[1, 1]], "y": ["may\nbe"], "unread": {}, "leftOut": 1}
    jobs = {"age": {"range": [0, 99]}, "job": {"levels": ["cook", "smith"]}}
    found = read("job|y|age\ncook|1.0|30\nbaker|0|4e1", {"classes": ["0", "1"]}, **jobs)
    assert (found["X"], found["leftOut"]) == ([[30, 1, 0], [40, 0, 0]], 0)
    plain = tab.evaluate(READ, ["p;q;y\n1;2;0\n3;4;1", {"columns": 2}])
    assert (plain["X"], plain["leftOut"]) == ([[1, 2], [3, 4]], 0)
    assert "the task has 2" in tab.evaluate(READ, ["p,y\n1,1", {"columns": 2}])
    # The task may name the label; else it is the last column.
    named = tab.evaluate(READ, ["y,p\n5,1", {"columns": 1, "label": "y", "target_range": [0, 9]}])
    assert (named["X"], named["y"]) == ([[1]], ["5"])
    # In the page such a sentence is shown; without the right header the button stays shut.
    tab.check("#anew-yes")
    choose(tab, "age,churned\n1,stays\n", "The header has no column “hours”.")
    assert tab.is_disabled("#go")
    said = "One record is ready. “hours”: one cell cannot be read, and will count as missing."
    choose(tab, f"{HEADER}\n1,two,stays\n", said)
    assert tab.is_enabled("#go")
    choose(tab, TABLE)
    assert tab.is_enabled("#go")


def test_an_epsilon_means_what_the_statements_say(visitor):
    tab = visitor.open()
    amounts = [0.01, 0.5, 1, 2, 2.19, 2.2, 3, 4, 4.6, 8, 12, 19.9, 20, 21, 500]
    said = tab.evaluate(
        "async (all) => all.map((await import('/join/meaning.js')).inPercent)",
        amounts,
    )
    assert [text.replace("\u00a0", " ") for text in said] == [in_percent(e) for e in amounts]
    exact = tab.evaluate(
        """async () => {
          const { Fraction } = await import("/join/client/index.js");
          const { exactly, written } = await import("/join/meaning.js");
          const all = ["2", "0.5", "4/3", "1/1024", "12.34", "1/1000000007"].map(Fraction.parse);
          return [all.map(exactly), all.map(written)];
        }"""
    )
    assert exact[1] == ["2", "0.5", "4/3", "0.0009765625", "12.34", "1/1000000007"]
    assert exact[0][2] == "1.33333 (4/3)"
