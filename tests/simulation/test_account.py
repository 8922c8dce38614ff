"""Accounts of fits: exact by record and bounded in memory, or the sum of all fits in a block."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import FitAccount, solution
from fedsel.errors import InvalidArgument, LifetimeExceeded
from fedsel.simulation._account import RecordAccount, digests_of, spend


def random_digests(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def test_it_is_the_sum_over_all_fits_of_the_record_that_is_in_most():
    """Against a plain dictionary, over random subsets with repetitions."""
    rng, account, plain = np.random.default_rng(0), RecordAccount(), {}
    people = random_digests(300)
    for _ in range(60):
        some = rng.choice(people, rng.integers(1, 200))
        epsilon = float(rng.integers(1, 5))
        before = set(plain)
        for record in set(some.tolist()):
            spent, fits = plain.get(record, (0.0, 0))
            plain[record] = (spent + epsilon, fits + 1)
        total, fits, again, records = account.charge(some, epsilon)
        mine = [plain[record] for record in set(some.tolist())]
        assert total == max(spent for spent, _ in mine)
        assert fits == max(fits for _, fits in mine)
        assert again == len(before & set(some.tolist()))
        assert records == len(mine)
    assert len(account.digests) == len(plain)


def test_a_fit_without_privacy_spends_everything():
    account, people = RecordAccount(), random_digests(5)
    account.charge(people[:2], np.inf)
    assert account.charge(people[2:], 1.0)[0] == 1.0
    assert account.charge(people, 1.0)[0] == np.inf


def test_memory_is_bounded_and_large_fits_are_still_seen():
    account = RecordAccount(limit=1000)
    for seed in range(30):
        first, again = (account.charge(random_digests(2000, seed), 1.0) for _ in range(2))
        assert first[:3] == (1.0, 1, 0)
        assert again[:2] == (2.0, 2)
        assert again[2] == again[3] > 0
        assert len(account.digests) <= 1000
    # The sample is by the record, not by the fit: those who stay keep what they have spent.
    assert account.charge(random_digests(2000, 0), 1.0)[0] == 3.0


def test_threads_share_it():
    account, people = RecordAccount(), random_digests(200)
    work = [threading.Thread(target=account.charge, args=(people, 1.0)) for _ in range(20)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert account.charge(people, 1.0)[0] == 21.0


def test_equal_features_have_equal_digests_and_others_do_not():
    X = np.random.default_rng(0).normal(size=(500, 7))
    X[3, 2], X[4, 2] = 0.0, 1.0
    found = digests_of(X)
    assert len(set(found.tolist())) == 500
    np.testing.assert_array_equal(digests_of(X[[5, 2, 9]]), found[[5, 2, 9]])
    np.testing.assert_array_equal(digests_of(np.asfortranarray(X)), found)
    negative = X.copy()
    negative[3, 2] = -0.0
    np.testing.assert_array_equal(digests_of(negative), found)
    moved = X.copy()
    moved[:, 6] = np.nextafter(X[:, 6], 9.0)
    assert not set(digests_of(moved).tolist()) & set(found.tolist())
    # float32 and whole numbers by their value; the shape of a record does not matter.
    single = X.astype(np.float32)
    np.testing.assert_array_equal(digests_of(single), digests_of(single.astype(float)))
    np.testing.assert_array_equal(digests_of(np.eye(3)), digests_of(np.eye(3, dtype=int)))
    np.testing.assert_array_equal(digests_of(np.eye(4)), digests_of(np.eye(4).reshape(4, 2, 2)))


def test_sparse_records_by_what_they_hold():
    X = np.random.default_rng(0).normal(size=(200, 30))
    X[np.abs(X) < 1] = 0
    found = digests_of(csr_array(X))
    assert len(set(found.tolist())) == 200
    np.testing.assert_array_equal(digests_of(csr_array(X[50:])), found[50:])
    # Explicit zeros, indices in another order and entries in two parts are the same record.
    data = np.array([2.0, 0.0, 1.0, 1.0])
    untidy = csr_array((data, np.array([4, 3, 1, 1]), np.array([0, 4])), shape=(1, 5))
    tidy = csr_array(np.array([[0.0, 2.0, 0.0, 0.0, 2.0]]))
    np.testing.assert_array_equal(digests_of(untidy), digests_of(tidy))
    assert untidy.data.tolist() == data.tolist()  # the caller's is left alone


def test_digests_mean_nothing_in_another_process():
    code = "import numpy as np; from fedsel.simulation._account import digests_of as d;"
    code += "print(d(np.eye(2)).tolist())"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=env,
        ).stdout
        for _ in range(2)
    }
    assert len(said) == 2


def privacy(epsilon, epochs=1, name="FJ"):
    return solution(name, epsilon=epsilon, dim=4, rho=0.4, epochs=epochs).privacy


def rows(seed):
    return np.random.default_rng(seed).normal(size=(20, 3))


def test_an_open_account_adds_up_all_fits_whatever_their_records():
    with FitAccount() as account:
        for seed in range(10):
            assert spend(rows(seed), privacy(0.1, epochs=3)) == pytest.approx(0.1)
    assert (account.fits, account.spent) == (10, 1.0)
    spend(rows(10), privacy(0.1))  # it is closed
    assert account.spent == 1.0
    with account:
        spend(rows(11), privacy(0.25))
    assert repr(account) == "FitAccount(lifetime=None, fits=11, spent=1.25)"


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_a_lifetime_is_exact_and_refuses_before_anything_is_spent():
    with FitAccount(lifetime=0.3) as account:
        for _ in range(3):  # 0.1 + 0.1 + 0.1 > 0.3 in floats
            spent = spend(rows(0), privacy(0.1))
        with pytest.raises(
            LifetimeExceeded, match=r"costs ε = 0\.1, more .*FitAccount.*spent=0\.3"
        ):
            spend(rows(1), privacy(0.1))
        assert (account.fits, account.spent) == (3, 0.3)
    assert spent == pytest.approx(0.3)
    assert spend(rows(1), privacy(0.1)) == pytest.approx(0.1)  # what was refused is nowhere
    for wrong in (0, -1, float("nan"), "1"):
        with pytest.raises(InvalidArgument, match="lifetime"):
            FitAccount(lifetime=wrong)


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
@pytest.mark.parametrize("name", ["NP", "PS", "PrivUnit"])
def test_what_has_no_proof_has_no_place_in_a_lifetime(name):
    with FitAccount() as every, pytest.raises(LifetimeExceeded), FitAccount(lifetime=100):
        spend(rows(0), privacy(1.0, name=name))
    assert (every.fits, every.spent) == (0, 0.0)  # all accounts agree, or none pays
    with every:
        spend(rows(0), privacy(1.0, name=name))
        spend(rows(0), privacy(1.0))
    assert (every.fits, every.spent) == (2, np.inf)


def test_accounts_may_be_nested_and_one_pays_once():
    with FitAccount() as outer, FitAccount() as inner, outer:
        spend(rows(0), privacy(1.0))
    with outer:
        spend(rows(1), privacy(1.0))
    assert (outer.spent, inner.spent) == (2.0, 1.0)


def test_fits_of_all_threads_are_counted():
    with FitAccount(lifetime=10.0) as account:
        work = [threading.Thread(target=spend, args=(rows(s), privacy(1.0))) for s in range(10)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert (account.fits, account.spent) == (10, 10.0)
