"""The package as a whole: a light import, a complete API, names that mean what they say."""

import subprocess
import sys
from importlib import import_module

import pytest

import fedsel
from fedsel import InvalidArgument, mechanism, mechanisms
from tools import api


def test_import_is_light():
    """numba, scipy, scikit-learn, torch and the like wait until they are needed."""
    code = (
        "import sys, fedsel, fedsel.device, fedsel.server, fedsel.auditing, fedsel.pages;"
        "heavy = {'numba', 'scipy', 'matplotlib', 'rich', 'typer', 'sklearn', 'torch', 'flwr'};"
        "heavy |= {'jinja2', 'joblib', 'pandas'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_reference_is_what_the_packages_say():
    pytest.importorskip("torch", reason="needs the extra fedsel[torch]")
    pytest.importorskip("flwr", reason="needs the extra fedsel[flower]")
    assert api.PAGE.read_text(encoding="utf-8") == api.page(), "python tools/api.py writes it anew"


@pytest.mark.parametrize("name", api.PACKAGES)
def test_what_is_public_is_seen_by_its_name(name):
    """A module without an underscore is a public package, or a front end's only module."""
    if name == "fedsel.torch":
        pytest.importorskip("torch", reason="needs the extra fedsel[torch]")
    package = import_module(name)
    assert all(not public.startswith("_") or public == "__version__" for public in package.__all__)
    for public in package.__all__:
        assert hasattr(package, public) or import_module(f"{name}.{public}")


def test_every_public_name_is_there():
    for name in fedsel.__all__:
        assert getattr(fedsel, name) is not None
    assert set(fedsel.__all__) <= set(dir(fedsel))
    assert len(fedsel.__all__) <= 38  # a small surface: the rest has pages of its own
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fedsel.nothing


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("EXP", mechanisms.Exponential(2.0)),
        ("ps", mechanisms.PerturbedSampling(2.0)),
        ("Pe", mechanisms.PerturbedEncoding(2.0)),
        ("PE-published", mechanisms.PublishedPerturbedEncoding(2.0)),
        ("duchi", mechanisms.Duchi(2.0)),
        ("ow", mechanisms.OptimalWindow(2.0)),
        ("topk", mechanisms.TopK(k=0.1)),
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
    with pytest.raises(InvalidArgument, match="a known mechanism, such as "):
        mechanism(name, epsilon=1.0)


@pytest.mark.parametrize("mu", [-0.1, 1.0, float("nan"), "0.1"])
def test_impossible_shares_are_refused(mu):
    with pytest.raises(InvalidArgument, match=r"^mu = "):
        mechanism("PS-PM", epsilon=1.0, mu=mu)


def test_errors_travel_between_processes():
    import copy
    import pickle

    error = InvalidArgument("k", 0, "a count ≥ 1")
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(again) == str(error) == "k = 0: must be a count ≥ 1"
    assert "too long to be shown" in str(InvalidArgument("n", 10**5000, "small"))
    assert len(str(InvalidArgument("n", "x" * 1000, "short"))) < 300


def test_selections_without_epsilon_leave_it_all_to_the_value():
    assert float(mechanism("Uniform-PM", epsilon=2.0).claimed) == 2.0


def test_simulations_need_no_place_to_write(tmp_path):
    """A read-only container with no home: everything still works."""
    blocked = tmp_path / "file"
    blocked.touch()
    code = (
        "from fedsel.mechanisms import TopK; from fedsel.sampling import simulated;"
        "print(simulated.select(TopK(), [[1.0, 3.0]], simulated.cohort(1, seed=0)))"
    )
    import os

    environment = {**os.environ, "FEDSEL_CACHE": str(blocked / "no"), "HOME": str(blocked)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[1]", done.stderr
