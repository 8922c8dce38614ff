"""What the benchmarks on ADULT, KDD and BANK share: options, and how results are printed."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from fedsel import PrivacyLeakWarning

Row = dict[str, Any]


def run_on_datasets(
    description: str,
    runs: int,
    measure: Callable[[list[str], int], list[Row]],
    tabulate: Callable[[list[str], int, list[Row]], Table],
) -> None:
    """Read the command line, measure, and print the rows as JSON or as a table."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=["adult", "kdd", "bank"])
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    # These clients are simulated: they may be fitted often, and from seeds.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    found = measure(options.datasets, options.runs)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        Console(width=140).print(tabulate(options.datasets, options.runs, found))
