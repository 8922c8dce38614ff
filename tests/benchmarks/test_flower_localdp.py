"""The comparison with LocalDpMod in a small form; figures: benchmarks/flower_localdp.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_comparison_with_localdp(tmp_path):
    found, picture = tmp_path / "found.json", tmp_path / "figure.png"
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "flower_localdp.py")),
            *("--nodes", "5", "--rounds", "1", "2", "--epsilon", "8", "--repeats", "1"),
            *("--trials", "20000", "--json", str(found), "--plot", str(picture)),
        ],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(found.read_text())
    assert told["plain"] > 0.9
    assert told["rows"][0]["fedsel_bytes"] < told["rows"][0]["localdp_bytes"] / 5
    # Two rounds at half of ε each: a report at 4 claims less than it costs.
    assert told["rows"][1]["own_report"] > 4
    assert {a["claimed"]: round(a["exact"], 2) for a in told["audits"]} == {
        0.5: 0.75,
        1.0: 1.61,
        2.0: 3.51,
    }
    assert all(a["values"] <= a["exact"] < a["bits"] for a in told["audits"])
    assert picture.stat().st_size > 10_000
