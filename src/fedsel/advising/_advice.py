"""Advice before anything is collected: a ranking of solutions, for a local or a central goal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, final

from fedsel._internal.progress import note
from fedsel.advising._moments import moments
from fedsel.advising._outlook import (
    LEAST_ROUNDS,
    Asked,
    Check,
    Outlook,
    candidate,
    candidates,
    left_out,
    outlooks,
    reason,
    simulate,
    warn_about_alignment,
    warn_about_epochs,
    warn_about_selection,
)
from fedsel.advising._relay import RelayAdvice, advise_relay
from fedsel.advising._sufficiency import GOAL
from fedsel.auto import AGREEMENT, FEWEST_ROUNDS, resolve_auto
from fedsel.auto._run_plan import noise_of_mean
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon, check_positive
from fedsel.mechanisms import FullGradient
from fedsel.mechanisms.central import DELTA, CentralGuarantee
from fedsel.mechanisms.central._budget import proved_budget, rough_budget
from fedsel.mechanisms.central._guarantee import check_delta
from fedsel.recipe import Recipe
from fedsel.solutions import Solution
from fedsel.solutions._caps import codewords_for
from fedsel.wire import ShuffleRule

_WORK = 6e7
"""The most work spent on simulating one solution: a few seconds."""
_MOST_ROUNDS = 200


@final
@dataclass(frozen=True)
class Advice(Asked):
    """The outlooks by rank, a recommendation with its reason, and warnings.

    ``without_privacy`` is the alignment of unperturbed updates, ``one_epoch`` the best alignment if
    one epoch gets all of ε. ``spread`` and ``centre`` are the shares of the rounds that would learn
    the records' spread and centre (`fedsel.preparation`), 0 if there are too few clients.
    ``centre_error`` is the norm of the centre's noise over a record's norm. FJ chooses among
    ``codewords``. ``central`` is set for a central goal; then ``epsilon`` is the local ε that the
    goal allows the recommended solution if reports are shuffled.
    """

    epsilon: float
    outlooks: tuple[Outlook, ...]
    recommended: str
    reason: str
    usable: bool
    without_privacy: float
    one_epoch: float
    warnings: tuple[str, ...]
    spread: float = 0.0
    centre: float = 0.0
    centre_error: float = 0.0
    codewords: int = 1
    central: CentralAdvice | None = None

    @cached_property
    def relay(self) -> RelayAdvice | None:
        """What a relay can promise to these clients; None if no round is certain of two reports."""
        best, asked_for = self.recommended, self.central
        if asked_for is None:
            return advise_relay(self, best, self.epsilon, None, DELTA)
        return advise_relay(self, best, self.epsilon, asked_for.epsilon, asked_for.delta)

    @property
    def relay_sentences(self) -> tuple[str, ...]:
        """Describe it in sentences."""
        if self.relay is None:
            return ("Behind a relay no round is certain of two reports: take fewer rounds.",)
        return self.relay.sentences(self)

    @property
    def preparation(self) -> str:
        """Advise in a sentence how to learn the records' centre and spread."""
        rounds = self.rounds_per_epoch
        if not self.centre:
            few = f"an epoch of {rounds} rounds is too short" if rounds < FEWEST_ROUNDS else ""
            return (
                f"{few.capitalize() or 'The clients are too few'} to learn the records' centre or"
                " spread in: declare ranges that are as narrow and as symmetric about zero as is"
                " known, or give public rows or means."
            )
        spreads = "; they are too few to tell spreads as well"
        if self.spread:
            first = self._first(self.spread, rounds)
            spreads = f"; where ranges are loose, those of {first} their spread"
        return (
            f"Where declared ranges are not symmetric about zero, let the clients of"
            f" {self._first(self.centre, rounds)} tell the records' centre, which noise then moves"
            f" by about {self.centre_error:.2g} of a record's norm{spreads}."
            " Public rows tell both without a round, public means the centre."
        )

    def _first(self, share: float, rounds: int) -> str:
        """Name the first rounds of an epoch, and the number of their clients."""
        count = math.ceil(share * rounds - 1e-9)
        clients = min(self.clients, count * self.batch)
        return f"the first {count} of {rounds} rounds ({clients:,}, {share:.0%})"

    @property
    def codebook(self) -> str:
        """Describe the codebook of FJ in a sentence."""
        return (
            f"A report of FJ chooses among {self.codewords:,} codewords of its own, so that the"
            " mean of all reports does not bend."
        )

    def __getitem__(self, name: str) -> Outlook:
        """Return the outlook of a solution by its name."""
        for outlook in self.outlooks:
            if outlook.name == name:
                return outlook
        raise InvalidArgument("name", name, ", ".join(o.name for o in self.outlooks))

    def check(self, seed: int = 0) -> tuple[Check, ...]:
        """Simulate rounds of each solution and compare their alignment with the computed one.

        A round has ``batch`` reports, or fewer if that would take long.

        >>> from fedsel import advise
        >>> advice = advise(dim=50, clients=1_000, batch=50, epsilon=2.0)
        >>> all(check.agrees for check in advice.check())
        True
        """
        checks: list[Check] = []
        with note("checking advice by simulation", len(self.outlooks)) as tell:
            for outlook in self.outlooks:
                checks.append(self._check_one(outlook, checks, seed))
                tell(1)
        return tuple(checks)

    def _check_one(self, outlook: Outlook, checks: list[Check], seed: int) -> Check:
        same = (c for c in checks if c.name == outlook.takes != outlook.name)
        if known := next(same, None):
            return replace(known, name=outlook.name)
        cost = _cost(outlook.solution)
        reports = min(self.batch, max(1, int(_WORK / LEAST_ROUNDS / cost)))
        rounds = min(_MOST_ROUNDS, max(LEAST_ROUNDS, int(_WORK / cost / reports)))
        check = simulate(outlook.solution, self.updates, outlook.moments, reports, rounds, seed)
        return replace(check, name=outlook.name)

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        relay = None if self.relay is None else self.relay.as_dict()
        return {**self.without_relay(), "relay": relay}

    def without_relay(self) -> dict[str, Any]:
        """Return everything but what a relay can promise, for JSON."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        content["central"] = None if self.central is None else self.central.as_dict()
        content["rounds"], content["warnings"] = self.rounds, list(self.warnings)
        content["preparation"], content["codebook"] = self.preparation, self.codebook
        return {**content, "outlooks": [o.as_dict() for o in self.outlooks]}


def _cost(candidate: Solution) -> float:
    """Return about how many entries the simulation of one report touches."""
    if not candidate.decays_at_server:
        return 4.0 * candidate.dim
    each = candidate.dim / 400 if candidate.transform.entries else 20
    return candidate.dim + candidate.transform.size * each


def advice_for(
    asked: Asked, epsilon_of: Callable[[str], Epsilon], *, one_epoch_instead: bool = True
) -> Advice:
    """Give advice if ``epsilon_of`` returns the total ε of each solution.

    ``one_epoch_instead`` says whether one epoch could get all of ε.
    """
    found = outlooks(asked, epsilon_of)
    best = found[0]
    once = best
    if asked.epochs > 1 and one_epoch_instead:
        once = outlooks(replace(asked, epochs=1), epsilon_of)[0]
    plain = moments(Solution("NP", asked.dim, FullGradient()), asked.updates)
    epsilon = epsilon_of(best.name)
    automatic = resolve_auto(Recipe(epsilon=epsilon, epochs=asked.epochs), asked.facts)
    waiting = max(1.0, float(automatic.centre) * asked.clients)
    noise = noise_of_mean(automatic, automatic.build(), waiting) if automatic.centre else 0.0
    warnings = (
        *warn_about_alignment(best, asked.clients, asked.epochs),
        *warn_about_selection(found, asked.dim, asked.batch),
        *(f"{name} is left out: {why}." for name, why in left_out(asked).items()),
        *warn_about_epochs(best, once, asked.epochs),
    )
    return Advice(
        **vars(asked),
        epsilon=float(epsilon),
        outlooks=found,
        recommended=best.name,
        reason=reason(found),
        usable=best.alignment_all >= GOAL,
        without_privacy=plain.alignment(asked.clients),
        one_epoch=once.alignment_all,
        warnings=warnings,
        spread=float(automatic.spread),
        centre=float(automatic.centre),
        centre_error=math.sqrt(asked.dim * noise),
        codewords=codewords_for(automatic.charge, asked.dim),
    )


LADDER = (1, 5, 10, FEWEST_ROUNDS, 50, 100)
"""The numbers of rounds per epoch compared for a central goal. Fewer, larger rounds hide a report
better, but a model takes one step per round, and below `FEWEST_ROUNDS` no records are prepared. On
ADULT and KDD fewer rounds lose more than their larger ε gains (docs/shuffling.md)."""


@final
@dataclass(frozen=True)
class Rung:
    """The local ε that a number of rounds per epoch allows, and the resulting alignment."""

    rounds: int
    reports: int
    local: float
    alignment: float


@final
@dataclass(frozen=True)
class CentralAdvice:
    """What a central goal (``epsilon``, ``delta``) allows with a shuffler and without.

    ``guarantee`` is proved for the recommended solution and the rounds of the advice. The local ε
    of the other solutions are proved for one epoch, and estimated in floats for several, as is
    ``ladder``, the recommended solution with other numbers of rounds. ``without`` is the advice
    without a shuffler: its local ε is the central goal.
    """

    epsilon: float
    delta: float
    guarantee: CentralGuarantee
    ladder: tuple[Rung, ...]
    without: Advice

    def sentences(self, advice: Advice) -> tuple[str, ...]:
        """Describe what is possible with a shuffler and without, and how rounds matter."""
        best, other, plain = advice.outlooks[0], self.without.outlooks[0], self.without
        epochs = "" if advice.epochs == 1 else f" in each of {advice.epochs} epochs"
        total = "" if advice.epochs == 1 else f", {best.epsilon_total:.4g} in all"
        return (
            f"With a shuffler: {best.name} at local ε = {best.epsilon_per_report:.4g}{epochs}"
            f"{total}, {_rounds(advice.rounds_per_epoch)} of {advice.reports:,} reports or more,"
            f" aligns {best.alignment_all:.2g}. Proved: {self.guarantee}.",
            f"Without a shuffler: {other.name} at local ε = {self.epsilon:g} in all,"
            f" {_rounds(plain.rounds)}, aligns {other.alignment_all:.2g}. Nobody need be trusted.",
            "Fewer rounds hide a report among more, and allow it a larger local ε; but a model"
            f" takes one step a round, and below {FEWEST_ROUNDS} rounds no record is prepared."
            " Only honest reports hide others: plan with fewer than all.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "guarantee": asdict(self.guarantee),
            "ladder": [asdict(rung) for rung in self.ladder],
            "without": self.without.without_relay(),
        }


def advise_centrally(asked: Asked, unshuffled: Asked, epsilon: float, delta: float) -> Advice:
    """Give advice for a central goal, with and without a shuffler."""
    goal, local, proofs = _goal(asked, epsilon, delta), dict[str, float](), {}

    def prove(name: str) -> None:
        local[name], proofs[name] = proved_budget(_maker(name, asked), **goal)

    def total_of(name: str) -> float:
        if name not in local:
            if asked.epochs == 1:  # a proof is faster than the search before it
                prove(name)
            else:
                local[name] = rough_budget(_maker(name, asked), **goal)
            tell(1)
        return local[name] * asked.epochs

    with note("searching local budgets", len(candidates()) + len(LADDER) + 1) as tell:
        # A proof may lower an ε and its rank, so repeat until the first is proved.
        while (best := outlooks(asked, total_of)[0].name) not in proofs:
            prove(best)
        tell(1)
        advice = advice_for(asked, total_of, one_epoch_instead=False)
        counts = {asked.rounds_per_epoch, *(rounds for rounds in LADDER if rounds <= asked.clients)}
        ladder = []
        for rounds in sorted(counts):
            ladder.append(_rung(best, asked.in_rounds(rounds), epsilon, delta))
            tell(1)
    without = advice_for(unshuffled, lambda _: epsilon)
    found = CentralAdvice(epsilon, delta, proofs[best], tuple(ladder), without)
    return replace(advice, central=found)


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count > 1)}"


def _goal(asked: Asked, epsilon: float, delta: float) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": delta, "reports": asked.reports, "epochs": asked.epochs}


def _maker(name: str, asked: Asked) -> Callable[[float], Solution]:
    """Return a function that builds the solution for the local ε of one report."""
    return lambda local: candidate(name, local * asked.epochs, asked)


def _rung(name: str, asked: Asked, epsilon: float, delta: float) -> Rung:
    make = _maker(name, asked)
    local = rough_budget(make, **_goal(asked, epsilon, delta))
    found = asked.prospect(make(local))
    return Rung(asked.rounds_per_epoch, asked.reports, local, found.alignment)


ROUNDS = 100
"""The default number of rounds per epoch without a shuffler."""


def advise(
    *,
    dim: int,
    clients: int,
    epsilon: Epsilon | None = None,
    central: float | None = None,
    delta: float | None = None,
    batch: int | None = None,
    rounds: int | None = None,
    epochs: int = 1,
    sparse: bool = False,
    agreement: float = AGREEMENT,
    norm: float = 1.0,
    clip: float = 1.0,
    regression: bool = False,
    drop_out: float = 0.0,
    dishonest: float = ShuffleRule.dishonest,
) -> Advice:
    """Recommend a solution for ``clients`` with updates of ``dim`` entries over ``epochs``.

    Pass ``epsilon``, a client's total local ε, or ``central``, the ε of shuffled reports at
    ``delta`` (1e-6). With ``central`` each solution gets the largest local ε that keeps the goal,
    and ``advice.central`` describes what is possible without a shuffler.

    ``batch`` clients report in a round; alternatively all clients report in ``rounds`` of an epoch,
    by default 100, or 20 if reports are shuffled. ``agreement`` is the norm of the mean update over
    the norm of one, ``sparse`` says that updates have few nonzero entries, ``norm`` is the norm of
    a record (an update has 0.4 of it, 0.16 in a ``regression``), ``clip`` the bound of one entry.
    ``drop_out``, the share of the clients that do not report in an epoch, and ``dishonest``, the
    share of n_min that may work for the service, are for ``advice.relay``.

    >>> advice = advise(dim=124, clients=39_000, batch=390, epsilon=1.0)
    >>> advice.recommended, advice.usable
    ('FJ', True)
    >>> advise(dim=10**6, clients=1000, epsilon=1.0).usable
    False
    """
    if epsilon is None and central is None:
        raise InvalidArgument("epsilon", epsilon, "a number > 0, unless a central ε is given")
    if epsilon is not None and central is not None:
        raise InvalidArgument("central", central, "omitted if the local ε is given")
    if delta is not None and central is None:
        raise InvalidArgument("delta", delta, "omitted without a central ε")
    if batch is not None and rounds is not None:
        raise InvalidArgument("rounds", rounds, "omitted if batch is set")
    clients = check_count("clients", clients)
    if rounds is not None:
        batch = math.ceil(clients / check_count("rounds", rounds, most=clients))
    usual = FEWEST_ROUNDS if central is not None else ROUNDS
    asked = Asked(
        dim=dim,
        clients=clients,
        batch=math.ceil(clients / usual) if batch is None else batch,
        epochs=epochs,
        sparse=sparse,
        agreement=agreement,
        norm=norm,
        clip=clip,
        regression=regression,
        drop_out=drop_out,
        dishonest=dishonest,
    )
    if central is not None:
        goal = float(check_positive("central", central))
        unshuffled = asked.in_rounds(ROUNDS) if batch is None else asked
        return advise_centrally(
            asked, unshuffled, goal, DELTA if delta is None else check_delta(delta)
        )
    told = check_epsilon("epsilon", epsilon)
    return advice_for(asked, lambda _: told)
