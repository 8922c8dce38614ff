"""``fedsel certify`` and ``fedsel mechanisms`` as a user meets them."""

import json

import pytest

from tests.cli.support import run, run_here


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


def test_a_terminal_without_greek_still_shows_the_result():
    assert "Duchi" in run("mechanisms", PYTHONIOENCODING="latin-1").stdout


def test_mechanisms_lists_all():
    names = {row["name"] for row in json.loads(run_here("mechanisms", "--json").stdout)}
    assert {"EXP", "PE", "PS", "PM", "HM", "Duchi", "OW", "TopK", "Identity"} <= names
    assert "PerturbedSampling" in run_here("mechanisms").stdout
