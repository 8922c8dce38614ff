"""Random questions and records that nobody chose, in Python and in JavaScript: the same answers?"""

import json
import math
import subprocess

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.wire import ModelQuestion, Question
from tests.clients.test_js import CLIENT, node  # noqa: F401
from tests.clients.test_schema import TEXTS, Chance

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

QUESTIONS, RECORDS = 4000, 8
KINDS = ["count", "histogram", "mean", "quantiles", "cross table"]
BINS = [None, 2, 3, 4, 7, 10, 100, 1, 0, 2000, 1.5]
ENDS = [-1e300, -1e301, -3.5, -1, 0, 0.1, 0.3, 1, 7, 29, 100, 1e-7, 1e15, 1e17, 1e300, 5e-324]
MODELS = ["spread", "scores", "predictions", "confidence", "residuals", "margins"]
EDGES = [-2.5, -1, -0.5, 0, 0.25, 0.5, 1, 3]


class Asking(Chance):
    """Questions from a seed, now and then a wrong one."""

    def number_column(self):
        low, high = sorted(self.rng.sample(ENDS, 2))
        if self.rng.random() < 0.2:  # parts as narrow as doubles are
            low = self.rng.choice([1.0, 1e6, 0.1, 1e-300])
            high = low * (1 + self.rng.randint(1, 40) * 2.0**-52)
        missing = {"missing": self.rng.choice([low, high, 0])} if self.rng.random() < 0.3 else {}
        flag = {"indicator": True} if self.rng.random() < 0.3 else {}
        return {"range": [low, high], **missing, **flag}

    def asked_column(self):
        kind = self.rng.random()
        if kind < 0.55:
            return self.number_column()
        if kind < 0.6:
            return self.column()
        levels = self.rng.sample([*TEXTS, "cook", "smith", "7"], self.rng.choice([1, 2, 2, 3, 5]))
        missing = {"missing": self.rng.choice(levels)} if self.rng.random() < 0.3 else {}
        return {"levels": levels, **missing}

    def where(self, columns):
        chosen = {}
        for column in columns:
            if "levels" in column:
                levels = column["levels"]
                chosen[column["name"]] = self.rng.sample(levels, self.rng.randint(0, len(levels)))
            else:
                low, high = column.get("range", [0, 1])[:2] if "range" in column else (0, 1)
                ends = [x for x in (low, high) if not isinstance(x, str)] + [0, 0.5, 30, 1e9]
                chosen[column["name"]] = self.rng.sample(ends, 2)
        if self.rng.random() < 0.05:
            chosen["another"] = ["x"]
        return chosen

    def question(self):
        kind = self.rng.choice(KINDS)
        many = kind == "cross table" or (kind == "count" and self.rng.random() < 0.5)
        names = self.rng.sample(
            ["a", "b=x", "2", "ä b", "y"], self.rng.choice([2, 3]) if many else 1
        )
        columns = [{"name": name, **self.asked_column()} for name in names]
        if kind in ("mean", "quantiles") and self.rng.random() < 0.9:
            columns = [{"name": names[0], **self.number_column()}]
        values = {"kind": kind, "columns": columns}
        if kind == "count" and self.rng.random() < 0.95:
            values["where"] = self.where(columns)
        has_parts = kind in ("histogram", "quantiles", "cross table")
        numbers = any("range" in c and "date" not in c for c in columns)
        if has_parts and (numbers or self.rng.random() < 0.05):
            values["bins"] = self.rng.choice(BINS)
        if kind == "quantiles" and self.rng.random() < 0.3:
            values["quantiles"] = self.rng.choice([[0.5], [0.1, 0.9], [0.9, 0.1], [0, 1], []])
        return values

    def near(self, values):
        """A cell, often at or beside an edge."""
        ranged = [c["range"] for c in values["columns"] if isinstance(c.get("range"), list)]
        if not ranged or self.rng.random() < 0.5 or isinstance(ranged[0][0], str):
            return self.cell()
        low, high = self.rng.choice(ranged)[:2]
        if isinstance(low, str):
            return self.cell()
        bins = values.get("bins") or 10
        at = (low * (bins - (i := self.rng.randint(-1, int(bins) + 1))) + high * i) / bins
        at = self.rng.choice([at, math.nextafter(at, math.inf), math.nextafter(at, -math.inf)])
        return self.rng.choice([at, repr(at)]) if math.isfinite(at) else None

    def task(self):
        values = self.question()
        names = [column["name"] for column in values["columns"]]
        records = [
            {n: self.near(values) for n in names if self.rng.random() < 0.95}
            for _ in range(RECORDS)
        ]
        return {"question": values, "records": records}

    def model_task(self):
        kind, classes = self.rng.choice(MODELS), self.rng.choice([1, 2, 2, 3, 4, 300])
        values = {"kind": kind, "classes": classes}
        for name in ("edges", "targets"):
            if self.rng.random() < 0.7:
                chosen = self.rng.sample(EDGES, self.rng.randint(0, 4))
                values[name] = sorted(chosen) if self.rng.random() < 0.95 else chosen
        width = 1 if classes == 2 or kind == "residuals" else min(classes, 4)
        numbers = [*EDGES, None, -0.0, 1e300, self.rng.gauss(0, 1)]
        labels = [0, 1, 2, 3, -1, 0.5, None, -0.5, -1.0, 0.25]
        return {
            "asked": values,
            "margins": [[self.rng.choice(numbers) for _ in range(width)] for _ in range(RECORDS)],
            "labels": [self.rng.choice(labels) for _ in range(RECORDS)],
        }


def in_python(task):
    try:
        if "asked" in task:
            return of_model(ModelQuestion.of_dict(task["asked"]), task)
        question = Question.of_dict(task["question"])
    except InvalidArgument:
        return {"refused": True}
    if question.count > 1:
        answers = question.answers(task["records"]).tolist()
        labels = [*question.labels[:300]]
    else:
        numbers = question.numbers(task["records"]).tolist()
        answers, labels = [None if math.isnan(x) else x for x in numbers], []
    return {"count": question.count, "labels": labels, "answers": answers}


def of_model(question, task):
    margins = [[np.nan if x is None else x for x in row] for row in task["margins"]]
    labels = [np.nan if x is None else x for x in task["labels"]]
    answers = question.answers(np.array(margins, dtype=float), np.array(labels, dtype=float))
    axes = [[*axis] for axis in question.axes]
    return {"count": question.count, "axes": axes, "answers": answers.tolist()}


@pytest.mark.parametrize("kind", ["task", "model_task"])
def test_random_questions_have_the_answers_of_python(node, kind):  # noqa: F811
    chance = Asking(33)
    tasks = [getattr(chance, kind)() for _ in range(QUESTIONS)]
    done = subprocess.run(
        [node, CLIENT / "test" / "question.mjs"],
        input="".join(json.dumps(task) + "\n" for task in tasks),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [in_python(task) for task in tasks]
    differing = [both for both in zip(tasks, wanted, found, strict=True) if both[1] != both[2]]
    assert differing == []
    accepted = [one for one in wanted if "count" in one]
    assert QUESTIONS / 4 < len(accepted) < QUESTIONS
    given = [answer for one in accepted for answer in one["answers"]]
    assert 0.05 < np.mean([answer in (-1, None) for answer in given]) < 0.8
