"""Ledgers: sequences of requests to one device, what it answers, and what is spent after each."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np

from fedsel._internal.random import words_of
from fedsel.device import Client, Ledger, Policy, Refused
from fedsel.solutions._privacy import GRID, added
from fedsel.wire import Intent, Request
from tools.vectors.encoding import Case, Recorder, f32, f64, quiet, rational
from tools.vectors.policies import DEFAULTS, policy_fields
from tools.vectors.requests import recipe

ABOUT = (
    "What a device answers to one request after another: report or reason, and what its ledger "
    "says after each call; and how charges are added up."
)

DAY = 86_400
RUNS = tuple(bytes([number]) * 16 for number in range(4))
TIME = 1_700_000_000
_DIM = 6
_WEIGHTS = np.array([0.5, -0.25, 0.0, 1.0, -1.0, 0.125])
_UPDATE = np.array([0.25, -0.5, 0.125, 0.75, -1.0, 0.0625])


@final
@dataclass(frozen=True)
class Call:
    """One request, with the weights beside it, at a time."""

    request: Request | bytes
    weights: bytes = _WEIGHTS.astype("<f8").tobytes()
    time: int = TIME
    update: Any = field(default_factory=lambda: _UPDATE)


@final
@dataclass(frozen=True)
class Story:
    """What a sequence of calls shows."""

    shows: str
    calls: Sequence[Call]
    policy: dict[str, Any] = field(default_factory=dict)

    def case(self, folder: Path) -> Case:
        policy = Policy.of({**DEFAULTS, **self.policy})
        ledger = Ledger(folder)
        ledger._now = lambda: self.calls[0].time
        ledger.create(policy)
        client = Client(policy, folder)
        calls = [_called(client, call, number) for number, call in enumerate(self.calls)]
        return {
            "kind": "ledger",
            "shows": self.shows,
            "policy": policy_fields(policy),
            "calls": calls,
        }


def _called(client: Client, call: Call, number: int) -> Case:
    # Nothing but vectors and tests has words of its own: a device has no seed.
    recorder = client._entropy = Recorder(words_of(25, 0, number))
    client._now = lambda: call.time
    message = call.request if isinstance(call.request, bytes) else call.request.encode()
    answers = isinstance(call.update, int)
    case: Case = {
        "request": message.hex(),
        "weights": call.weights.hex(),
        "time": call.time,
        **({"answer": call.update} if answers else {"update_f64": f64(call.update)}),
        "words": recorder.words,
    }
    try:
        with quiet():
            case["report"] = client.answer(message, call.weights, call.update).hex()
    except Refused as refused:
        case["reason"] = refused.reason.name
    history = client.history()
    if isinstance(call.request, Request):
        run, narrow = call.request.run, len(call.weights) == 4 * _DIM
        kind = "<f4" if narrow and call.request.recipe.solution != "BR" else "<f8"
        with client.ledger.transaction() as books:
            task = books.known_run(run)
            case["open"] = task is not None and task.is_open
            case["residual_f32"] = f32(books.residual(run, _DIM))
        digest = hashlib.sha256(message + kind.encode() + call.weights)
        case["digest"] = digest.hexdigest()
    return {**case, "reports": len(history.entries), "spent": rational(history.spent)}


def cases() -> Iterator[Case]:
    """Every case."""
    yield {"kind": "grid", "grid": str(GRID)}
    for spent, charge in (
        ("0", "1/3"),
        ("1/3", "1/3"),
        ("2/3", "1/3"),
        ("1/101", "1/101"),
        ("1/101", "1/103"),
        ("3/10", "7/1267650600228229401496703205376"),
        (f"1/{(1 << 61) - 1}", f"1/{(1 << 61) - 1}"),
        (f"1/{(1 << 61) - 1}", "1/2"),
        ("5", f"{(1 << 36) + 1}/{1 << 36}"),
    ):
        total = rational(added(Fraction(spent), Fraction(charge)))
        yield {"kind": "added", "spent": spent, "charge": charge, "total": total}
    with tempfile.TemporaryDirectory() as folder:
        for number, story in enumerate(stories()):
            yield story.case(Path(folder) / str(number))


def _asked(
    number: int = 0,
    epoch: int | None = None,
    run: int = 0,
    stated: Intent | None = None,
    **changes: Any,
) -> Request:
    made = recipe(
        **{"name": "PS-PM", "dim": _DIM, "k": 2, "epochs": 5, "epsilon": Fraction(5), **changes}
    )
    return Request(RUNS[run], number if epoch is None else epoch, number, made, stated or Intent())


def stories() -> Iterator[Story]:
    """What is shown."""
    yield from _trained()
    yield from _answered()


def _trained() -> Iterator[Story]:
    first = _asked()
    other = (2 * _WEIGHTS).astype("<f8").tobytes()
    yield Story(
        "a request that was answered gets the same bytes for nothing; with other weights it is a "
        "conflict, also with the same numbers in another precision",
        [
            Call(first),
            Call(first, update=2 * _UPDATE),
            Call(first, time=TIME + 10 * DAY),
            Call(first, other),
            Call(first, _WEIGHTS.astype("<f4").tobytes()),
            Call(_asked(1)),
            Call(first),
        ],
    )
    yield Story(
        "one run, one recipe and one intent",
        [
            Call(first),
            Call(_asked(1, epsilon=Fraction(4))),
            Call(_asked(1, clip=0.25)),
            Call(_asked(1, bases=1)),
            Call(_asked(1, stated=Intent("for this"))),
            Call(_asked(0, epoch=1)),
            Call(_asked(1)),
        ],
    )
    yield Story(
        "older rounds and older epochs are out of order",
        [
            Call(_asked(5, epoch=1)),
            Call(_asked(4, epoch=1)),
            Call(_asked(4, epoch=2)),
            Call(_asked(6, epoch=0)),
            Call(_asked(6, epoch=1)),
            Call(_asked(6, epoch=2)),
        ],
    )
    yield Story(
        "two reports in an epoch, and no third one; the residual goes with the last report",
        [Call(_asked(n, epoch=n // 3, epochs=2, epsilon=Fraction(2))) for n in range(6)],
        {"reports_per_epoch": 2},
    )
    yield Story(
        "two reports in 24 hours; a clock that ran ahead counts as well",
        [
            Call(_asked(0)),
            Call(_asked(1), time=TIME + 10),
            Call(_asked(2), time=TIME + DAY - 1),
            Call(_asked(2), time=TIME + DAY),
            Call(_asked(3), time=TIME + DAY + 9),
            Call(_asked(3), time=TIME + DAY + 10),
            Call(_asked(4), time=TIME),
        ],
        {"reports_per_day": 2},
    )
    yield Story(
        "the lifetime is spent to the last digit, and nothing beyond",
        [Call(_asked(n, epsilon=Fraction(1, 10) * 5)) for n in range(4)],
        {"lifetime": Fraction(3, 10)},
    )
    yield Story(
        "prices without a common denominator are rounded up to the grid",
        [
            Call(_asked(0, run=0, epsilon=Fraction(5, 101))),
            Call(_asked(1, run=0, epsilon=Fraction(5, 101))),
            Call(_asked(0, run=1, epsilon=Fraction(5, 103))),
            Call(_asked(0, run=2, epsilon=Fraction(5, (1 << 31) - 1))),
            Call(_asked(1, run=2, epsilon=Fraction(5, (1 << 31) - 1))),
        ],
        {"runs": 3},
    )
    yield Story(
        "a further run closes the oldest one: its residual is erased, its answers stay",
        [
            Call(_asked(0, run=0)),
            Call(_asked(0, run=1)),
            Call(_asked(1, run=0)),
            Call(_asked(0, run=2)),
            Call(_asked(2, run=0)),
            Call(_asked(1, run=0)),
            Call(_asked(1, run=1)),
        ],
        {"runs": 2},
    )
    nan, beyond = _WEIGHTS.copy(), _WEIGHTS.copy()
    nan[2], beyond[2] = np.nan, 1.0000000000000002e6
    yield Story(
        "weights of a wrong length, not finite, or beyond the bound; an unknown version; a price",
        [
            Call(first, b""),
            Call(first, _WEIGHTS.tobytes()[:-1]),
            Call(first, nan.astype("<f8").tobytes()),
            Call(first, beyond.astype("<f8").tobytes()),
            Call(first, np.full(6, 1e6).astype("<f4").tobytes()),
            Call(b"FSRQ\x09"),
            Call(b"nonsense"),
            Call(_asked(1, dim=7)),
            Call(_asked(1, run=1, epsilon=Fraction(20))),
            Call(_asked(1)),
        ],
    )
    tenth = np.full(6, 0.1)
    yield Story(
        "the bound of weights is rounded to their precision",
        [
            Call(_asked(0), np.nextafter(tenth, 1).astype("<f8").tobytes()),
            Call(_asked(0), np.nextafter(tenth.astype("<f4"), np.float32(1)).tobytes()),
            Call(_asked(0), tenth.astype("<f4").tobytes()),
            Call(_asked(1), (-tenth).astype("<f8").tobytes()),
        ],
        {"weight_bound": 0.1},
    )
    yield Story(
        "an update that is no vector of d numbers counts as zeros, and costs as much",
        [Call(_asked(0), update=_UPDATE[:5]), Call(_asked(1), update=np.full(6, np.nan))],
    )
    yield Story(
        "the rate inside, and a rotated basis in a run of its own",
        [
            Call(_asked(0, name="PS-PM-O", epochs=2, epsilon=Fraction(2))),
            Call(_asked(1, name="PS-PM-O", epochs=2, epsilon=Fraction(2))),
            Call(_asked(3, epoch=0, run=1, name="RJ", bases=4, stated=Intent("", "A hospital"))),
        ],
        {"solutions": ("PS-PM-O", "RJ")},
    )


def _answers(
    *answers: Any,
    weights: Sequence[int] = (),
    after: Sequence[int] = (),
    per_epoch: int = 1,
    **changes: Any,
) -> list[Call]:
    """A question in one round after another: so many doubles beside it, so many seconds later."""
    return [
        Call(
            _asked(number, number // per_epoch, **{"name": "BR", **changes}),
            _WEIGHTS[: weights[number] if weights else 0].astype("<f8").tobytes(),
            TIME + (after[number] if after else 0),
            answer,
        )
        for number, answer in enumerate(answers)
    ]


def _answered() -> Iterator[Story]:
    asking: dict[str, Any] = {"solutions": ("BR",)}
    cyclotomic: dict[str, Any] = {"k": 1, "words": 7, "bases": 3}
    yield Story(
        "each epoch is drawn anew and charged, whether or not the answer has changed; weights are "
        "doubles, however many",
        _answers(4, 4, 2, 2, 4, weights=[0, 3, 6, 1, 3]),
        asking,
    )
    unit = np.eye(6)[3]
    yield Story(
        "the same with bases; what is none of the answers is no answer, and costs as much",
        _answers(3, unit, 2 * unit, -1, 6, -unit[:5], 3, **cyclotomic, epochs=7, epsilon=7),
        asking,
    )
    twice = _answers(5, 5, 0, 0, 0, 1, per_epoch=2, epochs=3, epsilon=Fraction(3))
    yield Story(
        "two reports in an epoch; a request that was answered gets the same bytes for nothing, "
        "whatever the answer has become",
        [*twice, twice[1], replace(twice[0], update=2), twice[5]],
        {**asking, "reports_per_epoch": 2},
    )
    spent = _answers(1, 1, 4)
    yield Story(
        "without budget a later epoch is refused, whether or not the answer has changed",
        [*spent, replace(spent[0], update=4), replace(spent[0], request=_asked(run=1, name="BR"))],
        {**asking, "lifetime": Fraction(3, 2), "runs": 2},
    )
    yield Story(
        "the same until the budget is renewed",
        _answers(1, 4, 1, 1, 4, after=[0, 600, DAY, DAY + 1, DAY + 2]),
        {**asking, "per_window": (Fraction(1), "1 day")},
    )
    first, later = _answers(1, 1)
    yield Story(
        "weights that are no doubles, not finite or beyond the bound; a round that was answered, "
        "and with other weights; a further run closes the oldest",
        [
            *(replace(first, weights=bytes(size)) for size in (4, 12, 7)),
            replace(first, weights=np.array([0.5, np.nan]).tobytes()),
            replace(first, weights=np.array([1.0000000000000002e6]).tobytes()),
            first,
            replace(first, update=3),
            replace(first, weights=bytes(8)),
            replace(later, request=_asked(1, name="BR", epsilon=Fraction(4))),
            Call(_asked(0, run=1, name="BR", **cyclotomic), update=5),
            later,
        ],
        asking,
    )
