"""Random schemas and records that nobody chose, in Python and in JavaScript: the same bits?"""

import csv
import io
import json
import random
import subprocess

import numpy as np
import pytest

from fedsel import InvalidArgument, Schema
from fedsel.data import read
from fedsel.device import RawRecords
from tests.clients.test_js import CLIENT, node  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

SCHEMAS, FILES, RECORDS = 4000, 600, 6
BLANKS = ["", " ", "\t", "\r\n", "\f\v", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x1c", "\x85"]
DIGITS = ["0", "1", "7", "00", "12", "31", "99", "2024", "\uff11", "\u0663", "²", "½", "1_0"]
PIECES = [*BLANKS, *DIGITS, ".", "-", "+", "e", "E", "e-", "x", ",", ":", "T", "Z", "/", "\ud800"]
TEXTS = [
    *(
        "true",
        "TRUE",
        "False",
        "fAlse",
        "ＴＲＵＥ",
        "tr\u00dce",
        "\u017fales",
        "nan",
        "inf",
        "-inf",
    ),
    *("Infinity", "0x10", "1e400", "-1e400", "1e-400", "-0", "-0.0", "4.9e-324", "2.5e-324"),
    *("1.7976931348623157e308", "1.7976931348623159e308", "9007199254740993", "0.1", "1e5", ".5"),
    *(
        "5.",
        ".",
        "+.5e+1",
        "1e",
        "--1",
        "1 2",
        "1,5",
        "1e5.",
        "4294967296.5",
        "a",
        "A",
        "ä",
        "a\u0308",
    ),
    *("other", "missing", "None", "null", "NaT", "<NA>", "😀", "\udc00", "-1", "2", "1.0", "2e0"),
]
DATES = [
    *("2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0001-01-01", "0000-01-01"),
    *("9999-12-31", "2024-04-31", "2024-1-1", "2024-01-01T24:00", "2024-01-01T23:59:60.5Z"),
    *("2024-01-01 05:00+0530", "2024-01-01T05:00-05:30", "2024-01-01T5:00", "2024-01-01T05"),
    *("20240101", "2024-01-01T05:00:00.", "2024-01-01Z", "٢٠٢٤-01-01", "1969-12-28", "0099-03-01"),
]
VALUES = [None, True, False, 0, -0.0, 1, 1.0, -1, 2, 0.5, 1e300, -1e300, 5e-324, 2**53 + 1, 10**30]
FORMATS = [
    "DD.MM.YYYY",
    "YYYYMMDD",
    "MM/DD/YYYY hh:mm:ss",
    "YYYYMMDDhhmmss",
    "DDMMYYYYhh",
    ".*YYYY$MM^DD",
]
FORMATS += ["1MM1DD1YYYY", "YYYY-MM-DD", "[DD]{1,2}(MM)\\YYYY", "hhDDmmMMss YYYY", " DD MM YYYY "]


class Chance:
    """Schemas and cells from a seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def some(self, values, most=3):
        return [self.rng.choice(values) for _ in range(self.rng.randint(0, most))]

    def text(self):
        kind = self.rng.random()
        if kind < 0.3:
            return "".join(self.some(PIECES, 8))
        if kind < 0.5:
            return repr(self.rng.choice([1, -1]) * 10 ** self.rng.uniform(-330, 308))
        around = ["".join(self.some(BLANKS[:7], 2)) for _ in range(2)]
        return self.rng.choice(TEXTS + DATES).join(around)

    def date(self, form="YYYY-MM-DD"):
        wide = self.rng.random() < 0.5
        parts = {"YYYY": (1, 9999, 4), "MM": (0, 13, 2), "DD": (0, 32, 2)}
        parts |= {"hh": (0, 25, 2), "mm": (0, 60, 2), "ss": (0, 61, 2)}
        for token, (low, high, width) in parts.items():
            number = str(self.rng.randint(low, high)).zfill(width if wide or width == 4 else 1)
            form = form.replace(token, number)
        return form

    def valid_date(self):
        year, month, day = (self.rng.randint(1, most) for most in (9999, 12, 28))
        return f"{year:04}-{month:02}-{day:02}"

    def cell(self):
        if self.rng.random() < 0.2:
            return self.rng.choice([*VALUES, self.rng.gauss(0, 5), self.rng.randint(-9, 9)])
        if self.rng.random() < 0.4:
            return self.date(self.rng.choice(FORMATS))
        return self.text()

    def column(self):
        kind = self.rng.random()
        common = {"indicator": True} if self.rng.random() < 0.3 else {}
        if kind < 0.35:
            low, high = sorted(self.rng.choice([-1e308, -3.5, 0, 2, 1e308, 0.1]) for _ in range(2))
            bounds = "private" if self.rng.random() < 0.3 else [low, high]
            missing = {"missing": self.rng.choice([0, 1, 1e9])} if self.rng.random() < 0.2 else {}
            return {"range": bounds, **missing, **common}
        if kind < 0.7:
            levels = self.rng.sample(
                [*TEXTS, 1, 0, 7, *DIGITS], self.rng.choice([0, 1, 2, 2, 3, 5])
            )
            missing = {"missing": self.rng.choice(levels)} if levels and kind < 0.5 else {}
            return {"levels": levels, **missing, **common}
        parts = ["year", "days", "month", "day", "weekday", "hour"]
        chosen = self.rng.sample(parts, self.rng.choice([1, 2, 2, 3, 6]))
        ends = sorted(
            self.rng.choice([DATES[0], DATES[1], *(self.valid_date() for _ in range(8))])
            for _ in range(2)
        )
        bounds = {"range": ends} if self.rng.random() < 0.8 else {}
        form = {"format": self.rng.choice([*FORMATS, "DD.MM"])} if kind < 0.9 else {}
        missing = {"missing": self.valid_date()} if self.rng.random() < 0.3 else {}
        return {"date": chosen, **bounds, **form, **missing, **common}

    def schema(self):
        """Plain values of a schema, now and then a wrong one."""
        names = self.rng.sample(
            ["a", "b=x", "2", "ä b", "a=1", "x", "y"], min(4, self.rng.randint(1, 9) // 2)
        )
        columns = [{"name": name, **self.column()} for name in names]
        if self.rng.random() < 0.1:
            columns = self.rng.randint(0, 3)
        values = {"columns": columns}
        if self.rng.random() < 0.5:
            values["classes"] = self.rng.sample(TEXTS, self.rng.choice([1, 2, 2, 3, 5]))
        elif self.rng.random() < 0.5:
            values["target_range"] = [
                self.rng.choice([-1e308, -2, 0]),
                self.rng.choice([0, 3, 1e308]),
            ]
        if self.rng.random() < 0.2:
            values["label"] = self.rng.choice(["z", "a", "", "y\n", "\u202e", None])
        return values

    def file(self):
        """A schema with a label of two classes, columns of texts, and the .csv file of them."""
        while True:
            values = {**self.schema(), "label": "the label", "classes": ["no", "yes"]}
            values.pop("target_range", None)
            try:
                names = [*Schema.of_dict(values).columns]
            except (InvalidArgument, TypeError):  # or its columns have no names
                continue
            break
        table = {name: [self.printed() for _ in range(RECORDS)] for name in names}
        table["the label"] = ["no", *(self.rng.choice(["no", "yes", "?"]) for _ in range(5))]
        order = self.rng.sample([*table], len(table))
        text = io.StringIO()
        writer = csv.writer(
            text,
            delimiter=self.rng.choice(",;\t|"),
            quoting=self.rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
            lineterminator=self.rng.choice(["\n", "\r\n"]),
        )
        writer.writerow(order)
        writer.writerows(zip(*(table[name] for name in order), strict=True))
        return {"schema": values, "table": table, "text": text.getvalue()}

    def printed(self):
        """A cell as a file holds it."""
        cell = self.cell()
        marks = "".join(self.some([",", ";", "|", "\t", '"', "\n", "a"], 2))
        text = ("" if cell is None else str(cell)) + marks * (self.rng.random() < 0.2)
        return text.encode("utf-8", "replace").decode()

    def task(self):
        values = self.schema()
        columns = values["columns"]
        names = range(columns) if isinstance(columns, int) else [c["name"] for c in columns]
        records = [
            {n: self.cell() for n in names if self.rng.random() < 0.9} for _ in range(RECORDS)
        ]
        if isinstance(columns, int):
            records = [[self.cell() for _ in names] for _ in range(RECORDS)]
        return {
            "schema": values,
            "records": records,
            "labels": [self.cell() for _ in range(RECORDS)],
        }


def in_python(task):
    try:
        schema = Schema.of_dict(task["schema"])
    except InvalidArgument:
        return {"refused": True}
    labels = np.empty(RECORDS, dtype=object)
    labels[:] = task["labels"]
    return {
        "features": list(schema.features),
        "encoded": [row.astype("<f8").tobytes().hex() for row in schema.encode(task["records"])],
        "targets": [None if np.isnan(t) else t for t in schema.targets(labels).tolist()],
    }


def test_random_schemas_give_the_bits_of_python(node):  # noqa: F811
    chance = Chance(31)
    tasks = [chance.task() for _ in range(SCHEMAS)]
    done = subprocess.run(
        [node, CLIENT / "test" / "schema.mjs"],
        input="".join(json.dumps(task) + "\n" for task in tasks),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [in_python(task) for task in tasks]
    differing = [both for both in zip(tasks, wanted, found, strict=True) if both[1] != both[2]]
    assert differing == []
    accepted = [one for one in wanted if "features" in one]
    assert len(accepted) > SCHEMAS / 4
    assert len(accepted) < SCHEMAS


def test_random_files_give_the_bits_of_the_schema(node, tmp_path):  # noqa: F811
    """The encoder, `fedsel run --data`, `fedsel join` and the page at /join read them alike."""
    chance, path = Chance(32), tmp_path / "my.csv"
    files = [chance.file() for _ in range(FILES)]
    done = subprocess.run(
        [node, CLIENT / "test" / "table.mjs"],
        input="".join(json.dumps({k: f[k] for k in ("schema", "text")}) + "\n" for f in files),
        capture_output=True,
        text=True,
        check=True,
    )
    pages = map(json.loads, done.stdout.splitlines())
    for file, page in zip(files, pages, strict=True):
        schema = Schema.of_dict(file["schema"])
        encoded, targets = schema.encode(file["table"]), schema.targets(file["table"]["the label"])
        known = np.isfinite(targets)
        path.write_text(file["text"], encoding="utf-8", newline="")
        if (np.abs(schema.bounds[np.isfinite(schema.bounds)]) > 3.4e38).any():
            with pytest.raises(InvalidArgument, match=r"range = .*: must be within ±3\.4e38"):
                read(path, schema=schema, header=True)
        else:
            data = read(path, schema=schema, header=True)
            assert data.X.tobytes() == encoded[known].astype(np.float32).tobytes()
            assert ((data.y + 1) / 2).tolist() == targets[known].tolist()
        ((X, y),) = RawRecords.read(path).suited(schema).arranged()
        assert (X.tobytes(), y.tolist()) == (encoded[known].tobytes(), targets[known].tolist())
        assert page["encoded"] == [row.astype("<f8").tobytes().hex() for row in encoded]
        assert page["targets"] == [None if np.isnan(t) else t for t in targets.tolist()]
