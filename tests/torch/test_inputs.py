"""Inputs on a public scale, a centre that the first rounds learn, and modules for raw inputs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import Recipe, solution
from fedsel.auto import PublicFacts, resolve_auto
from fedsel.auto._run_plan import plan_for
from fedsel.data.partition import by_groups
from fedsel.errors import InvalidArgument
from fedsel.preparation import FeatureScale, Plan, Preparation
from fedsel.simulation import Population, Training, train_vectors
from fedsel.simulation._stages import VectorReports
from fedsel.torch import ClientUpdates, FederatedTrainer
from fedsel.torch._inputs import Inputs
from fedsel.torch._modules import Layout

cross_entropy = nn.functional.cross_entropy
N, FEATURES, BATCH = 600, 6, 20
ROUNDS = N // BATCH
LOW, HIGH = np.zeros(FEATURES), np.array([4.0, 16.0, 1.0, 2.0, 8.0, 3.0])
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 3))


def records(n=N):
    rng = np.random.default_rng(2)
    X = HIGH * rng.uniform(0.4, 1.0, (n, FEATURES))
    return X.astype(np.float32), rng.integers(0, 3, n)


def trained(module=None, *, X=None, groups=None, **given):
    own, y = records()
    asked = {"epsilon": 8.0, "batch": BATCH, "seed": 4, "feature_range": (LOW, HIGH), **given}
    trainer = FederatedTrainer(mlp() if module is None else module, cross_entropy, **asked)
    return trainer.fit(own if X is None else X, y, groups=groups)


@pytest.mark.parametrize("grouped", [False, True])
def test_it_equals_a_preparation_by_hand(grouped):
    """The same rounds, put together from a scale, a plan and updates on prepared records."""
    X, y = records()
    clients = by_groups(np.arange(N) // 2) if grouped else None
    batch = BATCH // 2 if grouped else BATCH
    owners = np.arange(N) // 2 if grouped else None
    trainer = trained(centre=0.1, spread=0.1, batch=batch, groups=owners)

    scaled = (X / HIGH).astype(np.float32)
    module = mlp()
    layout = Layout(module)
    setting = PublicFacts(layout.dim, batch, ROUNDS, norm=1.0, classes=3, model="network")
    recipe = resolve_auto(Recipe(epsilon=8.0, centre=0.1, spread=0.1), setting)
    made, loose = recipe.build(), (HIGH != 1).tolist()
    plan = Plan(
        features=FEATURES,
        dim=layout.dim,
        spread_rounds=3,
        centre_rounds=3,
        loose=tuple(loose),
        radius=recipe.rho,
        noise=made.noise,
        unit=False,
        intercept=False,
        scattered=True,
    )
    training = Training(
        made,
        float(recipe.learning_rate),
        batch,
        reg=0.0,
        seed=4,
        averaging=recipe.averaging,
        plan=plan,
    )
    held = (None, None) if clients is None else (clients.order, clients.starts)
    population = Population(scaled, y, *held)

    class Updates(ClientUpdates):
        """On records that are scaled and prepared by hand."""

        @property
        def population(self):
            return population

        def prepared(self, learnt):
            return ClientUpdates(
                module, cross_entropy, learnt.records(scaled), y, partition=clients
            )

    updates = Updates(module, cross_entropy, scaled, y, partition=clients)
    history = train_vectors(training, updates, layout.read(module))
    assert trainer.preparation == history.preparation
    assert trainer.preparation.centre.any()
    assert (trainer.preparation.intercept, trainer.preparation.unit) == (0.0, False)
    np.testing.assert_array_equal(trainer.history.weights, history.weights)
    assert len(trainer.history.rounds) == 1
    assert sum(r.reports for r in trainer.history.rounds) == batch


def test_the_module_gives_the_same_outputs_on_raw_inputs():
    X, y = records()
    trainer = FederatedTrainer(
        mlp(), epsilon=8.0, batch=BATCH, seed=4, feature_range=(LOW, HIGH), centre=0.1
    )
    trainer.fit(X, y, eval_set=(X, y))
    learnt = trainer.preparation
    assert (learnt.spread == 1).all()
    prepared = X.astype(np.float64) / HIGH - learnt.centre
    twin = mlp()
    trainer.layout.write(twin, trainer.history.weights)
    with torch.no_grad():
        raw = trainer.module(torch.from_numpy(X))
        expected = twin(torch.from_numpy(prepared.astype(np.float32)))
    torch.testing.assert_close(raw, expected, rtol=1e-4, atol=1e-5)
    last = trainer.history.rounds[-1]
    assert last.loss == pytest.approx(float(cross_entropy(raw, torch.from_numpy(y))), rel=1e-4)


def test_a_scale_alone_is_folded_too():
    trainer = trained(centre=0.0, spread=0.0)
    X, y = records()
    plain = FederatedTrainer(mlp(), epsilon=8.0, batch=BATCH, seed=4).fit(
        (X / HIGH).astype(np.float32), y
    )
    np.testing.assert_allclose(trainer.history.weights, plain.history.weights, rtol=1e-5)
    with torch.no_grad():
        made = trainer.module(torch.from_numpy(X))
        expected = plain.module(torch.from_numpy((X / HIGH).astype(np.float32)))
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)
    assert trainer.preparation == Preparation.plain(FEATURES, intercept=0.0, unit=False)
    assert plain.preparation is None


def test_folding_is_exact_for_bounds_without_zero_and_undone():
    module = mlp()
    layout = Layout(module)
    X = torch.zeros(3, FEATURES)
    inputs = Inputs.of((np.full(FEATURES, 10.0), 10 + HIGH), module, layout, X)
    rng = np.random.default_rng(0)
    learnt = Preparation(rng.uniform(0.5, 1, FEATURES), rng.uniform(-1, 1, FEATURES), 0.0, False)
    weights = layout.read(module)
    folded = inputs.folded(weights, learnt)
    np.testing.assert_allclose(inputs.unfolded(folded, learnt), weights, rtol=1e-12, atol=1e-12)
    x = 10 + HIGH * rng.uniform(0.3, 0.7, (5, FEATURES))  # within every spread
    z = learnt.records(FeatureScale(np.full(FEATURES, 10.0), 10 + HIGH).apply(x))
    rows = [w[inputs.weight].reshape(5, FEATURES) for w in (weights, folded)]
    ends = [w[inputs.bias] for w in (weights, folded)]
    np.testing.assert_allclose(x @ rows[1].T + ends[1], z @ rows[0].T + ends[0], atol=1e-5)


def test_a_second_fit_goes_on_where_the_first_ended():
    X, y = records()
    trainer = trained(centre=0.1)
    learnt, weights = trainer.preparation, trainer.history.weights
    module = trainer.module
    assert "first" in trainer.privacy.note
    trainer.fit(X, y)
    assert trainer.preparation is learnt  # no round of it prepares
    assert "first" not in trainer.privacy.note
    start = Inputs.of((LOW, HIGH), module, trainer.layout, torch.from_numpy(X))
    other = FederatedTrainer(mlp(), epsilon=8.0, batch=BATCH, seed=4)
    other.layout.write(other.module, weights)
    other.fit(learnt.records(start.records(torch.from_numpy(X))), y)
    np.testing.assert_allclose(trainer.history.weights, other.history.weights, rtol=1e-3, atol=1e-4)


def test_results_depend_on_the_seed_alone():
    one, two, other = trained(centre=0.1), trained(centre=0.1, chunk=7), trained(centre=0.1, seed=5)
    assert one.preparation == two.preparation
    np.testing.assert_allclose(one.history.weights, two.history.weights, rtol=1e-6)
    assert one.preparation != other.preparation


class Named(nn.Module):
    """A module with a forward of its own."""

    def __init__(self, skips=False):
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, 4), nn.Linear(4, 3)
        self.skips = skips

    def forward(self, x):
        flat = x.flatten(1)
        hidden = torch.tanh(self.first(flat))
        return self.last(hidden + flat[:, :4] if self.skips else hidden)


def frozen():
    module = mlp()
    module[0].requires_grad_(False)
    return module


CANNOT = [
    lambda: nn.Sequential(nn.Unflatten(1, (1, FEATURES)), nn.Conv1d(1, 2, 3), nn.Flatten(),
                          nn.Linear(8, 3)),
    lambda: nn.Sequential(nn.Linear(FEATURES, 4, bias=False), nn.Linear(4, 3)),
    lambda: nn.Sequential(nn.LayerNorm(FEATURES), nn.Linear(FEATURES, 3)),
    lambda: Named(skips=True),
    frozen,
]  # fmt: skip


@pytest.mark.parametrize("make", CANNOT)
def test_modules_that_could_not_take_up_a_centre(make):
    with pytest.raises(InvalidArgument, match=r"centre = 0.1: must be 0 where the first layer"):
        trained(make(), feature_range=(0, 1), centre=0.1)
    with pytest.raises(InvalidArgument, match=r"spread = 0.1: must be 0 where the first layer"):
        trained(make(), feature_range=(0, 1), spread=0.1)
    with pytest.raises(InvalidArgument, match=r"feature_range = .*nothing in the module"):
        trained(make(), feature_range=(0, 16))
    plain = trained(make(), feature_range=(0, 1))  # by itself it is not centred
    assert not plain.preparation.centre.any()
    assert plain.recipe.centre == plain.recipe.spread == 0


@pytest.mark.parametrize("shape", [(FEATURES,), (2, 3)])
def test_modules_with_a_forward_of_their_own_and_inputs_of_any_shape(shape):
    X, _ = records()
    bounds = (0.0, HIGH.reshape(shape))
    trainer = trained(Named(), X=X.reshape(N, *shape), feature_range=bounds, centre=0.1)
    assert trainer.preparation.centre.any()
    flat = trained(Named(), X=X, feature_range=(LOW, HIGH), centre=0.1)
    assert trainer.preparation == flat.preparation


def test_whole_numbers_are_inputs_too():
    X = np.round(16 * records()[0] / HIGH).astype(np.uint8)
    one = trained(X=X, feature_range=(0, 16), centre=0.1)
    two = trained(X=X.astype(np.float32), feature_range=(0, 16), centre=0.1)
    np.testing.assert_array_equal(one.history.weights, two.history.weights)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"feature_range": None, "centre": 0.1},
            "centre = 0.1: must be 0 without feature_range",
        ),
        (
            {"feature_range": None, "spread": 0.1},
            "spread = 0.1: must be 0 without feature_range",
        ),
        ({"centre": 0.1, "solution": "PS-PM"}, "centre.*means are biased"),
        ({"centre": 1.0}, "centre"),
        ({"centre": 0.99, "spread": 0.005}, "to leave rounds"),
        ({"feature_range": (1, 0)}, r"^feature_range = \(1, 0\): must be"),
        ({"feature_range": (0, [1.0] * 5)}, "feature_range"),
        ({"feature_range": "private"}, "feature_range"),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(InvalidArgument, match=told):
        trained(**given)


def test_a_composed_solution_does_not_prepare():
    made = solution("RJ", epsilon=8.0, dim=Layout(mlp()).dim)
    with pytest.raises(InvalidArgument, match=r"centre = 0.1: must be 0 with a composed solution"):
        trained(solution=made, epsilon=None, centre=0.1)
    assert not trained(solution=made, epsilon=None).preparation.centre.any()


def test_an_eval_set_of_another_shape_is_refused_before_anything_is_spent():
    X, y = records()
    trainer = FederatedTrainer(mlp(), epsilon=8.0, batch=BATCH, feature_range=(LOW, HIGH))
    with pytest.raises(InvalidArgument, match="of shape"):
        trainer.fit(X, y, eval_set=(X[:, :3], y))
    assert not hasattr(trainer, "spent")


def test_what_is_automatic():
    """Public quantities decide: symmetric bounds, few rounds and much noise learn no centre."""
    auto = trained()
    assert (auto.recipe.centre, auto.recipe.spread) == (0.1, 0.05)
    assert "first 5 rounds reported on their record" in auto.privacy.note
    assert auto.privacy.total == pytest.approx(8.0, rel=1e-3)
    for other in (
        trained(feature_range=(-HIGH, HIGH), spread=0.0),
        trained(batch=40, spread=0.0),  # 15 rounds
        trained(epsilon=0.1),
        trained(solution="PS-PM"),
    ):
        assert other.recipe.centre == 0
        assert not other.preparation.centre.any()


@pytest.mark.parametrize(("name", "scattered"), [("RJ", False), ("RJ", True), ("FJ", False)])
def test_a_block_of_entries_bends_the_centre_in_one_rotation_alone(name, scattered):
    """At ε = 8, 4,800 reports of RJ on a block of 64 entries give a centre that is 0.46 off.

    Scattered, or by FJ, it is 0.1. Over seeds that has a deviation of 0.005: the bounds are more
    than 20 of them away.
    """
    features, dim, batch = 64, 1210, 240
    setting = PublicFacts(dim, batch, 200, norm=1.0, classes=10, model="network")
    recipe = resolve_auto(Recipe(name, epsilon=8.0, centre=0.1, spread=0.0), setting)
    made = recipe.build()
    plan = plan_for(recipe, made, loose=(False,) * features, rounds=200, network=True)
    assert plan.scattered
    assert not plan.intercept
    plan = replace(plan, scattered=scattered)
    X = np.random.default_rng(1).uniform(0, 1, (batch, features)) ** 2
    vectors = plan.vectors(0, X, plan.begin.preparation)
    places = np.flatnonzero(vectors.any(axis=0))
    assert len(places) == features + 1
    assert (places[-1] == features) != scattered
    reports, mean = VectorReports(made, batch, seed=0), np.zeros(dim)
    for number in range(20):
        reports.begin(number)
        reports.report(number, np.arange(batch), [vectors])
        mean += made.in_round(number).expand(reports.totals.mean()) / 20
    centre = plan.learn_centre(plan.begin.preparation, mean, 20 * batch).centre
    error = np.linalg.norm(centre - X.mean(axis=0)) / np.linalg.norm(X.mean(axis=0))
    assert error < 0.2 if scattered or name == "FJ" else error > 0.3


def test_a_centre_without_noise_comes_back_from_where_it_was_put():
    plan = Plan(9, 100, 0, 1, (False,) * 9, 0.5, 0.0, unit=False, intercept=False, scattered=True)
    X = np.random.default_rng(1).uniform(0.2, 1, (1, 9))
    learnt = plan.learn_centre(
        plan.begin.preparation, plan.vectors(0, X, plan.begin.preparation)[0].astype(float), 10**9
    )
    np.testing.assert_allclose(learnt.centre, X[0], rtol=1e-5)
    assert learnt.intercept == plan.begin.preparation.intercept == 0


# --- public means -------------------------------------------------------------------------------

MEANS = 0.7 * HIGH


def test_public_means_are_the_centre_and_no_round_learns_it():
    X, y = records()
    learning, given = trained(centre="auto", spread=0.0), trained(public_mean=MEANS)
    assert given._plan.rounds == 0
    assert given.recipe.centre == 0
    narrow = HIGH != 1  # the spread of a number is told as well
    spread = given.preparation.spread
    np.testing.assert_allclose(spread[narrow], np.minimum(1, 2.5 * 0.7))
    np.testing.assert_allclose(given.preparation.centre, 0.7, rtol=1e-12)
    assert "public means" in str(given.statement)
    assert "public means" not in str(learning.statement)
    by_number = trained(public_mean=dict(enumerate(MEANS.tolist())))
    assert by_number.preparation == given.preparation
    for mine, other in zip(given.module.parameters(), by_number.module.parameters(), strict=True):
        assert torch.equal(mine, other)
    # It is the same as training on inputs that were centred by hand.
    plain = FederatedTrainer(mlp(), cross_entropy, epsilon=8.0, batch=BATCH, seed=4)
    centred = (X / HIGH - 0.7).astype(np.float32)
    plain.fit(centred, y)
    np.testing.assert_allclose(plain.history.weights, given.history.weights, rtol=1e-4, atol=1e-5)


def test_some_public_means_stay_as_they_are_and_the_others_are_learnt():
    some = np.where(np.arange(FEATURES) < 2, MEANS, np.nan)
    given, learning = (trained(centre=0.2, spread=0.0, public_mean=m) for m in (some, None))
    assert given._plan.rounds == learning._plan.rounds > 0
    np.testing.assert_allclose(given.preparation.centre[:2], 0.7, rtol=1e-12)
    # Shrunk by themselves: another length, the same direction.
    ratios = given.preparation.centre[2:] / learning.preparation.centre[2:]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)


def test_public_means_have_the_shape_of_an_input():
    module = nn.Sequential(nn.Flatten(), nn.Linear(FEATURES, 3))
    means = np.array([[0.5, np.nan, 0.25], [1.0, 0.0, np.nan]])
    inputs = Inputs.of((0, 1), module, Layout(module), torch.ones(4, 2, 3))
    assert inputs.means(means).values == (0.5, None, 0.25, 1.0, 0.0, None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"feature_range": None, "public_mean": MEANS}, "without feature_range"),
        ({"public_mean": MEANS[:3]}, f"{FEATURES} numbers"),
        ({"public_mean": {FEATURES: 0.5}}, r"public_mean\[6\]"),
        ({"public_mean": 2 * HIGH}, r"public_mean\[0\] = 8.0: .*\[0, 4\]"),
        ({"public_mean": MEANS, "centre": 0.1}, "centre = 0.1: .*public means"),
        (
            {
                "public_mean": [0.5] * 6,
                "feature_range": (0, 1),
                "module": nn.Linear(6, 3, bias=False),
            },
            "public_mean = .*first layer",
        ),
    ],
)
def test_public_means_that_are_wrong_are_refused_before_anything_is_spent(given, words):
    with pytest.raises(InvalidArgument, match=words):
        trained(**given)
