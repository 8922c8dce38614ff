"""Runs that are broken off: what they leave, and how they go on, to the bit."""

import io
import pickle
import warnings
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import FitAccount, solution
from fedsel.errors import InvalidArgument, LifetimeExceeded, RepeatedFitWarning
from fedsel.simulation import _account
from fedsel.torch import ClientUpdates, FederatedTrainer, Local

pytestmark = pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")

FEATURES, CLASSES, N, BATCH = 4, 3, 90, 10
SETTINGS = {
    "FJ": {},
    "residuals": {"solution": "PS-PM", "epochs": 3, "momentum": 0.5, "mu": 0.2, "clip": 0.1},
    "a centre": {"feature_range": (-3, 9), "centre": 0.2, "spread": 0.2, "epsilon": 16.0},
    "public means": {"feature_range": (-3, 9), "public_mean": [0.1, 0.2, 0.3, 0.0]},
    "a trained start": {"start": "trained", "epochs": 2},
    "local epochs": {"local": Local(rate=0.1, epochs=2, batch=1), "learning_rate": 1.0},
}


def records(n=N):
    X = torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(3))
    return X, X[:, :CLASSES].argmax(1)


def trainer(seed=5, **given):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))
    return FederatedTrainer(net, **{"epsilon": 8.0, "batch": BATCH, "seed": seed, **given})


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def told(one):
    """Everything that a trainer says after a run."""
    history = one.history
    return (
        [vars(r) for r in history.rounds],
        history.weights.tolist(),
        (history.fewest_reports, history.epochs_heard, history.seeded, history.privacy),
        [p.tolist() for p in one.module.parameters()],
        one.preparation and one.preparation.to_dict(),
        str(one.statement),
        one.privacy,
        one.recipe,
    )


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_that_goes_on_equals_one_that_was_never_broken_off(name, grouped, tmp_path):
    X, y = records(2 * N if grouped else N)
    groups = np.arange(2 * N) // 2 if grouped else None
    given = {**SETTINGS[name]}
    if grouped and name == "residuals":
        given["residual_directory"] = tmp_path
    whole = trainer(**given).fit(X, y, groups, eval_set=(X, y), evaluate="rounds")
    planned = len(whole.history.rounds)
    assert [r.round for r in whole.history.rounds] == [*range(1, planned + 1)]
    for stop in (1, 3, planned - 1):
        one = trainer(**given)
        seen = list(islice(one.rounds(X, y, groups, eval_set=(X, y)), stop))
        state = through_a_file(one.state_dict())
        other = trainer(**given)
        with torch.no_grad():
            other.module[0].weight.add_(1.0)
        other.load_state_dict(state)
        assert told(one) == told(other)
        seen += other.rounds(X, y, groups, eval_set=(X, y))
        assert told(other) == told(whole)
        assert seen == whole.history.rounds
    # And what comes after: a second fit, of a state whose run is over.
    later = trainer(**given).load_state_dict(through_a_file(whole.state_dict()))
    assert told(later.fit(X, y, groups)) == told(whole.fit(X, y, groups))


def test_rounds_are_what_fit_plays():
    X, y = records()
    one, other = trainer(epochs=2), trainer(epochs=2)
    rounds = [(r.round, r.reports) for r in one.rounds(X, y, eval_set=(X, y), evaluate="epochs")]
    other.fit(X, y, eval_set=(X, y))
    assert rounds == [(t, BATCH) for t in range(1, 19)]
    assert told(one) == told(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_who_breaks_off_has_a_model_and_a_true_statement(name):
    X, y = records()
    epochs = 3
    one = trainer(**{**SETTINGS[name], "epochs": epochs})
    assert one.privacy.epochs == one.statement.reports == epochs
    per_round = N // BATCH
    for record in one.rounds(X, y, eval_set=(X, y)):
        with torch.no_grad():
            outputs = one.module(X)
        hits = float((outputs.argmax(1) == y).float().mean())
        if name != "a centre":  # whose module does not clip
            assert record.accuracy == pytest.approx(hits)
        heard = 1 + (record.round - 1) // per_round
        assert one.privacy.epochs == heard
        assert one.privacy.total == pytest.approx(record.epsilon)
        assert one.history.rounds[-1] == record
        if record.round == per_round + 2:
            break
    left = [p.tolist() for p in one.module.parameters()]
    assert (one.statement.reports, one.statement.total) == (2, one.privacy.total)
    assert one.history.central(delta=0.5).epochs == 2 if one.solution.private else True
    with torch.no_grad():
        one.module[2].bias.zero_()
    del record  # a loop that is over changes nothing any more
    assert one.module[2].bias.tolist() == [0.0] * CLASSES
    assert [p.tolist() for p in one.module.parameters()][:3] == left[:3]
    assert one.fit(X, y).statement.reports == epochs


class Interrupt(Exception):
    pass


def test_an_interrupted_fit_leaves_the_model_of_its_last_round():
    X, y = records()
    expected = trainer(feature_range=(-3, 9))
    list(islice(expected.rounds(X, y, evaluate="epochs"), 4))

    class Stop:
        rounds = 0

        def __call__(self, done):
            self.rounds += done
            if self.rounds == 4:
                raise Interrupt

    one = trainer(feature_range=(-3, 9))
    with pytest.raises(Interrupt):
        one.fit(X, y, advance=Stop())
    assert told(one) == told(expected)
    whole = trainer(feature_range=(-3, 9)).fit(X, y)
    assert told(trainer(feature_range=(-3, 9)).load_state_dict(one.state_dict()).fit(X, y)) == told(
        whole
    )


def test_a_fit_that_is_refused_leaves_all_as_it_was():
    X, y = records()
    one = trainer(feature_range=(-3, 9))
    before = [p.tolist() for p in one.module.parameters()]
    with FitAccount(lifetime=1.0), pytest.raises(LifetimeExceeded):
        one.fit(X, y)
    assert [p.tolist() for p in one.module.parameters()] == before
    assert one.history.rounds == []
    state = one.state_dict()
    assert state["run"] is None
    assert told(trainer(feature_range=(-3, 9)).load_state_dict(state).fit(X, y)) == told(
        one.fit(X, y)
    )


@pytest.mark.parametrize("name", ["FJ", "residuals"])
def test_without_a_seed_each_client_still_reports_once_an_epoch(name, monkeypatch):
    X, y = records()
    given = {"seed": None, **SETTINGS[name], "epochs": 2}
    asked = []
    vectors = ClientUpdates.vectors
    monkeypatch.setattr(
        ClientUpdates, "vectors", lambda s, c: (asked.extend(c.tolist()), vectors(s, c))[1]
    )
    one, other = trainer(**given), trainer(**given)
    next(one.rounds(X, y))
    state = through_a_file(one.state_dict())
    assert int(state["run"]["order"], 16) > 2**64
    other.load_state_dict(state).fit(X, y)
    assert sorted(asked) == sorted([*range(N)] * 2)
    assert sorted(asked[:N]) == [*range(N)]


def test_what_goes_on_is_charged_for_the_epochs_that_are_left():
    X, y = records()
    one, other = trainer(epochs=4), trainer(epochs=4)
    list(islice(one.rounds(X, y), 11))
    other.load_state_dict(one.state_dict())
    with FitAccount(lifetime=6.0) as account:  # 2 an epoch; the second one was begun
        other.fit(X, y)
    assert account.spent == 6.0
    again = trainer(epochs=4).load_state_dict(one.state_dict())
    with FitAccount(lifetime=5.0), pytest.raises(LifetimeExceeded):
        again.fit(X, y)
    assert told(again.fit(X, y)) == told(other)  # it can still go on


def test_what_goes_on_is_recognised_in_one_process(monkeypatch):
    monkeypatch.setattr(_account, "RECORDS", _account.RecordAccount())
    X, y = records()
    one = trainer(seed=None)
    for record in one.rounds(X, y):
        if record.round == 3:
            state = one.state_dict()
        if record.round == 4:
            break
    assert one.spent == pytest.approx(8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitWarning)
        assert trainer(seed=None).load_state_dict(one.state_dict()).fit(X, y).spent == one.spent
    # Where rounds are played again, their clients report again.
    for taken in (state, one.state_dict()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RepeatedFitWarning)
            other = trainer(seed=None).load_state_dict(taken).fit(X, y)
        assert other.spent == pytest.approx(one.spent + 8.0)
        assert len(caught) == (taken is state)  # the second fit of a record warns, the third not
        one.spent = other.spent


def test_what_is_private_is_neither_pickled_nor_kept_without_need():
    X, y = records()
    one = trainer(**SETTINGS["residuals"]).fit(X, y)
    assert tuple(one.state_dict()["run"]["residual"].shape) == (N, one.layout.dim)
    assert "residual" not in trainer().fit(X, y).state_dict()["run"]
    copied = pickle.loads(pickle.dumps(one))
    assert copied._progress is None
    assert copied.state_dict()["run"] is None


def other_weights(state):
    state["parameters"]["0.weight"] = state["parameters"]["0.weight"] * torch.nan


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda s: s.update(version=2, fedsel="9.1"),
            r"version 2, written by fedsel 9\.1.*version 1",
        ),
        (lambda s: s.pop("version"), "dict.*what FederatedTrainer.state_dict"),
        (lambda s: s.pop("run"), "damaged"),
        (lambda s: s.pop("settings"), "damaged"),
        (lambda s: s["run"]["state"].pop("weights"), "damaged"),
        (lambda s: s["run"].update(order="x"), "damaged"),
        (lambda s: s["history"].update(rounds=[{"round": 1}]), "damaged"),
        (other_weights, "damaged.*finite"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused(change, sentence):
    X, y = records()
    one = trainer()
    next(one.rounds(X, y))
    state = one.state_dict()
    change(state)
    other = trainer()
    before = [p.tolist() for p in other.module.parameters()]
    with pytest.raises(InvalidArgument, match=f"^state = .*{sentence}"):
        other.load_state_dict(state)
    assert [p.tolist() for p in other.module.parameters()] == before
    with pytest.raises(InvalidArgument, match=r"^state = 'list'"):
        other.load_state_dict([])


def composed(**changes):
    return {"epsilon": None, "solution": solution("PM", epsilon=4.0, dim=43, **changes)}


@pytest.mark.parametrize(
    ("mine", "theirs", "sentence"),
    [
        ({}, {"epsilon": 4.0}, "epsilon = 8'.*epsilon = 4,"),
        ({}, {"solution": "RJ"}, "solution = 'FJ'.*solution = 'RJ'"),
        ({}, {"seed": 6}, "seed = 5.*seed = 6"),
        ({}, {"batch": 11}, "batch = 10.*batch = 11"),
        ({"feature_range": (0, 1)}, {}, r"feature_range = \[0, 1\].*feature_range = None"),
        ({}, {"loss": nn.functional.mse_loss}, "loss = cross_entropy.*loss = mse_loss"),
        (composed(), composed(clip=2.0), "_composed|solution"),
    ],
)
def test_a_state_of_another_recipe_is_refused(mine, theirs, sentence):
    with pytest.raises(InvalidArgument, match=f"^state = .*{sentence}.*as this trainer has"):
        trainer(**theirs).load_state_dict(trainer(**mine).state_dict())


def test_a_state_of_another_module_is_refused():
    state = trainer().state_dict()
    net = nn.Sequential(nn.Linear(FEATURES, 6), nn.Tanh(), nn.Linear(6, CLASSES))
    wider = FederatedTrainer(net, epsilon=8.0, batch=BATCH, seed=5)
    with pytest.raises(InvalidArgument, match=r"^state = .*0\.weight': \(5, 4\).*\(6, 4\)"):
        wider.load_state_dict(state)
    frozen = []
    for shift in (0.0, 0.1):
        one = trainer()
        one.module[0].requires_grad_(False)
        with torch.no_grad():
            one.module[0].bias.add_(shift)
        frozen.append(FederatedTrainer(one.module, epsilon=8.0, batch=BATCH, seed=5))
    with pytest.raises(InvalidArgument, match=r"^state = .*frozen parameters = .*this trainer"):
        frozen[1].load_state_dict(frozen[0].state_dict())


def test_other_clients_are_refused_and_the_run_can_still_go_on():
    X, y = records()
    one = trainer()
    next(one.rounds(X, y, evaluate="epochs"))
    other = trainer().load_state_dict(one.state_dict())
    with pytest.raises(InvalidArgument, match=r"^state = .*clients = 90.*clients = 80"):
        other.fit(X[:80], y[:80])
    with pytest.raises(InvalidArgument, match=r"^state = .*groups = False.*groups = True"):
        other.fit(X, y, groups=np.arange(N))
    assert told(other.fit(X, y)) == told(trainer().fit(X, y))
