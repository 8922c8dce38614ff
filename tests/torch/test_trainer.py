"""fedsel.torch: updates equal autograd's, training equals the engine's, and clear refusals."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import solution
from fedsel.data.partition import by_groups
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.sampling._batch import rows_of
from fedsel.simulation import Population, Training, train
from fedsel.torch import ClientUpdates, FederatedTrainer, Local
from fedsel.tracking import Callback

cross_entropy = nn.functional.cross_entropy
PAPER = {"solution": "PS-PM", "mu": 0.1, "averaging": 0.0}
"""The paper's own, where a test is on what it does."""
# Tests repeat themselves, and their clients are nobody: test_release.py is on these warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def mlp():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 3))


def records(shape, n=11):
    return torch.randn(n, *shape), torch.randint(0, 3, (n,))


def flat(parts):
    return np.concatenate([rows_of(part) for part in parts], axis=1)


def logistic(outputs, targets):
    return nn.functional.softplus(-targets * outputs.squeeze(1)).mean()


def hinge(outputs, targets):
    return torch.relu(1 - targets * outputs.squeeze(1)).mean()


@pytest.mark.parametrize(
    "name", ["NP", "NP-K", "PM", "PM-RP", "PS-PM", "PE-HM", "PS-PM-O", "RJ", "UJ"]
)
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("model", ["logistic", "svm"])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_linear_module_trains_as_the_engine_does(name, epochs, model, grouped):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 9)).astype(np.float32)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, 1, -1).astype(np.int8)
    owners = np.arange(60) // 2 if grouped else None
    clients = by_groups(owners) if grouped else None
    made = solution(name, epsilon=8.0, dim=9, epochs=epochs, momentum=0.5, k=3)
    held = (None, None) if clients is None else (clients.order, clients.starts)
    expected = train(Training(made, 0.3, 10, reg=0.01, seed=4), Population(X, y, *held), loss=model)
    module = nn.Linear(9, 1, bias=False)
    nn.init.zeros_(module.weight)
    trainer = FederatedTrainer(
        module,
        logistic if model == "logistic" else hinge,
        solution=made,
        learning_rate=0.3,
        batch=10,
        epochs=epochs,
        reg=0.01,
        seed=4,
        chunk=7,
    )
    trainer.fit(X, y.astype(np.float32), groups=owners)
    np.testing.assert_allclose(trainer.history.weights, expected.weights, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        module.weight.detach().numpy()[0], expected.weights, rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("recipe", [PAPER, {}])
def test_the_seed_decides(recipe):
    X, y = records((6,), 40)

    def run(seed):
        torch.manual_seed(1)
        trainer = FederatedTrainer(
            mlp(), epsilon=8.0, batch=20, seed=seed, learning_rate=1.0, **recipe
        )
        trainer.fit(X, y)
        torch.rand(1)  # torch's own generator is not asked
        return trainer.history.weights

    np.testing.assert_array_equal(run(0), run(0))
    assert (run(0) != run(1)).any()


def test_a_scaled_clip_is_a_clip_by_layer():
    X, y = records((6,), 30)
    weights = []
    for clip, scale in ((0.25, None), (1.0, {"0": 0.25, "2": 0.25, "3": 0.25})):
        torch.manual_seed(1)
        trainer = FederatedTrainer(
            mlp(),
            epsilon=8.0,
            batch=30,
            learning_rate=1.0,
            seed=0,
            clip=clip,
            clip_scale=scale,
            **PAPER,
        )
        weights.append(trainer.fit(X, y).history.weights)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5, atol=1e-7)
    layout = trainer.layout
    factors = layout.scales({"3.bias": 2.0, "3": 0.5})
    assert factors[layout.slices[layout.names.index("3.weight")]].tolist() == [0.5] * 15
    assert factors[layout.slices[layout.names.index("3.bias")]].tolist() == [2.0] * 3
    with pytest.raises(InvalidArgument, match="names of parameters"):
        FederatedTrainer(mlp(), epsilon=1.0, clip_scale={"9": 1.0})
    with pytest.raises(InvalidArgument, match="clip_scale"):
        FederatedTrainer(mlp(), epsilon=1.0, clip_scale={"0": 0.0})


def test_frozen_parameters_stay():
    module = mlp()
    module[0].requires_grad_(False)
    before = module[0].weight.clone()
    trainer = FederatedTrainer(module, epsilon=8.0, batch=10)
    assert trainer.layout.dim == 5 + 5 + 15 + 3
    trainer.fit(*records((6,), 30))
    assert torch.equal(module[0].weight, before)


def test_double_precision_and_embeddings():
    module = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 2)).double()
    X, y = torch.randint(0, 7, (30, 3)), torch.randint(0, 2, (30,))
    trainer = FederatedTrainer(module, solution="NP", batch=10).fit(X, y, eval_set=(X, y))
    assert module[2].weight.dtype == torch.float64
    assert 0 <= trainer.history.accuracy <= 1


class Constrained(nn.Linear):
    """Keeps its weights within bounds, in place, whenever it is used."""

    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-0.1, 0.1)
        return super().forward(x)


@pytest.mark.parametrize("local", [None, Local(rate=0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_that_changes_its_weights_leaves_the_servers_alone(dtype, local):
    X, y = records((6,))
    module = Constrained(6, 3, dtype=dtype)
    updates = ClientUpdates(module, cross_entropy, X.to(dtype), y, local=local)
    weights = np.ones(updates.layout.dim)
    updates.receive(weights)
    updates.vectors(np.arange(4))
    assert weights.tolist() == [1.0] * len(weights)


def test_history_privacy_and_communication():
    X, y = records((6,), 40)
    trainer = FederatedTrainer(mlp(), epsilon=3.0, epochs=2, batch=0.25, **{**PAPER, "mu": 0.2})
    steps = []
    trainer.fit(X, y, eval_set=(X, y), evaluate="rounds", advance=steps.append)
    assert len(trainer.history.rounds) == len(steps) == 8
    assert trainer.history.rounds[-1].epsilon == pytest.approx(3.0)
    assert trainer.privacy.per_report == pytest.approx(1.5)
    assert trainer.communication.full_bits == 32 * trainer.layout.dim
    assert trainer.communication.bits == trainer.solution.bits
    assert trainer.communication.saving > 50
    assert trainer.history.rounds[0].bits == 10 * trainer.solution.bits
    with torch.no_grad():
        outputs = trainer.module(X)
    last = trainer.history.rounds[-1]
    assert last.loss == pytest.approx(float(cross_entropy(outputs, y)), rel=1e-5)
    assert last.accuracy == pytest.approx(float((outputs.argmax(1) == y).float().mean()))


def test_a_cnn_of_a_hundred_thousand_parameters_trains():
    module = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 100),
        nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    X, y = torch.randn(60, 1, 8, 8), torch.randint(0, 10, (60,))
    trainer = FederatedTrainer(module, epsilon=8.0, batch=30, **PAPER)
    assert 100_000 < trainer.layout.dim < 110_000
    before = trainer.layout.read(module)
    trainer.fit(X, y)
    changed = np.flatnonzero(trainer.layout.read(module) != before)
    assert 1 <= len(changed) <= 60  # one dimension a client
    assert trainer.communication.saving > 100_000


@pytest.mark.slow
def test_it_learns_without_privacy():
    X, y = torch.randn(600, 6), torch.zeros(600, dtype=torch.long)
    y[X[:, 0] * X[:, 1] > 0] = 1  # not linear
    trainer = FederatedTrainer(
        nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 2)),
        solution="NP",
        epochs=30,
        batch=20,
        learning_rate=0.5,
    )
    assert trainer.fit(X, y, eval_set=(X, y), evaluate="end").history.accuracy > 0.9


@pytest.mark.slow
def test_local_training_learns_too():
    X, y = torch.randn(600, 6), torch.zeros(600, dtype=torch.long)
    y[X[:, 0] > 0] = 1
    trainer = FederatedTrainer(
        nn.Linear(6, 2),
        solution="NP",
        epochs=5,
        batch=10,
        learning_rate=1.0,
        local=Local(rate=0.5, epochs=4, batch=3),
    )
    trainer.fit(X, y, groups=np.arange(600) // 6, eval_set=(X, y))
    assert trainer.history.accuracy > 0.9


def test_what_does_not_fit_together_is_refused():
    X, y = records((6,), 10)
    with pytest.raises(InvalidArgument, match="dim = 3"):
        FederatedTrainer(mlp(), solution=solution("NP", dim=3))
    trainer = FederatedTrainer(mlp(), epsilon=1.0)
    with pytest.raises(InvalidArgument, match="one a record"):
        trainer.fit(X, y[:-1])
    with pytest.raises(InvalidArgument, match="groups"):
        trainer.fit(X, y, groups=[1, 2])
    with pytest.raises(InvalidData, match="X: every entry must be finite"):
        trainer.fit(X * torch.nan, y)
    with pytest.raises(InvalidData, match="X: must be a tensor"):
        trainer.fit([["a"]] * 10, y)
    for bad in ({"rate": 0.0}, {"rate": 1.0, "epochs": 0}, {"rate": 1.0, "batch": 0}):
        with pytest.raises(InvalidArgument):
            Local(**bad)
    with pytest.raises(InvalidArgument, match="reg"):
        ClientUpdates(mlp(), cross_entropy, X, y, reg=-1.0)
    with pytest.raises(InvalidArgument, match="loss"):
        ClientUpdates(mlp(), "mse", X, y)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"y": torch.tensor([0, 1, 3] * 4)}, "^y: every class must be a number from 0 to 2"),
        ({"y": torch.tensor([-1, 1, 2] * 4)}, "^y: every class must be a number from 0 to 2"),
        ({"eval_set": (torch.zeros(2, 6), torch.tensor([1, 3]))}, "^eval_set: every class must be"),
        ({"eval_set": (torch.zeros(2, 5), torch.tensor([1, 2]))}, r"^eval_set = .* shape \(5,\)"),
        ({"eval_set": (torch.zeros(2, 6), torch.zeros(2, 3, 3))}, r"^eval_set = .*of \(3, 3\)"),
        ({"eval_set": (torch.zeros(2, 6),)}, "^eval_set = '1 parts'"),
        ({"eval_set": torch.zeros(2, 6)}, "^eval_set = 'Tensor'"),
        ({"evaluate": "round"}, "^evaluate = 'round': must be one of rounds, epochs, end"),
    ],
)
@pytest.mark.parametrize("way", ["fit", "rounds"])
def test_what_would_fail_in_mid_training_is_refused_before_anything_is_spent(changes, told, way):
    X, y = records((6,), 12)
    trainer = FederatedTrainer(mlp(), epsilon=1.0)
    with pytest.raises((InvalidArgument, InvalidData), match=told):
        getattr(trainer, way)(**{"X": X, "y": y, **changes})
    assert not hasattr(trainer, "spent")


@pytest.mark.parametrize(
    ("loss", "left_out"), [(cross_entropy, -100), (nn.CrossEntropyLoss(ignore_index=7), 7)]
)
def test_targets_that_the_loss_leaves_out_are_no_classes(loss, left_out):
    X, y = records((6,), 12)
    y[::3] = left_out
    trainer = FederatedTrainer(mlp(), loss, epsilon=1.0)
    assert trainer.fit(X, y, groups=np.arange(12) // 3).spent == 1.0


def test_a_regression_of_several_outputs_has_a_loss_and_no_accuracy():
    X = torch.randn(12, 6)
    trainer = FederatedTrainer(mlp(), nn.functional.mse_loss, epsilon=1.0)
    trainer.fit(X, X[:, :3], eval_set=(X, X[:, :3]))
    assert np.isnan(trainer.history.accuracy)
    assert np.isfinite(trainer.history.rounds[-1].loss)


@pytest.mark.parametrize("groups", [None, np.arange(12) // 3])
@pytest.mark.parametrize("local", [None, Local(rate=0.1)])
def test_a_loss_of_several_numbers_is_refused(groups, local):
    trainer = FederatedTrainer(
        mlp(), nn.CrossEntropyLoss(reduction="none"), epsilon=1.0, local=local
    )
    with pytest.raises(InvalidArgument, match=r"^loss = 'of shape \(1,\)': must be one number"):
        trainer.fit(*records((6,), 12), groups=groups)


def test_a_loss_that_explodes_is_refused():
    def explode(outputs, targets):
        return cross_entropy(outputs, targets) / (outputs.sum() * 0)

    with pytest.raises(InvalidData, match="finite"):
        FederatedTrainer(mlp(), explode, epsilon=1.0).fit(*records((6,)))


def test_fedsel_alone_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys, fedsel, fedsel.simulation, fedsel.data;"
        "print(sorted({'torch', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None; import fedsel.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'fedsel[torch]'" in done.stderr


class Noted(Callback):
    """Writes down what it is called with, and the model at that time."""

    def __init__(self, module, fails=False):
        self.module, self.fails = module, fails
        self.starts, self.records, self.ends, self.models = [], [], [], []

    def on_start(self, run):
        self.starts.append(run)

    def on_round(self, record):
        self.records.append(record)
        self.models.append([p.tolist() for p in self.module.parameters()])
        if self.fails:
            raise RuntimeError("a tracker that is down")

    def on_end(self, history):
        self.ends.append(history)


@pytest.mark.parametrize("way", ["fit", "rounds", "broken off"])
def test_callbacks_see_every_round_and_its_model(way):
    X, y = records((6,), 40)
    trainer = FederatedTrainer(mlp(), epsilon=2.0, epochs=2, batch=10, seed=0)
    noted, rows = Noted(trainer.module), []
    given = {"eval_set": (X, y), "evaluate": "epochs", "callbacks": [noted, rows.append]}
    if way == "fit":
        trainer.fit(X, y, **given)
    else:
        for number, _ in enumerate(trainer.rounds(X, y, **given), 1):
            assert noted.models[-1] == [p.tolist() for p in trainer.module.parameters()]
            if way == "broken off" and number == 5:
                break
    (run,), played = noted.starts, 5 if way == "broken off" else 8
    assert (run.name, run.rounds, run.epsilon) == ("FederatedTrainer", 8, 2.0)
    assert run.parameters["learning_rate"] == trainer.rate
    assert "seed" not in run.parameters or run.parameters["seed"] == trainer.recipe.seed
    assert rows == noted.records
    assert [r["round"] for r in rows] == [*range(1, played + 1)]
    assert [r["round"] for r in rows if "accuracy" in r] == [4, 8][: 1 if played == 5 else 2]
    assert rows[-1]["epsilon"] == pytest.approx(2.0)
    assert rows[-1]["norm"] == pytest.approx(np.linalg.norm(trainer.history.weights))
    assert [h.weights.tolist() for h in noted.ends] == [trainer.history.weights.tolist()]
    assert noted.models[-1] == [p.tolist() for p in trainer.module.parameters()]
    assert len({str(model) for model in noted.models}) == played


def test_callbacks_change_nothing(caplog):
    X, y = records((6,), 40)
    made = []
    for fails in (None, False, True):
        torch.manual_seed(1)
        trainer = FederatedTrainer(mlp(), epsilon=2.0, batch=10, seed=0)
        callbacks = None if fails is None else [Noted(trainer.module, fails)]
        made.append(trainer.fit(X, y, callbacks=callbacks).history.weights.tolist())
    assert made[0] == made[1] == made[2]
    assert "a tracker that is down" in caplog.text


def test_a_callback_that_cannot_start_costs_nothing():
    X, y = records((6,), 40)

    class Refuses(Callback):
        def on_start(self, run):
            raise RuntimeError("no disk")

    trainer = FederatedTrainer(mlp(), epsilon=2.0, batch=10)
    with pytest.raises(RuntimeError, match="no disk"):
        trainer.fit(X, y, callbacks=[Refuses()])
    assert not hasattr(trainer, "spent")
    with pytest.raises(InvalidArgument, match="callbacks"):
        trainer.rounds(X, y, callbacks=[3])
