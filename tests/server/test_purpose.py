"""Purpose and recipient of a server's run: stated in each request, kept in the checkpoint."""

import pytest

from fedsel import Aggregator, InvalidArgument, Reports
from fedsel.device import Request
from fedsel.server._checkpoint import Checkpoint
from fedsel.wire import Intent
from tests.wire.support import complete

RECIPE = complete("PM", epsilon=3, dim=4, epochs=3)


def test_a_server_goes_on_with_the_purpose_that_it_began_with(tmp_path):
    with Aggregator(RECIPE, tmp_path, purpose="A study", recipient="A university") as server:
        request, run = server.request(), server.run
    with Aggregator(RECIPE, tmp_path, purpose="A study", recipient="A university") as server:
        assert (server.request(), server.run) == (request, run)
        assert Request.decode(request).intent == server.intent
    for name, given in (
        ("purpose", {"purpose": "Another", "recipient": "A university"}),
        ("recipient", {"purpose": "A study"}),
        ("purpose", {}),
    ):
        with pytest.raises(InvalidArgument, match=f"^{name} = .*as in the checkpoint"):
            Aggregator(RECIPE, tmp_path, **given)


def test_a_server_that_began_without_one_gets_none(tmp_path):
    with Aggregator(RECIPE, tmp_path) as server:
        assert Request.decode(server.request()).version == 1
    with pytest.raises(
        InvalidArgument, match=r"^purpose = 'A study': must be .*, as in the checkpoint"
    ):
        Aggregator(RECIPE, tmp_path, purpose="A study")


def test_a_purpose_that_no_device_would_take_is_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^recipient = "):
        Aggregator(RECIPE, tmp_path / "folder", recipient="two\nlines")
    assert not (tmp_path / "folder").exists()


def test_what_is_stated_changes_no_weight(tmp_path):
    models = []
    for place, stated in enumerate(({}, {"purpose": "A study"})):
        with Aggregator(RECIPE, tmp_path / str(place), **stated) as server:
            report = Request.decode(server.request()).format.encode(0, Reports([1], [0]))
            server.receive("a client", report)
            server.step()
            models.append(server.model.tolist())
    assert models[0] == models[1]


def test_a_checkpoint_has_an_intent_where_there_is_one(tmp_path):
    for name, intent in (("a", Intent()), ("b", Intent("A study", "Universität Wien"))):
        with Aggregator(
            RECIPE, tmp_path / name, purpose=intent.purpose, recipient=intent.recipient
        ):
            saved = (tmp_path / name / "checkpoint.bin").read_bytes()
        assert Checkpoint.decode(saved).intent == intent
        assert (b"intent.npy" in saved) == bool(intent)
