"""The checkpoint: all that a server needs to go on, and nothing that could be executed."""

import hashlib
import io
import os
import stat

import numpy as np
import pytest

from fedsel import Recipe
from fedsel.server import Aggregator, StepRule
from fedsel.server._aggregator import FILE_NAME
from fedsel.server._checkpoint import SEAL_BYTES, Checkpoint
from fedsel.server._folder import LOCK_NAME
from tests.server.test_aggregator import recipe, reports_of


@pytest.mark.parametrize("averaging", [0.0, 2.0])
def test_nothing_is_lost_between_rounds(tmp_path, averaging):
    """Weights, average, decay and records: a server that is opened anew for every round has all."""
    made = recipe(averaging=averaging, reg=0.25)
    with Aggregator(made, tmp_path / "whole") as whole:
        for _ in range(made.epochs):
            with Aggregator(made, tmp_path / "broken") as broken:
                for server in (whole, broken):
                    server.receive_many(b"".join(reports_of(server, range(9))[1]))
                    server.step()
            np.testing.assert_array_equal(broken.weights, whole.weights)
            np.testing.assert_array_equal(broken.model, whole.model)
            assert broken.records == whole.records
        assert np.array_equal(whole.model, whole.weights) == (averaging == 0)


class Loud:
    """What runs a program when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_a_checkpoint_runs_no_program(tmp_path):
    """Its SHA-256 tells that it is whole, not who has written it."""
    Aggregator(recipe(), tmp_path).close()
    whole = (tmp_path / FILE_NAME).read_bytes()
    loud = Loud()
    loud.folder = str(tmp_path / "it ran")
    with np.load(io.BytesIO(whole[SEAL_BYTES:])) as arrays:
        for name in arrays:
            body = io.BytesIO()
            np.savez(body, **{**arrays, name: np.array([loud], dtype=object)})
            content = body.getvalue()
            head = whole[: SEAL_BYTES - 32] + hashlib.sha256(content).digest()
            with pytest.raises(ValueError, match="allow_pickle=False"):
                Checkpoint.decode(head + content)
    assert not (tmp_path / "it ran").exists()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_the_lock_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        Aggregator(recipe(), tmp_path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / LOCK_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["learning_rate", "averaging"])
def test_a_rule_has_numbers(name):
    numbers = {"learning_rate": 0.1, "averaging": 0.0, name: "auto"}
    with pytest.raises(ValueError, match=f"^{name} = "):
        StepRule.of(Recipe("PM", epsilon=1.0, dim=2, **numbers))
