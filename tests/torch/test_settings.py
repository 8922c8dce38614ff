"""What a trainer is asked to do: automatic parameters, and what is refused before there is data."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import Recipe
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.errors import InvalidArgument
from fedsel.torch import FederatedTrainer

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def mlp():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 3))


def records(shape, n=11):
    return torch.randn(n, *shape), torch.randint(0, 3, (n,))


@pytest.mark.parametrize("norm", [1.0, 3.0])
def test_the_default_is_the_recommended_recipe(norm):
    X, y = records((6,), 40)
    module = mlp()
    start = FederatedTrainer(module, epsilon=2.0).layout.read(module)
    trainer = FederatedTrainer(module, epsilon=2.0, batch=10, norm=norm, seed=0).fit(X, y)
    setting = PublicFacts(
        dim=trainer.layout.dim, clients=10, rounds=4, norm=norm, classes=3, model="network"
    )
    assert trainer.recipe == resolve_auto(Recipe(epsilon=2.0), setting)
    assert trainer.solution == trainer.recipe.build()
    assert trainer.rate == trainer.recipe.learning_rate
    assert (trainer.recipe.solution, trainer.recipe.averaging) == ("FJ", 3.0)
    assert trainer.recipe.rho == pytest.approx(0.8 * norm * np.sqrt(2 / 3))
    # The same in numbers, by a composed solution.
    trainer.layout.write(module, start)
    again = FederatedTrainer(
        module,
        solution=trainer.solution,
        learning_rate=trainer.rate,
        averaging=trainer.recipe.averaging,
        batch=10,
        seed=0,
    ).fit(X, y)
    np.testing.assert_array_equal(again.history.weights, trainer.history.weights)


def test_what_the_automatic_parameters_become():
    X, y = records((6,), 40)
    told = FederatedTrainer(mlp(), epsilon=2.0, batch=10, learning_rate=0.5, rho=None).fit(X, y)
    assert (told.rate, told.recipe.averaging, told.recipe.rho) == (0.5, 0.0, None)
    # Ten a round leave nothing for a selection.
    flat = FederatedTrainer(mlp(), epsilon=2.0, batch=10, solution="PS-PM").fit(X, y)
    assert (flat.solution.name, flat.recipe.requested_solution) == ("PM", "PS-PM")


@pytest.mark.parametrize(
    ("module", "told"),
    [
        (
            nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
            r'BatchNorm1d at "1".*replace_batchnorm\(module\)',
        ),
        (nn.BatchNorm2d(3, track_running_stats=False), "without batch norm"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)),
            r"without dropout, which module.eval\(\)",
        ),
        (nn.ReLU(), "trainable parameters"),
        (nn.Linear(2, 2).half(), "float32 or float64"),
        ("a module", "a Module"),
    ],
)
def test_modules_that_cannot_be_reported_on_are_refused(module, told):
    with pytest.raises(InvalidArgument, match=told):
        FederatedTrainer(module, epsilon=1.0)


def test_modules_with_broken_parameters_are_refused():
    module = nn.Linear(2, 2)
    nn.init.constant_(module.bias, torch.nan)
    with pytest.raises(InvalidArgument, match="finite"):
        FederatedTrainer(module, epsilon=1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", -1.0),
        ("epsilon", None),
        ("learning_rate", 0.0),
        ("learning_rate", np.nan),
        ("batch", 0),
        ("batch", 1.5),
        ("batch", np.nan),
        ("epochs", 0),
        ("seed", -1),
        ("mu", 2.0),
        ("clip", np.inf),
        ("norm", 0.0),
        ("averaging", -1.0),
        ("rho", 0.0),
        ("colour", "red"),
    ],
)
def test_wrong_parameters_are_named(name, value):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        FederatedTrainer(mlp(), **{"epsilon": 1.0, name: value})
