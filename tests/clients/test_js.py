"""The JavaScript client in Node: its own tests, its types, and random tasks beside Python's."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.differential import compare

CLIENT = Path(__file__).parents[2] / "clients" / "js"
LEAST_NODE = 20

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def node():
    """Node; without one that is young enough the tests are skipped, and say so."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("no node: install Node.js 20 or newer (make javascript)")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < LEAST_NODE:
        pytest.skip(f"node is {version.strip()}: the client needs {LEAST_NODE} or newer")
    return path


def test_its_own_tests_pass(node):
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", *sorted(map(str, CLIENT.glob("test/*.test.mjs")))],
        cwd=CLIENT,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "NODE_OPTIONS"},
    )
    failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    assert (failed, done.returncode) == ([], 0), done.stdout[-4000:]
    assert "# pass 0" not in done.stdout


def test_its_types_are_right(node):
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists():
        pytest.skip("no TypeScript: npm install in clients/js (make javascript)")
    done = subprocess.run(
        [node, str(compiler), "--noEmit"], cwd=CLIENT, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_its_style_is_right(node):
    formatter = CLIENT / "node_modules" / "prettier" / "bin" / "prettier.cjs"
    if not formatter.exists():
        pytest.skip("no prettier: npm install in clients/js (make javascript)")
    files = ["src", "test", "bench.mjs"]
    done = subprocess.run(
        [node, str(formatter), "--check", *files], cwd=CLIENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_random_tasks_give_the_bytes_of_python(node):
    agreed, rounded, differing = compare(count=600, seed=20)
    assert differing == []
    assert agreed >= 590
    assert rounded <= 10  # of RC, whose scores a library rounds in an order of its own
