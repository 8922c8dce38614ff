"""``advise``: every solution worth considering, by what it would give, from public quantities."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

from fedsel.advising.moments import Updates, moments
from fedsel.advising.outlook import Outlook, flat, impossible, reason, split
from fedsel.advising.simulation import LEAST_ROUNDS, Check, simulate
from fedsel.advising.sufficiency import GOAL, prospect, too_large
from fedsel.auto import (
    AGREEMENT,
    FEWEST_ROUNDS,
    Model,
    Setting,
    bases_for,
    learning_rate,
    noise_of_mean,
    radius,
    resolved,
)
from fedsel.budget import Budget, hyper_parameters_free
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_epsilon,
    check_finite,
    check_positive,
)
from fedsel.mechanisms import FullGradient, OneSymbol, TwoStage
from fedsel.preparation.plan import OCTAVES
from fedsel.progress import note
from fedsel.recipe import Recipe, solution
from fedsel.solutions import RandomDirections, Solution
from fedsel.solutions.rotated import rotations_for

NAMES = ("RJ", "RC", "J", "UJ", "PM", "HM", "PS-PM", "PE-PM", "EXP-PM", "PM-RP")
"""Where two align alike, in two digits, the first of them ranks first: RJ and RC assume nothing of
the shape of updates and RJ costs least, and what takes another's place comes after it."""
TWO_STAGE = ("EXP-PM", "PE-PM", "PS-PM")
MOST_DIMENSIONS = 1 << 24
_WORK = 6e7
"""What a simulation of one solution may cost: a few seconds."""
_MOST_ROUNDS = 200


@final
@dataclass(frozen=True)
class Advice:
    """The outlooks by rank, a recommendation with its reason, and what to be warned of.

    ``without_privacy`` is the alignment of all updates where they leave as they are.
    ``one_epoch`` is the best alignment where all of ε goes to one epoch. ``spread`` and ``centre``
    are the shares of the rounds that would learn these of the records, where declared ranges are
    loose or not symmetric about zero (`fedsel.preparation`); 0 where it would be noise.
    ``centre_error`` is the norm of the noise in a centre that is learnt so, over a record's.
    ``rotations`` and ``bases`` are RJ's: a codebook is the union of so many rotations, and a round
    has so many codebooks.
    """

    dim: int
    clients: int
    batch: int
    epsilon: float
    epochs: int
    sparse: bool
    agreement: float
    norm: float
    clip: float
    outlooks: tuple[Outlook, ...]
    recommended: str
    reason: str
    usable: bool
    without_privacy: float
    one_epoch: float
    warnings: tuple[str, ...]
    spread: float = 0.0
    centre: float = 0.0
    regression: bool = False
    centre_error: float = 0.0
    rotations: int = 1
    bases: int = 1

    @property
    def rounds(self) -> int:
        return self.epochs * math.ceil(self.clients / self.batch)

    @property
    def updates(self) -> Updates:
        """The model behind the numbers."""
        length = radius(self.norm, model=_model(self.regression))
        return Updates(self.dim, length, self.agreement, self.sparse)

    @property
    def preparation(self) -> str:
        """What to do about the place of the records, in a sentence."""
        rounds = math.ceil(self.clients / self.batch)
        if not self.centre:
            few = f"an epoch of {rounds} rounds is too short" if rounds < FEWEST_ROUNDS else ""
            return (
                f"{few.capitalize() or 'The clients are too few'} to learn the records' centre or"
                " spread in: declare ranges that are as narrow and as symmetric about zero as is"
                " known, or give public rows."
            )
        return (
            f"Where declared ranges are not symmetric about zero, let the clients of"
            f" {self._first(self.centre, rounds)} tell the records' centre, which noise then moves"
            f" by about {self.centre_error:.2g} of a record's norm{self._of_spreads(rounds)}."
            " Public rows tell both without a round."
        )

    def _of_spreads(self, rounds: int) -> str:
        if not self.spread:
            return "; they are too few to tell spreads as well"
        return f"; where ranges are loose, those of {self._first(self.spread, rounds)} their spread"

    def _first(self, share: float, rounds: int) -> str:
        """The first rounds of an epoch, and how many clients that are."""
        count = math.ceil(share * rounds - 1e-9)
        clients = min(self.clients, count * self.batch)
        return f"the first {count} of {rounds} rounds ({clients:,}, {share:.0%})"

    @property
    def codebook(self) -> str:
        """Rotations and bases of RJ, in a sentence."""
        one = self.rotations == self.bases == 1
        what = "one rotation a round" if one else _many(self.rotations, "rotation", "a codebook")
        more = "" if one else f" and {_many(self.bases, 'codebook', 'a round')}"
        return f"RJ takes {what}{more}, so that the mean of its reports does not bend."

    def __getitem__(self, name: str) -> Outlook:
        """The outlook of a solution by its name."""
        for outlook in self.outlooks:
            if outlook.name == name:
                return outlook
        raise InvalidArgument("name", name, ", ".join(o.name for o in self.outlooks))

    def check(self, seed: int = 0, advance: Callable[[str], object] = str) -> tuple[Check, ...]:
        """Simulate rounds of each solution and compare their alignment with the computed one.

        A round has ``batch`` reports, fewer where that would take long; ``advance`` is called with
        each name before its turn.

        >>> advice = advise(dim=50, clients=1_000, batch=50, epsilon=2.0)
        >>> all(check.agrees for check in advice.check())
        True
        """
        checks: list[Check] = []
        with note("checking advice by simulation", len(self.outlooks)) as tell:
            for outlook in self.outlooks:
                advance(outlook.name)
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
        """Everything, for JSON."""
        content = {name: v for name, v in vars(self).items() if name != "outlooks"}
        content["rounds"], content["warnings"] = self.rounds, list(self.warnings)
        content["preparation"], content["codebook"] = self.preparation, self.codebook
        return {**content, "outlooks": [o.as_dict() for o in self.outlooks]}


def _cost(candidate: Solution) -> float:
    """About how many entries the simulation of one report touches."""
    if not isinstance(candidate.mechanism, OneSymbol):
        return 4.0 * candidate.dim
    products = isinstance(candidate.transform, RandomDirections)
    return candidate.dim + candidate.transform.size * (candidate.dim / 400 if products else 20)


def advise(
    *,
    dim: int,
    clients: int,
    epsilon: Epsilon,
    batch: int | None = None,
    epochs: int = 1,
    sparse: bool = False,
    agreement: float = AGREEMENT,
    norm: float = 1.0,
    clip: float = 1.0,
    regression: bool = False,
) -> Advice:
    """Which solution to take for ``clients`` of ``dim`` entries and ε in total over ``epochs``.

    ``batch`` clients report in a round (one in a hundred by default). ``agreement`` is the norm of
    the mean update over that of one, ``sparse`` says that updates have few entries, ``norm`` is
    that of a record (an update has 0.4 of it, 0.16 in a ``regression``), ``clip`` the bound of one
    entry.

    >>> advice = advise(dim=124, clients=39_000, batch=390, epsilon=1.0)
    >>> advice.recommended, advice.usable
    ('RJ', True)
    >>> advise(dim=10**6, clients=1000, epsilon=1.0).usable
    False
    """
    dim = check_count("dim", dim, least=2, most=MOST_DIMENSIONS)
    clients = check_count("clients", clients)
    epochs = check_count("epochs", epochs)
    epsilon = check_epsilon("epsilon", epsilon)
    if batch is None:
        batch = math.ceil(clients / 100)
    batch = check_count("batch", batch, most=clients)
    if not isinstance(sparse, bool):
        raise InvalidArgument("sparse", sparse, "True or False")
    if not 0 < check_finite("agreement", agreement) <= 1:
        raise InvalidArgument("agreement", agreement, "in (0, 1]")
    norm, clip = _magnitude("norm", norm), _magnitude("clip", clip)
    model = _model(regression)
    updates = Updates(dim, radius(norm, model=model), float(agreement), sparse)
    known = Setting(
        dim,
        batch,
        epochs * math.ceil(clients / batch),
        norm,
        model=model,
        offset=True,
        loose=OCTAVES,
    )
    outlooks, skipped = _outlooks(updates, clients, epsilon, epochs, known, clip)
    best = outlooks[0]
    one, loss = best.alignment_all, ""
    if epochs > 1:
        single = replace(known, rounds=math.ceil(clients / batch))
        once, _ = _outlooks(updates, clients, epsilon, 1, single, clip)
        one, loss = once[0].alignment_all, split(best, once[0], epochs)
    plain = moments(Solution("NP", dim, FullGradient()), updates)
    automatic = resolved(Recipe(epsilon=epsilon, epochs=epochs), known)
    told = automatic.build()
    waiting = max(1.0, float(automatic.centre) * clients)
    error = math.sqrt(dim * noise_of_mean(automatic, told, waiting)) if automatic.centre else 0.0
    usable = best.alignment_all >= GOAL
    warnings = [*impossible(best, clients, epochs), *flat(outlooks, dim, batch), *skipped]
    if loss:
        warnings.append(loss)
    return Advice(
        dim=dim,
        clients=clients,
        batch=batch,
        epsilon=float(epsilon),
        epochs=epochs,
        sparse=sparse,
        agreement=float(agreement),
        norm=norm,
        clip=clip,
        outlooks=outlooks,
        recommended=best.name,
        reason=reason(outlooks),
        usable=usable,
        without_privacy=plain.alignment(clients),
        one_epoch=one,
        warnings=tuple(warnings),
        spread=float(automatic.spread),
        centre=float(automatic.centre),
        regression=regression,
        centre_error=error,
        rotations=rotations_for(automatic.charge, dim),
        bases=automatic.bases if isinstance(automatic.bases, int) else 1,
    )


def _many(count: int, name: str, of: str) -> str:
    """A count in words: "2 rotations in a codebook"."""
    return f"{count} {name}{'s' if count > 1 else ''} in {of}"


def _magnitude(name: str, value: object) -> float:
    """A length that arithmetic can square and divide by."""
    number = check_positive(name, value)
    if not 1e-9 <= number <= 1e9:
        raise InvalidArgument(name, value, "in 1e-9 … 1e9")
    return number


def _model(regression: bool) -> Model:
    return "regression" if regression else "linear"


def _outlooks(
    updates: Updates,
    clients: int,
    epsilon: Epsilon,
    epochs: int,
    known: Setting,
    clip: float,
) -> tuple[tuple[Outlook, ...], list[str]]:
    """One outlook a solution, by rank, and why some are left out."""
    dim, outlooks, skipped = updates.dim, [], []
    batch, rounds = int(known.clients), known.rounds
    mu = hyper_parameters_free(dim, batch, Budget(epsilon, epochs, 0.0).per_epoch)
    for name in NAMES:
        if why := too_large(name, dim):
            skipped.append(f"{name} is left out: {why}.")
            continue
        candidate = solution(
            name,
            epsilon=epsilon,
            dim=dim,
            epochs=epochs,
            mu="auto",
            clip=clip,
            batch=batch,
            rho=updates.length if name in ("J", "RJ", "RC") else None,
            bases=bases_for(Recipe(name, epsilon=epsilon, epochs=epochs), dim, rounds),
        )
        estimate = moments(candidate, updates)
        found = prospect(candidate, updates, reports=clients * epochs, rounds=rounds)
        needed = found.reports_needed
        outlooks.append(
            Outlook(
                rank=0,
                name=name,
                takes=candidate.name,
                epsilon_per_report=candidate.privacy.per_report,
                epsilon_total=candidate.privacy.total,
                mu=mu if name in TWO_STAGE else None,
                k=_top(candidate),
                bits=candidate.bits,
                noise=estimate.noise(batch),
                alignment_round=estimate.alignment(batch),
                alignment_all=found.alignment,
                clients_needed=None if needed is None else math.ceil(needed / epochs),
                learning_rate=learning_rate(candidate, known),
                note=f"μ = 0: {candidate.name} takes its place" if candidate.name != name else "",
                solution=candidate,
                moments=estimate,
            )
        )
    outlooks.sort(key=lambda o: (-float(f"{o.alignment_all:.2g}"), NAMES.index(o.name)))
    return tuple(replace(o, rank=i) for i, o in enumerate(outlooks, 1)), skipped


def _top(candidate: Solution) -> int | None:
    mechanism = candidate.mechanism
    if isinstance(mechanism, OneSymbol):
        return mechanism.top(candidate.transform.size)
    if isinstance(mechanism, TwoStage) and mechanism.selection.name in ("PE", "PS"):
        return mechanism.selection.top(candidate.dim)
    return None
