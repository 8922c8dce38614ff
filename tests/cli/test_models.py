"""``fedsel predict`` and ``fedsel export`` say what the model says, and refuse what is no model."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fedsel.wire import Model
from tests.cli.support import run_here
from tests.clients import model_cases
from tests.device.joining import Script, Server
from tests.wire.support import onnx_inputs, onnx_outputs

CASES = {what: (model, records) for what, model, records in model_cases.models()}
MESSY = "dates, categories, prior and mixing"
UNREAD = "seen: 4 of 6 cells are empty or cannot be read\n"
LABELS = ["yes", "no", "?", "no", "yes", ""]


@pytest.fixture
def folder(tmp_path):
    """The messy records as a table of texts, with labels, and their model."""
    model, records = CASES[MESSY]
    model.save(tmp_path / "model.json")
    table = pd.DataFrame(records)
    table.insert(0, "further", "x")
    table["y"] = LABELS
    table.to_csv(tmp_path / "my.csv", sep=";", index=False)
    return tmp_path


def predict(folder, *arguments, **more):
    return run_here("predict", "model.json", "my.csv", *arguments, cwd=folder, **more)


def test_a_table_of_probabilities(folder):
    model, records = CASES[MESSY]
    lines = [*csv.reader(predict(folder).stdout.splitlines())]
    assert lines[0] == ["prediction", "P(no)", "P(yes)"]
    assert [line[0] for line in lines[1:]] == model.predict(records).tolist()
    shares = np.array([line[1:] for line in lines[1:]], dtype=float)
    assert shares.tolist() == model.predict_proba(records).tolist()  # not a digit is lost
    pd.read_csv(folder / "my.csv", sep=";", dtype=str).to_parquet(folder / "my.parquet")
    done = run_here("predict", "model.json", "my.parquet", cwd=folder)
    assert [*csv.reader(done.stdout.splitlines())] == lines


def test_labels_say_how_good_it_is(folder):
    model, records = CASES[MESSY]
    known = [at for at, label in enumerate(LABELS) if label in ("yes", "no")]
    margins, y = model.margins(records)[known, 0], np.array(LABELS)[known] == "yes"
    right = float(((margins >= 0) == y).mean())
    pairs = np.sign(margins[y][:, None] - margins[~y])
    auc = float((pairs + 1).mean() / 2)
    done = predict(folder, "--label", "y")
    assert done.stderr == f"accuracy {right:.4f}, AUC {auc:.4f} of 4 of 6 records\n{UNREAD}"
    assert done.stdout == predict(folder).stdout
    done = predict(folder, "--label", "-1", "--out", "said.csv")
    assert done == (f"accuracy {right:.4f}, AUC {auc:.4f} of 4 of 6 records\n", UNREAD)
    assert (folder / "said.csv").read_text(encoding="utf-8") == predict(folder).stdout
    told = json.loads(predict(folder, "--label", "y", "--json").stdout)
    assert told == {
        "records": 6,
        "missing": {"age": 3, "income": 2, "job": 1, "since": 2, "seen": 4},
        "scored": 4,
        "accuracy": right,
        "auc": auc,
        "predictions": model.predict(records).tolist(),
        "classes": ["no", "yes"],
        "probabilities": model.predict_proba(records).tolist(),
    }
    short = json.loads(predict(folder, "--label", "y", "--json", "--out", "said.csv").stdout)
    assert short == {n: told[n] for n in ("records", "missing", "scored", "accuracy", "auc")}


@pytest.mark.parametrize("what", ["five classes", "five classes, svm"])
def test_the_auc_of_many_classes_is_the_mean_of_each_against_the_others(folder, what):
    model, _ = CASES[what]
    model.save(folder / "model.json")
    rng = np.random.default_rng(4)
    table = pd.DataFrame(
        rng.uniform([18, -2, 0], [90, 2, 1], (200, 3)), columns=[*model.schema.columns]
    )
    margins = model.margins(table)
    table["y"] = y = np.array(model.classes)[
        (margins + 5 * rng.normal(size=(200, 5))).argmax(axis=1)
    ]
    table.to_csv(folder / "my.csv", index=False)
    told = json.loads(predict(folder, "--label", "y", "--json").stdout)
    shares = model.predict_proba(table) if model.loss == "logistic" else margins
    each = [roc_auc_score(y == label, shares[:, c]) for c, label in enumerate(model.classes)]
    assert told["auc"] == pytest.approx(np.mean(each))
    assert told["accuracy"] == (model.predict(table) == y).mean()


def test_numbers_and_their_r2(folder):
    model, _ = CASES["regression"]
    model.save(folder / "model.json")
    rows = [(31, 0.5, 0.25), (55, -1, 1), (20, 2, 0)]
    records = [dict(zip(model.schema.columns, row, strict=True)) for row in rows]
    predicted, y = model.predict(records), np.array([3.0, -4.0, 11.0])
    lines = [f"{','.join(map(str, row))},{label}" for row, label in zip(rows, y, strict=True)]
    text = "\n".join(["age,height,weight,y", *lines, "1,1,1,none"])
    (folder / "my.csv").write_text(text + "\n", encoding="utf-8")
    done = predict(folder, "--label", "y")
    assert [float(x) for x in done.stdout.split()[1:4]] == predicted.tolist()
    r2 = 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert done.stderr == f"R² {r2:.4f} of 3 of 4 records\n"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("svm, numbers as classes", ["0", "1"]),
        ("prior of two", ["false", "true"]),
        ("classes without texts", ["-1", "1"]),
    ],
)
def test_classes_are_said_as_tables_have_them(folder, what, said):
    model, records = CASES[what]
    model.save(folder / "model.json")
    pd.DataFrame(records).to_csv(folder / "my.csv", index=False)
    lines = [*csv.reader(predict(folder).stdout.splitlines())]
    codes = model.codes_of(model.margins(records))
    assert [line[0] for line in lines[1:]] == [said[code] for code in codes]
    shares = [f"P({name})" for name in said]
    assert lines[0] == ["prediction", *(shares if model.loss == "logistic" else [])]


def test_columns_without_names(folder):
    model, _ = CASES["by position"]
    model.save(folder / "model.json")
    (folder / "my.csv").write_text("1,-2.5,-1\n,x,1\n", encoding="utf-8")
    done = predict(folder, "--no-header", "--label", "2", "--json")
    expected = model.predict_proba([[1, -2.5], [None, "x"]]).tolist()
    assert json.loads(done.stdout)["probabilities"] == expected
    refused = predict(folder, "--no-header", status=2)
    assert "table = '3 columns': must be 2 columns of numbers" in refused.stderr


def test_a_model_of_a_service_as_a_file_and_a_graph(folder):
    model, records = CASES[MESSY]
    script = Script()
    script.next["/v1/model.json"] = [(200, model.encode(), {})] * 3
    with Server(script) as server:
        assert run_here("predict", server.url, "my.csv", cwd=folder) == predict(folder)
        done = run_here("export", server.url, "again.json", cwd=folder)
        assert done == ("", "again.json is written.\n")
        told = run_here("export", server.url, "model.onnx", "--json", cwd=folder)
    assert Model.load(folder / "again.json").encode() == model.encode()
    said = onnx_outputs(folder / "model.onnx", onnx_inputs(model.schema, records))
    expected = model.predict_proba(records)
    np.testing.assert_allclose(said["probabilities"], expected, rtol=0, atol=1e-6)
    texts = {"job": "text", "since": "text", "seen": "text"}
    assert json.loads(told.stdout) == {
        "out": "model.onnx",
        "columns": {"age": "number", "income": "number", **texts},
        "classes": ["no", "yes"],
    }


ALONE = "a model of records: devices brought updates of their own, so it has weights only"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("predict", "none.json", "my.csv"), "MODEL = 'none.json': must be a file (No such file"),
        (("predict", "my.csv", "my.csv"), "model in my.csv = 'no JSON': must be a model file of"),
        (("predict", "model.onnx", "my.csv"), "model in model.onnx = 'no JSON': must be a model"),
        (("predict", "other.json", "my.csv"), "model in other.json = 'other JSON': must be a"),
        (("predict", "weights.json", "my.csv"), f"MODEL = 'weights.json': must be {ALONE}"),
        (("predict", "model.json", "none.csv"), "DATA = 'none.csv': must be a file that exists"),
        (("predict", "model.json", "model.json"), "DATA = 'model.json': must be a file that exis"),
        (("predict", "model.json", "short.csv"), "column = 'income': must be a column of the tab"),
        (("predict", "model.json", "my.csv", "--label", "z"), "--label = 'z': must be the name or"),
        (
            ("predict", "model.json", "my.csv", "--label", "further"),
            "--label = 'further': must be one of no, yes, in some record at least",
        ),
        (("predict", "model.json", "my.csv", "--label", "seen"), "--label = 'seen': must be one"),
        (("predict", "model.json", "my.csv", "--out", "no/x.csv"), "--out = 'no/x.csv': must be"),
        (("export", "weights.json", "x.onnx"), f"MODEL = 'weights.json': must be {ALONE}"),
        (("export", "model.json", "x.pkl"), "OUT = 'x.pkl': must be a file ending in .onnx or .js"),
        (("export", "model.json", "no/x.onnx"), "OUT = 'no/x.onnx': must be in a folder that exi"),
    ],
)
def test_wrong_input_is_one_sentence(folder, arguments, complaint):
    Model(np.ones(3)).save(folder / "weights.json")
    CASES[MESSY][0].to_onnx(folder / "model.onnx")
    (folder / "other.json").write_text("{}", encoding="utf-8")
    (folder / "short.csv").write_text("age,incomes\n1,2\n", encoding="utf-8")
    before = sorted(folder.iterdir())
    done = run_here(*arguments, cwd=folder, status=2)
    assert done.stdout == ""
    assert done.stderr.startswith(f"fedsel: {complaint}")
    assert done.stderr.count("\n") == 1
    assert sorted(folder.iterdir()) == before
