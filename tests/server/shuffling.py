"""What the tests of the shuffler share."""

from fedsel import Recipe, Reports
from fedsel.server import ServerKey
from fedsel.wire import Request, Sealing

KEY = ServerKey.generate()
RUN = bytes(range(16))
SIZE = 64
"""Bytes of a sealed report, without its tag."""


def recipe(epochs=1, **more):
    return Recipe(
        **{
            "solution": "PS-PM",
            "epsilon": 2.0,
            "dim": 8,
            "epochs": epochs,
            "k": 2,
            "mu": 0.1,
            "learning_rate": 0.5,
            "averaging": 0.0,
        }
        | more
    )


def request_of(number=0, run=RUN, **more):
    return Request(run, 0, number, recipe(**more)).encode()


def one_report(server, i):
    """A report of this server's round: one of 8 slots, one of as many symbols as there are."""
    form = Request.decode(server.request()).format
    return form.encode(server.round, Reports([i % form.slots], [i % form.symbols]))


def message_of(i, request=None, key=KEY):
    """A sealed report that answers a request."""
    request = request_of() if request is None else request
    asked = Request.decode(request)
    report = asked.format.encode(asked.round, Reports([i % 8], [i % asked.format.symbols]))
    return Sealing(request, key.public).seal(report)
