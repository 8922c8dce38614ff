"""A package is imported as a whole before pytest collects the docstrings of its modules.

pytest imports a module by its path, and its package first. In doing so the package imports the
module, and pytest would then run it once more: there would be two of each of its classes, and the
second module in place of a function by its name, as `fedsel.server._step` has one.
"""

import importlib
from pathlib import Path

SOURCE = Path(__file__).parent
collect_ignore_glob = ["fedsel/service/_migrations/*"]  # only alembic can run them


def pytest_collect_file(file_path: Path) -> None:
    if file_path.suffix == ".py" and file_path.parent != SOURCE:
        importlib.import_module(".".join(file_path.parent.relative_to(SOURCE).parts))
