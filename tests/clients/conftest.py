"""The client in C, compiled once for all its tests."""

import pytest

from benchmarks.c_client import SANITIZED, NoCompiler, compiled, compiler


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """The runner with the sanitizers where the compiler has them; without a compiler a skip."""
    folder = tmp_path_factory.mktemp("c")
    try:
        compiler()
    except NoCompiler as error:
        pytest.skip(str(error))
    try:
        return compiled(folder / "sanitized", "-O1", *SANITIZED)
    except RuntimeError as error:
        if "sanitize" not in str(error) and "asan" not in str(error):
            raise
        return compiled(folder / "runner", "-O1")
