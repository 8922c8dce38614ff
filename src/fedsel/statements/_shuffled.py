"""The central number of a run beside its local one: if a shuffler mixed the reports, or as one did.

The words of a relay are those of `fedsel.wire.ShuffleRule`, which devices and services say too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

from fedsel._internal.display import upper_bound
from fedsel._internal.progress import note
from fedsel.errors import check_kind
from fedsel.mechanisms.central import DELTA, CentralGuarantee, add_up
from fedsel.mechanisms.central._guarantee import remembers
from fedsel.solutions import Privacy
from fedsel.wire import ShuffleRule
from fedsel.wire._contract import both_numbers

_COMPARED = (
    "The central guarantee compares two runs that differ in the content of one client: up to δ, no"
    " observation is more than e^ε times as likely in one of them as in the other."
)


@dataclass(frozen=True)
class Shuffling(ABC):
    """The central guarantee of reports that are mixed with at least ``reports`` honest ones.

    A client reports in ``epochs`` epochs, once in each.
    """

    key: ClassVar[str]
    """Its name in JSON, and in words on a page."""
    privacy: Privacy
    reports: int
    epochs: int

    @property
    @abstractmethod
    def delta(self) -> float:
        """The δ of the guarantee."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The local and the central number, and when each holds."""

    @property
    @abstractmethod
    def trust(self) -> tuple[str, ...]:
        """Who must be trusted for which number."""

    @cached_property
    def guarantee(self) -> CentralGuarantee:
        """The guarantees of all epochs added up: quick, and larger than what `central` composes."""
        if self.privacy.source is None:
            raise TypeError("a privacy without a source has no shuffled reports")
        with note("proving the central guarantee", 1) as advance:
            found = add_up(
                self.privacy.source, reports=self.reports, epochs=self.epochs, delta=self.delta
            )
            advance(1)
        return found

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The guarantees of all epochs, composed; several epochs need dp_accounting."""
        delta = self.delta if delta is None else delta
        return self.privacy.central(reports=self.reports, delta=delta, epochs=self.epochs)

    @property
    def local(self) -> Fraction:
        """The ε of the same reports without a shuffler, as a ledger charges them."""
        return (self.privacy.charge or Fraction(0)) * self.epochs

    @property
    def epsilon(self) -> str:
        """The central ε and its δ in figures, rounded up."""
        central, delta = upper_bound(self.guarantee.epsilon), upper_bound(self.delta)
        return f"central ε = {central} at δ = {delta}"

    @property
    def on_local(self) -> str:
        """Who must be trusted for the local number."""
        return (
            f"For local ε = {upper_bound(self.local)}: only the device must be trusted. The bound"
            " holds against everybody else together."
        )

    @property
    def over_epochs(self) -> str:
        """How several epochs were added up, in brackets or after a semicolon."""
        if self.epochs == 1:
            return ""
        if self.privacy.source is not None and remembers(self.privacy.source):
            return (
                "; over several epochs shuffling proves nothing more, because clients keep what"
                " they have not sent"
            )
        return f" ({self.epochs} epochs added up; central() in Python may prove a smaller ε)"

    @property
    def facts(self) -> dict[str, str]:
        """A row of a page."""
        among = f"among at least {self.reports:,} honest reports of a round"
        return {self.key.replace("_", " "): f"{self.epsilon}, {among}"}

    def to_dict(self) -> dict[str, Any]:
        """The two numbers as JSON holds them."""
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.delta,
            "reports": self.reports,
            "epochs": self.epochs,
            "local": float(self.local),
        }


def certified(privacy: Privacy) -> bool:
    """Whether a certificate covers the reports, so that others may hide them."""
    return privacy.charge is not None and privacy.source is not None


@final
@dataclass(frozen=True)
class IfShuffled(Shuffling):
    """The central guarantee of a run if a shuffler mixed the reports of each round: none did.

    ``reports`` is how many the smallest round had, ``epochs`` how often a client has reported.
    """

    key: ClassVar[str] = "if_shuffled"

    @classmethod
    def of(cls, privacy: Privacy, reports: int, epochs: int) -> IfShuffled | None:
        """None where there is no report, or none that a certificate covers."""
        known = certified(privacy) and reports and epochs
        return cls(privacy, reports, epochs) if known else None

    @property
    def delta(self) -> float:
        return DELTA

    @property
    def sentence(self) -> str:
        return (
            f"Local ε = {upper_bound(self.local)} holds without trust in anybody but the device. If"
            f" a trusted shuffler mixes the reports of each round, at least {self.reports:,} of"
            f" them from honest clients, {self.epsilon} holds as well{self.over_epochs}."
        )

    @property
    def trust(self) -> tuple[str, ...]:
        return (
            self.on_local,
            f"For {self.epsilon}: the shuffler must be trusted as well, to forward neither names"
            " nor order nor times and not to collude with the server, and"
            f" {self.reports:,} clients of each round must report honestly. The bound holds against"
            " an observer of what the shuffler forwards. Without a shuffler it does not hold.",
            _COMPARED,
        )


@final
@dataclass(frozen=True)
class ByRelay(Shuffling):
    """The central guarantee of a run whose rounds a relay released, by its ``rule``.

    ``reports`` is how many of n_min are honest by the rule.
    """

    key: ClassVar[str] = "shuffled"
    rule: ShuffleRule

    @classmethod
    def of(cls, privacy: Privacy, rule: ShuffleRule, fewest: int, epochs: int) -> ByRelay | None:
        """None where there is no report, none that a certificate covers, or no relay kept the rule.

        It did not where a round has fewer reports than are honest by the rule: nothing is proved.
        """
        check_kind("shuffle", rule, ShuffleRule)
        known = certified(privacy) and epochs and fewest >= rule.honest
        return cls(privacy, rule.honest, epochs, rule) if known else None

    @property
    def delta(self) -> float:
        return self.rule.delta

    @property
    def sentence(self) -> str:
        both = both_numbers(self.local, self.guarantee.epsilon, self.delta, self.reports)
        return f"A relay has shuffled the reports: {both}{self.over_epochs}. {self.rule.condition}"

    @property
    def trust(self) -> tuple[str, ...]:
        return (
            self.on_local,
            f"For {self.epsilon}: relay and service must not work together, and of the reports of"
            f" each round at most {self.rule.most_dishonest:,} may come from clients who work for"
            " the service. The bound holds against it, and against whoever reads its disks.",
            _COMPARED,
        )

    def to_dict(self) -> dict[str, Any]:
        rule = {"n_min": self.rule.n_min, "dishonest": self.rule.dishonest}
        return {**super().to_dict(), **rule}
