"""Every automatic choice, from public quantities only.

- The blocks of BR are those of least error for ε and M (`fedsel.solutions.best_blocks`).
- μ follows the paper's hyper-parameters-free rule. If it is 0, the flat solution replaces a
  two-stage one.
- RJ uses 64 bases over all rounds of a run, and over the rounds of each preparing stage, so that
  no basis biases the result.
- ρ is two fifths of the norm of a record for a linear model (`radius`).
- Preparing rounds (`fedsel.preparation`): a tenth learns the centre of the records if declared
  ranges are not symmetric about zero and no public mean is given, a twentieth their spread if
  ranges may be loose, and three tenths if no range is known.
- p, the power of the average over the rounds, is 3 if the learning rate is automatic, else 0.
- α is chosen so that the noise of all rounds moves the model by a fixed length. The mean of n
  reports of size s is off by s/√n, mostly noise; T steps of α in random directions lead about
  α·s·√(T/n) away. How that length is measured depends on the model (`learning_rate`).

The radius and the rate of linear models assume that the weights are averaged over the rounds, which
removes part of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, final, get_args

from fedsel._internal.models import REGRESSING, Loss
from fedsel.errors import InvalidArgument, check_count, check_positive
from fedsel.preparation._plan import OCTAVES
from fedsel.recipe import AUTO, Recipe
from fedsel.solutions import entry
from fedsel.solutions._entries import blocks_of
from fedsel.solutions._privacy import Budget, hyper_parameters_free
from fedsel.solutions._registry import cleared_on_unregister
from fedsel.solutions._rotated import MOST_CODEWORDS, rotations_for, width_for
from fedsel.solutions._solution import Solution

BASES = 64
"""The fewest rotated bases of a run, over all its rounds."""
RADIUS = 0.4
"""ρ over the norm of a record: four fifths of the gradient at zero weights for two classes."""
AVERAGING = 3.0
"""The power of the average over the rounds that goes with the automatic rate."""
CENTRE = 0.1
"""The share of an epoch's rounds that learn the centre of the records."""
SPREAD = 0.05
"""The share that learns their spread if ranges may be up to 2^16 times too wide."""
SPREAD_OF_ANY = 0.3
"""The share that learns spread and origin if no range is known."""
FEWEST_ROUNDS = 20
"""The fewest rounds of an epoch for which "auto" chooses preparing rounds."""
MOST_NOISE = 2.0
"""The squared norm of the noise, over a record's, above which "auto" does not prepare."""
MARGIN = 1.4
"""How far the noise of all rounds may move the margin of a record of known norm, for the logistic
loss; 0.7 of it for an SVM, whose margins are shorter, and half of it without an intercept."""
FEW = 20
"""For an update of d < FEW entries, noise may move a margin FEW/d times as far, at most three
times: in few dimensions it hardly turns the weights."""
MARGIN_OF_A_REGRESSION = 0.2
"""How far noise may move a prediction of targets in [−1, 1]."""
RESIDUAL = 0.2
"""How far a target in [−1, 1] is from its first prediction."""
DRIFT = 3.0
"""How far noise may move the weights of a model whose records have no known norm."""
DRIFT_OF_A_WEIGHT = 0.25
"""How far noise may move each weight of a large network; twice as far in a small one."""
DRIFT_OF_FEW = 14.0
"""How far noise may move all weights of a network, if that is between the two."""
DRIFT_FROM_A_TRAINED_START = 1 / 16
"""How far noise may move each weight of a pretrained network."""
LEAD = 40.0
"""How much farther than noise the updates themselves may move a network."""
STEADY = 0.8
"""α of a network without noise, for any number of rounds."""
AGREEMENT = 0.2
"""‖mean gradient‖ over the norm of one. At the start of a logistic model it is 0.17 on syn-L, 0.13
on syn-H, 0.38 on ADULT, 0.14 on scikit-learn's digits."""
TYPICAL = 0.25
"""The assumed size of an update's entries, over the clip, if nothing is known."""
_LARGEST = 64.0
"""The largest α·norm² if there is little or no noise."""
_LARGEST_OF_A_REGRESSION = (1.5, 3.0)
"""The same where the loss does not flatten: the more entries, the less of a record lies in one
direction, a tenth for each entry within these."""

Model = Literal["linear", "svm", "regression", "network"]
"""What is trained; "linear" is logistic regression."""


def model_of(loss: Loss) -> Model:
    """The name in `PublicFacts` of a linear model with this loss.

    >>> model_of("logistic"), model_of("svm"), model_of("huber")
    ('linear', 'svm', 'regression')
    """
    if loss in REGRESSING:
        return "regression"
    return "svm" if loss == "svm" else "linear"


@final
@dataclass(frozen=True)
class PublicFacts:
    """What is publicly known before anything is collected.

    On average ``clients`` report in each of ``rounds`` rounds; an update has ``dim`` entries.
    ``norm`` is the norm of every record, or a bound of it, or None if unknown. A record has
    ``features`` entries, and a client holds ``records`` of them. ``classes`` is the number of
    classes, ``model`` the kind of model ("linear" is logistic regression), ``intercept`` whether it
    has one, and ``trained`` whether it was pretrained on public data. Declared ranges of features
    may be ``offset`` (not symmetric about zero) and ``loose`` (too wide by up to that many factors
    of two).
    """

    dim: int
    clients: float
    rounds: int
    norm: float | None = None
    features: int | None = None
    records: int = 1
    classes: int = 2
    model: Model = "linear"
    intercept: bool = True
    trained: bool = False
    offset: bool = False
    loose: int = 0

    def __post_init__(self) -> None:
        check_count("dim", self.dim)
        check_positive("clients", self.clients)
        check_count("rounds", self.rounds)
        if self.norm is not None:
            check_positive("norm", self.norm)
        check_count("records", self.records)
        check_count("classes", self.classes, least=2)
        if self.model not in get_args(Model):
            raise InvalidArgument("model", self.model, f"one of {', '.join(get_args(Model))}")


@cleared_on_unregister
@lru_cache(maxsize=4096)
def resolve_auto(recipe: Recipe, facts: PublicFacts) -> Recipe:
    """Replace everything automatic in a recipe by numbers, for vectors of ``facts.dim`` entries.

    >>> facts = PublicFacts(dim=124, clients=390, rounds=100, norm=1.0)
    >>> recipe = resolve_auto(Recipe(epsilon=1.0), facts)
    >>> recipe.solution, recipe.rho, round(recipe.learning_rate, 2), recipe.averaging
    ('FJ', 0.4, 2.75, 3.0)
    """
    recipe = replace(recipe, dim=facts.dim)
    if entry(recipe.solution).answers:
        return _resolve_blocks(recipe)
    if recipe.rho == AUTO:
        recipe = replace(recipe, rho=_radius(recipe, facts))
    if recipe.mu == AUTO:
        recipe = with_share(recipe, max(1, math.floor(facts.clients)))
    loose = SPREAD * bool(facts.loose) if facts.loose <= OCTAVES else SPREAD_OF_ANY
    spread = _preparing("spread", recipe, facts, loose)
    centre = _preparing("centre", recipe, facts, CENTRE * facts.offset)
    recipe = replace(recipe, spread=spread, centre=centre)
    if recipe.bases == AUTO:
        # The few preparing rounds need enough bases, too.
        per_epoch = facts.rounds / recipe.epochs
        stages = [math.ceil(share * per_epoch) for share in (spread, centre) if share]
        fewest = min([facts.rounds, *stages])
        recipe = replace(recipe, bases=bases_for(recipe, facts.dim, fewest))
    if facts.loose > OCTAVES:  # so many rounds take no step that the others may take longer ones
        left = 1 - (spread + centre) / recipe.epochs
        facts = replace(facts, rounds=max(1, round(left * facts.rounds)))
    return resolve_rate(recipe, recipe.build(), facts)


def _resolve_blocks(recipe: Recipe) -> Recipe:
    """The blocks of BR, by the numbers that give them; nothing else of a recipe matters to it."""
    blocks = blocks_of(recipe)
    return replace(
        recipe,
        k=blocks.taken,
        words=blocks.points,
        bases=None if blocks.points is None else blocks.classes,
        learning_rate=1.0,
        averaging=0.0,
        rho=None,
        mu=0.0,
        spread=0.0,
        centre=0.0,
    )


def resolve_rate(recipe: Recipe, solution: Solution, facts: PublicFacts) -> Recipe:
    """Replace an automatic rate and average by numbers, for a solution that is already built."""
    if recipe.averaging == AUTO:
        averages = recipe.learning_rate == AUTO
        recipe = replace(recipe, averaging=AVERAGING if averages else 0.0)
    if recipe.learning_rate == AUTO:
        recipe = replace(recipe, learning_rate=learning_rate(solution, facts))
    return replace(recipe, dim=solution.dim)


def _preparing(
    name: Literal["spread", "centre"], recipe: Recipe, facts: PublicFacts, automatic: float
) -> float:
    """The share of an epoch's rounds that prepare.

    "auto" chooses none if the mean of their reports would be mostly noise.
    """
    asked, told = getattr(recipe, name), entry(recipe.solution).means
    if asked == AUTO:
        rounds = facts.rounds // recipe.epochs
        known = facts.norm is not None and rounds >= FEWEST_ROUNDS
        if not (automatic and known and told and entry(recipe.solution).unit_records):
            return 0.0
        noise = (recipe.build().noise / reported_norm(recipe)) ** 2
        noise /= automatic * rounds * facts.clients
        if facts.model == "network" and facts.features is not None:
            noise *= facts.features / facts.dim  # the rest lies where no record does
        return automatic if noise < MOST_NOISE else 0.0
    if asked and not told:
        raise InvalidArgument(name, asked, f"0 with {recipe.solution}, whose means are biased")
    return float(asked)


def reported_norm(recipe: Recipe) -> float:
    """The norm of the vector that is reported for a record of norm 1: ρ, or 1 without one."""
    return 1.0 if recipe.rho in (AUTO, None) else float(recipe.rho)


def with_share(recipe: Recipe, clients: int) -> Recipe:
    """Set the hyper-parameters-free μ for ``clients`` of a round.

    If it is 0, nothing is left for a selection, and the flat solution takes its place.

    >>> with_share(Recipe("PS-PM", epsilon=0.5, dim=100), clients=600).solution
    'PM'
    """
    known = entry(recipe.solution)
    if known.plain:
        return replace(recipe, mu=0.0)
    per_epoch = Budget(recipe.epsilon or 0.0, recipe.epochs, 0.0).per_epoch
    mu = hyper_parameters_free(recipe.dim or 0, clients, per_epoch, recipe.theta)
    if mu == 0 and known.selection is not None and known.value is not None:
        return replace(recipe, mu=mu, solution=known.value, requested_solution=known.name)
    return replace(recipe, mu=mu)


def bases_for(recipe: Recipe, dim: int, rounds: int) -> int | None:
    """The bases of RJ in a round, so that all rounds have `BASES` of them.

    None if one rotation per round suffices, and for other solutions.

    >>> [bases_for(Recipe("RJ", epsilon=2.0), 100, rounds) for rounds in (1, 10, 100)]
    [64, 7, None]
    """
    if "bases" not in entry(recipe.solution).uses or recipe.epsilon is None:
        return None
    rotations = rotations_for(Budget(recipe.epsilon, recipe.epochs, 0.0).per_epoch, dim)
    fit = max(1, MOST_CODEWORDS // (rotations * width_for(dim)))
    bases = min(-(-BASES // rounds), fit)
    return None if bases == rotations == 1 else bases


def _radius(recipe: Recipe, facts: PublicFacts) -> float | None:
    if not entry(recipe.solution).directions:
        return None
    norm = facts.norm
    if norm is None:
        norm = 1.0 if facts.features is None else TYPICAL * math.sqrt(facts.features)
    return radius(norm * norm_of_mean(facts.records), facts.classes, facts.model)


def norm_of_mean(records: int) -> float:
    """The norm of the mean gradient of ``records`` records over the norm of one.

    Their common part stays, and the individual parts average out.

    >>> norm_of_mean(1), round(norm_of_mean(40), 2)
    (1.0, 0.25)
    """
    return math.sqrt(AGREEMENT**2 + (1 - AGREEMENT**2) / records)


def radius(norm: float = 1.0, classes: int = 2, model: Model = "linear") -> float:
    """ρ for records of this norm: `RADIUS` of it for a linear model with any number of classes.

    Gradients at zero weights are ½ of the norm for two classes and √(1 − 1/C) of it for C. Records
    that a model has learnt have far shorter gradients, of which a smaller ρ lets more through the
    noise. A network uses four fifths of the first gradient, a regression four fifths of
    ``RESIDUAL``.

    >>> radius(), radius(classes=10), round(radius(classes=10, model="network"), 2)
    (0.4, 0.4, 0.76)
    """
    check_positive("norm", norm)
    check_count("classes", classes, least=2)
    if model == "regression":
        return 2 * RADIUS * norm * RESIDUAL
    if model == "network" and classes > 2:
        return 2 * RADIUS * norm * math.sqrt(1 - 1 / classes)
    return RADIUS * norm


def learning_rate(solution: Solution, facts: PublicFacts) -> float:
    """The learning rate α of a solution, from public facts.

    In a linear model on records of known norm X, noise moves the margin of a record by
    α·s·X·√(T/(n·d)), because its squared norm spreads evenly over d dimensions; that is set to
    ``MARGIN``. If the norm is unknown, noise may move the weights by ``DRIFT``, and in a network
    each weight by about ``DRIFT_OF_A_WEIGHT``. A network without noise has α = ``STEADY``.

    >>> from fedsel import solution
    >>> round(learning_rate(solution("NP", dim=32), PublicFacts(32, 100, 100)), 3)
    2.121
    >>> network = PublicFacts(dim=1210, clients=960, rounds=50, model="network")
    >>> learning_rate(solution("NP", dim=1210), network)
    0.8
    """
    if facts.model != "network" and facts.norm is not None:
        return _rate_by_margin(solution, facts, facts.norm)
    if solution.rate_inside:  # always off by the same
        return 1.0
    if facts.model != "network":
        return DRIFT * math.sqrt(facts.clients / facts.rounds) / _report_size(solution)
    if solution.noise == 0:
        return STEADY
    drift = _drift_of_a_network(solution.dim, trained=facts.trained)
    rate = drift * math.sqrt(facts.clients / facts.rounds) / _report_size(solution)
    # With little noise, T updates in the same direction must stay stable.
    lead = solution.mechanism.mean_norm(TYPICAL, solution.transform.size, solution.dim)
    return min(rate, LEAD * drift / (facts.rounds * lead))


def _drift_of_a_network(dim: int, *, trained: bool) -> float:
    """How far noise may move the weights of a network in total."""
    root = math.sqrt(dim)
    if trained:
        return DRIFT_FROM_A_TRAINED_START * root
    least = min(2 * DRIFT_OF_A_WEIGHT * root, DRIFT_OF_FEW)
    return max(DRIFT, least, DRIFT_OF_A_WEIGHT * root)


def _rate_by_margin(solution: Solution, facts: PublicFacts, norm: float) -> float:
    most, margin = _LARGEST, MARGIN
    if facts.model == "regression":
        least, largest = _LARGEST_OF_A_REGRESSION
        most, margin = min(largest, max(least, solution.dim / 10)), MARGIN_OF_A_REGRESSION
    elif not facts.intercept:
        margin *= 0.5
    elif facts.model == "svm":
        margin *= 0.7
    if solution.noise == 0:
        return most / norm**2
    reports = facts.clients * solution.dim / facts.rounds
    margin *= min(3.0, max(1.0, FEW / solution.dim))
    return min(most / norm**2, margin * math.sqrt(reports) / (solution.noise * norm))


def _report_size(solution: Solution) -> float:
    """The norm of a report: its noise and, which matters at a large ε, its signal."""
    plain = 0.0
    if solution.transform.size == solution.dim and solution.transform.rms_correlation is None:
        plain = solution.mechanism.report_norm(TYPICAL, solution.dim)
    return math.hypot(solution.noise, plain)
