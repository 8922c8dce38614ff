"""The command line as a user meets it: help, JSON, pictures and wrong input."""

import subprocess
import sys

import pytest

import fedsel
from tests.cli.support import run


def test_version():
    assert run("--version").stdout.strip() == f"fedsel {fedsel.__version__}"


@pytest.mark.slow
def test_shell_completion_is_offered():
    assert "--install-completion" in run("--help").stdout
    script = run(_FEDSEL_COMPLETE="complete_bash", COMP_WORDS="fedsel ce", COMP_CWORD="1").stdout
    assert "certify" in script


def test_python_m_fedsel():
    done = subprocess.run(
        [sys.executable, "-m", "fedsel", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("fedsel ")


def test_a_process_ends_with_one_sentence_and_status_2():
    done = run("certify", "PS", "-e", "1", "-d", "0", status=2)
    assert done == ("", "fedsel: --dim = 0: must be an integer ≥ 1\n")
