"""The command line as a user meets it: help, JSON, pictures and wrong input."""

import functools
import importlib
import io
import json
import subprocess
import sys

import pytest

import fedsel
from fedsel.auditing import suite
from tests.cli.support import run, run_here
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


def test_version():
    assert run("--version").stdout.strip() == f"fedsel {fedsel.__version__}"


@pytest.mark.slow
def test_shell_completion_is_offered():
    assert "--install-completion" in run("--help").stdout
    script = run(_FEDSEL_COMPLETE="complete_bash", COMP_WORDS="fedsel ce", COMP_CWORD="1").stdout
    assert "certify" in script


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_audit_json_has_the_promised_keys_and_status(tmp_path):
    picture, table, page = (tmp_path / f"audit.{end}" for end in ("svg", "csv", "html"))
    done = run_here(
        *("audit", "--epsilon", "1", "--dim", "10", "--trials", "20000"),
        *("--plot", str(picture), "--csv", str(table), "--html", str(page), "--json"),
    )
    rows = json.loads(done.stdout)
    assert all(set(row) >= KEYS for row in rows)
    names = {row["mechanism"] for row in rows}
    assert {"EXP", "PE", "PS", "PE-published", "Uniform", "Duchi", "PM", "HM", "OW"} <= names
    assert {"PS-PM", "EXP-HM", "PE-Duchi"} <= names
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
    text = run_here("audit", "-e", "1", "-d", "4", "--trials", "20000").stdout
    assert "published, true ε = 1.26" in text
    assert "J, 4 shuffled" in text
    assert "all ε are central ones at δ = 0.01" in text
    assert "37 claims hold, 1 published ones exceed their ε, 0 fail." in text


def test_a_narrow_terminal_gets_fewer_columns():
    from rich.console import Console

    from reproduction.audit.suite import Row

    audit = importlib.import_module("fedsel.cli.audit")
    row = Row("PS-Duchi", 1000, 100, 2.0, 2.0, 2.0, 1.9345, 1.9490, 1.9491, True, False)
    for width, shown in ((140, True), (90, False)):
        console = Console(width=width, record=True, file=io.StringIO())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(audit, "output", lambda console=console: console)
            audit._print_audit([row], [])
        text = console.export_text()
        assert ("1.9490" in text) == shown
        assert "1.9345" in text
        assert "…" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_audit_does_not_depend_on_jobs():
    outputs = {
        run_here("audit", "-e", "2", "-d", "3", "--trials", "5000", "--jobs", j, "--json").stdout
        for j in ("1", "2")
    }
    assert len(outputs) == 1


def test_audit_ends_with_status_1_if_a_claim_fails(monkeypatch):
    """A mechanism with a false claim, put among ours."""
    from typer.testing import CliRunner

    from fedsel import cli
    from fedsel.auditing import suite as grid
    from fedsel.mechanisms import PublishedPerturbedEncoding

    class Boastful(PublishedPerturbedEncoding):
        published = False

    case = grid.Case("PE*", Boastful(1.0, 1), 1.0, d=10, k=1, attack=False)
    monkeypatch.setattr(grid, "default_cases", lambda **_: [case])
    result = CliRunner().invoke(cli.app, ["audit", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)[0]["holds"] is False


def test_certify_proves_the_central_guarantee_of_shuffled_reports():
    arguments = ("certify", "Duchi", "-e", "1", "--shuffled", "50", "--delta", "1e-3")
    assert "if the shuffler is honest" in run_here(*arguments).stdout
    central = json.loads(run_here(*arguments, "--json").stdout)["central"]
    assert 0.2 < central["epsilon"] < 0.9
    assert (central["reports"], central["delta"], central["epochs"]) == (50, 1e-3, 1)
    assert json.loads(run_here(*arguments[:4], "--json").stdout)["central"] is None


def test_certify_prints_and_speaks_json():
    text = run_here("certify", "ps", "--epsilon", "1", "--dim", "100").stdout
    assert "holds" in text
    assert "hits the top k with probability 0.231969" in text
    coded = json.loads(run_here("certify", "rj", "-e", "2", "-d", "123", "--json").stdout)
    assert (coded["d"], coded["codewords"], coded["holds"]) == (123, 128, True)
    assert 2 - 1e-9 < coded["exact"] <= 2
    text = run_here("certify", "RC", "-e", "2", "-d", "100", "--words", "64").stdout
    assert "RC at d = 100 is J on 64 codewords" in text
    answer = json.loads(run_here("certify", "PS-PM", "-e", "2", "-d", "123", "--json").stdout)
    assert answer["holds"]
    assert answer["claimed"] == 2.0
    failing = run_here("certify", "pe-published", "-e", "1", "-d", "10", "--json", status=1)
    published = json.loads(failing.stdout)
    assert published["exact"] == pytest.approx(1.173, abs=1e-3)
    assert not published["holds"]
    nothing = json.loads(run_here("certify", "Identity", "--json", status=1).stdout)
    assert nothing["exact"] is None
    assert not nothing["private"]
    assert not nothing["holds"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_pilot")
def test_a_case_does_not_depend_on_those_beside_it():
    few = json.loads(run_here("audit", "-e", "1", "-d", "3", "--trials", "2000", "--json").stdout)
    more = json.loads(
        run_here("audit", "-e", "2", "-e", "1", "-d", "3", "--trials", "2000", "--json").stdout
    )
    assert all(row in more for row in few)


def test_a_terminal_without_greek_still_shows_the_result():
    assert "Duchi" in run("mechanisms", PYTHONIOENCODING="latin-1").stdout


def test_python_m_fedsel():
    done = subprocess.run(
        [sys.executable, "-m", "fedsel", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("fedsel ")


def test_mechanisms_lists_all():
    names = {row["name"] for row in json.loads(run_here("mechanisms", "--json").stdout)}
    assert {"EXP", "PE", "PS", "PM", "HM", "Duchi", "OW", "TopK", "Identity"} <= names
    assert "PerturbedSampling" in run_here("mechanisms").stdout


def test_a_process_ends_with_one_sentence_and_status_2():
    done = run("certify", "PS", "-e", "1", "-d", "0", status=2)
    assert done == ("", "fedsel: --dim = 0: must be an integer ≥ 1\n")
