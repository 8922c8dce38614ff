"""The package as a whole: a light import, a complete API, names that mean what they say."""

import subprocess
import sys

import pytest

import fedsel
from fedsel import InvalidArgument, mechanism


def test_import_is_light():
    """numba, scipy, matplotlib, rich and typer wait until they are needed."""
    code = (
        "import sys, fedsel; heavy = {'numba', 'scipy', 'matplotlib', 'rich', 'typer'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    for name in fedsel.__all__:
        assert getattr(fedsel, name) is not None
    assert set(fedsel.__all__) <= set(dir(fedsel))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fedsel.nothing


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("EXP", fedsel.Exponential(2.0)),
        ("ps", fedsel.PerturbedSampling(2.0)),
        ("Pe", fedsel.PerturbedEncoding(2.0)),
        ("PE-published", fedsel.PublishedPerturbedEncoding(2.0)),
        ("duchi", fedsel.Duchi(2.0)),
        ("ow", fedsel.OptimalWindow(2.0)),
        ("topk", fedsel.TopK(k=0.1)),
    ],
)
def test_mechanisms_by_name(name, expected):
    assert mechanism(name, epsilon=2.0) == expected


@pytest.mark.parametrize("name", ["ps-pm", "EXP-Duchi", "PE-published-HM", "uniform-ow"])
def test_two_stages_by_name_add_up_exactly(name):
    made = mechanism(name, epsilon=0.3, mu=0.1)
    if made.selection.name != "Uniform":
        assert float(made.claimed) == 0.3
    assert made.label.lower() == name.lower()


@pytest.mark.parametrize("name", ["", "PS-", "PS-PS", "PM-PS", "PSPM", "X"])
def test_unknown_names_list_what_is_known(name):
    with pytest.raises(InvalidArgument, match="a known mechanism; close to it: "):
        mechanism(name, epsilon=1.0)


@pytest.mark.parametrize("mu", [-0.1, 1.0, float("nan"), "0.1"])
def test_impossible_shares_are_refused(mu):
    with pytest.raises(InvalidArgument, match=r"^mu = "):
        mechanism("PS-PM", epsilon=1.0, mu=mu)
