"""The account of fits: exact by record, whatever the overlap, and bounded in memory."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel.errors import InvalidArgument
from fedsel.simulation.account import FitAccount, digests_of


def random_digests(n, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def test_it_is_the_sum_over_all_fits_of_the_record_that_is_in_most():
    """Against a plain dictionary, over random subsets with repetitions."""
    rng, account, plain = np.random.default_rng(0), FitAccount(), {}
    people = random_digests(300)
    for _ in range(60):
        some = rng.choice(people, rng.integers(1, 200))
        epsilon = float(rng.integers(1, 5))
        before = set(plain)
        for record in set(some.tolist()):
            spent, fits = plain.get(record, (0.0, 0))
            plain[record] = (spent + epsilon, fits + 1)
        seen = account.charge(some, epsilon)
        mine = [plain[record] for record in set(some.tolist())]
        assert seen.total == max(spent for spent, _ in mine)
        assert seen.fits == max(fits for _, fits in mine)
        assert seen.again == len(before & set(some.tolist()))
        assert seen.records == len(mine)
    assert len(account) == len(plain)


def test_a_fit_without_privacy_spends_everything():
    account, people = FitAccount(), random_digests(5)
    account.charge(people[:2], np.inf)
    assert account.charge(people[2:], 1.0).total == 1.0
    assert account.charge(people, 1.0).total == np.inf


def test_memory_is_bounded_and_large_fits_are_still_seen():
    account = FitAccount(limit=1000)
    for seed in range(30):
        first = account.charge(random_digests(2000, seed), 1.0)
        again = account.charge(random_digests(2000, seed), 1.0)
        assert (first.total, first.again) == (1.0, 0)
        assert (again.total, again.fits) == (2.0, 2)
        assert again.again == again.records > 0
        assert len(account) <= 1000
    assert account.nbytes <= 20 * 1000
    # The sample is by the record, not by the fit: those who stay keep what they have spent.
    assert account.charge(random_digests(2000, 0), 1.0).total == 3.0
    with pytest.raises(InvalidArgument, match="limit"):
        FitAccount(limit=0)


def test_threads_share_it():
    account, people = FitAccount(), random_digests(200)
    work = [threading.Thread(target=account.charge, args=(people, 1.0)) for _ in range(20)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert account.charge(people, 1.0).total == 21.0


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
    code = "import numpy as np; from fedsel.simulation.account import digests_of as d;"
    code += "print(d(np.eye(2)).tolist())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
        ).stdout
        for _ in range(2)
    }
    assert len(said) == 2
