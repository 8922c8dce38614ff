"""From a messy table to a model in use: a draft, devices, a person in a browser, and predictions.

Python, ONNX Runtime, Node and a page say the same of the same records.
"""

import csv
import io
import json
import random
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fedsel import Schema, load_model
from fedsel.device import Client, Policy, RawRecords, join
from fedsel.service import Task
from fedsel.wire import Model
from tests.cli.support import run_here
from tests.clients.test_js import node  # noqa: F401 - a fixture
from tests.service.support import running
from tests.service.visiting import Visitor, choose
from tests.wire.support import onnx_inputs, onnx_outputs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

CLIENT = Path(__file__).parents[1] / "clients" / "js"
DEVICES, RECORDS = 30, 4
NAMES = ["age", "plan", "joined", "calls", "vote"]
CLASSES = ["red", "green", "blue"]
ODD = [
    {"age": "", "plan": "", "joined": "", "calls": ""},
    {"age": "n/a", "plan": "legacy", "joined": "31.2.2020", "calls": "1e999"},
    {"age": " 250 ", "plan": "\tPlus", "joined": "1.1.1870", "calls": "-0"},
    {"age": "44.5", "plan": "1.0", "joined": " 29.02.2024 ", "calls": "5e-324"},
    {"age": "NaN", "plan": "é\u00a0", "joined": "2024-02-29", "calls": "0x10"},
]


def people(seed, count):
    """Records with blanks, odd words, dates, and texts with blanks around them."""
    draw = random.Random(seed)
    for _ in range(count):
        age, plan = draw.randint(18, 90), draw.choice(["basic", "plus ", "1", "é"])
        day = f"{draw.randint(1, 28)}.{draw.randint(1, 12)}.{draw.randint(2015, 2024)}"
        vote = CLASSES[min(2, int(age / 35 + draw.random()))]
        age = "" if draw.random() < 0.1 else age
        yield [age, plan, "?" if draw.random() < 0.1 else day, f"{draw.random():.3f}", vote]


def table(seed, count):
    """A table of people as the text of a CSV file."""
    lines = io.StringIO()
    csv.writer(lines).writerows([NAMES, *people(seed, count)])
    return lines.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, the draft of its schema, and the schema as somebody has edited the draft."""
    made = tmp_path_factory.mktemp("table")
    (made / "people.csv").write_text(table(0, 600), encoding="utf-8")
    run_here("schema", "people.csv", "--label", "vote", "--out", "draft.toml", cwd=made)
    draft = (made / "draft.toml").read_text(encoding="utf-8")
    assert Schema.load(made / "draft.toml").classes == ("blue", "green", "red")
    edited = [
        line
        for line in draft.splitlines()
        if line[:1] != "#" and not line.startswith(("classes", '"plan"', '"calls"'))
    ]
    edited.insert(1, f"classes = {json.dumps(CLASSES)}")
    edited += ['plan = { levels = ["basic", "plus", "1", "é", "other"], indicator = true }']
    edited += ["calls = { range = [0, 2], missing = 1 }"]
    (made / "schema.toml").write_text("\n".join(edited), encoding="utf-8")
    task = 'name = "trial"\nepsilon = 8\nschema = "schema.toml"\ninvitations = "open"\n'
    task += f"clients = {DEVICES + 1}\nclose_after = {{ reports = {DEVICES + 1} }}\n"
    (made / "task.toml").write_text(task, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def trained(folder, browser):
    """The model of thirty devices and a person, what the page said, and records to ask about."""
    task = Task.load(folder / "task.toml")
    policy = Policy(8.0, 8.0, solutions=["FJ"], dimensions=[task.schema.dim])
    records = [dict(zip(NAMES[:-1], map(str, row), strict=False)) for row in people(99, 40)] + ODD

    def device(number):
        client = Client(policy, folder / f"device-{number}", create=True)
        own = RawRecords([*people(number + 1, RECORDS)], "vote", NAMES)
        return join(service.address, client, own, token=f"the-token-of-device-{number}")

    with running(task, folder / "store") as service, ThreadPoolExecutor(DEVICES) as pool:
        working = [pool.submit(device, number) for number in range(DEVICES)]
        visitor = Visitor(browser, service.address)
        tab = visitor.open()
        choose(tab, table(50, 3))
        tab.check("#anew-yes")
        assert [one.result().accepted for one in working] == [1] * DEVICES
        tab.click("#go")
        tab.get_by_text("The run is over. Thank you").wait_for()
        content = urllib.request.urlopen(f"{service.address}/v1/model.json").read()
        (folder / "model.json").write_bytes(content)
        shown = (
            tab.inner_text("#says-words"),
            tab.locator("#says-shares tbody tr").all_inner_texts(),
        )
        in_page = tab.evaluate(PREDICT, [content.decode(), records])
        visitor.close()
    assert json.loads(content)["about"]["finished"]
    return Model.load(folder / "model.json"), records, in_page, shown


PREDICT = """async ([text, records]) => {
  const { Model } = await import("/join/client/index.js");
  const model = Model.of(text);
  return records.map((record) => [model.predict(record), model.probabilities(record)]);
}"""


def same(predicted, shares, model, records, atol):
    """What somebody says of records is what the model says of them."""
    assert [*predicted] == model.predict(records).tolist()
    expected = model.predict_proba(records)
    np.testing.assert_allclose(np.array(shares, dtype=float), expected, rtol=0, atol=atol)


def test_something_was_learnt_of_all_columns(trained):
    model, records, *_ = trained
    assert model.schema.columns.keys() == {*NAMES[:-1]}
    assert len(model.weights) == 3 * (model.schema.feature_count + 1)
    assert model.weights.any()
    assert len({tuple(row) for row in model.predict_proba(records).round(9).tolist()}) > 20


def test_an_estimator_and_the_command_line_say_the_same(trained, folder):
    model, records, *_ = trained
    loaded = load_model(folder / "model.json")
    same(loaded.predict(records), loaded.predict_proba(records), model, records, 0)
    with (folder / "new.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, NAMES[:-1])
        lines.writeheader()
        lines.writerows(records)
    done = run_here("predict", "model.json", "new.csv", "--json", cwd=folder)
    told = json.loads(done.stdout)
    same(told["predictions"], told["probabilities"], model, records, 0)


def test_onnx_runtime_says_the_same(trained, folder):
    model, records, *_ = trained
    run_here("export", "model.json", "model.onnx", cwd=folder)
    said = onnx_outputs(folder / "model.onnx", onnx_inputs(model.schema, records))
    same(said["prediction"], said["probabilities"], model, records, 1e-6)


def test_node_says_the_same(trained, folder, node):  # noqa: F811
    model, records, in_page, _ = trained
    (folder / "records.json").write_text(json.dumps(records), encoding="utf-8")
    program = f"""
      import {{ readFileSync }} from "node:fs";
      const [model, records] = process.argv.slice(1).map((name) => readFileSync(name, "utf-8"));
      const predict = {PREDICT.replace("/join/client", f"{CLIENT.as_uri()}/src")};
      console.log(JSON.stringify(await predict([model, JSON.parse(records)])));
    """
    command = [node, "--input-type=module", "-e", program, "model.json", "records.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    same(*zip(*said, strict=True), model, records, 1e-12)
    assert said == in_page


def test_a_page_says_the_same_and_shows_it(trained):
    model, records, in_page, (words, shares) = trained
    same(*zip(*in_page, strict=True), model, records, 1e-12)
    first = dict(zip(NAMES[:-1], next(people(50, 1)), strict=False))
    likely = model.predict_proba([first])[0]
    assert words.startswith(f"“{model.predict([first])[0]}”")
    order = [CLASSES[c] for c in (-likely).argsort(kind="stable")]
    assert [row.split("\t")[0] for row in shares] == order
