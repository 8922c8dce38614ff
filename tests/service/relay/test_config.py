"""The settings of a relay."""

import pytest

from fedsel.errors import InvalidArgument
from fedsel.service.relay import RelayConfig
from tests.service.relay.support import relay_config

FILE = """
service = "https://learn.example"
run = "{run}"
server_key = "{key}"
signing_key = "{key}"
token = "a.b.c"
"""


def test_a_file_names_the_relay_and_its_certificates(quick_path):
    file = quick_path / "churn.toml"
    file.write_text(FILE.format(run="ab" * 16, key="0a" * 32) + 'ca = "ca.pem"\n')
    file.chmod(0o644)
    with pytest.raises(InvalidArgument, match="readable by its owner only: run chmod 600"):
        RelayConfig.load(file)
    file.chmod(0o600)
    config = RelayConfig.load(file)
    assert (config.name, config.ca) == ("churn", quick_path / "ca.pem")
    assert str(config) == "the relay 'churn' in churn.toml"
    assert "a.b.c" not in repr(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"service": "learn.example"}, r"service = 'learn.example': must be the address"),
        ({"service": 3}, r"service = 3: must be a str"),
        ({"run": "ab"}, r"run = 'ab': must be 32 hexadecimal digits"),
        ({"run": 7}, r"run = 7: must be a str"),
        ({"server_key": "AB" * 32}, r"server_key = .*: must be 64 hexadecimal digits"),
        ({"signing_key": None}, r"signing_key"),
        ({"token": "two words"}, r"token = 'not shown': must be one invitation"),
        ({"token": 5}, r"token = 5: must be a str"),
        ({"tokn": "x"}, r"tokn"),
        ({"name": ""}, r"name = '': must be 1 … 100 characters"),
        ({"limits": {"waiting": 0}}, r"limits.waiting = 0"),
        ({"origins": "https://a"}, r"origins = 'https://a': must be a list"),
        ({"ca": 1}, r"ca = 1: must be a str"),
    ],
)
def test_wrong_settings_are_named(changes, message):
    with pytest.raises(InvalidArgument, match=message):
        relay_config(**changes)
