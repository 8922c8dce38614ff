"""The JavaScript client in Node: its own tests, its types, and random tasks beside Python's."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.differential import compare
from fedsel import Aggregator, PublicFacts, Recipe, Schema, resolve_auto
from fedsel.preparation import Preparation
from fedsel.server import ServerKey
from fedsel.wire import Date, Model, RecordPipeline, Sealing

CLIENT = Path(__file__).parents[2] / "clients" / "js"
PAGES = [CLIENT / "README.md", CLIENT.parents[1] / "docs" / "browser.md"]
MODELS = CLIENT.parents[1] / "docs" / "models.md"
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


def _run(command, folder=CLIENT, **variables):
    own = {name: value for name, value in os.environ.items() if name != "NODE_OPTIONS"} | variables
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)


def test_its_own_tests_pass(node):
    files = sorted(CLIENT.glob("test/*.test.mjs"))
    done = _run([node, "--test", "--test-reporter=tap", *files])
    failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
    assert (failed, done.returncode) == ([], 0), done.stdout[-4000:]
    assert "# pass 0" not in done.stdout


def test_its_types_are_right(node):
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists():
        pytest.skip("no TypeScript: npm install in clients/js (make javascript)")
    done = _run([node, compiler, "--noEmit"])
    assert (done.stdout, done.returncode) == ("", 0)


def test_its_style_is_right(node):
    formatter = CLIENT / "node_modules" / "prettier" / "bin" / "prettier.cjs"
    if not formatter.exists():
        pytest.skip("no prettier: npm install in clients/js (make javascript)")
    files = ["src", "test", "bench.mjs"]
    done = _run([node, formatter, "--check", *files])
    assert done.returncode == 0, done.stderr


def _blocks(page):
    return re.findall(r'^```js(?: title="(.+?)")?\n(.*?)^```$', page.read_text(), re.M | re.S)


@pytest.mark.parametrize("page", [*PAGES, MODELS], ids=lambda page: page.name)
def test_the_examples_of_a_page_are_programs(node, page, tmp_path):
    for number, (_, text) in enumerate(_blocks(page)):
        file = tmp_path / f"{number}.mjs"
        file.write_text(text)
        assert _run([node, "--check", file]).stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_example_for_node_answers_a_server(node, page, tmp_path):
    recipe = resolve_auto(
        Recipe("FJ", epsilon=2.0, epochs=5), PublicFacts(dim=4, clients=1, rounds=5)
    )
    server = Aggregator(recipe, tmp_path / "server")
    [(name, text)] = [block for block in _blocks(page) if block[0]]
    (tmp_path / name).write_text(text)
    (tmp_path / "request.bin").write_bytes(server.request())
    (tmp_path / "weights.bin").write_bytes(server.weights.astype("<f8").tobytes())
    policy = {"lifetime": 2, "per_report": 0.5, "solutions": ["FJ"], "dimensions": [4]}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "fedsel").symlink_to(CLIENT, target_is_directory=True)
    done = _run([node, name], tmp_path)
    assert done.stderr == ""
    assert done.stdout.startswith("spent 2/5")
    server.receive("a client", (tmp_path / "report.bin").read_bytes())
    assert server.step().accepted == 1


def test_the_example_of_a_model_says_what_python_says(node, tmp_path):
    """The program of the page, with a model whose schema it speaks of."""
    columns = {"age": (0, 100), "job": ["cook"], "seen": Date(["month"])}
    schema = Schema(columns, classes=["no", "yes"])
    pipeline = RecordPipeline(schema.scale, Preparation.plain(4))
    model = Model(np.array([4.0, -1, 2, 1, -2]), schema, "logistic", ("no", "yes"), pipeline)
    [(_, text)] = _blocks(MODELS)
    fetching = "globalThis.fetch = async () => new Response(process.env.MODEL);"
    (tmp_path / "page.mjs").write_text(f"{fetching}\n{text}")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "fedsel").symlink_to(CLIENT, target_is_directory=True)
    done = _run([node, "page.mjs"], tmp_path, MODEL=model.encode().decode())
    record = [{"age": 31, "job": "cook", "seen": "2024-05-01"}]
    said = [model.predict(record)[0], *model.predict_proba(record)[0], *model.margins(record)[0]]
    numbers = [float(x) for x in re.findall(r"[-\d.]+", done.stdout)]
    assert done.stdout.startswith(f"{said[0]} [")
    np.testing.assert_allclose(numbers, said[1:], rtol=1e-12)


def test_python_opens_what_is_sealed(node, tmp_path):
    pytest.importorskip("cryptography.hazmat.primitives.hpke", reason="no cryptography 47")
    key, request, report = ServerKey.generate(), bytes(range(150)), bytes(range(16))
    program = f"""
      import {{ sealed }} from "{CLIENT.as_uri()}/src/sealing/sealing.js";
      import {{ fromHex, toHex }} from "{CLIENT.as_uri()}/src/hash.js";
      const [report, request, key] = process.argv.slice(1).map(fromHex);
      console.log(toHex(await sealed(report, request, key)));
    """
    command = [node, "--input-type=module", "-e", program]
    done = _run([*command, report.hex(), request.hex(), key.public], tmp_path)
    message = Sealing.split(bytes.fromhex(done.stdout.strip()))
    sealing = Sealing(request, key.public)
    assert message.tag == sealing.tag
    assert sealing.unseal(message.content, key._private) == report


def test_random_tasks_give_the_bytes_of_python(node):
    agreed, rounded, differing = compare(count=600, seed=20)
    assert differing == []
    assert agreed >= 590
    assert rounded <= 10  # of RC, whose scores a library rounds in an order of its own


def test_random_tasks_of_fresh_bases_give_the_bytes_of_python(node):
    agreed, rounded, differing = compare(count=600, seed=21, solutions=["FJ"])
    assert (rounded, differing) == (0, [])
    assert agreed >= 600


def test_random_histories_give_the_decisions_of_python(node):
    agreed, rounded, differing = compare(count=0, seed=22, lives=150)
    assert (agreed, rounded, differing) == (150, 0, [])
