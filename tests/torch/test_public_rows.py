"""public_rows: inputs that belong to nobody prepare those of clients; modules take raw ones."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsel.errors import InvalidArgument
from fedsel.preparation import Preparation, for_network, of_rows
from fedsel.preparation._public import LARGEST, LENGTH
from fedsel.torch import FederatedTrainer
from fedsel.torch._inputs import Inputs
from fedsel.torch._modules import Layout

N, FEATURES = 2000, 6
HIGH = np.array([4.0, 16.0, 1.0, 2.0, 8.0, 3.0])
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning",
    "ignore::fedsel.errors.RepeatedFitWarning",
    "ignore::fedsel.errors.TooFewClientsWarning",
)


def data(count=N, seed=0):
    """Inputs off the middle of their bounds, narrow but for the one that tells two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    X = rng.normal(0.7, 0.02, (count, FEATURES))
    X[:, 0] = 0.6 + 0.15 * (2 * y - 1) + rng.normal(0, 0.08, count)
    return (HIGH * np.clip(X, 0, 1)).astype(np.float32), y


X, Y = data()
PUBLIC = data(300, seed=1)[0]


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 2))


def trainer_of(module=None, **given):
    asked = {"epsilon": 2.0, "batch": 0.02, "seed": 4, "feature_range": (0 * HIGH, HIGH)}
    return FederatedTrainer(module or mlp(), **{**asked, "public_rows": PUBLIC, **given})


def test_all_rounds_train_on_prepared_inputs():
    trainer = trainer_of().fit(X, Y)
    learnt = trainer.preparation
    assert trainer.recipe.centre == trainer.recipe.spread == 0
    assert learnt.mixing.shape == (FEATURES, FEATURES)
    assert (learnt.unit, learnt.intercept) == (False, 0)
    prepared = learnt.records(PUBLIC / HIGH)
    np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(np.mean((prepared**2).sum(axis=1)), LENGTH**2, rtol=1e-4)
    assert "300 public rows, which cost no ε" in str(trainer.statement)
    assert "in the public rows" in str(trainer.statement)


@pytest.mark.slow
def test_they_help_where_there_is_much_noise():
    """Ten seeds give 97 % with the rows, 50 % without."""
    others, labels = data(1000, seed=2)
    hits = {}
    for rows in (None, PUBLIC):
        trainer = trainer_of(public_rows=rows, epsilon=1.0)
        trainer.fit(X, Y, eval_set=(others, labels), evaluate="end")
        hits[rows is not None] = trainer.history.accuracy
    assert hits[True] > hits[False] + 0.3


def test_the_module_takes_raw_inputs_and_goes_on():
    """The folded module says of raw inputs what training measured on prepared ones."""
    trainer = trainer_of().fit(X, Y, eval_set=(PUBLIC, 1 * (PUBLIC[:, 0] > 2)), evaluate="end")
    with torch.no_grad():
        answers = trainer.module(torch.from_numpy(PUBLIC)).argmax(dim=1).numpy()
    assert np.mean(answers == (PUBLIC[:, 0] > 2)) == pytest.approx(trainer.history.accuracy)
    inputs, learnt = trainer._inputs(torch.from_numpy(X[:1])), trainer.preparation
    weights = trainer.layout.read(trainer.module)
    before = inputs.unfolded(weights, learnt)
    np.testing.assert_allclose(inputs.folded(before, learnt), weights, rtol=1e-6, atol=1e-9)
    trainer.fit(X, Y)
    assert trainer.preparation is learnt
    assert "300 public rows" in str(trainer.statement)


def test_clients_do_not_reach_what_rows_tell():
    one, two = (trainer_of().fit(inputs, Y) for inputs in (X, HIGH.astype(np.float32) - X))
    assert one.preparation == two.preparation
    assert one.recipe == two.recipe


def test_rows_have_the_shape_of_inputs_or_are_flat():
    images = X.reshape(N, 2, 3)
    ends = (np.zeros((2, 3)), HIGH.reshape(2, 3))
    found = [
        trainer_of(public_rows=rows, feature_range=ends).fit(images, Y).preparation
        for rows in (PUBLIC, torch.from_numpy(PUBLIC).reshape(300, 2, 3))
    ]
    assert found[0] == found[1] == trainer_of().fit(X, Y).preparation


def test_a_run_goes_on_with_the_same_rows_alone():
    whole = trainer_of().fit(X, Y)
    broken = trainer_of()
    for record in broken.rounds(X, Y):
        if record.round == 20:
            break
    state = broken.state_dict()
    again = trainer_of().load_state_dict(state).fit(X, Y)
    np.testing.assert_array_equal(again.history.weights, whole.history.weights)
    assert "300 public rows" in str(again.statement)
    for rows in (None, PUBLIC + 0.5):
        with pytest.raises(InvalidArgument, match="public_rows"):
            trainer_of(public_rows=rows).load_state_dict(state)


@pytest.mark.parametrize("given", [{"solution": "NP"}, {"solution": "PM"}])
def test_without_a_known_noise_inputs_are_centred_and_not_bent(given):
    trainer = trainer_of(**given, epsilon=None if given["solution"] == "NP" else 2.0).fit(X, Y)
    assert trainer.preparation.mixing is None
    assert trainer.preparation.centre.any()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"feature_range": None}, "public_rows = 'rows'.*omitted without feature_range"),
        ({"public_mean": {0: 0.5}}, "public_mean = .*omitted with public_rows"),
        ({"public_rows": PUBLIC[:, :4]}, r"public_rows.*\(300, 4\).*\(m, 6\)"),
        ({"public_rows": PUBLIC[:3]}, "public_rows = '3 rows'.*at least 10"),
        ({"public_rows": np.full_like(PUBLIC, np.nan)}, "public_rows.*NaN"),
        ({"centre": 0.1}, "centre = 0.1.*public rows already give it"),
        ({"start": "trained"}, "public_rows = 'rows'.*trained start"),
        (
            {"module": nn.Sequential(nn.Tanh(), nn.Linear(6, 2)), "feature_range": (0, 1)},
            "public_rows = 'rows'.*first layer",
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_spent(given, words, monkeypatch):
    monkeypatch.setattr("fedsel.torch._trainer.charge", lambda *_, **__: pytest.fail("spent"))
    with pytest.raises(InvalidArgument, match=words):
        trainer_of(**given).fit(X, Y)


# --- the preparation itself ---------------------------------------------------------------------


def test_the_geometry_of_a_network_is_the_filter_of_rows_of_norm_one():
    rows = PUBLIC / HIGH
    told = of_rows(rows, loose=(False,) * FEATURES, unit=False, intercept=False)
    found = for_network(told, rows, 1e-3)
    records = told.records(rows).astype(float)
    np.testing.assert_allclose(np.mean((records**2).sum(axis=1)), 1, rtol=1e-5)
    bent = records @ found.mixing.T
    typical = np.sqrt(np.mean((bent**2).sum(axis=1)))
    np.testing.assert_allclose(found.records(rows), LENGTH * bent / typical, rtol=1e-4, atol=1e-5)
    plain = for_network(told, rows, 0.0)
    assert plain.mixing is None
    np.testing.assert_allclose(plain.records(rows), LENGTH * records, rtol=1e-5, atol=1e-6)
    wide = np.ones((2, LARGEST + 1))
    assert for_network(of_rows(wide, unit=False), wide, 1.0).mixing is None


def test_unfolding_inverts_folding_with_a_matrix_and_a_factor():
    module = mlp()
    layout = Layout(module)
    inputs = Inputs.of((0 * HIGH, HIGH), module, layout, torch.from_numpy(X[:1]))
    rng = np.random.default_rng(0)
    prepared = Preparation(
        np.full(FEATURES, 0.5), rng.normal(size=FEATURES), 0.0, False, factor=3.0,
        mixing=rng.normal(size=(FEATURES, FEATURES)),
    )  # fmt: skip
    weights = layout.read(module)
    back = inputs.unfolded(inputs.folded(weights, prepared), prepared)
    np.testing.assert_allclose(back, weights, rtol=1e-9)
