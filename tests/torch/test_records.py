"""Records that need not be in memory: the same training, to the bit, and clear refusals."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from fedsel.errors import InvalidArgument, InvalidData, RepeatedFitWarning
from fedsel.torch import ClientUpdates, FederatedTrainer, Local, _records
from fedsel.torch._records import DatasetRecords, records_of

pytestmark = pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")
N, D = 120, 4


class Items(Dataset):
    """Items that are made when they are asked for; counts how often each was."""

    def __init__(self, *parts):
        self.parts, self.asked = parts, []

    def __len__(self):
        return len(self.parts[0])

    def __getitem__(self, number):
        self.asked.append(number)
        return tuple(part[number] for part in self.parts)


def data(kind=np.float32):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (N, D)) if kind is int else rng.normal(size=(N, D)).astype(kind)
    owners = rng.integers(0, 40, N)
    return X, rng.integers(0, 3, N), np.array([f"owner {o}" for o in owners])


def trainer(**given):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, 3))
    return FederatedTrainer(net, **{"epsilon": 8.0, "batch": 8, "seed": 3, **given})


def told(one):
    rounds = [vars(r) for r in one.history.rounds]
    learnt = one.preparation and one.preparation.to_dict()
    return rounds, one.history.weights.tolist(), learnt, str(one.statement), one.recipe, one.spent


@pytest.fixture(autouse=True)
def _nobody_was_fitted_before(monkeypatch):
    from fedsel.simulation import _account

    monkeypatch.setattr(_account, "RECORDS", _account.RecordAccount())


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (np.float32, {}),
        (np.float64, {"solution": "PS-PM", "epochs": 2, "mu": 0.1}),
        (np.float32, {"local": Local(rate=0.1, batch=2)}),
        (int, {"feature_range": (0, 9), "centre": 0.2, "epsilon": 16.0}),
    ],
)
def test_a_dataset_trains_as_its_tensors_do(kind, given, grouped, monkeypatch):
    from fedsel.simulation import _account

    X, y, owners = data(kind)
    groups = owners if grouped else None
    expected = trainer(**given).fit(X, y, groups, eval_set=(X, y), evaluate="rounds")
    monkeypatch.setattr(_records, "_BYTES_AT_A_TIME", 300)  # many small batches
    parts = (X, y, owners) if grouped else (X, y)
    numbers = [np.arange(N)[owners == owner] for owner in np.unique(owners)]
    items = Items(*parts)
    loaders = [items, DataLoader(items, batch_size=7, shuffle=True), Subset(items, range(N))]
    for one in loaders:
        monkeypatch.setattr(_account, "RECORDS", _account.RecordAccount())
        items.asked.clear()
        made = trainer(**given).fit(
            one,
            eval_set=DataLoader(TensorDataset(*map(torch.tensor, parts[:2]))),
            evaluate="rounds",
        )
        assert told(made) == told(expected)
        # One item for its shape, all once before the first round, and each in its client's rounds.
        assert items.asked[: N + 1] == [0, *range(N)]
        assert sorted(items.asked[N + 1 :]) == sorted([*range(N)] * made.solution.epochs)
    assert sum(map(len, numbers)) == N


def test_records_are_read_when_their_round_comes():
    X, y, _ = data()
    items = Items(X, y)
    rounds = trainer().rounds(items)
    del items.asked[:]
    for played in range(1, 4):
        assert next(rounds).reports == 8
        assert len(items.asked) == 8 * played


def test_a_file_of_records_is_read_from_disk(tmp_path):
    X, y, _ = data()
    file = np.memmap(tmp_path / "records.f32", np.float32, "w+", shape=X.shape)
    file[:] = X
    expected = trainer().fit(X, y)
    assert told(trainer().fit(Items(file, y)))[:2] == told(expected)[:2]
    assert told(trainer().fit(file, y))[:2] == told(expected)[:2]


def test_records_of_a_dataset_are_recognised():
    X, y, _ = data()
    trainer(seed=None).fit(X, y)
    with pytest.warns(RepeatedFitWarning, match="120 of 120 different records"):
        assert trainer(seed=None).fit(Items(X, y)).spent == pytest.approx(16.0)


def test_a_dataset_of_clients_for_ones_own_training():
    X, y, _ = data()
    net = nn.Linear(D, 3)
    made = [ClientUpdates(net, nn.functional.cross_entropy, *p) for p in ((X, y), (Items(X, y),))]
    for one in made:
        one.receive(one.layout.read(net))
    first, second = (one.vectors(np.array([5, 2, 5]))[0].rows() for one in made)
    np.testing.assert_array_equal(first, second)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(*data()[:2], strict=True))


class Endless(Dataset):
    def __getitem__(self, number):
        return torch.zeros(D), 0


def loader(**given):
    items = Items(*data()[:2])
    if given.get("sampler") == "weighted":
        given["sampler"] = WeightedRandomSampler([1.0] * N, N)
    elif given.get("sampler") == "again":
        given["sampler"] = RandomSampler(items, replacement=True)
    elif given.get("sampler") == "some":
        given["sampler"] = RandomSampler(items, num_samples=5)
    return DataLoader(items, **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Stream, r"X = 'Stream, a stream': .*map-style.*files or a numpy\.memmap"),
        (lambda: DataLoader(Stream(), batch_size=4), "X = 'Stream, a stream'"),
        (Endless, "X = 'Endless, a stream'"),
        (lambda: loader(sampler="weighted"), r"a sampler or batches.*torch\.utils\.data\.Subset"),
        (lambda: loader(sampler="again"), "a sampler or batches"),
        (lambda: loader(sampler="some"), "a sampler or batches"),
        (lambda: loader(batch_size=None), "a sampler or batches"),
        (lambda: loader(batch_sampler=[[0, 1], [2]]), "a sampler or batches"),
        (lambda: Subset(Items(*data()[:2]), []), "X = 'an empty Dataset'"),
    ],
)
def test_what_cannot_be_read_by_number_is_refused(given, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        trainer().fit(given())


class Named(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, number):
        return {"x": torch.zeros(D), "y": 0}


def test_items_that_are_dictionaries_are_refused():
    with pytest.raises(InvalidData, match=r"X: every item must be \(x, y\) or \(x, y, group\)"):
        trainer().fit(Named())


def spoilt(number, value):
    X, y, _ = data()
    X[number] = value
    return X, y


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (spoilt(N - 1, np.nan), "X: every entry must be finite"),
        (spoilt(N - 1, np.inf), "X: every entry must be finite"),
        ((data()[0],), r"X: every item must be \(x, y\) or \(x, y, group\)"),
        ((*data(), np.zeros(N)), r"X: every item must be \(x, y\)"),
        (([*data()[0][:-1], np.zeros(3, np.float32)], data()[1]), "X: .* one shape"),
        (([np.zeros(D, int), *data()[0][1:]], data()[1]), "X: all items .* one type"),
        ((np.array(["a"] * N), data()[1]), "X: must be a tensor or an array of numbers"),
        ((data()[0], [*data()[1][:-1], 3]), "y: every class must be a number from 0 to 2"),
        ((data()[0], data()[1] - 1), "y: every class must be a number from 0 to 2"),
    ],
)
@pytest.mark.parametrize("at_a_time", [1, 1 << 20])
def test_a_broken_item_is_refused_before_anything_is_spent(parts, sentence, at_a_time, monkeypatch):
    monkeypatch.setattr(_records, "_BYTES_AT_A_TIME", at_a_time)
    one = trainer()
    before = [p.tolist() for p in one.module.parameters()]
    with pytest.raises(InvalidData, match=sentence) as error:
        one.fit(Items(*parts))
    assert "0." not in str(error.value)  # no number of a record
    assert not hasattr(one, "spent")
    assert [p.tolist() for p in one.module.parameters()] == before


def test_targets_and_groups_are_given_once():
    X, y, owners = data()
    with pytest.raises(InvalidArgument, match=r"^y = 'targets beside Items': must be omitted"):
        trainer().fit(Items(X, y), y)
    with pytest.raises(InvalidArgument, match=r"^groups = .*given once"):
        trainer().fit(Items(X, y, owners), groups=owners)
    with pytest.raises(InvalidArgument, match=r"^eval_set = '3 parts'"):
        trainer().fit(X, y, eval_set=(X, y, y))
    with pytest.raises(InvalidData, match=r"^eval_set: every entry must be finite"):
        trainer().fit(X, y, eval_set=Items(*spoilt(3, np.nan)))
    given = trainer().fit(Items(X, y), groups=owners)
    assert told(given)[1] == told(trainer().fit(Items(X, y, owners)))[1]


def test_only_shape_and_type_of_an_item_are_public():
    X, y, _ = data()
    made = records_of(Items(X, y), None, torch.float32)
    assert isinstance(made, DatasetRecords)
    assert [part.tolist() for part in made.like] == [[[0.0] * D], [0]]
