"""No forward pass finds anything of another client's: what it leaves is put back, or refused."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from fedsel import InvalidArgument
from fedsel.sampling._batch import rows_of
from fedsel.simulation import _account
from fedsel.torch import ClientUpdates, FederatedTrainer, Local, replace_batchnorm
from tests.torch.support import Own, plain

N, HALF, CHANGED = 40, 20, 7
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.TooFewClientsWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


class Keeper:
    """Somebody else's object, which a module may know."""

    shared = None


class Slotted:
    __slots__ = ("kept",)

    def __init__(self):
        self.kept = None


GLOBAL = []


def remembered(own, x, before, keep):
    """A forward pass of what was kept, if anything, and of what is kept now."""
    out = plain(own, x if before is None else x + before)
    keep(x.mean())
    return out


def attribute(own, x):
    return remembered(own, x, getattr(own, "kept", None), partial(setattr, own, "kept"))


def of_a_submodule(own, x):
    return remembered(own, x, getattr(own.two, "kept", None), partial(setattr, own.two, "kept"))


def behind_the_back(own, x):
    return remembered(own, x, vars(own).get("kept"), partial(vars(own).__setitem__, "kept"))


def a_list(own, x):
    return remembered(own, x, own.kept[-1] if own.kept else None, own.kept.append)


def a_table(own, x):
    return remembered(own, x, own.kept.get("x"), partial(own.kept.__setitem__, "x"))


def an_object(own, x):
    return remembered(own, x, getattr(own.kept, "x", None), partial(setattr, own.kept, "x"))


def a_buffer(own, x):
    return remembered(own, x, getattr(own, "late", None), partial(own.register_buffer, "late"))


def an_inner_list(own, x):
    inner = own.kept[0]["deep"]
    return remembered(own, x, inner[-1] if inner else None, inner.append)


def closure():
    kept = None

    def forward(own, x):
        def keep(value):
            nonlocal kept
            kept = value

        return remembered(own, x, kept, keep)

    return forward


def a_global(own, x):
    return remembered(own, x, GLOBAL[-1] if GLOBAL else None, GLOBAL.append)


def a_class(own, x):
    return remembered(own, x, Keeper.shared, partial(setattr, Keeper, "shared"))


def a_slot(own, x):
    return remembered(own, x, own.kept.kept, partial(setattr, own.kept, "kept"))


def counts_in_place(own, x):
    own.kept.add_(1)
    return plain(own, x * own.kept)


def counts_unseen(own, x):
    torch.add(own.kept, 1, out=own.kept)  # torch does not look here
    return plain(own, x * own.kept)


def an_array(own, x):
    own.kept += 1
    return plain(own, x * float(own.kept))


PUT_BACK = {
    "an attribute": (attribute, None),
    "an attribute of a submodule": (of_a_submodule, None),
    "its __dict__": (behind_the_back, None),
    "a list": (a_list, list),
    "a dictionary": (a_table, dict),
    "an object": (an_object, Keeper),
    "a buffer": (a_buffer, None),
    "a list in a dictionary in a list": (an_inner_list, lambda: [{"deep": []}]),
    "a closure": (closure(), None),
}
DEPENDS = r"^module = .*depends on the clients before it"
REFUSED = {
    "a global variable": (a_global, None, DEPENDS),
    "a class": (a_class, None, DEPENDS),
    "a slot": (a_slot, Slotted, DEPENDS),
    "an array": (an_array, lambda: np.zeros(()), DEPENDS),
    "a tensor": (counts_in_place, lambda: torch.zeros(()), "mutate a captured Tensor"),
    "a tensor, unseen": (counts_unseen, lambda: torch.zeros(()), DEPENDS),
}


def module(way, kept):
    torch.manual_seed(0)
    own = Own(way)
    if kept is not None:
        own.kept = kept()
    return own


def updates_of_the_others(make, loss=nn.functional.cross_entropy, **given):
    """The updates of the second half, after those of the first, with and without a change."""
    torch.manual_seed(1)
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    found = []
    for change in (0.0, 5.0):
        X[CHANGED] += change
        updates = ClientUpdates(make(), loss() if loss is SavingLoss else loss, X, y, **given)
        updates.receive(updates.layout.read(updates.module))
        for clients in (np.arange(HALF), np.arange(HALF, N)):
            parts = updates.vectors(clients)
        found.append(np.concatenate([rows_of(part) for part in parts], axis=1))
    return found


@pytest.mark.parametrize("local", [None, Local(rate=0.1, epochs=2)])
@pytest.mark.parametrize("what", PUT_BACK)
def test_what_a_pass_keeps_is_put_back(what, local):
    make = partial(module, *PUT_BACK[what])
    one, other = updates_of_the_others(make, local=local)
    np.testing.assert_array_equal(one, other)
    if local is None:  # what a client's own steps leave for its next ones is its own
        plainly, _ = updates_of_the_others(partial(module, plain, None))
        np.testing.assert_allclose(one, plainly, rtol=1e-5, atol=1e-7)


class SavingLoss(nn.Module):
    """A loss that knows the targets of the client before."""

    def forward(self, outputs, targets):
        before = getattr(self, "kept", 0.0)
        self.kept = outputs.sum()
        return nn.functional.cross_entropy(outputs + before * outputs, targets)


@pytest.mark.parametrize("local", [None, Local(rate=0.1, epochs=2)])
def test_nor_does_a_loss_keep_anything(local):
    one, other = updates_of_the_others(partial(module, plain, None), SavingLoss, local=local)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("local", [None, Local(rate=0.1, epochs=2)])
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_put_back_is_refused_before_anything_is_spent(what, local):
    way, kept, why = REFUSED[what]
    GLOBAL.clear()
    Keeper.shared = None
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    trainer = FederatedTrainer(module(way, kept), epsilon=2.0, local=local)
    with pytest.raises((InvalidArgument, RuntimeError), match=why):
        trainer.fit(X, y)
    assert len(_account.RECORDS.digests) == 0


class Shift(nn.Module):
    """Subtracts a buffer, which a forward pass may move."""

    def __init__(self, move=lambda _mean, _x: None):
        super().__init__()
        self.last, self.move = nn.Linear(6, 3), move
        self.register_buffer("mean", torch.linspace(-1, 1, 6))

    def forward(self, x):
        self.move(self, x)
        return self.last(x - self.mean)


def replaces(own, x):
    own.mean = 0.9 * own.mean + 0.1 * x.mean(0)


def overwrites(own, x):
    own.mean += x.mean(0)


def test_a_constant_buffer_is_as_good_as_a_frozen_parameter():
    X, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    shifted, plainly = Shift(), nn.Linear(6, 3)
    plainly.load_state_dict(shifted.last.state_dict())
    made = [ClientUpdates(*one, y) for one in ((shifted, nn.functional.cross_entropy, X),)]
    made.append(ClientUpdates(plainly, nn.functional.cross_entropy, X - shifted.mean, y))
    for updates in made:
        updates.receive(updates.layout.read(updates.module))
    one, other = (updates.vectors(np.arange(40)) for updates in made)
    for part, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(rows_of(part), rows_of(expected))


@pytest.mark.parametrize("move", [replaces, overwrites])
@pytest.mark.parametrize("local", [None, Local(rate=0.1)])
def test_a_buffer_that_a_forward_pass_changes_is_refused_before_anything_is_spent(move, local):
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    net = Shift(move)
    kept = net.mean.clone()
    with pytest.raises(InvalidArgument, match=r"^module = 'Shift, whose forward .*changes mean'"):
        FederatedTrainer(net, epsilon=2.0, local=local).fit(X, y)
    assert len(_account.RECORDS.digests) == 0
    assert torch.equal(net.mean, kept)


def test_a_buffer_that_changes_later_changes_nothing():
    """By the second pass on, and unseen by torch: every pass has a copy of its own."""

    def later(own, x):
        if passes:
            torch.add(own.mean, 1, out=own.mean)

    X, y, passes = torch.randn(N, 6), torch.randint(0, 3, (N,)), []
    updates = ClientUpdates(Shift(later), nn.functional.cross_entropy, X, y)
    updates.receive(updates.layout.read(updates.module))
    passes.append(1)
    one, other = (updates.vectors(np.arange(N)) for _ in range(2))
    for part, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(rows_of(part), rows_of(expected))


def looks(own, x):
    return plain(own, x) if x.sum() > 0 else own.two(x)


def draws(own, x):
    return plain(own, nn.functional.dropout(x))


@pytest.mark.parametrize("way", [looks, draws])
@pytest.mark.parametrize("local", [None, Local(rate=0.1)])
def test_a_module_that_vmap_cannot_run_is_refused_before_anything_is_spent(way, local):
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    with pytest.raises(InvalidArgument, match=r"^module = 'Own, which torch.func.vmap cannot run'"):
        FederatedTrainer(module(way, None), epsilon=2.0, local=local).fit(X, y)
    assert len(_account.RECORDS.digests) == 0


def test_dropout_that_is_turned_off_is_no_dropout():
    net = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    with pytest.raises(InvalidArgument, match="without dropout"):
        FederatedTrainer(net, epsilon=2.0)
    FederatedTrainer(net.eval(), epsilon=2.0, batch=4).fit(torch.randn(N, 6), torch.zeros(N).long())


class Words(nn.Module):
    """Takes words by their numbers, also where these are floats."""

    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.words(x.long()).mean(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_modules_are_tried_on_records_that_they_can_take(dtype):
    X, y = torch.randint(0, 3, (N, 5)).to(dtype), torch.randint(0, 2, (N,))
    for given in ({}, {"local": Local(rate=0.1)}, {"groups": np.arange(N) // 2}):
        groups = given.pop("groups", None)
        FederatedTrainer(Words(), epsilon=8.0, **given).fit(X + 0, y, groups)


def test_a_module_is_left_as_it_was_and_may_be_changed_by_its_owner():
    own = module(attribute, None)
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    trainer = FederatedTrainer(own, solution="NP", batch=10)
    trainer.fit(X, y, eval_set=(X, y), evaluate="rounds")
    assert not hasattr(own, "kept")
    own.way, own.note = plain, "mine"
    trainer.fit(X, y)
    assert own.note == "mine"


class Residual(nn.Module):
    """A block as in ResNets, with one norm in two places."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.after = self.norm

    def forward(self, x):
        return self.after(x + torch.relu(self.norm(self.conv(x))))


def resnet():
    torch.manual_seed(0)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 16, 20), nn.BatchNorm1d(20), nn.Linear(20, 3))
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), Residual(), head)


def test_batch_norm_is_replaced_on_request():
    net = resnet()
    with pytest.raises(InvalidArgument, match=r"replace_batchnorm\(module\)"):
        FederatedTrainer(net, epsilon=1.0)
    with torch.no_grad():
        net[1].weight[3] = 7.0
    made = replace_batchnorm(net)
    assert made is net
    norms = [part for part in net.modules() if isinstance(part, nn.GroupNorm)]
    assert [(n.num_groups, n.num_channels) for n in norms] == [(2, 32), (2, 32), (1, 20)]
    assert net[2].norm is net[2].after
    assert net[1].weight[3].item() == 7.0
    assert list(net.buffers()) == []
    X, y = torch.randn(30, 1, 4, 4), torch.randint(0, 3, (30,))
    single = torch.cat([net(x[None]) for x in X])
    torch.testing.assert_close(net(X), single, rtol=1e-4, atol=1e-5)  # no record sees another
    trainer = FederatedTrainer(net, epsilon=4.0, batch=10).fit(X, y)
    assert trainer.layout.dim == sum(p.numel() for p in net.parameters())
    assert net[1].weight[3].item() != 7.0


@pytest.mark.parametrize(
    ("norm", "channels", "groups"),
    [
        (nn.BatchNorm1d(1), 16, 1),
        (nn.BatchNorm3d(64), 16, 4),
        (nn.BatchNorm2d(64), 1, 64),
        (nn.BatchNorm2d(65), 16, 1),  # by 5, or all at once; at most 4 groups of 16
        (nn.SyncBatchNorm(48, affine=False, eps=0.1), 16, 3),
        (nn.BatchNorm2d(32, dtype=torch.float64), 16, 2),
    ],
)
def test_how_many_groups_there_are(norm, channels, groups):
    made = replace_batchnorm(norm, channels=channels)
    assert isinstance(made, nn.GroupNorm)
    assert (made.num_groups, made.eps, made.affine) == (groups, norm.eps, norm.affine)
    assert [p.dtype for p in made.parameters()] == [p.dtype for p in norm.parameters()]


def test_what_cannot_be_replaced_is_refused_and_left():
    net = nn.Sequential(nn.BatchNorm1d(4), nn.LazyBatchNorm1d())
    with pytest.raises(InvalidArgument, match=r"LazyBatchNorm1d without channels.*seen an input"):
        replace_batchnorm(net)
    assert isinstance(net[0], nn.BatchNorm1d)
    with pytest.raises(InvalidArgument, match="channels = 0"):
        replace_batchnorm(net, channels=0)
    with pytest.raises(InvalidArgument, match="module = "):
        replace_batchnorm("net")
    plain = nn.Linear(2, 2)
    assert replace_batchnorm(plain) is plain


def test_no_more_records_are_judged_than_clients_are_held_at_a_time():
    class Judged(TensorDataset):
        def __getitems__(self, numbers):
            asked.append(len(numbers))
            return [self[i] for i in numbers]

    asked, test = [], Judged(torch.randn(33, 6), torch.randint(0, 3, (33,)))
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    trainer = FederatedTrainer(nn.Linear(6, 3), epsilon=2.0, batch=N, chunk=5)
    trainer.fit(X, y, eval_set=test, evaluate="end")
    assert asked[-7:] == [5, 5, 5, 5, 5, 5, 3]


def test_a_buffer_is_part_of_what_a_state_belongs_to():
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    state = FederatedTrainer(Shift(), epsilon=2.0, batch=N).fit(X, y).state_dict()
    FederatedTrainer(Shift(), epsilon=2.0, batch=N).load_state_dict(state)
    other = Shift()
    other.mean += 1
    with pytest.raises(InvalidArgument, match="frozen parameters"):
        FederatedTrainer(other, epsilon=2.0, batch=N).load_state_dict(state)
