"""The test vectors as anybody reads them."""

import json
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "vectors"


@cache
def cases(kind):
    """The cases of a file."""
    return json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))["cases"]
