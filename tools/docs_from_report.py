"""Put the results of an experiment into the documentation.

That is the figures and quoted tables of docs/, and all numbers in reproduction/results.md.

Takes the rows from one or more results.sqlite, by their parameters: whatever code they came from,
which is printed. Cells that no file has are an error, or left out with --partial.

    python -m reproduction fair --out report
    python tools/docs_from_report.py fair report/results.sqlite
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel.pages import Table, Verdict
from reproduction.catalogue import experiment
from reproduction.summary import QUOTED, claim_cells, pipe_row, pipe_table, section
from reproduction.views import VIEWS, View

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parents[1] / "reproduction" / "results.md"
PICTURES = {
    "fair": ("choosing", "fair", "auc"),
    "table3": ("table3",),
    "ablation": ("ablation",),
}
"""The figures of docs/images, in the order in which an experiment draws them."""
Row = dict[str, Any]


def read_rows(name: str, files: Sequence[Path]) -> tuple[list[Row], int, str]:
    """The rows of an experiment in its order, how many are missing, and where they come from."""
    found: dict[str, tuple[str, str, str]] = {}
    for file in files:
        if not file.is_file():
            sys.exit(f"{file}: no such file; wanted is a results.sqlite of python -m reproduction")
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as store:
            query = "SELECT parameters, result, code, finished FROM results"
            for parameters, *rest in store.execute(query):
                found[_key(json.loads(parameters))] = tuple(rest)
    tasks = experiment(name).tasks
    kept = [found[key] for key in (_key(task.parameters) for task in tasks) if key in found]
    codes = sorted({code for _, code, _ in kept})
    days = sorted({day[:10] for *_, day in kept})
    origin = f"date: {' to '.join(dict.fromkeys((*days[:1], *days[-1:])))}; code {', '.join(codes)}"
    return [json.loads(result) for result, *_ in kept], len(tasks) - len(kept), origin


def _key(parameters: Row) -> str:
    return json.dumps(parameters, sort_keys=True)


def with_results(text: str, name: str, view: View, origin: str) -> str:
    """reproduction/results.md with the claims and tables of one experiment as a view has them."""
    head, *parts = re.split(r"(?m)^(?=## )", text)
    others = [part for part in parts if not part.startswith(f"## {name}: ")]
    claims = next(place for place, part in enumerate(others) if part.startswith("## Claims"))
    others[claims] = _with_claims(others[claims], f"`python -m reproduction {name}`", view.verdicts)
    quoted = [table for table in view.tables if table.title in QUOTED[name]]
    fresh = ["\n\n".join(section(name, table)) + "\n\n" for table in quoted]
    order = list(QUOTED)
    later = [f"## {other}: " for other in order[order.index(name) + 1 :]]
    at = next((i for i, p in enumerate(others) if p.startswith(tuple(later))), len(others))
    head = re.sub(r"\d+ claims judged: .*", _counted(others[claims]), head)
    own = f"{name}: command: python -m reproduction {name}; {origin}"
    head = re.sub(rf"(?m)^{name}: command: .*\n\n", "", head) + f"{own}\n\n"
    whole = [head, *others[:at], *fresh, *others[at:]]
    return "\n\n".join(part.strip() for part in whole) + "\n"


def _with_claims(part: str, command: str, verdicts: Iterable[Verdict]) -> str:
    """The table of claims with those of one command replaced, where they were."""
    lines = part.rstrip("\n").split("\n")
    mine = [place for place, line in enumerate(lines) if line.endswith(f"| {command} |")]
    rows = [pipe_row(claim_cells(verdict)) for verdict in verdicts]
    start = mine[0] if mine else len(lines)
    kept = [line for place, line in enumerate(lines) if place not in mine]
    return "\n".join([*kept[:start], *rows, *kept[start:]]) + "\n\n"


def _counted(part: str) -> str:
    """The sentence that counts the verdicts of a table of claims."""
    lines = [line for line in part.split("\n") if line.startswith("| ")][1:]
    verdicts = [re.split(r" (?<!\\)\| ", line.strip("| "))[2] for line in lines]
    holds, fails = verdicts.count("holds"), sum(v.startswith("does not") for v in verdicts)
    unknown = verdicts.count("not measured")
    partly = len(verdicts) - holds - fails - unknown
    return (
        f"{len(verdicts)} claims judged: {holds} hold as printed, {fails} do not hold, "
        f"{partly} hold in part or for some settings only"
        + (f", {unknown} could not be measured." if unknown else ".")
    )


def with_tables(text: str, name: str, tables: Sequence[Table]) -> str:
    """A page with the tables below its marks, ``<!-- fair: title -->``, as they are now.

    A mark may choose rows by their first cell: ``<!-- fair: title; bank -->``.
    """
    by_title = {table.title: table for table in tables}

    def fresh(found: re.Match[str]) -> str:
        title, _, chosen = found[2].partition("; ")
        table = by_title.get(title)
        if table is None:
            print(f"no table to fill {found[1]}")
            return found[0]
        rows = [tuple(row) for row in table.rows if not chosen or row[0] == chosen]
        return f"{found[1]}\n\n{pipe_table(table.columns, rows, table.digits)}\n"

    return re.sub(rf"(<!-- {name}: (.+?) -->)\n(?:\n(?:\|.*\n)+)?", fresh, text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(PICTURES))
    parser.add_argument("files", type=Path, nargs="+", metavar="results.sqlite")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of pages to change")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of all numbers")
    parser.add_argument("--partial", action="store_true", help="although cells are missing")
    options = parser.parse_args()
    rows, missing, origin = read_rows(options.name, options.files)
    print(f"{len(rows):,} cells, {missing:,} missing; {origin}")
    if not rows or (missing and not options.partial):
        sys.exit(
            f"missing cells: run python -m reproduction {options.name} to its end, or say --partial"
        )
    view = VIEWS[options.name](rows, options.name)
    for stem, picture in zip(PICTURES[options.name], view.pictures, strict=True):
        path = options.docs / "images" / f"{stem}.png"
        picture.figure.savefig(path, dpi=100, metadata={"Software": None})
        print(f"wrote {path}: {picture.caption}")
    changed = with_results(options.results.read_text("utf-8"), options.name, view, origin)
    options.results.write_text(changed, encoding="utf-8")
    for page in sorted(options.docs.glob("*.md")):
        before = page.read_text("utf-8")
        after = with_tables(before, options.name, view.tables)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
