"""The Python examples of README and docs run, and the commands they name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKS = {
    "advise.md": [pytest.mark.slow],
    "torch.md": [pytest.mark.slow, pytest.mark.xdist_group("torch")],
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page.name, ()), id=page.name) for page in PAGES],
)
def test_python_blocks_run_in_order(page, capsys):
    scope: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(block, scope)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_exist(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
