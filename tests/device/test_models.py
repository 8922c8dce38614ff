"""A model from a file or a URL: bounded, in time, and nothing but a model."""

import gzip
import socket

import pytest

from fedsel import InvalidArgument, load_model
from fedsel.device import _models
from fedsel.device._models import read_model
from tests.clients import model_cases
from tests.device.joining import CUT, Script, Server

pytestmark = pytest.mark.usefixtures("hurry")

MODEL = next(model_cases.models())[1]
PLACE = "/v1/model.json"


def answering(*answers, path=PLACE):
    script = Script()
    script.next[path] = [*answers]
    return Server(script)


def test_a_file_and_a_url_are_the_same_model(tmp_path):
    MODEL.save(tmp_path / "model.json")
    assert read_model(tmp_path / "model.json").encode() == MODEL.encode()
    assert read_model(str(tmp_path / "model.json")).encode() == MODEL.encode()
    packed = gzip.compress(MODEL.encode()), {"content-encoding": "gzip"}
    with answering((200, MODEL.encode(), {}), (200, *packed), (200, MODEL.encode(), {})) as server:
        for url in (server.url, f"{server.url}/", f"{server.url}{PLACE}"):
            assert read_model(url).encode() == MODEL.encode()
        server.script.next[f"/here{PLACE}"] = [(200, MODEL.encode(), {})]
        assert load_model(f"{server.url}/here").classes_.tolist() == ["no", "yes"]
        server.script.next["/files/mine.json"] = [(200, MODEL.encode(), {})]
        assert read_model(f"{server.url}/files/mine.json").classes == ("no", "yes")


def test_a_busy_service_is_asked_again():
    with answering((503, b"", {}), CUT, (200, MODEL.encode(), {})) as server:
        assert read_model(server.url).encode() == MODEL.encode()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, b"{}", {}), r"the address of a service or of a model file \(status 404\)"),
        ((302, b"", {"location": "http://127.0.0.1:9"}), r"\(status 302\)"),
        ((200, b"<html>Welcome", {}), r"model at http://.* = 'no JSON': must be a model file"),
        ((200, b'{"a": 1}', {}), r"model at http://.* = 'other JSON': must be a model file"),
        ((200, b" " * (1 << 17), {}), "its answer is too long"),
        ((200, gzip.compress(b" " * (1 << 17)), {"content-encoding": "gzip"}), "too long"),
    ],
)
def test_anything_else_gets_one_sentence(answer, message, monkeypatch):
    monkeypatch.setattr(_models, "MOST_MODEL_BYTES", 1 << 16)
    with answering(answer) as server, pytest.raises(InvalidArgument, match=message):
        read_model(server.url)


def test_nobody_answers():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(InvalidArgument, match=r"can be fetched \(the service does not answer"):
            load_model(url, timeout=0.05)


@pytest.mark.parametrize("url", ["http://", "https://a b", "http://user@example.org", "HTTP://x?y"])
def test_an_address_that_is_none(url):
    with pytest.raises(InvalidArgument, match="the address of a service"):
        read_model(url)
