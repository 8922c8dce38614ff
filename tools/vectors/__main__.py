"""The command line: ``python -m tools.vectors`` writes the vectors, ``--check`` compares them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.vectors import writing


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.vectors",
        description="Write the test vectors for clients in other languages, one JSON file a kind. "
        "SPEC.md says how to read them.",
    )
    parser.add_argument("--out", type=Path, default=Path("vectors"), help="the folder of the files")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing: compare the files with what fedsel computes today; status 1 if one "
        "differs",
    )
    options = parser.parse_args(arguments)
    if not options.check:
        options.out.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for kind in writing.KINDS:
        if options.check:
            found = writing.differences(options.out, kind)
            result = "as it should be" if not found else f"{len(found)} differences"
            wrong += len(found)
        else:
            found, result = [], f"{writing.write(options.out, kind)} cases"
        print(f"{writing.file_of(options.out, kind)}: {result}")
        for line in found:
            print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
