"""A fitted model that is released: its noise can be neither found in it nor guessed from it."""

import copy
import dataclasses
import pickle
import warnings

import numpy as np
import pytest

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel.errors import RepeatedFitWarning, SeededNoiseWarning
from fedsel.sampling import _kernels
from fedsel.simulation import _stages

GUESSES = range(20)
RNG = np.random.default_rng(8)
X = RNG.uniform(-1, 1, (120, 4))
LABELS = {2: (X[:, 0] > 0).astype(int), 3: np.digitize(X[:, 0], [-0.3, 0.3])}


def classifier(**parameters):
    given = {"epsilon": 0.5, "feature_range": (-1, 1), "batch_fraction": 0.2}
    return FedSelClassifier(**{**given, **parameters})


def integers_in(held, seen):
    """Every integer that can be reached from an object, as it is or as part of an array."""
    if id(held) in seen:
        return set()
    seen[id(held)] = held
    if isinstance(held, bool | float | str | type(None)):
        return set()
    if isinstance(held, int | np.integer):
        return {int(held)}
    if isinstance(held, bytes):
        return {int.from_bytes(held, order) for order in ("little", "big")}
    if isinstance(held, np.ndarray):
        return set(held.ravel().tolist()) if held.dtype.kind in "iu" else set()
    if isinstance(held, np.random.RandomState):
        return {int(copy.deepcopy(held).randint(2**31))}
    parts = list(held.values()) if isinstance(held, dict) else []
    if isinstance(held, list | tuple | set | frozenset):
        parts += list(held)
    if dataclasses.is_dataclass(held):
        parts += [getattr(held, field.name) for field in dataclasses.fields(held)]
    parts += list(getattr(held, "__dict__", {}).values())
    return set().union(*(integers_in(part, seen) for part in parts))


def repeats_the_noise(released, y):
    """Whether one of the numbers in a pickle, or a simple guess, gives the same weights again."""
    stolen = pickle.loads(released)
    tried = {n for n in integers_in(stolen, {}) if n >= 0} | set(GUESSES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return any(
            np.array_equal(
                stolen.coef_, classifier(epochs=stolen.epochs, random_state=n).fit(X, y).coef_
            )
            for n in tried
        )


@pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning")
@pytest.mark.parametrize("classes", LABELS)
@pytest.mark.parametrize("epochs", [1, 2])
def test_the_noise_cannot_be_repeated_from_what_is_released(classes, epochs):
    y = LABELS[classes]
    fresh = classifier(epochs=epochs).fit(X, y)
    assert not repeats_the_noise(pickle.dumps(fresh), y)
    assert fresh.seed_ is None
    # The attack is one: it finds a seed that is there.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)
        seeded = classifier(epochs=epochs, random_state=123_456).fit(X, y)
    assert repeats_the_noise(pickle.dumps(seeded), y)


@pytest.mark.parametrize("classes", LABELS)
def test_no_bit_of_the_noise_stays_in_the_model(classes, monkeypatch):
    drawn = []

    def spied(count):
        drawn.append(np.random.default_rng(len(drawn)).integers(0, 2**64, (count, 2), np.uint64))
        return drawn[-1]

    for module in (_kernels, _stages):
        monkeypatch.setattr(module, "fresh_seeds", spied)
    released = pickle.dumps(classifier(epochs=2).fit(X, LABELS[classes]))
    bits = np.concatenate(drawn)
    assert len(bits) == 240  # each client in each epoch
    halves = bits.view(np.uint32).ravel().tolist()
    assert not any(half.to_bytes(4, "little") in released for half in halves)


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
@pytest.mark.parametrize("classes", LABELS)
def test_without_a_seed_no_two_fits_are_alike(classes):
    one, two = (classifier().fit(X, LABELS[classes]) for _ in range(2))
    assert (one.coef_ != two.coef_).any()
    for fitted in (one, two):
        assert not fitted.privacy_.seeded
        assert "against everyone, the server included" in str(fitted.privacy_)
        assert "seed" not in str(fitted.privacy_)


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
@pytest.mark.parametrize("state", [0, np.int64(7), np.random.RandomState(3)])
def test_with_a_seed_fits_are_alike_and_warn(state):
    y = LABELS[2]
    fits = []
    for _ in range(2):
        with pytest.warns(SeededNoiseWarning, match="Do not release this model") as caught:
            fits.append(classifier(random_state=copy.deepcopy(state)).fit(X, y))
        assert caught[0].filename == __file__
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    told = str(fits[0].privacy_)
    assert fits[0].privacy_.seeded
    assert "DRAWN FROM A SEED: NOT FOR RELEASE." in told
    assert "against everyone who does not know the seed" in told
    assert "- whoever knows or guesses the seed" in told.split("Not covered:")[1]


def test_the_warning_is_easy_to_silence_and_said_once_a_line():
    y = LABELS[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        classifier(random_state=0, epsilon=8.0).fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", SeededNoiseWarning)
        warnings.simplefilter("ignore", RepeatedFitWarning)
        for seed in range(5):
            classifier(random_state=seed, epsilon=8.0).fit(X, y)
    assert [w.category for w in caught] == [SeededNoiseWarning]


def test_what_is_not_private_has_no_noise_to_undo():
    fitted = classifier(solution="NP", random_state=0).fit(X, LABELS[2])
    assert "seed" not in str(fitted.privacy_).lower()


@pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")
def test_waves_go_on_as_the_first_began():
    y = LABELS[2]
    fresh = classifier().partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert (fresh.seed_, fresh.privacy_.seeded) == (None, False)
    seeded = classifier(random_state=1).partial_fit(X[:60], y[:60])
    with pytest.warns(SeededNoiseWarning):
        seeded.set_params(random_state=None).partial_fit(X[60:], y[60:])
    assert seeded.privacy_.seeded  # half of its draws are known
