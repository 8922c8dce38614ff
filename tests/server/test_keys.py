"""The server's key: a file for its owner alone, and what opens with it."""

import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization as to
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsel import InvalidArgument
from fedsel.server import Aggregator, CheckpointError, Counts, ServerKey
from fedsel.wire import Sealing
from tests.server.shuffling import one_report, recipe


def test_a_key_is_for_its_owner_alone(tmp_path):
    file = tmp_path / "key.pem"
    before = os.umask(0)
    try:
        key = ServerKey.create(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key.pem"]
    assert ServerKey.load(file).public == key.public == ServerKey.load(str(file)).public
    assert repr(key) == f"ServerKey(public={key.public!r})"  # and nothing private
    assert ServerKey.generate().public != key.public


def test_a_key_is_durable_before_it_is_returned(tmp_path, monkeypatch):
    """The bytes, and then the name of the file in its folder."""
    file, flush, flushed = tmp_path / "key.pem", os.fsync, []

    def noted(handle):
        flush(handle)
        whole = os.path.samestat(os.fstat(handle), tmp_path.stat())
        flushed.append("folder" if whole else file.read_bytes())

    monkeypatch.setattr(os, "fsync", noted)
    ServerKey.create(file)
    assert flushed == [file.read_bytes(), "folder"]


def test_a_key_is_never_written_over(tmp_path):
    file = tmp_path / "key.pem"
    key = ServerKey.create(file)
    with pytest.raises(FileExistsError):
        ServerKey.create(file)
    assert ServerKey.load(file).public == key.public


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    file = tmp_path / "key.pem"
    ServerKey.create(file)
    file.chmod(mode)
    with pytest.raises(InvalidArgument, match=r"^file = .*key\.pem.* chmod 600"):
        ServerKey.load(file)


def test_what_is_no_key_is_refused(tmp_path):
    other = Ed25519PrivateKey.generate().private_bytes(
        to.Encoding.PEM, to.PrivateFormat.PKCS8, to.NoEncryption()
    )
    for content in (b"", b"nonsense", other):
        file = tmp_path / "key.pem"
        file.write_bytes(content)
        file.chmod(0o600)
        with pytest.raises(CheckpointError, match=r"key\.pem.* holds no private"):
            ServerKey.load(file)
    with pytest.raises(FileNotFoundError):
        ServerKey.load(tmp_path / "nowhere")


def sealed(server, key, report):
    return Sealing.split(Sealing(server.request(), key.public).seal(report)).content


def test_what_opens_is_taken_once_and_the_rest_is_counted(tmp_path):
    key, other = ServerKey.generate(), ServerKey.generate()
    with Aggregator(recipe(epochs=2), tmp_path) as server:
        good = [sealed(server, key, one_report(server, i)) for i in range(5)]
        for_another = sealed(server, other, one_report(server, 0))
        invalid = sealed(server, key, b"\xff" * 16)
        batch = b"".join([*good, for_another, invalid, bytes(64)]) + b"rest"
        assert server.receive_sealed(batch, key) == Counts(accepted=5, rejected=4)
        # The same again, as after a hand-over that was not known to have succeeded.
        assert server.receive_sealed(batch, key) == Counts(rejected=4, duplicate=5)
        assert server.receive_sealed(b"", key) == Counts()
        mean = server.mean()
        record = server.step()
        assert (record.accepted, record.rejected, record.duplicate) == (5, 8, 5)
        # In the next round nothing of it opens.
        assert server.receive_sealed(b"".join(good), key) == Counts(rejected=5)
    with Aggregator(recipe(epochs=2), tmp_path / "clear") as plain:
        for i in range(5):
            plain.receive(None, one_report(plain, i))
        assert plain.mean().tolist() == mean.tolist()


def test_reports_of_a_batch_and_what_names_them(tmp_path):
    key = ServerKey.generate()
    with Aggregator(recipe(), tmp_path) as server:
        reports = [one_report(server, i) for i in range(2)]
        good = [sealed(server, key, report) for report in reports]
        request, nothing = server.request(), bytes(len(good[0]))
        both = b"".join(reports)
        assert key.opened(request, b"".join(good)) == (both, good)
        assert key.opened(request, nothing) == (bytes(len(reports[0])), [nothing])
        for rest in (b"!", nothing[1:]):  # is no report, and counts as one that is wrong
            assert key.opened(request, b"".join(good) + rest) == (both + b"\0", good)


def test_a_batch_is_bytes(tmp_path):
    with (
        Aggregator(recipe(), tmp_path) as server,
        pytest.raises(InvalidArgument, match=r"^batch = None"),
    ):
        server.receive_sealed(None, ServerKey.generate())
