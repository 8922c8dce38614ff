"""Models that every client predicts with alike.

``python -m tests.clients.model_cases`` writes them. Each case has a model file, records by
name, and what Python says of them.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsel import Schema
from fedsel.preparation import FeatureScale, Preparation
from fedsel.wire import Category, Date, Model, Number, RecordPipeline

FILE = Path(__file__).with_name("model.json")
NUMBERS = {"age": (18, 90), "height": (-2, 2), "weight": (0, 1)}
MESSY = {
    "age": Number(18, 90, missing=40, indicator=True),
    "income": Number(),
    "job": Category(["cook", "smith", "1", "other"], indicator=True),
    "since": Date(["year", "month", "days"], "2000-01-01", "2030-12-31"),
    "seen": Date(["weekday", "hour"], format="DD.MM.YYYY hh:mm", missing="2024-02-29"),
}
ROWS = [
    {"age": 31, "height": -0.5, "weight": 0.25},
    {"age": 250, "height": -7, "weight": 1},
    {"age": 0, "height": 0, "weight": 0},
    {"age": "55.5", "height": 1.75, "weight": 2},
    {"age": None, "height": "?", "weight": ""},
    {},
]
MESSY_ROWS = [
    {"age": 31, "income": 5e4, "job": "smith", "since": "2024-05-01", "seen": "01.02.2023 17:05"},
    {"age": "x", "income": "1e11", "job": "nurse", "since": "1990-01-01", "seen": "31.12.1999 0:0"},
    {"age": 90, "income": -3, "job": 1.0, "since": "2010-12-31T23:59:59Z", "seen": "soon"},
    {"age": 18.5, "income": True, "job": "1.0", "since": "2031-01-01", "seen": None},
    {"job": "  cook ", "since": "2023-02-30", "seen": "30.02.2023 12:00"},
    {},
]
HOSTILE = {
    "n": Number(-3, 50, missing=1.5, indicator=True),
    "wide": Number(),
    "code": Category(["1", "1.0", "0.5", "true", "é)", "other"], missing="0.5", indicator=True),
    "close": Date(["days", "weekday"], "1999-01-01", "2030-12-31", "DDMMYYYY"),
    "hour": Date(["hour", "day"], format="hhmm DD/MM YYYY", missing="2020-02-29", indicator=True),
}
HOSTILE_ROWS = [
    {"n": "1e999", "wide": "-1e308", "code": "TRUE ", "close": "29022024", "hour": "2359 1/1 2000"},
    {"n": "-0", "wide": "5e-324", "code": "1.00", "close": "1132024", "hour": "959 29/2 1900"},
    {"n": "\v7\f", "wide": 1e300, "code": " 1.0", "close": "1112024", "hour": "000 31/12 2030"},
    {"n": "0x1", "wide": "1_0", "code": ".5e0", "close": "112024", "hour": "2400 1/1 2000"},
    {"n": True, "wide": "+.5", "code": False, "close": "31041999", "hour": " 115 3/4 2005\n"},
    {"n": "NaN", "wide": "", "code": "é) ", "close": "00012024", "hour": "2359  1/1 2000"},
    {"n": "\u00a03", "wide": "٣", "code": "", "close": " 1012000 ", "hour": ""},
]


def _model(rng, schema, loss="logistic", classes=None, prior=None, mixing=False, **changes):
    d = schema.feature_count
    spread, centre = rng.uniform(0.5, 2, d).round(3), rng.uniform(-0.3, 0.3, d).round(3)
    wide = np.isinf(schema.bounds[:, 0])  # nobody knows a range, so the rounds learnt one
    spread[wide] /= 1 << 17
    known = {"intercept": 0.75, "unit": loss in ("logistic", "svm"), "factor": 0.5}
    preparation = Preparation(spread, centre, **known | changes)
    if mixing:
        matrix = rng.normal(0, 1, (preparation.size, preparation.size)).round(3)
        preparation = replace(preparation, mixing=matrix)
    if wide.any():
        preparation = replace(preparation, origin=rng.uniform(-0.5, 0.5, d).round(3) * spread)
    rows = len(classes) if classes is not None and len(classes) > 2 else 1
    return Model(
        rng.normal(0, 2, rows * preparation.size).round(3),
        schema,
        loss,
        classes,
        RecordPipeline(schema.scale, preparation),
        None if prior is None else np.log(prior),
        {"fedsel": "0", "solution": "FJ", "epsilon": 2.0, "rounds": 7, "finished": True},
    )


def models():
    """A model and its records for each case."""
    rng = np.random.default_rng(31)
    two, five = Schema(NUMBERS, "y", ["no", "yes"]), ("a", "b", "c", "d", "é")
    yield "two classes", _model(rng, two, classes=("no", "yes")), ROWS
    many = Schema(NUMBERS, "y", five)
    yield "five classes", _model(rng, many, classes=five), ROWS
    yield "five classes, svm", _model(rng, many, "svm", five), ROWS
    binary = Schema(NUMBERS, classes=["0", "1"])
    yield "svm, numbers as classes", _model(rng, binary, "svm", (0, 1)), ROWS
    target = Schema(NUMBERS, "y", target_range=(-5, 20))
    yield "regression", _model(rng, target, "squared"), ROWS
    yield "huber, no intercept", _model(rng, target, "huber", intercept=0.0), ROWS
    truth = Schema(NUMBERS, classes=["false", "true"])
    yield "prior of two", _model(rng, truth, classes=(False, True), prior=[0.9, 0.1]), ROWS
    prior = [0.5, 0.2, 0.1, 0.1, 0.1]
    yield "prior of five", _model(rng, many, classes=five, prior=prior), ROWS
    kept = _model(rng, many, classes=five, prior=prior, unit=False)
    yield "prior of five, norms kept", kept, ROWS
    yield "mixing", _model(rng, two, classes=("no", "yes"), mixing=True), ROWS
    mixed = _model(rng, target, "squared", mixing=True, unit=False, intercept=0.0)
    yield "regression with mixing, no intercept", mixed, ROWS
    messy = Schema(MESSY, "y", five)
    yield "dates and categories", _model(rng, messy, classes=five), MESSY_ROWS
    messy_two = Schema(MESSY, "y", ["no", "yes"])
    most = _model(rng, messy_two, classes=("no", "yes"), prior=[0.3, 0.7], mixing=True)
    yield "dates, categories, prior and mixing", most, MESSY_ROWS
    flat = replace(two, columns={**NUMBERS, "weight": Number()})
    scale = FeatureScale(np.array([18.0, -2.0, 7.0]), np.array([90.0, 2.0, 7.0]))
    model = _model(rng, two, classes=("no", "yes"))
    pipeline = RecordPipeline(scale, model.pipeline.preparation)
    yield "a feature that cannot vary", replace(model, schema=flat, pipeline=pipeline), ROWS
    unknown = Schema(NUMBERS)
    yield "classes without texts", _model(rng, unknown, classes=(-1, 1)), ROWS
    hostile, own = Schema(HOSTILE, "y", ["a", "b", "c"]), np.random.default_rng(32)
    case = _model(own, hostile, classes=("a", "b", "c"), prior=[0.6, 0.3, 0.1])
    yield "hostile cells", case, HOSTILE_ROWS
    yield "by position", _model(rng, Schema(2), classes=(-1, 1)), [[1, -2.5], [None, "3"], [0, 0]]


def cases():
    """The cases as the file has them."""
    for what, model, records in models():
        probable = model.loss == "logistic"
        yield {
            "what": what,
            "model": json.loads(model.encode()),
            "records": records,
            "margins": model.margins(records).tolist(),
            "predictions": model.predict(records).tolist(),
            "probabilities": model.predict_proba(records).tolist() if probable else None,
        }


def text():
    """The file: a line for each value of a case."""
    lines = [
        ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in case.items()
        )
        for case in cases()
    ]
    return "[\n{\n" + "\n},\n{\n".join(lines) + "\n}\n]\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
