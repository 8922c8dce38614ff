"""The command line of the engine's benchmark: what it measures with, and how it prints it."""

import json

import pytest

from benchmarks import engine
from fedsel.sampling._kernels import native


@pytest.fixture
def used(monkeypatch):
    """The instructions that each measurement was made with."""
    used = []

    def measure(_):
        used.append(native.use("base"))  # returns what was used before
        native.use(used[-1])
        return engine.Speed(
            ratios=dict.fromkeys((*engine.TARGETS, "rc_over_rj_d100"), 1.0), seconds={"x": 1e-9}
        )

    monkeypatch.setattr(engine, "measure", measure)
    return used


def test_json_names_the_instructions_that_were_measured(used, capsys):
    for name in native.variants():
        engine.main(["--instructions", name, "--json"])
        shown = json.loads(capsys.readouterr().out)
        assert set(shown) == {"instructions", "ratios", "seconds"}
        assert shown["instructions"] == name == used[-1]
    best = native.use("base")
    assert native.use(best) == "base"
    assert best == native.variants()[-1]


def test_every_ratio_has_a_line(used, capsys):
    engine.main([])
    lines = capsys.readouterr().out.splitlines()
    assert used == [native.variants()[-1]]
    assert "two_threads                        1.00  at least 1.8: MISSED" in lines
    assert "rc_over_rj_d100                    1.00" in lines


def test_unknown_instructions_are_refused(used, capsys):
    with pytest.raises(SystemExit, match="2"):
        engine.main(["--instructions", "avx9000"])
    assert "base" in capsys.readouterr().err
    assert not used
