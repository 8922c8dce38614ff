"""The audit of all mechanisms: its rows, its table, its page, and what it ends with."""

import functools
import io
import json

import pytest
from rich.console import Console

from fedsel import amplify
from fedsel.mechanisms import PublishedPerturbedEncoding
from reproduction.audit import command, suite
from reproduction.audit.page import suite_page
from tests.reproduction.support import run
from tests.statements.support import Text

KEYS = {
    "mechanism",
    "d",
    "k",
    "epsilon",
    "claimed",
    "exact",
    "lower_bound",
    "variance",
    "published",
}


@pytest.fixture
def small_pilot(monkeypatch):
    """An audit whose search for the worst inputs is short, for what does not depend on it."""
    monkeypatch.setattr(suite, "audit", functools.partial(suite.audit, pilot=2000))


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_audit_json_has_the_promised_keys_and_status(tmp_path):
    picture, table, page = (tmp_path / f"audit.{end}" for end in ("svg", "csv", "html"))
    done = run(
        *("audit", "--epsilon", "1", "--dim", "10", "--trials", "20000"),
        *("--plot", str(picture), "--csv", str(table), "--html", str(page), "--json"),
    )
    rows = json.loads(done.stdout)
    assert all(set(row) >= KEYS for row in rows)
    names = {row["mechanism"] for row in rows}
    assert {"EXP", "PE", "PS", "PE-published", "Uniform", "Duchi", "PM", "HM", "OW"} <= names
    assert {"PS-PM", "EXP-HM", "PE-Duchi", "BR, subsets"} <= names
    for row in rows:
        assert row["lower_bound"] <= row["exact"]
        assert row["published"] or row["exact"] <= row["claimed"]
    published = [row for row in rows if row["published"]]
    assert published
    assert all(row["exact"] > row["claimed"] for row in published)
    assert picture.read_text().startswith("<?xml")
    assert len(table.read_text().splitlines()) == len(rows) + 1
    shuffled = {(row["mechanism"], row["reports"]) for row in rows if row["reports"]}
    assert ("J", 8) in shuffled
    text = Text(page.read_text(encoding="utf-8")).text
    assert all(f"{name}, {reports} shuffled" in text for name, reports in shuffled)


@pytest.mark.usefixtures("small_pilot")
def test_audit_prints_a_table_with_the_published_pe():
    text = run("audit", "-e", "1", "-d", "4", "--trials", "20000").stdout
    assert "published, true ε = 1.26" in text
    assert "J, 4 shuffled" in text
    assert "all ε are central ones at δ = 0.01" in text
    assert "38 claims hold, 1 published ones exceed their ε, 0 fail." in text


def test_a_narrow_terminal_gets_fewer_columns():
    row = suite.Row("PS-Duchi", 1000, 100, 2.0, 2.0, 2.0, 1.9345, 1.9490, 1.9491, True, False)
    for width, shown in ((140, True), (90, False)):
        console = Console(width=width, record=True, file=io.StringIO())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(command, "output", lambda console=console: console)
            command._print([row], [])
        text = console.export_text()
        assert ("1.9490" in text) == shown
        assert "1.9345" in text
        assert "…" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_audit_does_not_depend_on_jobs():
    outputs = {
        run("audit", "-e", "2", "-d", "3", "--trials", "5000", "--jobs", j, "--json").stdout
        for j in ("1", "2")
    }
    assert len(outputs) == 1


def test_audit_ends_with_status_1_if_a_claim_fails(monkeypatch):
    """A mechanism with a false claim, put among ours."""

    class Boastful(PublishedPerturbedEncoding):
        published = False

    case = suite.Case("PE*", Boastful(1.0, 1), 1.0, d=10, k=1, attack=False)
    monkeypatch.setattr(suite, "default_cases", lambda **_: [case])
    assert json.loads(run("audit", "--json", status=1).stdout)[0]["holds"] is False


@pytest.mark.parametrize(
    ("answers", "name", "held"), [(2, "subsets", 1), (10, "subsets", 3), (100, "cyclotomic", 25)]
)
def test_questions_are_attacked_closely_with_the_blocks_that_they_take(answers, name, held):
    cases = suite.default_cases(epsilons=(1.0,), dimensions=(1, answers, 70_000))
    (case,) = (c for c in cases if c.name.startswith("BR"))
    assert (case.name, case.d, case.k) == (f"BR, {name}", answers, held)
    row = suite.examine(case, trials=100_000, seed=0)
    assert row.verdict == "holds"
    assert 0.85 < row.lower_bound <= row.exact <= row.claimed == 1


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_a_case_does_not_depend_on_those_beside_it():
    few = json.loads(run("audit", "-e", "1", "-d", "3", "--trials", "2000", "--json").stdout)
    more = json.loads(
        run("audit", "-e", "2", "-e", "1", "-d", "3", "--trials", "2000", "--json").stdout
    )
    assert all(row in more for row in few)


def test_rows_say_how_many_reports_were_shuffled_and_a_wrong_proof_is_refuted(monkeypatch):
    cases = [c for c in suite.default_cases() if c.reports is not None]
    assert {c.reports for c in cases} == set(suite.SHUFFLED_REPORTS)
    assert len({c.seed(0) for c in cases}) == len(cases)
    case = next(c for c in cases if (c.name, c.reports) == ("J", 4))
    row = suite.examine(case, trials=20_000, seed=case.seed(0))
    assert (row.name, row.delta, row.verdict, row.sound) == ("J, 4 shuffled", 0.01, "holds", True)
    assert 0 < row.lower_bound < row.exact <= row.claimed < 1
    assert row.as_dict()["reports"] == 4
    plain = next(c for c in suite.default_cases() if c.name == "J" and c.d == 2)
    rows = [suite.examine(plain, trials=1000, seed=0), row]
    text = Text(suite_page(rows, trials=20_000, seed=0)).text
    for part in ("J, 4 shuffled", "at δ = 0.01", "1e-09", f"{row.claimed:.4f}", "every claim"):
        assert part in text
    monkeypatch.setattr(
        suite, "amplify", lambda *a, **k: amplify(*a, **{**k, "reports": 40 * k["reports"]})
    )
    wrong = suite.examine(case, trials=1000, seed=0)
    assert not wrong.sound
    assert wrong.verdict == "FAILS"
    assert "REFUTES" in Text(suite_page([wrong], trials=1000, seed=0)).text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--plot", "picture.gif"], "a file ending in .png"),
        (["--plot", "no/such/folder/a.png"], "in a folder that can be written"),
        (["--csv", "."], "a file in a folder"),
        (["-e", "-1"], "epsilon = -1.0"),
        (["-d", "0"], "--dim"),
        (["--trials", "5"], "--trials"),
        (["-k", "x"], "k = 'x'"),
    ],
)
def test_wrong_input_ends_with_one_sentence_and_status_2(arguments, complaint):
    assert complaint in run("audit", *arguments, status=2).stderr
